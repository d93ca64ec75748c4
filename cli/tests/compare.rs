//! `pageyard compare` from end to end over a small bundled recording.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/udpstream-6.18-2cpu")
}

fn compare(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .arg("compare")
        .args(args)
        .args(["--trace".as_ref(), trace().as_os_str()])
        .output()
        .expect("the program runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_same_policy_twice_changes_nothing() {
    let output = compare(&["linux-5.17", "linux-5.17", "--json", "--fail-if", "abs refills>0%"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let total = answer["total"].as_array().expect("changes");
    assert!(total.len() > 30, "{total:?}");
    for change in total {
        assert!(matches!(change["change_pct"].as_f64(), None | Some(0.0)), "{change}");
        assert_eq!(change["from_zero"], false, "{change}");
        assert_eq!(change["reason"], Value::Null, "{change}");
    }
}

#[test]
fn two_policies_differ_with_a_reason_and_the_same_bytes_every_time() {
    let args = ["linux-5.17", "linux-6.18", "--json"];
    let (first, second) = (compare(&args), compare(&args));
    assert_eq!(code(&first), 0, "{}", errors(&first));
    assert_eq!(first.stdout, second.stdout);
    let answer: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(answer["base"]["keys"]["pcp_high"], "low/cpus");
    assert_eq!(answer["head"]["keys"]["pcp_high"], "auto");
    let recording = &answer["recordings"][0];
    assert_eq!(recording["name"], "udpstream-6.18-2cpu");
    assert!(recording["twin"].is_array());
    let cut = |side: &str| recording[side]["cut_pages"].as_u64().expect("a count");
    assert!(cut("base") > 0, "5.17 allows less than the recorded kernel held");
    assert_eq!(cut("head"), 0, "the recorded kernel's own policy allows what it held");
    let changes = recording["changes"].as_array().expect("changes");
    let held = changes.iter().find(|change| change["metric"] == "pcp_pages_mean");
    let held = held.expect("the metric");
    assert_eq!(held["verdict"], "worse", "{held}");
    assert!(held["reason"].as_str().is_some_and(|why| why.contains("limits")), "{held}");
}

#[test]
fn the_twin_stands_above_the_figures() {
    let output = compare(&["linux-5.17", "linux-5.18"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("BASE  linux-5.17") < at("Can it be believed?"));
    assert!(at("Can it be believed?") < at("HEAD against BASE"));
    assert!(at("HEAD against BASE") < at("cut from the caches"));
}

#[test]
fn a_broken_bound_is_exit_code_1_and_says_which() {
    let broken = compare(&["linux-5.17", "linux-6.18", "--fail-if", "pcp_pages_mean>5%"]);
    assert_eq!(code(&broken), 1);
    let text = errors(&broken);
    assert!(
        text.contains("pcp_pages_mean changed by") && text.contains("all recordings"),
        "{text}"
    );
    let args = ["linux-5.17", "linux-6.18", "--fail-if", "pcp_pages_mean>5%", "--per-trace"];
    assert!(errors(&compare(&args)).contains("over udpstream-6.18-2cpu"));
    let kept = compare(&["linux-5.17", "linux-6.18", "--fail-if", "pcp_pages_mean<-5%"]);
    assert_eq!(code(&kept), 0, "{}", errors(&kept));
}

#[test]
fn a_mistake_is_exit_code_2_and_says_what_to_do() {
    for (args, words) in [
        (vec!["linux-5.17", "linux-5.81"], "linux-5.81"),
        (vec!["linux-5.17", "linux-5.18:nokey=1"], "nokey"),
        (vec!["linux-5.17", "linux-5.18", "--fail-if", "zone_lock>5%"], "did you mean zone_locks"),
        (vec!["linux-5.17", "linux-5.18", "--fail-if", "zone_locks>5"], "per cent"),
        (vec!["linux-5.17", "linux-5.18", "--trace", "nowhere"], "no such file or folder"),
    ] {
        let output = compare(&args);
        assert_eq!(code(&output), 2, "{args:?}: {}", errors(&output));
        assert!(errors(&output).contains(words), "{args:?}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_foreign_file_is_named_and_the_others_are_still_compared() {
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let foreign = foreign.to_str().expect("a name");
    let output = compare(&["linux-5.17", "linux-5.18", "--trace", foreign]);
    assert_eq!(code(&output), 2);
    assert!(errors(&output).contains("Cargo.toml"), "{}", errors(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("udpstream-6.18-2cpu: Linux"), "{text}");
    assert!(text.contains("NOT COMPARED"), "{text}");
}

fn on_machines(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .arg("compare")
        .args(args)
        .args(["--store".as_ref(), folder.join("store").as_os_str()])
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

/// The smallest machine with few CPUs: a second or so.
const FEW: [&str; 4] = ["--machines", "cfl-desktop", "--cpus", "2"];

#[test]
fn machines_alone_are_compared_with_the_same_bytes_in_text_json_and_html() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |more: &[&str]| {
        let policies = ["linux-4.17", "linux-4.17:batch_pages=7,pcp_high_pages=14"];
        let output = on_machines(folder.path(), &[&policies, &FEW[..], more].concat());
        assert_eq!(code(&output), 0, "{}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let text = run(&["--html", "one.html"]);
    assert_eq!(run(&["--html", "two.html"]), text);
    assert!(text.contains("cfl-desktop, 2 CPUs") && text.contains("Hurts"), "{text}");
    assert!(!text.contains("Can it be believed?"), "no recording was asked for: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a report");
    assert_eq!(read("one.html"), read("two.html"));
    let answer: Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    let cell = &answer["machines"]["cells"][0];
    assert_eq!(cell["changes"][0]["metric"], "score");
    let parts = cell["base"]["parts_ns"].as_array().expect("parts").iter();
    let sum: f64 = parts.map(|part| part.as_f64().expect("a time")).sum();
    let unit = cell["base"]["unit_ns"].as_f64().expect("a time");
    assert!((sum / unit - 1.0).abs() < 0.01, "{sum} {unit}");
}

#[test]
fn results_of_a_build_are_kept_and_held_against_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // One seed: two processes at random points of their cycle are noise for the most part.
    let kept = [&["linux-4.17", "--save", "kept.json", "--seeds", "1"], &FEW[..]].concat();
    assert_eq!(code(&on_machines(folder.path(), &kept)), 0);
    let same =
        on_machines(folder.path(), &["kept.json", "linux-4.17", "--fail-if", "abs(score)>0%"]);
    assert_eq!(code(&same), 0, "{}", errors(&same));
    let text = String::from_utf8(same.stdout).expect("text");
    assert!(text.contains("No change  cfl-desktop page_fault1 (0 %)"), "{text}");
    let small = "linux-4.17:batch_pages=1,pcp_high_pages=2";
    let worse = on_machines(folder.path(), &["kept.json", small, "--fail-if", "score<-1%"]);
    assert_eq!(code(&worse), 1, "{}", String::from_utf8_lossy(&worse.stdout));
    assert!(errors(&worse).contains("over cfl-desktop page_fault1"), "{}", errors(&worse));
    for (args, words) in [
        (vec!["linux-4.17"], "<HEAD>"),
        (vec!["kept.json", "linux-4.17", "--seeds", "2"], "leave out"),
        (vec!["kept.json", "linux-4.17", "--trace", "x"], "modelled machines"),
        (vec!["none.json", "linux-4.17"], "none.json: cannot be read"),
        (vec!["linux-4.17", "linux-4.18", "--machines", "skl-4"], "skl-4s"),
        (vec!["linux-4.17", "linux-4.18", "--workloads", "page_fault"], "page_fault1"),
        (vec!["linux-4.17", "linux-4.18", "--fail-if", "scor<-1%"], "did you mean score"),
    ] {
        let output = on_machines(folder.path(), &args);
        assert_eq!(code(&output), 2, "{args:?}: {}", errors(&output));
        assert!(errors(&output).contains(words), "{args:?}: {}", errors(&output));
    }
}
