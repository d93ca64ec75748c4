//! Experiments in files: where their paths begin, which table they get, what is said of wrong ones.

use std::fs;

use super::*;
use crate::experiment::catalogue::BUNDLED;

const TABLE: &str = r#"{
    "id": "t", "title": "T", "source": "S", "columns": ["batch", "score"],
    "rows": [["31", 100], ["63", 110]]
}"#;

const GOOD: &str = r#"table = "t"
published = "t.json"
workload = "page_fault1"
policy = "mine.toml"
expect = "more"

[[group]]
machine = "machines/mine.toml"

[[variant]]
name = "31"

[[variant]]
name = "63"
set = { batch_pages = 63 }

[[column]]
column = "score"
is = "score"
machine = "machines/mine.toml"
within = 3
"#;

/// A folder with a machine, a policy and a table; its name has a colon.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a:b");
    fs::create_dir_all(folder.join("machines")).unwrap();
    let machine = include_str!("../../../machines/skl-desktop.toml");
    let machine = machine.replacen("skl-desktop", "mine", 1);
    fs::write(folder.join("machines/mine.toml"), machine).unwrap();
    let policy = "base = \"linux-4.18\"\n[set]\nbatch_pages = 15\n";
    fs::write(folder.join("mine.toml"), policy).unwrap();
    fs::write(folder.join("t.json"), TABLE).unwrap();
    (temporary, folder)
}

fn with(text: &str) -> Result<Experiment, OwnError> {
    let (_temporary, folder) = folder();
    let path = folder.join("x.toml");
    fs::write(&path, text).unwrap();
    read(&path, None)
}

#[test]
fn paths_begin_at_the_folder_of_the_file() {
    let experiment = with(GOOD).unwrap();
    let group = &experiment.groups[0];
    assert_eq!(group.variants[0].ready.machine_name(), "mine");
    let batches: Vec<u32> =
        group.variants.iter().map(|variant| variant.ready.policy().batch_pages).collect();
    assert_eq!(batches, [15, 63]);
    assert_eq!(group.points.len(), 2);
}

#[test]
fn the_table_is_that_of_the_argument_else_of_the_field_else_the_bundled_one() {
    let (_temporary, folder) = folder();
    let path = folder.join("x.toml");
    fs::write(&path, GOOD).unwrap();
    let other = folder.join("other.json");
    fs::write(&other, TABLE.replace("110", "120")).unwrap();
    let last = |experiment: Experiment| experiment.groups[0].points[1].published;
    assert_eq!(last(read(&path, Some(&other)).unwrap()), 120.0);
    assert_eq!(last(read(&path, None).unwrap()), 110.0);
    let name = "numa_stat_threshold_v1";
    let (_, text, _) = BUNDLED.iter().find(|(known, ..)| *known == name).unwrap();
    fs::write(&path, text).unwrap();
    assert_eq!(read(&path, None).unwrap().table.id, name);
    fs::write(&path, text.replace("_v1", "_v3")).unwrap();
    let error = read(&path, None).unwrap_err().to_string();
    assert!(error.contains("x.toml:2:9: table: ") && error.contains("nearest: numa"), "{error}");
}

#[test]
fn what_would_be_held_against_nothing_is_refused_at_its_place() {
    let check = |from: &str, to: &str, place: &str, inside: &str| {
        assert!(GOOD.contains(from), "{from}");
        let error = with(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(inside), "{error}");
    };
    let machine_of_column = "\"\nis = \"score\"\nmachine = \"machines/mine.toml\"";
    check(
        machine_of_column,
        "\"\nis = \"score\"\nmachine = \"machines/mines.toml\"",
        "x.toml:20:11: column.machine: ",
        "machines/mine.toml",
    );
    check("name = \"63\"", "name = \"31\"", "x.toml:14:8: variant.name: ", "stands above");
    check("name = \"63\"", "name = \"64\"", "x.toml:14:8: variant.name: ", "rows: 31, 63");
    check("within = 3", "within = -3", "x.toml:21:10: column.within: ", "from 0 on");
    check("within = 3", "within = nan", "x.toml:21:10: column.within: ", "from 0 on");
    check("is = \"score\"", "is = \"get-ns\"", "x.toml:18:10: column.column: ", "get-ns");
    let against = "name it with `against`";
    check("is = \"score\"", "is = \"score-change-pct\"", "x.toml:18:10: column.column: ", against);
    check("expect =", "think_ns = 18446744073709\nexpect =", "x.toml:5:12: think_ns: ", "second");
    check("mine.toml\"\nexpect", "no.toml\"\nexpect", "x.toml:4:10: policy: ", "a:b/no.toml");
    check("machine = \"machines/mine", "machine = \"no", "x.toml:8:11: group.machine: ", "a:b/no");
    check("\"t.json\"", "\"u.json\"", "a:b/u.json: cannot be read", "");
    check("[[column]]", "[[columm]]", "x.toml:17:3: columm: ", "nearest: column");
    check("workload = \"page_fault1\"\n", "", "x.toml:1:1: ", "missing field `workload`");
}

#[test]
fn a_published_table_that_is_wrong_is_told_by_its_own_place() {
    let check = |from: &str, to: &str, inside: &str| {
        let (_temporary, folder) = folder();
        assert!(TABLE.contains(from), "{from}");
        fs::write(folder.join("t.json"), TABLE.replacen(from, to, 1)).unwrap();
        fs::write(folder.join("x.toml"), GOOD).unwrap();
        let error = read(&folder.join("x.toml"), None).unwrap_err().to_string();
        assert!(error.contains(inside), "{error}");
    };
    check("\"rows\"", "\"row\"", "t.json:4:1: missing field `rows`");
    check("100],", "100]", "t.json:3:26: expected `,` or `]`");
    check("[\"63\", 110]", "[\"31\", 110]", "t.json: rows[1]: row `31` comes twice");
    check("110]", "110, 1]", "t.json: rows[1]: has 3 entries; `columns` has 2");
    check("\"score\"]", "\"batch\"]", "t.json: columns[1]: `batch` comes twice");
    check("110]", "\"many\"]", "x.toml:18:10: column.column: row `63`, column `score` of the");
    check("110]", "0]", "x.toml:18:10: column.column: row `63` is 0 there");
    check("\"id\": \"t\"", "\"id\": \"u\"", "x.toml:1:9: table: the published table calls itself");
}

#[test]
fn files_that_cannot_be_one_are_told() {
    let (_temporary, folder) = folder();
    let path = folder.join("x.toml");
    let error = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read(&path, None).unwrap_err().to_string()
    };
    assert!(error(&[b'a', 0xff]).contains("x.toml: not UTF-8 from byte 1 on"));
    let long = vec![b'#'; FILE_BYTES_MAX as usize + 1];
    assert!(error(&long).contains("x.toml: longer than"));
    assert!(read(&folder, None).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn the_bundled_tables_satisfy_what_is_asked_of_the_users() {
    for (name, _, table) in BUNDLED {
        let table = Table::parse(table).unwrap();
        table.check().unwrap_or_else(|unusable| panic!("{name}: {unusable}"));
    }
}
