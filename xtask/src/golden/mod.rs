//! `golden-fast-path`: `cargo xtask golden` counts what one allocation and one free execute.
//!
//! The probe takes a number of pairs. What it executes with many pairs, less what it executes with
//! few, is the cost of the pairs alone. Counts do not depend on the load of the machine, so a
//! difference of one instruction is seen where a clock shows noise.

mod callgrind;
mod disasm;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{Verdict, process, tree};
use callgrind::{EVENTS, Profile};
use table::Table;

/// The program that is counted, an example of the host crate.
const PROBE: &str = "hit_path";
const PROBE_SOURCE: &str = "host/examples/hit_path.rs";
const PROBE_PACKAGE: &str = "pageyard-host";
/// Where the table is kept.
const STORED: &str = "docs/golden/fast-path.txt";
/// Enough pairs that start-up noise of some hundred instructions is below half a hundredth a pair.
const PAIRS: (u64, u64) = (10_000, 210_000);

#[derive(clap::Args)]
pub struct Args {
    /// Store what was counted as the new table
    #[arg(long)]
    bless: bool,
}

pub fn run(args: &Args) -> Result<Verdict> {
    let root = tree::root();
    if !root.join(PROBE_SOURCE).is_file() {
        bail!("{PROBE_SOURCE} does not exist: there is no hit path to count yet");
    }
    if !cfg!(target_arch = "x86_64") {
        println!("golden: skipped: the table is kept for x86-64 only");
        return Ok(Verdict::Pass);
    }
    for tool in ["valgrind", "objdump"] {
        if !process::exists(tool) {
            println!("golden: skipped: {tool} is not installed (Debian: valgrind, binutils)");
            return Ok(Verdict::Pass);
        }
    }
    let now = count(&root)?;
    print!("{}", now.to_text());
    let stored = root.join(STORED);
    if args.bless {
        return store(&stored, &now);
    }
    if !stored.is_file() {
        bail!("there is no {STORED} to compare with: run `cargo xtask golden --bless`");
    }
    let text = fs::read_to_string(&stored).with_context(|| format!("read {STORED}"))?;
    let old = Table::parse(&text).with_context(|| format!("cannot read {STORED}"))?;
    Ok(judge(&old, &now))
}

fn judge(old: &Table, now: &Table) -> Verdict {
    let differences = old.differences(now);
    for difference in &differences {
        println!("golden: {difference}");
    }
    if differences.is_empty() {
        println!("golden: as stored");
        return Verdict::Pass;
    }
    if old.compiler != now.compiler {
        println!("golden: not judged: stored with {}, now {}", old.compiler, now.compiler);
        println!("golden: run the stored commit with this compiler, or bless on its own commit");
        return Verdict::Pass;
    }
    println!("golden: if this is meant, bless it and say why in the commit");
    Verdict::Fail
}

/// Writes beside the file and renames, so that a full disk leaves the old table.
fn store(path: &Path, table: &Table) -> Result<Verdict> {
    let dir = path.parent().context("the table has no folder")?;
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, table.to_text())
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("write {}", path.display()))?;
    println!("golden: stored in {STORED}");
    Ok(Verdict::Pass)
}

fn count(root: &Path) -> Result<Table> {
    let probe = build(root)?;
    let scratch = probe.with_extension("callgrind");
    let few = callgrind::run(&probe, PAIRS.0, &scratch)?;
    let many = callgrind::run(&probe, PAIRS.1, &scratch)?;
    let shapes = disasm::run(&probe)?;
    let compiler = process::stdout(process::rustc().arg("-vV"))?;
    Ok(tabulate(&few, &many, &shapes, compiler_line(&compiler)))
}

/// Builds the probe as users build: release, with the profile of the workspace.
fn build(root: &Path) -> Result<PathBuf> {
    let mut command = process::cargo(root);
    command
        .args(["build", "--release", "--package", PROBE_PACKAGE, "--example", PROBE])
        .arg("--message-format=json-render-diagnostics")
        .stderr(std::process::Stdio::inherit());
    let messages = process::stdout(&mut command)?;
    let mut built = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let name = message.get("target")?.get("name")?.as_str()? == PROBE;
        name.then(|| message.get("executable")?.as_str().map(PathBuf::from)).flatten()
    });
    built.next_back().context("cargo named no executable for the probe")
}

