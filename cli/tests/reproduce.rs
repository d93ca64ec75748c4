//! `pageyard reproduce`: the page, its JSON, and what it refuses.

use std::process::{Command, Output};

use serde_json::Value;

/// The table that takes the least time: one CPU of a desktop.
const SMALL: &str = "batch_latency_coffee_lake";

fn reproduce(store: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    let store = format!("{}/reproduce-{store}-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    command.arg("reproduce").args(args).args(["--store", &store]).output().unwrap()
}

fn printed(store: &str, args: &[&str]) -> String {
    let output = reproduce(store, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_json_is_the_same_with_one_worker_and_two_and_out_of_the_store() {
    let with = |store, workers| printed(store, &[SMALL, "--quick", "--json", "--workers", workers]);
    let one = with("one", "1");
    assert_eq!(with("two", "2"), one);
    assert_eq!(with("one", "2"), one);
    let list: Value = serde_json::from_str(&one).unwrap();
    let slopes = list.as_array().unwrap().iter().filter(|entry| entry["row"] == "slope 63..511");
    let mut count = 0;
    for slope in slopes {
        let keys: Vec<&String> = slope.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 8, "{keys:?}");
        assert_eq!(slope["fitted"], false);
        let figure = |key: &str| slope[key].as_f64().unwrap();
        let error = (figure("modelled") / figure("published") - 1.0) * 100.0;
        assert!((figure("error") - error).abs() < 1e-9);
        assert_eq!(slope["within"], error.abs() <= 20.0);
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn the_page_shows_published_beside_modelled_and_a_verdict() {
    let text = printed("page", &[SMALL, "--quick"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    assert!(text.contains("published"), "{text}");
    assert!(text.contains("  verdict: "), "{text}");
}

#[test]
fn check_turns_misses_into_an_exit_code() {
    let list = printed("check", &[SMALL, "--quick", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let misses = list.as_array().unwrap().iter().any(|entry| entry["within"] == false);
    let code = reproduce("check", &[SMALL, "--quick", "--check"]).status.code();
    assert_eq!(code, Some(i32::from(misses)));
}

#[test]
fn an_unknown_table_is_refused_with_the_nearest() {
    let output = reproduce("unknown", &["batch_sweep_lkp-skl-4sp"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nearest: batch_sweep_lkp-skl-4sp1"), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_report_is_one_file_of_the_same_bytes_and_none_where_it_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["one.html", "two.html"] {
        printed("html", &[SMALL, "llfree_cores_bulk_o0", "--quick", "--html", &path(name)]);
    }
    let [one, two] = ["one.html", "two.html"].map(|name| std::fs::read(path(name)).unwrap());
    assert_eq!(one, two);
    let text = String::from_utf8(one).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    for loaded in ["<script", "<link", "<img", "src=", "href=\"http", "@import"] {
        assert!(!text.contains(loaded), "{loaded}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let output = reproduce("html", &[SMALL, "--quick", "--html", &path("none/page.html")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
}
