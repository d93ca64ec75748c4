//! Verdicts, noise and reasons over made-up results.

use std::collections::BTreeMap;

use super::ask::Place;
use super::judge::{Builds, Matrix};
use super::run::{Answer, Ran, Side};
use super::{kept, text};
use crate::cells::yard::{NodeState, OutOfMemory};
use crate::compare::fail_if::{FailIf, Judgement};
use crate::compare::metrics::Verdict;
use crate::compare::run::Question;
use crate::experiment::outcome::{CellResult, LineFigures};
use crate::named::NamedPolicy;

pub(crate) fn question() -> Question {
    let policy = |name| NamedPolicy::parse(name).unwrap();
    Question { base: policy("linux-4.17"), head: policy("linux-4.18"), kernel: None }
}

fn place(machine: &str) -> Place {
    Place {
        machine: machine.to_string(),
        workload: "page_fault1".to_string(),
        parameters: BTreeMap::new(),
        cpus: 0,
        think_ps: 1_000_000,
        quick: true,
        memory_mib: None,
    }
}

/// A second of 10 CPUs: score, waiting to allocate in thousandths, far page lines.
fn result(score_per_s: u64, wait: u64, lines: u64) -> CellResult {
    let mut result =
        CellResult { score_per_s, simulated_ps: 1_000_000_000_000, ..CellResult::default() };
    result.zone_alloc.wait_thousandths = wait;
    result.zone_alloc.hold_mean_ps = wait * 10_000;
    let (structure, source) = ("Page".to_string(), "FarCore".to_string());
    result.lines.push(LineFigures { structure, source, count: lines });
    result
}

fn side(allocator: &str, cells: &[(&str, Vec<CellResult>)]) -> Side {
    let ran = cells.iter().map(|(machine, results)| Ran {
        place: place(machine),
        cpus: 10,
        unit: "fault".to_string(),
        answer: Answer::Results(results.clone()),
    });
    Side {
        format: kept::FORMAT,
        pageyard: "0".to_string(),
        allocator: allocator.to_string(),
        model: "m".to_string(),
        policy: "linux-4.18".to_string(),
        keys: String::new(),
        seeds: 3,
        ran: ran.collect(),
    }
}

/// One machine that gains, one that loses, one where seeds differ by more than the change.
pub(crate) fn matrix() -> Matrix {
    let of =
        |scores: [u64; 3], wait, lines| scores.map(|score| result(score, wait, lines)).to_vec();
    let base = side(
        "a",
        &[
            ("gains", of([1000, 1010, 990], 600, 100)),
            ("loses", of([1000, 1001, 1002], 100, 1000)),
            ("noisy", of([1000, 1000, 1000], 300, 100)),
        ],
    );
    let head = side(
        "b",
        &[
            ("gains", of([1200, 1213, 1189], 400, 100)),
            ("loses", of([880, 881, 882], 90, 4000)),
            ("noisy", of([1100, 900, 1040], 300, 100)),
        ],
    );
    Matrix::of(&base, &head)
}

#[test]
fn the_spread_of_the_seeds_decides_what_is_noise() {
    let matrix = matrix();
    let verdicts: Vec<Verdict> = matrix.cells.iter().map(|cell| cell.score().verdict).collect();
    assert_eq!(verdicts, [Verdict::Better, Verdict::Worse, Verdict::Same]);
    // +10, -10 and +4 per cent: 4.30 times 10.26 over the root of three.
    let noise = matrix.cells[2].noise.unwrap();
    assert!((noise - 25.5).abs() < 0.1, "{noise}");
    assert!(matrix.cells[1].score().pct().unwrap() < -11.9);
    assert_eq!(matrix.builds, Builds::Allocator);
}

#[test]
fn the_reason_is_the_part_that_changed_most() {
    let matrix = matrix();
    let why = &matrix.cells[0].reason;
    assert!(why.starts_with("waits for the zone lock while allocating: "), "{why}");
    assert!(why.contains("a hold lasts 6.00 us → 4.00 us"), "{why}");
    let why = &matrix.cells[1].reason;
    assert!(why.starts_with("outside of waits: "), "{why}");
    assert!(why.contains("page records from other cores and memory: 1.00 → 4.54"), "{why}");
}

