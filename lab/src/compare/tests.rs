//! Small cases of the arithmetic and the sentences, and whole replays of a small recording.

use std::path::PathBuf;

use pageyard::preset;
use pageyard_trace::recording::Recording;

use super::fail_if::{ExpressionError, FailIf};
use super::fair;
use super::measure::Measure;
use super::metrics::{self, Change, Verdict};
use super::reason::{self, Facts};
use super::report;
use super::result::Comparison;
use super::run::{self, Question};
use crate::named::NamedPolicy;
use crate::twin::infer::Twin;
use crate::twin::replay::{Placement, Replay};

fn bundled(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../traces").join(name)
}

fn twin(name: &str) -> Twin {
    let recording = Recording::open(bundled(name)).expect("a bundled recording");
    let kernel = NamedPolicy::for_kernel(recording.kernel().expect("it says")).expect("a preset");
    Twin::of(recording, kernel.policy).expect("it has a twin")
}

fn change(metric: &str, base: &Measure, head: &Measure) -> Change {
    let metrics = metrics::all(1);
    let metric = metrics.iter().find(|known| known.name == metric).expect("a known metric");
    metric.compare(&[base], &[head])
}

fn measure(fill: impl FnOnce(&mut Measure)) -> Measure {
    let mut measure = Measure::default();
    fill(&mut measure);
    measure
}

#[test]
fn a_change_is_judged_by_the_way_its_metric_should_go() {
    let base = measure(|m| m.totals.refills = 100);
    let fewer = measure(|m| m.totals.refills = 90);
    let almost = measure(|m| m.totals.refills = 1000);
    let nearly = measure(|m| m.totals.refills = 1009);
    assert_eq!(change("refills", &base, &fewer).verdict, Verdict::Better);
    assert_eq!(change("refills", &fewer, &base).verdict, Verdict::Worse);
    assert_eq!(change("refills", &almost, &nearly).verdict, Verdict::Same);
    assert_eq!(change("refills", &base, &fewer).change_pct, Some(-10.0));
    let larger = |pages| measure(|m| (m.totals.refills, m.totals.refilled_pages) = (2, pages));
    let mean = change("refill_pages_mean", &larger(10), &larger(20));
    assert_eq!((mean.base, mean.head), (Some(5.0), Some(10.0)));
    assert_eq!(mean.verdict, Verdict::Differs);
}

#[test]
fn a_change_from_zero_has_no_per_cent_but_breaks_every_upper_bound() {
    let head = measure(|m| m.totals.fallbacks = 1);
    let change = change("fallbacks", &Measure::default(), &head);
    assert_eq!((change.change_pct, change.from_zero), (None, true));
    assert_eq!(change.verdict, Verdict::Worse);
    let bound = FailIf::parse("fallbacks>1000%").expect("an expression");
    assert_eq!(bound.violated_by(&[change]), Some(true));
}

#[test]
fn merges_without_recorded_positions_have_no_value() {
    let with = measure(|m| m.merges = Some(7));
    let without = measure(|m| m.totals.merges = 7);
    assert_eq!(change("merges", &without, &without).verdict, Verdict::Unknown);
    assert_eq!(change("merges", &with, &with).base, Some(7.0));
}

#[test]
fn positions_are_known_only_where_kpageflags_was_recorded() {
    let policy = preset::find("linux-6.18").expect("a preset");
    for (name, known) in [("udpstream-6.18-2cpu", false), ("exit1g-6.18-2cpu", true)] {
        let measure = Measure::of(&twin(name), policy).expect("readable");
        assert_eq!(measure.merges.is_some(), known, "{name}");
        assert_eq!(measure.splits.is_some(), known, "{name}");
    }
}

#[test]
fn a_hit_that_needed_a_refill_is_none() {
    let m = measure(|m| {
        m.totals.pcp_hits = 100;
        m.totals.refills = 12;
        m.totals.refills_empty = 2;
        m.totals.direct_allocs = 20;
    });
    assert_eq!(metrics::free_hits(&m), 90);
    assert_eq!(change("pcp_hit_pct", &m, &m).base, Some(75.0));
}

#[test]
fn means_over_recordings_are_weighted_and_worst_cases_are_kept() {
    let one = measure(|m| {
        (m.totals.drains, m.totals.drained_pages, m.totals.hold_pages_max) = (1, 100, 100);
    });
    let other = measure(|m| {
        (m.totals.drains, m.totals.drained_pages, m.totals.hold_pages_max) = (9, 90, 10);
    });
    let value = |name: &str| {
        let metrics = metrics::all(1);
        let metric = metrics.iter().find(|known| known.name == name).expect("known");
        metric.value(&[&one, &other])
    };
    assert_eq!(value("drain_pages_mean"), Some(19.0));
    assert_eq!(value("hold_pages_max"), Some(100.0));
}

#[test]
fn the_reason_names_what_moved_most() {
    let base = measure(|m| {
        (m.totals.refills, m.totals.refilled_pages) = (10, 630);
        m.totals.hold_pages = 630;
    });
    let head = measure(|m| {
        (m.totals.refills, m.totals.refilled_pages) = (12, 756);
        m.totals.hold_pages = 756 + 8200;
        (m.totals.drains, m.totals.drained_pages) = (41, 8200);
        (m.totals.free_high_drains, m.totals.free_high_pages) = (41, 8200);
    });
    let facts = (Facts::of(&[&base]), Facts::of(&[&head]));
    let why = |metric: &str| reason::sentence(metric, &facts.0, &facts.1).expect("a reason");
    assert_eq!(
        why("zone_locks"),
        "BASE never has free_high drains; HEAD has 41, of 200 pages each"
    );
    assert_eq!(
        why("free_high_drains"),
        "a run of order-1 to 3 frees drained a cache: BASE never; HEAD 41 times, 200 pages each"
    );
    assert_eq!(reason::sentence("zone_locks", &facts.0, &facts.0), None);
}

