//! `pageyard reproduce` with files of the user's own: the example of docs/REPRODUCE.md, and what is
//! refused.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const PAGE: &str = include_str!("../../docs/REPRODUCE.md");

fn reproduce(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .arg("reproduce")
        .args(args)
        .args(["--store".as_ref(), folder.join("store").as_os_str()])
        .output()
        .expect("the program runs")
}

/// The code block behind the first mention of a file's name after the section's heading.
fn block(name: &str) -> &'static str {
    let section = PAGE.split("## An experiment of your own").nth(1).expect("a section");
    let mention = format!("`{name}`");
    let after = section.split(&mention).nth(1).unwrap_or_else(|| panic!("{name} is not there"));
    let code = after.split("```").nth(1).expect("a block of code");
    code.split_once('\n').expect("a language").1
}

/// A folder with the files of the example.
fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["mine.json", "lean.toml", "mine.toml"] {
        std::fs::write(folder.path().join(name), block(name)).expect("the folder can be written");
    }
    folder
}

#[test]
fn the_example_of_the_page_runs_from_anywhere() {
    let folder = example();
    let path = folder.path().join("mine.toml").display().to_string();
    let output = reproduce(folder.path(), &[&path, "--quick", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 4, "{list:?}");
    assert!(list.iter().all(|entry| entry["table"] == "my_counters"));
    let fitted: Vec<&Value> = list.iter().filter(|entry| entry["fitted"] == true).collect();
    assert_eq!(fitted.len(), 1);
    assert!(fitted[0]["error"].as_f64().expect("an error").abs() <= 0.5, "{fitted:?}");
    let change = list.iter().find(|entry| entry["column"] == "change_pct").expect("a change");
    assert!(change["modelled"].as_f64().expect("a figure") < 0.0, "{change}");
    let page = String::from_utf8(reproduce(folder.path(), &[&path, "--quick"]).stdout).unwrap();
    assert!(page.starts_with("my_counters\n"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_table_of_the_command_line_stands_before_that_of_the_file() {
    let folder = example();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let other = block("mine.json").replace("450", "460");
    std::fs::write(path("other.json"), other).expect("the folder can be written");
    let (mine, other) = (path("mine.toml"), path("other.json"));
    let output = reproduce(folder.path(), &[&mine, "--published", &other, "--quick", "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\"published\": 460.0"), "{text}");
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_field() {
    let folder = example();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("written");
    let good = block("mine.toml");
    for (name, from, to) in [
        ("workload", "page_bench03", "page_bench"),
        ("row", "\"4\"\ncpus", "\"5\"\ncpus"),
        ("policy", "lean.toml", "leen.toml"),
        ("machine", "skl-desktop:core", "skl-desktop:cor"),
    ] {
        assert!(good.contains(from), "{from}");
        write(&format!("{name}.toml"), &good.replacen(from, to, 1));
    }
    let (mine, none) = (path("mine.toml"), path("none.json"));
    let of = |name: &str| path(&format!("{name}.toml"));
    for (args, words) in [
        (vec![of("workload")], "workload.toml:3:12: workload: unknown workload 'page_bench'"),
        (vec![of("row")], "row.toml:25:8: variant.name: the published table has no row `5`"),
        (vec![of("policy")], "leen.toml"),
        (vec![of("machine")], "machine.toml:12:11: group.machine: "),
        (vec![path("absent.toml")], "absent.toml: cannot be read"),
        (vec![mine.clone(), "--published".to_string(), none.clone()], "none.json: cannot be read"),
        (vec!["numa_stat_sysctl".to_string(), "--published".to_string(), none], "one experiment"),
        (vec!["mine".to_string()], "a file of yours needs a path that ends in .toml"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = reproduce(folder.path(), &args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}
