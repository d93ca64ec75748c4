//! `pageyard simulate`: what it prints, and what it refuses.

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    // Nothing is read from, or left in, the cache of whoever runs this.
    let store = format!("{}/simulate-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    command.arg("simulate").args(args).args(["--store", &store]).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = simulate(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], expected: &str) {
    let output = simulate(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.contains(expected), "{args:?}: {error}");
    assert!(output.stdout.is_empty());
}

const CELL: [&str; 7] = ["-m", "skl-desktop", "-p", "linux-6.6", "-c", "2", "--quick"];

#[test]
fn a_cell_is_the_same_fresh_stored_and_as_text() {
    let with = |more: &[&str]| printed(&[&CELL[..], more].concat());
    let fresh = with(&["--json", "--fresh"]);
    assert_eq!(with(&["--json"]), fresh);
    let json: Value = serde_json::from_str(&fresh).unwrap();
    assert_eq!(json["cpus"], 2);
    let score = json["result"]["score_per_s"].as_u64().unwrap();
    let text = with(&[]);
    assert!(text.contains(&format!("score      {score} a second")), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn think_time_and_seed_matter() {
    let score = |more: &[&str]| {
        let json: Value = serde_json::from_str(&printed(&[&CELL[..], more].concat())).unwrap();
        json["result"]["score_per_s"].as_u64().unwrap()
    };
    let base = score(&["--json"]);
    assert!(score(&["--json", "--think-ns", "5000"]) < base);
    assert_ne!(score(&["--json", "--seed", "2"]), base);
}

#[test]
fn unknown_names_and_too_many_cpus_are_refused_with_what_was_meant() {
    refused(&["-m", "skl-dekstop", "-p", "linux-6.6"], "nearest: skl-desktop");
    refused(&["-m", "skl-desktop", "-p", "linux-66"], "nearest: linux-");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6:batchpages=3"], "batch_pages");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-w", "pagefault1"], "nearest: page_fault1");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-c", "9"], "has 8 CPUs, not 9");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-c", "0"], "0");
}
