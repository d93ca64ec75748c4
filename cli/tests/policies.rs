//! `pageyard policies`: what it prints, how wide, and what it refuses.

use std::path::Path;
use std::process::{Command, Output};

use pageyard::keys::KEYS;
use pageyard::preset::{PROPOSALS, Release};
use serde_json::Value;

/// Runs the verb in the root of the project, where the folder `policies` is.
fn policies(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    command.current_dir(root).arg("policies").args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = policies(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines().filter(|_| !args.contains(&"--json")) {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    text
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(args)).unwrap()
}

/// Exit code 2 and a message with this in it.
fn refused(args: &[&str], expected: &str) {
    let output = policies(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.contains(expected), "{args:?}: {error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_list_groups_releases_by_what_they_changed() {
    let text = printed(&["list"]);
    let line = |start: &str| {
        let found = text.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no line {start}\n{text}")).to_string()
    };
    assert!(line("  linux-4.14 to 4.16").contains("oldest"));
    assert!(line("  linux-4.19 to 4.20").ends_with(" batch_cap_pages=256"));
    assert!(line("  linux-5.14 to 5.17").contains("pcp_high=low/cpus"));
    assert!(line("  linux-6.19").contains("free_chunk=batch"));
    assert!(line("  linux-6.14.N").contains("fallback=d"));
    // Below 5.14 there is no factor that the fix could bound.
    assert!(line("  linux-5.14.N").ends_with(" factor_bounded=on"));
    assert!(!text.contains("4.14.N"));
    assert!(line("  pcp-high-4batch").contains("linux-5.18 with free_high_limit=4*batch"));
    assert!(line("  short-hold").contains("tail latency"));
}

#[test]
fn the_list_as_json_leads_from_release_to_release() {
    let listed = json(&["list", "--json"]);
    let policies = listed["policies"].as_array().unwrap();
    let count = |kind: &str| policies.iter().filter(|policy| policy["kind"] == kind).count();
    let releases = Release::all().count();
    assert_eq!((count("release"), count("stable")), (releases, releases));
    assert_eq!(count("proposal"), PROPOSALS.len());
    assert!(count("file") >= 2);
    for policy in policies {
        let (name, base) = (policy["name"].as_str().unwrap(), &policy["base"]);
        let Some(base) = base.as_str() else {
            assert_eq!(name, "linux-4.14");
            continue;
        };
        let changes = policy["changes"].as_object().unwrap();
        let set: Vec<String> = changes
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
            .collect();
        let base = match set.is_empty() {
            true => base.to_string(),
            false => format!("{base}:{}", set.join(",")),
        };
        if name.ends_with('4') || policy["kind"] != "release" && policy["kind"] != "stable" {
            let same = json(&["diff", name, &base, "--json"]);
            assert!(same["differ"].as_array().unwrap().is_empty(), "{name} is not {base}");
        }
    }
}

#[test]
fn a_policy_is_shown_key_by_key() {
    let text = printed(&["show", "linux-6.18"]);
    assert!(text.starts_with("linux-6.18\n"));
    let starts: Vec<&str> = text
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(starts, keys);
    for line in ["takes 6*batch, low/cpus, auto", "takes 4 to 65536", "takes on, off"] {
        assert!(text.lines().any(|known| known.trim() == line), "{line}");
    }
    assert!(text.contains("auto: moves between"));
    let idle = "Without effect here. Only with free_high=all.";
    assert!(text.lines().any(|line| line.trim() == idle));
    assert!(!printed(&["show", "linux-5.18"]).contains(idle));
    assert!(printed(&["show"]).starts_with("linux-6.19\n"));
}

#[test]
fn a_policy_as_json_can_be_given_back() {
    let shown = json(&["show", "short-hold", "--json"]);
    let pairs: Vec<String> = shown["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| format!("{}={}", key["key"].as_str().unwrap(), key["value"].as_str().unwrap()))
        .collect();
    let name = format!("linux-4.14:{}", pairs.join(","));
    let same = printed(&["diff", "policies/short-hold.toml", &name]);
    // The names are long: lines may end anywhere.
    let words: Vec<&str> = same.split_whitespace().collect();
    assert!(words.join(" ").ends_with("are the same policy"), "{same}");
}

#[test]
fn only_what_differs_is_told() {
    let text = printed(&["diff", "linux-6.15", "linux-6.16"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        vec!["key", "linux-6.15", "linux-6.16"],
        vec!["free_high_run", "batch", "batch+high_min/2"],
    ];
    assert_eq!(rows, expected);
    let differ = json(&["diff", "linux-6.15", "linux-6.16", "--json"]);
    assert_eq!(differ["differ"][0]["b"], "batch+high_min/2");
    let long = "linux-6.18:batch_pages=15,scale_max=1,free_chunk=batch,drain_chunk=batch";
    assert!(printed(&["diff", "linux-6.18", long]).contains("[2] linux-6.18:batch_pages"));
}

#[test]
fn mistakes_are_named_with_what_was_meant() {
    refused(&["show", "linux-6.81"], "nearest: linux-6.1");
    refused(&["show", "6.18"], "nearest: linux-6.18)");
    refused(&["show", "linux-6.18:pcp_hihg=auto"], "nearest: pcp_high");
    refused(&["diff", "linux-6.18", "linux-6.18:pcp_high=much"], "6*batch, low/cpus, auto");
    refused(&["show", "linux-6.18:prefetch=t0"], "'prefetch' and 'collect'");
    refused(&["show", "no/such.toml"], "no/such.toml");
    refused(&["diff", "linux-6.18"], "required");
    refused(&[], "Usage");
}

#[test]
fn a_bad_file_hides_neither_itself_nor_the_others() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies-of-a-user");
    let own = folder.join("policies");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("good.toml"), "base = \"linux-6.18\"\n").unwrap();
    std::fs::write(own.join("torn.toml"), "base = \"linux-6").unwrap();
    for (arguments, expected) in [
        (["list", "--json"], "\"error\": \"policies/torn.toml:1:"),
        (["list", "--"], "cannot be used: policies/torn.toml:1:"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
        let output = command.current_dir(&folder).arg("policies").args(arguments).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains(expected) && text.contains("good"), "{text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    let command = command.args(["policies", "show"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}