#[test]
fn expressions_are_read_or_refused_with_the_reason() {
    let verdict = |text: &str, base: u64, head: u64| {
        let (base, head) =
            (measure(|m| m.totals.refills = base), measure(|m| m.totals.refills = head));
        let bound = FailIf::parse(text).unwrap_or_else(|error| panic!("{error}"));
        bound.violated_by(&[change("refills", &base, &head)])
    };
    assert_eq!(verdict("refills>5%", 100, 106), Some(true));
    assert_eq!(verdict("refills > 5 %", 100, 105), Some(false));
    assert_eq!(verdict("refills<-5%", 100, 90), Some(true));
    assert_eq!(verdict("abs(refills)>5%", 100, 90), Some(true));
    assert_eq!(verdict("abs refills>5%", 100, 98), Some(false));
    for text in ["refills", "", ">5%", "refills=5%"] {
        assert_eq!(FailIf::parse(text), Err(ExpressionError::Form(text.to_string())));
    }
    for text in ["refills>5", "refills>x%", "refills>%", "refills>inf%"] {
        let error = FailIf::parse(text).expect_err("no limit");
        assert!(matches!(error, ExpressionError::Limit(..)), "{error}");
    }
    let error = FailIf::parse("refils>5%").expect_err("no metric").to_string();
    assert!(error.contains("did you mean refills"), "{error}");
}

#[test]
fn the_same_policy_measured_twice_gives_the_same_figures() {
    let twin = twin("udplimit-6.18-2cpu");
    let policy = preset::find("linux-5.18").expect("a preset");
    let once = Measure::of(&twin, policy).expect("readable");
    let again = Measure::of(&twin, policy).expect("readable");
    assert_eq!(once, again);
    assert!(once.totals.pcp_hits > 10_000, "it replays something: {:?}", once.totals);
    for metric in metrics::all(1) {
        let change = metric.compare(&[&once], &[&again]);
        assert!(change.change_pct.unwrap_or(0.0) == 0.0 && !change.from_zero, "{change:?}");
    }
}

#[test]
fn between_the_passes_memory_in_use_and_caches_come_back() {
    let twin = twin("exit-6.18-2cpu");
    for name in ["linux-4.19", "linux-5.18", "linux-6.18"] {
        let policy = preset::find(name).expect("a preset");
        let (world, history) = (&twin.world, &twin.history);
        let own = Placement::Own;
        let recording = &twin.recording;
        let mut replay = Replay::new(recording, world, history, policy, own, &twin.assumptions);
        fair::cut_caches(&replay, &twin);
        twin.each_event(|event| replay.on_event(event)).expect("readable");
        let cached = fair::cached_pages(&replay, &twin);
        let freed_by = fair::first_freed_by(&twin).expect("readable");
        let done = fair::reconcile(&mut replay, &twin, &freed_by);
        assert!(done.freed > 0 && done.allocated > 0, "{name}: {done:?}");
        assert_eq!(done.failed, 0, "{name}: {done:?}");
        let mut then: Vec<u64> = twin.history.in_use.iter().map(|&(pfn, ..)| pfn).collect();
        then.sort_unstable();
        let now: Vec<u64> = replay.names().map(|(pfn, _)| pfn).collect();
        assert_eq!(now, then, "{name}");
        assert_eq!(fair::cached_pages(&replay, &twin), cached, "{name}");
    }
}

#[test]
fn caches_start_within_the_limit_of_the_policy() {
    let twin = twin("udpstream-6.18-2cpu");
    let policy = preset::find("linux-5.17").expect("a preset");
    let (recording, world) = (&twin.recording, &twin.world);
    let own = Placement::Own;
    let replay = Replay::new(recording, world, &twin.history, policy, own, &twin.assumptions);
    let recorded = fair::cached_pages(&replay, &twin);
    let cut = fair::cut_caches(&replay, &twin);
    assert!(cut > 0, "this 6.18 holds more than 5.17 allows");
    assert_eq!(fair::cached_pages(&replay, &twin) + cut, recorded);
    for zone in 0..world.zones.len() {
        for cpu in 0..world.cpus() as u16 {
            let (count, high) = Twin::cache_of(&replay, zone, cpu);
            assert_eq!(high, world.limits(zone, &policy).2);
            assert!(count <= high, "cpu {cpu} holds {count} of {high}");
        }
    }
}

#[test]
fn the_report_fits_its_columns_and_names_what_could_not_be_read() {
    let question = Question {
        base: NamedPolicy::parse("linux-4.19").expect("a preset"),
        head: NamedPolicy::parse("linux-6.19").expect("a preset"),
        kernel: None,
    };
    let paths = [bundled("udpstream-6.18-2cpu"), bundled("nowhere")];
    let results = run::over(&paths, &question, &|_| {});
    let comparison = Comparison::of(question, &paths, results);
    assert_eq!((comparison.cases.len(), comparison.failures.len()), (1, 1));
    let text = report::write(&comparison);
    for line in text.lines() {
        assert!(line.chars().count() <= report::COLUMNS, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    assert!(text.contains("NOT COMPARED"), "{text}");
    assert!(text.contains("Helps   udpstream-6.18-2cpu"), "{text}");
}
