//! The twin against every bundled recording: what README.md says of its agreement is what it
//! does. A change that makes it agree worse fails here; one that makes it agree better must say
//! so in the table.

use std::path::PathBuf;

use pageyard_lab::named::NamedPolicy;
use pageyard_lab::twin::infer::Twin;
use pageyard_lab::twin::report::{self, TwinReport};
use pageyard_trace::recording::Recording;

fn traces() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../traces")
}

fn report_of(name: &str) -> TwinReport {
    let recording = Recording::open(traces().join(name)).expect(name);
    let policy = NamedPolicy::for_kernel(recording.kernel().expect("a release")).expect(name);
    let twin = Twin::of(recording, policy.policy).expect(name);
    report::report(&twin, &policy.name).expect(name)
}

/// A part of a whole.
type Of = (usize, usize);

/// Recording, rows within bounds of those exercised, sequences identical of all, as README.md
/// states them.
const STATED: [(&str, Of, Of); 12] = [
    ("build-6.18-2cpu", (3, 3), (1, 1)),
    ("exit-6.18-2cpu", (6, 6), (3, 3)),
    ("exit1g-6.18-2cpu", (3, 3), (1, 1)),
    ("numa-6.1-8cpu-2node", (51, 51), (32, 32)),
    ("pagefault-6.18-2cpu", (3, 3), (1, 1)),
    ("pressure-6.1-4cpu-2node", (40, 40), (20, 20)),
    ("thp-6.18-2cpu", (7, 7), (4, 4)),
    ("udpfraction1000-6.18-2cpu", (7, 7), (2, 4)),
    ("udpfraction20000-6.18-2cpu", (6, 6), (3, 3)),
    ("udpfraction5000-6.18-2cpu", (7, 7), (4, 4)),
    ("udplimit-6.18-2cpu", (7, 7), (4, 4)),
    ("udpstream-6.18-2cpu", (0, 0), (0, 0)),
];

#[test]
fn the_twin_agrees_as_stated() {
    let readme = std::fs::read_to_string(traces().join("../README.md")).expect("README.md");
    let mut wrong = Vec::new();
    for (name, rows, sequences) in STATED {
        let report = report_of(name);
        let got = (report.rows_within(), report.sequences_identical());
        if got != (rows, sequences) {
            wrong.push(format!("{name}: stated {rows:?} {sequences:?}, got {got:?}"));
        }
        let stated = format!("| {} of {} | {} of {} |", rows.0, rows.1, sequences.0, sequences.1);
        let line = readme.lines().find(|line| line.contains(&format!("`{name}`")));
        if !line.is_some_and(|line| line.contains(&stated)) {
            wrong.push(format!("README.md: no line of {name} with '{stated}'"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_bundled_recording_is_stated() {
    let mut names: Vec<String> = std::fs::read_dir(traces())
        .expect("bundled recordings")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    assert_eq!(names, STATED.map(|(name, ..)| name.to_string()));
}

#[test]
fn a_twin_of_another_release_is_refuted_and_a_better_one_named() {
    let recording = Recording::open(traces().join("pagefault-6.18-2cpu")).expect("bundled");
    let wrong = NamedPolicy::parse("linux-6.6").expect("a preset");
    let twin = Twin::of(recording, wrong.policy).expect("a twin");
    let report = report::report(&twin, &wrong.name).expect("a report");
    assert_eq!(report.sequences_identical().0, 0, "6.6 always refills one batch");
    let better = report.better_preset.expect("a better preset is named");
    assert!(better.starts_with("linux-6.7"), "{better}: the oldest era that doubles refills");
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    let bytes = || serde_json::to_string(&report_of("udplimit-6.18-2cpu")).expect("JSON");
    assert_eq!(bytes(), bytes());
}