#[test]
fn the_text_fits_a_terminal_and_names_whom_it_helps() {
    let text = text::write(&matrix());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("Helps      gains page_fault1 (+20.1 %)"), "{text}");
    assert!(text.contains("Hurts      loses page_fault1 (-12.0 %)"), "{text}");
    assert!(text.contains("two builds: the allocator differs"), "{text}");
}

#[test]
fn a_bound_on_the_score_holds_for_each_place_and_not_for_noise() {
    let judged = |text: &str| {
        let bound = FailIf::parse(text).unwrap();
        let mut judgement =
            Judgement { expression: text.to_string(), judged: 0, violations: Vec::new() };
        bound.judge_places(&matrix(), &mut judgement);
        assert_eq!(judgement.judged, 3);
        judgement.violations.into_iter().map(|broken| broken.place).collect::<Vec<_>>()
    };
    assert_eq!(judged("score<-10%"), ["loses page_fault1"]);
    assert!(judged("score<-13%").is_empty());
    assert_eq!(judged("score>1%"), ["gains page_fault1"], "1.3 % of the noisy one is noise");
}

/// A workload that took more memory than there is.
pub(crate) fn ended() -> CellResult {
    let node = NodeState { pages: 1000, free: 10, min_mark: 10 };
    let end = OutOfMemory { cpu: 3, at_ps: 5_000_000, order: 0, taken: 990, nodes: vec![node] };
    CellResult { out_of_memory: Some(end), ..CellResult::default() }
}

#[test]
fn running_out_of_memory_is_a_result_and_a_loss_without_noise() {
    let some = || vec![result(1000, 100, 10), result(1010, 100, 10)];
    // One seed of it is enough: the side does not always get through.
    let none = || vec![result(1000, 100, 10), ended()];
    let base = side("a", &[("head", some()), ("base", none()), ("both", none())]);
    let head = side("a", &[("head", none()), ("base", some()), ("both", none())]);
    let matrix = Matrix::of(&base, &head);
    assert!(matrix.failures.is_empty());
    let verdicts: Vec<Verdict> = matrix.cells.iter().map(|cell| cell.score().verdict).collect();
    assert_eq!(verdicts, [Verdict::Worse, Verdict::Better, Verdict::Unknown]);
    let text = text::write(&matrix);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("Helps      base page_fault1 (BASE runs out of memory)"), "{text}");
    assert!(text.contains("Hurts      head page_fault1 (HEAD runs out of memory)"), "{text}");
    assert!(text.contains("under both: both page_fault1"), "{text}");
    assert!(
        text.contains("1,005 → nothing faults a second; HEAD: out of memory on CPU 3"),
        "{text}"
    );
    let bound = FailIf::parse("score<-10%").unwrap();
    let mut judgement = Judgement { expression: String::new(), judged: 0, violations: Vec::new() };
    bound.judge_places(&matrix, &mut judgement);
    let broken: Vec<&str> = judgement.violations.iter().map(|one| one.place.as_str()).collect();
    assert_eq!((judgement.judged, broken), (2, vec!["head page_fault1"]));
}

#[test]
fn a_place_that_only_one_side_has_is_said_to_be_missing() {
    let (base, head) = (side("a", &[("x", vec![result(1, 0, 0)])]), side("a", &[]));
    let matrix = Matrix::of(&base, &head);
    assert!(matrix.cells.is_empty() && matrix.failures.len() == 1);
    assert!(text::write(&matrix).contains("NOT COMPARED: HEAD has no such cell"));
}

#[test]
fn kept_results_read_back_and_damage_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.json");
    let one = side("a", &[("x", vec![result(7, 1, 2)])]);
    let text = kept::write(&one).unwrap();
    std::fs::write(&path, &text).unwrap();
    assert_eq!(kept::read(&path).unwrap(), one);
    for cut in [0, 1, text.len() / 2, text.len() - 3] {
        std::fs::write(&path, &text[..cut]).unwrap();
        let error = kept::read(&path).unwrap_err().to_string();
        assert!(error.contains("kept.json:"), "{error}");
    }
    std::fs::write(&path, text.replace("\"format\": 1", "\"format\": 9")).unwrap();
    assert!(kept::read(&path).unwrap_err().to_string().contains("format 9"));
}
