//! `cargo xtask ci`: everything a change must pass, in the order of what fails soonest.
//!
//! A failing step does not stop the later ones, so that one run tells all.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{Verdict, process, tidy, tree};

/// A target without an operating system; the core must build for it.
const BARE_TARGET: &str = "x86_64-unknown-none";
/// All that the core may link: what needs no operating system and no heap.
const BARE_CRATES: [&str; 2] = ["core", "compiler_builtins"];

#[derive(clap::Args)]
pub struct Args {
    /// Only these steps: fmt, clippy, tidy, test, no-std, doc
    #[arg(value_parser = ["fmt", "clippy", "tidy", "test", "no-std", "doc"])]
    steps: Vec<String>,
}

type Step = (&'static str, fn(&Path) -> Result<Verdict>);

const STEPS: [Step; 6] = [
    ("fmt", |root| cargo(root, &["fmt", "--all", "--", "--check"], &[])),
    ("clippy", |root| {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
    }),
    ("tidy", tidy::run),
    ("test", |root| cargo(root, &["test", "--workspace", "--no-fail-fast"], &[])),
    ("no-std", no_std),
    // Libraries only: the command and the core are both called `pageyard`.
    ("doc", |root| {
        let deny = ("RUSTDOCFLAGS", "-D warnings");
        cargo(root, &["doc", "--workspace", "--lib", "--no-deps"], &[deny])
    }),
];

pub fn run(args: &Args) -> Result<Verdict> {
    let root = tree::root();
    let mut done: Vec<(&str, bool, Duration)> = Vec::new();
    for (name, step) in STEPS {
        if !args.steps.is_empty() && !args.steps.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("== {name}");
        let start = Instant::now();
        let passed = match step(&root) {
            Ok(verdict) => verdict == Verdict::Pass,
            Err(error) => {
                println!("{name}: {error:#}");
                false
            }
        };
        done.push((name, passed, start.elapsed()));
    }
    println!("== summary");
    for (name, passed, elapsed) in &done {
        let verdict = if *passed { "ok" } else { "FAILED" };
        println!("{name:8} {verdict:6} {:7.1} s", elapsed.as_secs_f64());
    }
    let failed = done.iter().any(|(_, passed, _)| !passed);
    Ok(if failed { Verdict::Fail } else { Verdict::Pass })
}

/// Runs cargo with its output shown as it comes.
fn cargo(root: &Path, args: &[&str], environment: &[(&str, &str)]) -> Result<Verdict> {
    let mut command = process::cargo(root);
    command.args(args).envs(environment.iter().copied());
    let shown = process::show(&command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    Ok(if status.success() { Verdict::Pass } else { Verdict::Fail })
}

/// Builds the core where there is neither std nor alloc: by itself against a sysroot that holds
/// nothing else, and for a bare target when that is installed.
fn no_std(root: &Path) -> Result<Verdict> {
    let alone = without_std(root)?;
    let sysroot = process::stdout(process::rustc().args(["--print", "sysroot"]))?;
    if !Path::new(sysroot.trim()).join("lib/rustlib").join(BARE_TARGET).is_dir() {
        println!("no-std: {BARE_TARGET}: skipped: `rustup target add {BARE_TARGET}` was not run");
        return Ok(alone);
    }
    let bare = cargo(root, &["build", "--package", "pageyard", "--target", BARE_TARGET], &[])?;
    Ok(if alone == Verdict::Pass { bare } else { alone })
}

fn without_std(root: &Path) -> Result<Verdict> {
    let libdir = process::stdout(process::rustc().args(["--print", "target-libdir"]))?;
    let version = process::stdout(process::rustc().arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    let scratch = tempfile::tempdir().context("make a folder for the sysroot")?;
    let bare = scratch.path().join("lib/rustlib").join(host).join("lib");
    fs::create_dir_all(&bare)?;
    let mut linked = 0;
    for entry in fs::read_dir(libdir.trim()).with_context(|| format!("list {libdir}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if BARE_CRATES.iter().any(|krate| name.starts_with(&format!("lib{krate}-"))) {
            std::os::unix::fs::symlink(Path::new(libdir.trim()).join(&name), bare.join(&name))?;
            linked += 1;
        }
    }
    anyhow::ensure!(linked >= BARE_CRATES.len(), "found no libcore in {libdir}");
    println!("no-std: the core against a sysroot of {} only", BARE_CRATES.join(" and "));
    let mut command = process::rustc();
    command
        .args(["--crate-type", "rlib", "--crate-name", "pageyard", "--edition", "2024"])
        .args(["--target", host, "--sysroot"])
        .arg(scratch.path())
        .arg("-o")
        .arg(scratch.path().join("libpageyard.rlib"))
        .arg(root.join("core/src/lib.rs"));
    match process::output(&mut command) {
        Ok(_) => Ok(Verdict::Pass),
        Err(error) => {
            println!("no-std: {error:#}");
            Ok(Verdict::Fail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a crate with this text as its `core/src/lib.rs` as the step does.
    fn build(text: &str) -> Verdict {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("core/src")).unwrap();
        fs::write(root.path().join("core/src/lib.rs"), text).unwrap();
        without_std(root.path()).unwrap()
    }

    #[test]
    fn a_core_that_needs_std_or_a_heap_is_refused() {
        assert_eq!(
            build("#![no_std]\npub fn a(b: Option<u8>) -> bool { b.is_some() }"),
            Verdict::Pass
        );
        assert_eq!(build("pub fn a() -> String { String::new() }"), Verdict::Fail);
        assert_eq!(build("#![no_std]\nextern crate std;"), Verdict::Fail);
        assert_eq!(build("#![no_std]\nextern crate alloc;"), Verdict::Fail);
    }
}
