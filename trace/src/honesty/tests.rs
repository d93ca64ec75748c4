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

#[test]
fn a_real_kernels_free_lists_agree_to_the_page_and_one_page_more_is_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/udpfraction5000-6.18-2cpu");
    let mut recording = Recording::open(folder).unwrap();
    let report = Report::of(&recording, |_| true).unwrap();
    let events = |name: &str| report.kinds.iter().find(|kind| kind.name == name).unwrap().events;
    // Much moved, both ways, and what remains is not nothing.
    assert!(events("mm_page_alloc_zone_locked") > 1000 && events("mm_page_pcpu_drain") > 1000);
    let zones = &report.free_lists.as_ref().unwrap().zones;
    assert_eq!(zones.iter().map(|zone| zone.unseen()).collect::<Vec<_>>(), [0, 0, 0]);
    let zone = zones.iter().find(|zone| zone.zone.as_deref() == Some("Normal")).unwrap();
    assert_ne!(zone.counted, 0);
    finds(&report, Grade::Good, "the free lists changed by exactly what the events say");
    assert!(report.text().lines().all(|line| line.chars().count() <= 100));

    let rows = &mut recording.after.as_mut().unwrap().buddyinfo.as_mut().unwrap().rows;
    rows.last_mut().unwrap().blocks[0] += 1;
    let report = Report::of(&recording, |_| true).unwrap();
    finds(&report, Grade::Care, "1 page joined the free lists without an event");
    assert!(report.trusted() && !report.verdicts.iter().any(|v| v.text.contains("exactly")));
}

/// A recording of one zone, pages 0x1000 to 0x8fff, with what the kernel counted at its end: free
/// blocks by order, of which there were 100 each at first, and pages freed. Each event is
/// `microsecond` and the rest of a line; readings are at 10 to 11 (vmstat), 12 to 13 (buddyinfo)
/// and 80 to 81, 82 to 83.
fn counted(
    kernel: &str,
    events: &[(u32, &str)],
    free: [u64; 11],
    pgfree: u64,
) -> (tempfile::TempDir, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let line = |time: u32, event: &str| format!("a-1 [000] ..... 0.{time:06}: {event}\n");
    let mut trace = format!(
        "# tracer: nop\n{}{}",
        line(1, &format!("mm_page_alloc: page=1 {ALLOC}")),
        line(2, FREE)
    );
    events.iter().for_each(|(time, event)| trace.push_str(&line(*time, event)));
    write("trace.txt", &(trace + &line(90, DRAIN)));
    write("kernel", kernel);
    let mut times = String::new();
    for (file, begin) in [("vmstat.before", 10), ("buddyinfo.before", 12)]
        .into_iter()
        .chain([("vmstat.after", 80), ("buddyinfo.after", 82)])
    {
        times.push_str(&format!("{file} 0 9 {begin}000 {}000\n", begin + 1));
    }
    write("snapshots", &times);
    for (when, free, pgfree) in [("before", [100; 11], 1000), ("after", free, 1000 + pgfree)] {
        let free: Vec<String> = free.iter().map(u64::to_string).collect();
        write(&format!("buddyinfo.{when}"), &format!("Node 0, zone Normal {}\n", free.join(" ")));
        write(&format!("vmstat.{when}"), &format!("pgfree {pgfree}\n"));
    }
    let zone = "Node 0, zone   Normal\n  pages free     9\n        spanned  32768\n        \
                present  32768\n        managed  32768\n  start_pfn:           4096\n";
    write("zoneinfo.before", zone);
    let recording = Recording::open(folder.path()).unwrap();
    (folder, recording)
}

fn of_counted(kernel: &str, events: &[(u32, &str)], free: [u64; 11], pgfree: u64) -> Report {
    let (_folder, recording) = counted(kernel, events, free, pgfree);
    Report::of(&recording, |_| true).unwrap()
}

/// 100 free blocks of each order, but for one.
fn with(order: usize, blocks: u64) -> [u64; 11] {
    let mut free = [100; 11];
    free[order] = blocks;
    free
}

const FREE: &str = "mm_page_free: page=1 pfn=0x1000 order=0";
const FREE_2: &str = "mm_page_free: page=1 pfn=0x1004 order=2";
const FREE_4: &str = "mm_page_free: page=1 pfn=0x1010 order=4";
const TAKE: &str = "mm_page_alloc_zone_locked: page=1 pfn=0x1000 order=0 migratetype=0 \
                    percpu_refill=1";
const TAKE_2: &str = "mm_page_alloc_zone_locked: page=1 pfn=0x1004 order=2 migratetype=0 \
                      percpu_refill=1";