fn compiler_line(version: &str) -> String {
    let field = |name: &str| {
        let line = version.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or("unknown").trim().to_owned()
    };
    format!("rustc {} {}", field("release:"), field("host:"))
}

/// Differences per pair, rounded to hundredths; a function of the hit path runs in every other
/// pair or more often.
fn tabulate(
    few: &Profile,
    many: &Profile,
    shapes: &std::collections::BTreeMap<String, disasm::Shape>,
    compiler: String,
) -> Table {
    let pairs = PAIRS.1 - PAIRS.0;
    let per_pair = |few: u64, many: u64| (many.saturating_sub(few) * 100 + pairs / 2) / pairs;
    let mut table = Table { compiler, ..Table::default() };
    for (at, (_, name)) in EVENTS.iter().enumerate() {
        let value = per_pair(few.total[at], many.total[at]);
        table.rows.insert(format!("executed {name}"), value);
    }
    let hot = many.functions.iter().filter(|(name, counts)| {
        let before = few.functions.get(*name).map_or(0, |counts| counts[0]);
        per_pair(before, counts[0]) >= 50
    });
    let (mut inside, mut outside, mut sum) = (0, 0, disasm::Shape::default());
    for (name, _) in hot {
        if let Some(shape) = shapes.get(name) {
            inside += 1;
            sum.instructions += shape.instructions;
            sum.branches += shape.branches;
            sum.locked += shape.locked;
        } else {
            outside += 1;
        }
    }
    let stored = [
        ("stored functions", inside),
        ("stored functions of other libraries", outside),
        ("stored instructions", sum.instructions),
        ("stored conditional branches", sum.branches),
        ("stored locked instructions", sum.locked),
    ];
    table.rows.extend(stored.map(|(name, value)| (name.to_owned(), value * 100)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use disasm::Shape;

    fn profile(take: u64, start: u64) -> Profile {
        let mut profile = Profile::default();
        for (name, instructions) in [("take", take), ("start", start), ("memcpy", take)] {
            profile.functions.insert(name.into(), [instructions, 0, 0, instructions / 10, 0, 0]);
            profile.total[0] += instructions;
            profile.total[3] += instructions / 10;
        }
        profile
    }

    #[test]
    fn start_up_cancels_out_and_cold_functions_are_left_out() {
        let shape = Shape { instructions: 40, branches: 5, locked: 1 };
        let shapes = [("take".to_owned(), shape), ("start".to_owned(), shape)].into();
        let few = profile(20 * PAIRS.0, 5_000);
        let many = profile(20 * PAIRS.1, 5_300);
        let table = tabulate(&few, &many, &shapes, "c".into());
        assert_eq!(table.rows["executed instructions"], 4000);
        assert_eq!(table.rows["executed conditional branches"], 400);
        assert_eq!(table.rows["stored functions"], 100);
        assert_eq!(table.rows["stored functions of other libraries"], 100);
        assert_eq!(table.rows["stored instructions"], 4000);
        assert_eq!(table.rows["stored locked instructions"], 100);
    }

    #[test]
    fn one_more_instruction_is_a_verdict_unless_the_compiler_changed() {
        let table = |compiler: &str, value| Table {
            compiler: compiler.into(),
            rows: [("executed instructions".to_owned(), value)].into(),
        };
        assert_eq!(judge(&table("a", 100), &table("a", 100)), Verdict::Pass);
        assert_eq!(judge(&table("a", 100), &table("a", 200)), Verdict::Fail);
        assert_eq!(judge(&table("a", 100), &table("b", 200)), Verdict::Pass);
    }

    #[test]
    fn the_compiler_is_told_in_one_line() {
        let version = "rustc 1.95.0 (5 2026)\nbinary: rustc\nhost: x86_64-x\nrelease: 1.95.0\n";
        assert_eq!(compiler_line(version), "rustc 1.95.0 x86_64-x");
    }
}
