//! `cargo xtask soak`: the long versions of the random and the exhaustive tests.
//!
//! Tests are the same as in CI; environment variables make them long. Rounds follow each other
//! with one seed more each, until the time is over. What fails is kept in `target/soak/` with the
//! command that repeats it.

mod cargo_tests;

use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{Verdict, process, tree};
use cargo_tests::TestBinary;

/// The seed of a round, for every test that draws anything.
const SEED: &str = "PAGEYARD_SEED";

/// One kind of long test.
struct Stage {
    name: &'static str,
    package: &'static str,
    /// Tests whose full name (binary and path) holds one of these words, or all others when empty.
    words: &'static [&'static str],
    /// What makes it long.
    variable: &'static str,
    value: &'static str,
    /// Draws from the seed; the others need only one round.
    is_random: bool,
}

const STAGES: [Stage; 4] = [
    Stage {
        name: "oracle",
        package: "pageyard-check",
        words: &[],
        variable: "PAGEYARD_SOAK_OPS",
        value: "100000000",
        is_random: true,
    },
    Stage {
        name: "shuttle",
        package: "pageyard-check",
        words: &["shuttle"],
        variable: "PAGEYARD_SHUTTLE_ITERS",
        value: "1000000",
        is_random: true,
    },
    Stage {
        name: "fuzz",
        package: "pageyard-trace",
        words: &["fuzz"],
        variable: "PAGEYARD_FUZZ_ITERS",
        value: "10000000",
        is_random: true,
    },
    Stage {
        name: "loom",
        package: "pageyard-check",
        words: &["loom"],
        variable: "PAGEYARD_LOOM_PREEMPTIONS",
        value: "unbounded",
        is_random: false,
    },
];

#[derive(clap::Args)]
pub struct Args {
    /// When to stop; the stages of a round share what is left
    #[arg(long, default_value_t = 60, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    minutes: u64,
    /// The seed of the first round; each round adds one
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Only these stages: oracle, shuttle, fuzz, loom
    #[arg(value_parser = ["oracle", "shuttle", "fuzz", "loom"])]
    stages: Vec<String>,
}

/// How one stage of one round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// Nothing failed until its time was over.
    Cut,
    Failed,
}

pub fn run(args: &Args) -> Result<Verdict> {
    let root = tree::root();
    let (ready, missing) = prepare(&root, &args.stages)?;
    let kept = kept_dir(&root)?;
    let deadline = Instant::now() + Duration::from_secs(args.minutes * 60);
    let mut failures = 0;
    let mut round = 0;
    while Instant::now() < deadline {
        let seed = args.seed.wrapping_add(round);
        let due: Vec<&Ready> = ready.iter().filter(|r| round == 0 || r.stage.is_random).collect();
        if due.is_empty() {
            break;
        }
        for (at, ready) in due.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(due.len() - at)?;
            failures += u32::from(stage(&root, ready, seed, share, &kept)? == Outcome::Failed);
        }
        round += 1;
    }
    println!("soak: {round} rounds from seed {}, {failures} failures", args.seed);
    for name in &missing {
        println!("soak: {name}: no test of this kind exists, so nothing was shown");
    }
    Ok(if failures == 0 && missing.is_empty() { Verdict::Pass } else { Verdict::Fail })
}

/// A stage with the tests that belong to it.
struct Ready {
    stage: &'static Stage,
    binaries: Vec<TestBinary>,
}

/// Builds the tests; returns the stages that have some, and the names of those that have none.
fn prepare(root: &Path, wanted: &[String]) -> Result<(Vec<Ready>, Vec<&'static str>)> {
    let mut ready = Vec::new();
    let mut missing = Vec::new();
    for stage in &STAGES {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == stage.name) {
            continue;
        }
        let mut binaries = cargo_tests::build(root, stage.package)?;
        for binary in &mut binaries {
            let target = binary.target.clone();
            binary.tests.retain(|test| belongs(stage, &format!("{target}::{test}")));
        }
        binaries.retain(|binary| !binary.tests.is_empty());
        if binaries.is_empty() {
            missing.push(stage.name);
        } else {
            ready.push(Ready { stage, binaries });
        }
    }
    Ok((ready, missing))
}

fn belongs(stage: &Stage, full_name: &str) -> bool {
    let holds = |words: &[&str]| words.iter().any(|word| full_name.contains(word));
    if !stage.words.is_empty() {
        return holds(stage.words);
    }
    let others = STAGES.iter().filter(|other| other.package == stage.package);
    !others.into_iter().any(|other| holds(other.words))
}

fn kept_dir(root: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let dir = root.join(target).join("soak");
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    Ok(dir)
}

fn stage(root: &Path, ready: &Ready, seed: u64, share: Duration, kept: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let mut worst = Outcome::Passed;
    for (at, binary) in ready.binaries.iter().enumerate() {
        let left = share.saturating_sub(start.elapsed());
        let left = left / u32::try_from(ready.binaries.len() - at)?;
        let log = kept.join(format!("{}-{}-{seed}.log", ready.stage.name, binary.target));
        let outcome = run_binary(ready.stage, binary, seed, left, &log)?;
        if outcome == Outcome::Failed {
            let again = keep(root, ready.stage, binary, seed, &log)?;
            println!("soak: {} FAILED with seed {seed}: {}", ready.stage.name, log.display());
            println!("soak: repeat with: {again}");
            worst = Outcome::Failed;
        } else {
            fs::remove_file(&log).with_context(|| format!("remove {}", log.display()))?;
            worst = if worst == Outcome::Passed { outcome } else { worst };
        }
    }
    let text = match worst {
        Outcome::Passed => "passed",
        Outcome::Cut => "no failure until its time was over (not run to its end)",
        Outcome::Failed => "FAILED",
    };
    println!("{:8} seed {seed}: {text}, {} s", ready.stage.name, start.elapsed().as_secs());
    Ok(worst)
}

