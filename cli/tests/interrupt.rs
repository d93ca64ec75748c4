//! ^C in the middle of a run of cells: what is finished is kept, and nothing half.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// An experiment of a dozen short cells, about a table of the user's.
fn experiment(folder: &Path) -> String {
    let rows: Vec<String> = (1..=12).map(|row| format!("[\"{row}\", 100]")).collect();
    let table = format!(
        r#"{{"id": "many", "title": "many", "source": "made up", "columns": ["row", "cycles"],
            "rows": [{}]}}"#,
        rows.join(", ")
    );
    let head = "table = \"many\"\npublished = \"many.json\"\nworkload = \"page_bench03\"\n\
                policy = \"linux-4.14\"\nexpect = \"\"\n\n[[group]]\nmachine = \"skl-desktop\"\n";
    let variant = |row| {
        // Parameters that differ make cells that differ.
        let rounds = 10_000 + row;
        format!("\n[[variant]]\nname = \"{row}\"\ncpus = 4\nparams = {{ rounds = {rounds} }}\n")
    };
    let variants: String = (1..=12).map(variant).collect();
    let column = "\n[[column]]\ncolumn = \"cycles\"\nis = \"cycles-per-page\"\nwithin = 10\n";
    std::fs::write(folder.join("many.json"), table).expect("written");
    std::fs::write(folder.join("many.toml"), format!("{head}{variants}{column}")).expect("written");
    folder.join("many.toml").display().to_string()
}

fn pageyard(store: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    command.arg("reproduce").args(args).arg("--store").arg(store);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Sends a signal by name.
fn send(child: &Child, signal: &str) {
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
}

/// Begins a run on one worker and sends a signal when the first cell is stored.
fn interrupted(store: &Path, args: &[&str], signal: &str) -> Output {
    let mut run = pageyard(store, &[args, &["--workers", "1"]].concat());
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    while !names(store).iter().any(|name| name.ends_with(".json")) {
        std::thread::yield_now();
    }
    send(&child, signal);
    child.wait_with_output().expect("it ends")
}

#[test]
fn finished_cells_are_kept_and_nothing_half_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (store, report) = (folder.path().join("store"), folder.path().join("report.html"));
    let (file, report_name) = (experiment(folder.path()), report.display().to_string());
    let output = interrupted(&store, &[&file, "--json", "--html", &report_name], "-INT");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("pageyard: interrupted: "), "{told}");
    assert!(told.contains("is not written") && !report.exists(), "{told}");
    let kept = names(&store);
    assert!(kept.iter().all(|name| name.ends_with(".json")), "{kept:?}");
    for name in &kept {
        let text = std::fs::read(store.join(name)).unwrap();
        let entry: serde_json::Value = serde_json::from_slice(&text).expect("a whole file");
        assert!(entry["result"]["score_per_s"].as_u64() > Some(0), "{entry}");
    }
    let done = told.split("interrupted: ").nth(1).and_then(|text| text.split(' ').next());
    assert_eq!(done, Some(&*kept.len().to_string()), "{told}");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let open = list.as_array().unwrap().iter().filter(|entry| entry["modelled"].is_null());
    assert!(open.count() > 0, "{list}");

    // The second run takes what is there, runs the rest, and is like one that was never ended.
    let again = pageyard(&store, &[&file, "--json"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(names(&store).len() > kept.len());
    for name in &kept {
        assert!(names(&store).contains(name), "{name}");
    }
    let whole = pageyard(&folder.path().join("other"), &[&file, "--json"]).output().unwrap();
    assert_eq!(again.stdout, whole.stdout);
}

#[test]
fn the_page_of_an_interrupted_run_names_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = experiment(folder.path());
    let output = interrupted(&folder.path().join("store"), &[&file], "-TERM");
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("not finished\n"), "{page}");
    assert!(page.contains("\n  many\n"), "{page}");
    assert!(!page.contains("published"), "no table without a figure: {page}");
}