const DRAIN: &str = "mm_page_pcpu_drain: page=1 pfn=0x1001 order=0 migratetype=0";
const STEAL: &str = "mm_page_alloc_extfrag: page=1 pfn=0x1004 alloc_order=2 fallback_order=9 \
                     pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 \
                     change_ownership=1";

#[test]
fn with_all_events_there_the_free_lists_agree() {
    // -1 -4 +1 +16, and 21 pages freed; before the readings and after them more happens.
    let events =
        [(5, TAKE), (20, TAKE), (21, FREE), (30, TAKE_2), (40, DRAIN), (50, FREE_4), (51, FREE_2)];
    let report = of_counted("6.18.1", &[&events[..], &[(85, TAKE)]].concat(), with(0, 112), 21);
    let lists = report.free_lists.as_ref().unwrap();
    assert_eq!((lists.zones[0].counted, lists.zones[0].traced), (12, 12));
    assert_eq!(
        (lists.largest_pages, lists.compaction, report.freed_unseen),
        (1024, false, Some(0))
    );
    finds(&report, Grade::Good, "the free lists changed by exactly what the events say");
    assert!(report.text().contains("node 0 Normal                          12               12"));
    // Before 5.14 only single pages went to per-CPU lists: the free of 4 pages counts, too.
    let report = of_counted("5.10.0", &events, with(0, 116), 21);
    finds(&report, Grade::Good, "the free lists changed by exactly what the events say");
}

#[test]
fn withheld_events_are_found_to_the_page_and_the_recording_stays_trusted() {
    let events = [(20, TAKE), (30, DRAIN), (40, FREE)];
    let report = of_counted("6.18.1", &events, with(2, 85), 26);
    assert_eq!(report.free_lists.as_ref().unwrap().unseen(), (60, 0));
    finds(&report, Grade::Care, "25 pages were freed without an event: some task's events");
    finds(&report, Grade::Care, "60 pages left the free lists without an event: a CPU's list was");
    assert!(report.trusted(), "{:#?}", report.verdicts);
    assert!(report.text().contains("with care at"), "{}", report.text());
    let report = of_counted("6.18.1", &events, with(10, 132), 1);
    finds(&report, Grade::Care, "32,768 pages joined the free lists without an event: 32 of the");
}

#[test]
fn what_happens_while_a_counter_is_read_proves_nothing() {
    // Read at 12 to 13: the taking may be in the first count or not.
    for blocks in [99, 100] {
        let report =
            of_counted("6.18.1", &[(12, TAKE), (40, DRAIN), (41, TAKE)], with(0, blocks), 0);
        finds(&report, Grade::Good, "the free lists changed by exactly");
    }
    let report = of_counted("6.18.1", &[(80, FREE), (40, DRAIN), (41, TAKE)], [100; 11], 2);
    assert_eq!(report.freed_unseen, Some(1));
}

#[test]
fn a_fallback_counts_once() {
    let taken = |kernel: &str, events: &[(u32, &str)]| {
        let events = [events, &[(60, TAKE), (61, DRAIN)]].concat();
        of_counted(kernel, &events, [100; 11], 0).free_lists.unwrap().zones[0].traced
    };
    // 6.10 on: a claim takes from its own lists and then says so; else the fallback alone is said.
    assert_eq!(taken("6.18.1", &[(30, TAKE_2), (30, STEAL)]), -4);
    assert_eq!(taken("6.18.1", &[(30, STEAL)]), -4);
    assert_eq!(taken("6.18.1", &[(30, TAKE_2), (31, FREE), (40, STEAL)]), -8);
    // Before, every fallback moves pages first and is followed by a taking.
    assert_eq!(taken("6.1.0", &[(30, STEAL), (30, TAKE_2)]), -4);
}

#[test]
fn what_cannot_be_told_is_not_said() {
    let events = [(20, TAKE), (30, DRAIN)];
    // A page of no known zone: one row for all.
    let far = "mm_page_pcpu_drain: page=1 pfn=0x99999 order=0 migratetype=0";
    let report = of_counted("6.18.1", &[&events[..], &[(40, far)]].concat(), with(0, 101), 0);
    let lists = report.free_lists.unwrap();
    assert_eq!((lists.zones.len(), &lists.zones[0].zone, lists.zones[0].unseen()), (1, &None, 0));
    // Nobody says when the snapshots were read, or which orders are cached.
    let (_folder, mut recording) = counted("6.18.1", &events, with(0, 50), 25);
    recording.read_times.clear();
    let report = Report::of(&recording, |_| true).unwrap();
    assert_eq!((report.free_lists, report.freed_unseen), (None, None));
    assert_eq!(of_counted("unknown", &events, with(0, 50), 0).free_lists, None);
    // Refills were not recorded.
    assert_eq!(of_counted("6.18.1", &[(30, DRAIN)], with(0, 50), 0).free_lists, None);
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