fn command(stage: &Stage, binary: &TestBinary, seed: u64) -> Command {
    let mut command = Command::new(&binary.path);
    command
        .args(["--exact", "--nocapture"])
        .args(&binary.tests)
        .current_dir(&binary.package_dir)
        .env("CARGO_MANIFEST_DIR", &binary.package_dir)
        .env(SEED, seed.to_string())
        .env(stage.variable, stage.value)
        .stdin(Stdio::null());
    command
}

/// Runs the tests of one binary for at most `limit`, their output going to `log`.
fn run_binary(
    stage: &Stage,
    binary: &TestBinary,
    seed: u64,
    limit: Duration,
    log: &Path,
) -> Result<Outcome> {
    let file = File::create(log).with_context(|| format!("make {}", log.display()))?;
    let mut command = command(stage, binary, seed);
    command.stdout(file.try_clone()?).stderr(file);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {}", binary.path.display()))?;
    let progress = std::io::stderr().is_terminal();
    loop {
        if let Some(status) = child.try_wait()? {
            clear(progress);
            return Ok(if status.success() { Outcome::Passed } else { Outcome::Failed });
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            clear(progress);
            return Ok(if tells_failure(log)? { Outcome::Failed } else { Outcome::Cut });
        }
        if progress {
            let (elapsed, limit) = (start.elapsed().as_secs(), limit.as_secs());
            eprint!("\r{} {} seed {seed}: {elapsed} of {limit} s ", stage.name, binary.target);
            std::io::stderr().flush()?;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Whether a test had failed before its binary was stopped: libtest goes on with the others.
fn tells_failure(log: &Path) -> Result<bool> {
    let output = fs::read(log).with_context(|| format!("read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&output).lines().any(|line| line.trim_end().ends_with("FAILED")))
}

fn clear(progress: bool) {
    if progress {
        eprint!("\r{:72}\r", "");
    }
}

/// Writes above the output what it is and how to repeat it; returns the command.
fn keep(root: &Path, stage: &Stage, binary: &TestBinary, seed: u64, log: &Path) -> Result<String> {
    let again = format!(
        "{SEED}={seed} {}={} cargo test --release -p {} -- --exact {}",
        stage.variable,
        stage.value,
        stage.package,
        binary.tests.join(" ")
    );
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40"]).current_dir(root);
    let commit = process::stdout(&mut git).unwrap_or_else(|_| "unknown".into());
    let output = fs::read(log).with_context(|| format!("read {}", log.display()))?;
    let mut text = format!("seed: {seed}\ncommit: {}\nrepeat: {again}\n\n", commit.trim());
    text.push_str(&String::from_utf8_lossy(&output));
    let temporary = log.with_extension("tmp");
    fs::write(&temporary, text)
        .and_then(|()| fs::rename(&temporary, log))
        .with_context(|| format!("write {}", log.display()))?;
    Ok(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(dir: &Path, script: &str) -> TestBinary {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join("binary");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let tests = vec!["a::b".to_owned()];
        TestBinary { target: "t".into(), path, package_dir: dir.into(), tests }
    }

    #[track_caller]
    fn check(script: &str, limit: Duration, expected: Outcome) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let binaries = vec![shell(dir.path(), script)];
        let ready = Ready { stage: &STAGES[0], binaries };
        let outcome = stage(dir.path(), &ready, 7, limit, dir.path()).unwrap();
        assert_eq!(outcome, expected);
        fs::read_to_string(dir.path().join("oracle-t-7.log")).ok()
    }

    #[test]
    fn a_failure_is_kept_with_its_seed_and_how_to_repeat_it() {
        let script = "echo with $PAGEYARD_SEED $PAGEYARD_SOAK_OPS $*; exit 101";
        let log = check(script, Duration::from_secs(60), Outcome::Failed).unwrap();
        assert!(log.contains("with 7 100000000 --exact --nocapture a::b"), "{log}");
        assert!(log.starts_with("seed: 7\n") && log.contains("repeat: PAGEYARD_SEED=7 "), "{log}");
    }

    #[test]
    fn what_passes_or_is_cut_leaves_nothing() {
        assert_eq!(check("exit 0", Duration::from_secs(60), Outcome::Passed), None);
        assert_eq!(check("exec sleep 600", Duration::ZERO, Outcome::Cut), None);
    }

    #[test]
    fn a_test_that_failed_before_the_cut_is_a_failure() {
        let script = "echo 'test a::b ... FAILED'; touch told; exec sleep 600";
        let dir = tempfile::tempdir().unwrap();
        let binary = shell(dir.path(), script);
        let log = dir.path().join("log");
        fs::write(&log, "test a::b ... ok\n").unwrap();
        assert!(!tells_failure(&log).unwrap());
        let mut child = command(&STAGES[0], &binary, 7);
        let mut child = child.stdout(File::create(&log).unwrap()).spawn().unwrap();
        while !dir.path().join("told").exists() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tells_failure(&log).unwrap());
    }

    #[test]
    fn a_crash_is_a_failure() {
        let log = check("kill -SEGV $$", Duration::from_secs(60), Outcome::Failed);
        assert!(log.is_some());
    }

    #[test]
    fn each_test_belongs_to_one_stage_of_its_package() {
        for name in ["oracle::small", "loom_pcp::drain", "pageyard_check::shuttle::zone"] {
            let stages = STAGES.iter().filter(|stage| stage.package == "pageyard-check");
            let found = stages.filter(|stage| belongs(stage, name)).count();
            assert_eq!(found, 1, "{name}");
        }
    }
}
