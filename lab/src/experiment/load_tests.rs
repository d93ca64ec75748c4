//! Experiments that are wrong, and what is said about them.

use super::*;

const TABLE: &str = r#"{
    "id": "t", "title": "T", "source": "S", "columns": ["batch", "score", "pct"],
    "rows": [[31, 100, null], [63, 110, 10.0]]
}"#;

const GOOD: &str = r#"table = "t"
workload = "page_fault1"
policy = "linux-4.18"
expect = "more"

[fit]
variant = "31"

[[group]]
machine = "skl-desktop"

[[variant]]
name = "31"
set = { batch_pages = 31 }

[[variant]]
name = "63"
set = { batch_pages = 63 }
against = "31"

[[column]]
column = "score"
is = "score"

[[column]]
column = "pct"
is = "score-change-pct"
within = 3
"#;

#[test]
fn a_good_one_finds_its_published_figures() {
    let experiment = parse(GOOD, "t.toml", TABLE).unwrap();
    let group = &experiment.groups[0];
    let fit = FitPlan { variant: 0, on: FitOn::Score(100.0) };
    assert_eq!(group.fit, Some(fit));
    assert_eq!(group.variants[1].ready.cell.policy, "linux-4.18:batch_pages=63");
    assert_eq!(group.variants[1].ready.cell.cpus, 8);
    let published: Vec<f64> = group.points.iter().map(|point| point.published).collect();
    assert_eq!(published, [100.0, 110.0, 10.0]);
    assert_eq!(group.points[2].against, Some(0));
}

#[test]
fn errors_say_file_line_field_and_what_is_wrong() {
    let check = |from: &str, to: &str, start: &str, inside: &str| {
        assert!(GOOD.contains(from));
        let error = parse(&GOOD.replacen(from, to, 1), "t.toml", TABLE).unwrap_err().to_string();
        assert!(error.starts_with(start) && error.contains(inside), "{error}");
    };
    check("= \"t\"", "= \"u\"", "t.toml:1:9: table: ", "calls itself `t`");
    check("page_fault1", "page_falt1", "t.toml:2:12: workload: ", "nearest: page_fault1");
    check("linux-4.18", "linux-4.81", "t.toml:3:10: policy: ", "unknown policy");
    check("variant = \"31\"", "variant = \"32\"", "t.toml:7:11: fit.variant: ", "variants: 31, 63");
    check("skl-desktop", "skl-deskto", "t.toml:10:11: group.machine: ", "nearest: skl-desktop");
    check("against = \"31\"", "against = \"3\"", "t.toml:19:11: variant.against: ", "no variant");
    check("batch_pages = 31", "batch_page = 31", "t.toml:13:8: variant.name: ", "batch_pages");
    check("name = \"63\"", "name = \"64\"", "t.toml:17:8: variant.name: ", "rows: 31, 63");
    check("column = \"pct\"", "column = \"pc\"", "t.toml:26:10: column.column: ", "columns: batch");
    check(
        "score-change-pct",
        "score-change",
        "t.toml:27:6: column.is: ",
        "nearest: score-change-pct",
    );
    check("within = 3", "within = \"3\"", "t.toml:28:10: column.within: ", "invalid type");
    check("within = 3", "wihtin = 3", "t.toml:28:1: column.wihtin: ", "unknown field");
    check("[fit]", "[fit", "t.toml:6:", "");
}

#[test]
fn more_cpus_than_the_machine_has_are_refused() {
    let text = GOOD.replacen("skl-desktop\"", "skl-desktop\"\ncpus = 9", 1);
    let error = parse(&text, "t.toml", TABLE).unwrap_err().to_string();
    assert!(error.contains("skl-desktop has 8 CPUs, not 9"), "{error}");
}

#[test]
fn a_slope_needs_numbers() {
    let slope = "\n[[slope]]\ncolumn = \"score\"\nname = \"s\"\nis = \"alloc-hold-us\"\n";
    let of = |variants: &str, text: &str| {
        parse(&format!("{text}{slope}variants = {variants}\n"), "t.toml", TABLE)
    };
    let good = of("[\"31\", \"63\"]", GOOD).unwrap();
    assert_eq!(good.groups[0].slopes[0].over, [(0, 31.0, 100.0), (1, 63.0, 110.0)]);
    let one = of("[\"31\"]", GOOD).unwrap_err().to_string();
    assert!(one.contains("needs two variants"), "{one}");
    let table = TABLE.replace("63", "\"x\"");
    let text = GOOD.replace("name = \"63\"", "name = \"x\"");
    let text = format!("{text}{slope}variants = [\"31\", \"x\"]\n");
    let error = parse(&text, "t.toml", &table).unwrap_err().to_string();
    assert!(error.starts_with("t.toml:34:19: slope.variants: "), "{error}");
}
