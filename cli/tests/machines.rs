//! `pageyard machines`: what it prints, how wide, and what it refuses.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn machines(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    command.arg("machines").args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = machines(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines().filter(|_| !args.contains(&"--json")) {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    text
}

/// Exit code 2, nothing on standard output, and a message with this in it.
fn refused(args: &[&str], expected: &str) {
    let output = machines(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.contains(expected), "{args:?}: {error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_list_has_a_line_a_machine() {
    let text = printed(&["list"]);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("skl-4s ").contains("4 × 24 × 2  192"));
    assert!(line("icx-2s ").contains("48K 1.25M 48M"));
    assert!(line("bdw-4s ").ends_with("496 GiB"));
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(text.lines().count(), list.as_array().unwrap().len() + 1);
    assert_eq!(list[0]["name"], "skl-desktop");
    assert_eq!(list[0]["cpus"], 8);
}

#[test]
fn every_machine_is_shown_with_all_its_figures() {
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    for machine in list.as_array().unwrap() {
        let name = machine["name"].as_str().unwrap();
        let text = printed(&["show", name]);
        let json: Value = serde_json::from_str(&printed(&["show", name, "--json"])).unwrap();
        for field in json["fields"].as_array().unwrap() {
            assert!(!field["source"].as_str().unwrap().is_empty(), "{name} {field}");
            let path = field["field"].as_str().unwrap();
            let field = path.rsplit('.').next().unwrap();
            assert!(path.starts_with("bandwidth.dram_loaded[") || text.contains(field), "{path}");
        }
        for heading in ["topology", "core", "cache.llc", "latency", "bandwidth", "sources"] {
            assert_eq!(text.lines().filter(|line| *line == heading).count(), 1, "{name} {heading}");
        }
    }
}

#[test]
fn a_figure_is_shown_with_range_and_source() {
    let text = printed(&["show", "icx-2s"]);
    let line = text.lines().find(|line| line.contains("dram_local_ns")).unwrap();
    let words: Vec<&str> = line.split_whitespace().take(5).collect();
    assert_eq!(words, ["dram_local_ns", "88.9", "82", "to", "97"]);
    assert!(line.contains("mlc-icx: and 8 % for other boards"));
    assert!(text.contains("published: for comparison, not used by the model"));
}

#[test]
fn a_file_of_ones_own_is_shown_and_a_bad_one_refused_with_its_line() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/skl-2s.toml");
    let text = std::fs::read_to_string(bundled).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = folder.join("own-machine.toml");
    std::fs::write(&own, text.replace("name = \"skl-2s\"", "name = \"own\"")).unwrap();
    assert!(printed(&["show", own.to_str().unwrap()]).starts_with("own  Skylake-SP"));

    let bad = folder.join("bad-machine.toml");
    std::fs::write(&bad, text.replace("sockets = { value = 2", "sockets = { value = 0")).unwrap();
    let line = text.lines().position(|line| line.starts_with("sockets =")).unwrap() + 1;
    let expected = format!("bad-machine.toml:{line}:21: topology.sockets.value: must be more");
    refused(&["show", bad.to_str().unwrap()], &expected);
    refused(
        &["show", folder.join("none.toml").to_str().unwrap()],
        "none.toml: cannot be read: No such file",
    );
    refused(&["show", "skl4s"], "nearest: skl-4s");
}

#[test]
fn a_desktop_is_checked_against_what_was_published_and_what_its_file_says() {
    let text = printed(&["check", "skl-desktop"]);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    let words: Vec<&str> = line("  first level").split_whitespace().take(5).collect();
    assert_eq!(words, ["first", "level", "ns", "1.4", "-"]);
    assert!(line("within 10 %: ").contains(" published, "));
    let json: Value = serde_json::from_str(&printed(&["check", "skl-desktop", "--json"])).unwrap();
    let rows = json[0]["rows"].as_array().unwrap();
    assert_eq!(json[0]["has_published"], true);
    assert_eq!(rows.len() + 4, text.lines().count(), "title, heading, blank line, summary");
    for row in rows {
        let (modelled, file) = (row["modelled"].as_f64().unwrap(), row["file"].as_f64().unwrap());
        let error = row["file_error"].as_f64().unwrap();
        assert!((modelled / file - 1.0 - error).abs() < 0.002, "{row}");
        let misses = row["misses"].as_array().unwrap();
        assert_eq!(misses.contains(&"file".into()), error.abs() > 0.1, "{row}");
    }
}

/// Text of a bundled machine, under another name, with one figure replaced.
fn own_file(name: &str, from: &str, to: &str) -> std::path::PathBuf {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/skl-desktop.toml");
    let text = std::fs::read_to_string(bundled).unwrap();
    let text = text.replace("name = \"skl-desktop\"", &format!("name = \"{name}\""));
    assert!(text.contains(from));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    std::fs::write(&path, text.replace(from, to)).unwrap();
    path
}

#[test]
fn a_miss_is_named_and_fails_only_if_strict() {
    // What others measured is not what the model has.
    let path = own_file("missing", "ping_pong_socket_ns = { median = 19.7, p5 = 18.2, p95 = 21", {
        "ping_pong_socket_ns = { median = 5, p5 = 4, p95 = 21"
    });
    let path = path.to_str().unwrap();
    let text = printed(&["check", path]);
    let line = text.lines().find(|line| line.starts_with("  ping-pong, two cores")).unwrap();
    assert!(line.ends_with("miss"), "{line}");
    let output = machines(&["check", path, "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}

#[test]
fn a_machine_without_published_figures_says_so() {
    let path = own_file("unpublished", "[published]", "[sources.unused]");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.split("[sources.unused]").next().unwrap()).unwrap();
    let text = printed(&["check", path.to_str().unwrap()]);
    assert!(text.contains("nothing is published of it"), "{text}");
    assert!(text.contains("within 10 %: 0 of 0 published"), "{text}");
}

#[test]
fn the_file_of_this_host_loads_again_and_can_be_checked() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("this-host.toml");
    let path = path.to_str().unwrap();
    let output = machines(&["new", "--quick", "--name", "this-host", "-o", path]);
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("cannot be read; this needs Linux") || error.contains("may not run on every")
    {
        eprintln!("skipped: {error}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(output.stdout.is_empty());
    assert!(printed(&["show", path]).starts_with("this-host  "));
    let shown: Value = serde_json::from_str(&printed(&["show", path, "--json"])).unwrap();
    let fields = shown["fields"].as_array().unwrap();
    let source = |name: &str| {
        let field = fields.iter().find(|field| field["field"] == name).unwrap();
        field["source"].as_str().unwrap().to_string()
    };
    assert!(source("latency.dram_local_ns").starts_with("measured: on this host"));
    assert!(source("core.rob_instructions").starts_with("estimate: "));
    for line in std::fs::read_to_string(path).unwrap().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_host_is_not_measured_for_nothing() {
    refused(&["new", "--name", "My Server"], "small letters, digits and dashes");
    refused(&["new", "--json"], "a machine file is TOML");
    refused(&["new", "-o", env!("CARGO_TARGET_TMPDIR")], "is a folder");
}
