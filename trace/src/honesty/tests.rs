//! Good recordings are trusted, bad ones are not, and each reason is given with its number.

use std::path::Path;

use super::*;

fn report(path: &Path) -> Report {
    Report::of(&Recording::open(path).unwrap(), |_| true).unwrap()
}

fn bundled(name: &str) -> Report {
    report(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces").join(name))
}

fn of_text(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, text).unwrap();
    report(&path)
}

#[track_caller]
fn finds(report: &Report, grade: Grade, text: &str) {
    let found = report.verdicts.iter().any(|v| v.grade == grade && v.text.contains(text));
    assert!(found, "no {grade:?} with {text:?} in {:#?}", report.verdicts);
}

#[test]
fn a_complete_recording_is_trusted_and_its_sums_agree() {
    let report = bundled("build-6.18-2cpu");
    assert!(report.trusted(), "{:#?}", report.verdicts);
    // 53,409 and 35,434 events: the ring buffers' statistics in the same folder.
    assert_eq!(report.cpus.iter().map(|cpu| cpu.events).collect::<Vec<_>>(), [53_409, 35_434]);
    assert_eq!(report.kinds.iter().map(|kind| kind.events).sum::<u64>(), report.events);
    for kind in report.kinds.iter().filter(|kind| !kind.per_cpu.is_empty()) {
        assert_eq!(kind.per_cpu.iter().sum::<u64>(), kind.events, "{}", kind.name);
    }
    let all = report.reconciled.iter().find(|row| row.counter == "pgalloc (all)").unwrap();
    // vmstat of the folder: 91,503,286 - 91,474,030 in Normal, nothing elsewhere.
    assert_eq!((all.counted, all.traced), (29_256, report.pages.allocated));
    finds(&report, Grade::Good, "no loss");
}

#[test]
fn every_line_of_the_text_fits_100_columns() {
    for name in ["build-6.18-2cpu", "numa-6.1-8cpu-2node", "exit-6.18-2cpu"] {
        let text = bundled(name).text();
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        assert!(text.contains("This recording can"), "{text}");
    }
}

const ALLOC: &str = "pfn=0x10 order=0 migratetype=0 gfp_flags=GFP_KERNEL";

#[test]
fn losses_gaps_and_impossible_pages_are_reported() {
    let report = of_text(&format!(
        "# tracer: nop\n\
         a-1 [000] ..... 1.000001: mm_page_alloc: page=1 {ALLOC}\n\
         a-1 [000] ..... 1.000002: mm_page_alloc: page=1 {ALLOC}\n\
         CPU:1 [LOST 7 EVENTS]\n\
         a-1 [001] ..... 3.000000: mm_page_free: page=1 pfn=0x99 order=0\n\
         a-1 [000] ..... 4.000000: mm_page_alloc: page=(null) pfn=0x0 order=9 migratetype=1 \
         gfp_flags=GFP_TRANSHUGE\n\
         not a line at all\n\
         a-1 [000] dN.1. 4.000001: contention_begin: 00000000a373445a (flags=SPIN)\n\
         a-1 [000] dN.1. 4.000005: contention_end: 00000000a373445a (ret=0)\n"
    ));
    assert!(!report.trusted());
    finds(&report, Grade::Bad, "7 events were lost");
    finds(&report, Grade::Bad, "1 pages (50.00 %) are allocated while in use");
    finds(&report, Grade::Bad, "trace.txt: line 7");
    assert_eq!(report.pages.freed_never_seen, 1);
    assert_eq!((report.pages.failed_events, &report.failed_by_order[..]), (1, &[(9, 1)][..]));
    let cpu = &report.cpus[0];
    assert_eq!((cpu.gap_ns, cpu.gap_at_ns), (2_999_998_000, 1_000_002_000));
    let waits = &report.contention;
    assert_eq!((waits.matched, waits.wait_ns, waits.locks[0].0), (1, 4000, 0xa373_445a));
    assert!(report.text().contains("cannot be trusted because"), "{}", report.text());
}

#[test]
fn half_of_the_events_is_not_a_recording() {
    let report =
        of_text(&format!("# tracer: nop\na-1 [000] 1.000001: mm_page_alloc: page=1 {ALLOC}\n"));
    finds(&report, Grade::Bad, "not one mm_page_free");
    finds(&report, Grade::Care, "no snapshots");
}
