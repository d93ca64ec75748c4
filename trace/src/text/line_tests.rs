//! Lines of every tracer, taken from real output.

use super::*;
use crate::event::{PFN_NONE, compaction_place};

fn parse(line: &str) -> (Line, Pass) {
    let mut pass = Pass::default();
    let line = Parser::default().line(line.as_bytes(), &mut pass);
    (line, pass)
}

#[track_caller]
fn event(line: &str) -> Event {
    match parse(line).0 {
        Line::Event(event) => event,
        other => panic!("{line}: {other:?}"),
    }
}

const FIELDS: &str = "mm_page_alloc: page=00000000698a51a2 pfn=0x2393c9 order=0 migratetype=1 \
                      gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_ZERO";

#[track_caller]
fn check_head(head: &str, comm: &str, pid: i32, cpu: u16, time_ns: u64, context: u8) {
    let line = format!("{head}{FIELDS}");
    let (parsed, pass) = parse(&line);
    let Line::Event(event) = parsed else { panic!("{line}: {parsed:?}") };
    assert_eq!((event.pid, event.cpu, event.time_ns), (pid, cpu, time_ns), "{line}");
    assert_eq!(event.context, Context(context), "{line}");
    let gfp = Gfp::HIGHUSER_MOVABLE.union(Gfp::ZERO);
    assert_eq!(event.kind, Kind::PageAlloc { pfn: 0x2393c9, order: 0, migratetype: 1, gfp });
    let mut pass = pass;
    pass.comm(i32::MIN, b"");
    let mut expected = Pass::default();
    expected.comm(pid, comm.as_bytes());
    expected.comm(i32::MIN, b"");
    assert_eq!(format!("{pass:?}").len(), format!("{expected:?}").len());
    assert!(format!("{pass:?}").contains(&format!("{comm:?}")), "{pass:?}");
}

#[test]
fn ftrace_lines_of_every_width_are_read() {
    let time = 1_588_171_218_000;
    check_head(
        "       record.sh-24214   [001] .....  1588.171218: ",
        "record.sh",
        24214,
        1,
        time,
        0,
    );
    check_head(
        "       record.sh-24214   [001] d..3   1588.171218: ",
        "record.sh",
        24214,
        1,
        time,
        1,
    );
    check_head("       record.sh-24214   [001]  1588.171218: ", "record.sh", 24214, 1, time, 0);
    check_head(
        "          <idle>-0       [130] dNH3.  1588.171218: ",
        "<idle>",
        0,
        130,
        time,
        0b10_0111,
    );
    check_head(
        "            bash-12      (     12) [001] ..s1.  1588.171218: ",
        "bash",
        12,
        1,
        time,
        4,
    );
    check_head(
        "            bash-12      (-------) [001] ..s1.  1588.171218: ",
        "bash",
        12,
        1,
        time,
        4,
    );
}

#[test]
fn names_with_blanks_brackets_and_dashes_are_read() {
    let time = 1_588_171_218_000;
    check_head(
        "  a-1 [2] b (3)-24214   [001] .....  1588.171218: ",
        "a-1 [2] b (3)",
        24214,
        1,
        time,
        0,
    );
    check_head("   kworker/u4:1-7       [001] .....  1588.171218: ", "kworker/u4:1", 7, 1, time, 0);
}

#[test]
fn perf_and_trace_cmd_lines_are_read() {
    let time = 1_641_020_811_000;
    check_head(
        "            perf  7878 [001]  1641.020811:             kmem:",
        "perf",
        7878,
        1,
        time,
        0,
    );
    check_head("  perf 7878/7879  [001]  1641.020811:   kmem:", "perf", 7879, 1, time, 0);
    check_head(
        "   tokio worker  7878 [001]  1641.020811123:   kmem:",
        "tokio worker",
        7878,
        1,
        time + 123,
        0,
    );
    check_head("             :-1    -1 [000]  1641.020811:   kmem:", ":-1", -1, 0, time, 0);
    check_head("            perf-7878  [001]  1641.020811: ", "perf", 7878, 1, time, 0);
}

#[test]
fn a_failed_allocation_has_no_page() {
    let head = "  a-1  [001] .....  1.000001: mm_page_alloc:";
    let rest = "order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE";
    for page in ["page=(null) pfn=0x0", "page=0000000000000000 pfn=0x0", "page=(nil) pfn=0"] {
        let Kind::PageAlloc { pfn, .. } = event(&format!("{head} {page} {rest}")).kind else {
            panic!()
        };
        assert_eq!(pfn, PFN_NONE, "{page}");
    }
    let Kind::PageAlloc { pfn, .. } =
        event(&format!("{head} page=(____ptrval____) pfn=0x0 {rest}")).kind
    else {
        panic!()
    };
    assert_eq!(pfn, 0);
}

#[test]
fn every_page_event_is_read() {
    let head = "  a-1  [001] .....  1.000001: ";
    let kind = |text: &str| event(&format!("{head}{text}")).kind;
    assert_eq!(kind("mm_page_free: page=00 pfn=5 order=3"), Kind::PageFree { pfn: 5, order: 3 });
    assert_eq!(
        kind("mm_page_free_batched: page=1 pfn=0xa order=0"),
        Kind::PageFreeBatched { pfn: 10 }
    );
    assert_eq!(
        kind("mm_page_alloc_zone_locked: page=1 pfn=0xa order=2 migratetype=1 percpu_refill=1"),
        Kind::ZoneLocked { pfn: 10, order: 2, migratetype: 1, percpu_refill: true }
    );
    assert_eq!(
        kind("mm_page_pcpu_drain: page=1 pfn=0xa order=2 migratetype=2"),
        Kind::PcpuDrain { pfn: 10, order: 2, migratetype: 2 }
    );
    assert_eq!(
        kind(
            "mm_page_alloc_extfrag: page=1 pfn=0xa alloc_order=0 fallback_order=10 \
             pageblock_order=9 \
              alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=1"
        ),
        Kind::Extfrag {
            pfn: 10,
            alloc_order: 0,
            fallback_order: 10,
            alloc_migratetype: 0,
            fallback_migratetype: 1,
            change_ownership: true
        }
    );
    assert_eq!(
        kind("contention_begin: 00000000a373445a (flags=SPIN|WRITE)"),
        Kind::ContentionBegin { lock: 0xa373445a, flags: 5 }
    );
    assert_eq!(
        kind("contention_end: (____ptrval____) (ret=-11)"),
        Kind::ContentionEnd { lock: 0, ret: -11 }
    );
    assert_eq!(
        kind("contention_begin:      lock_addr=0xffff88863ffd6b08 flags=5"),
        Kind::ContentionBegin { lock: 0xffff_8886_3ffd_6b08, flags: 5 }
    );
    assert_eq!(
        kind("contention_end:      lock_addr=0x10 ret=-4"),
        Kind::ContentionEnd { lock: 16, ret: -4 }
    );
    assert_eq!(kind("sched_switch: prev_comm=x"), Kind::Other);
}

#[test]
fn reclaim_events_keep_node_and_value() {
    let head = "  a-1  [001] .....  1.000001: mm_vmscan_";
    let kind = |text: &str| event(&format!("{head}{text}")).kind;
    let reclaim = |id, node, value| Kind::Reclaim { id, node, value };
    assert_eq!(kind("kswapd_wake: nid=1 order=9"), reclaim(0, 1, 9));
    assert_eq!(kind("kswapd_sleep: nid=1"), reclaim(1, 1, 0));
    assert_eq!(kind("wakeup_kswapd: nid=2 order=3 gfp_flags=GFP_KERNEL"), reclaim(2, 2, 3));
    assert_eq!(kind("direct_reclaim_begin: order=4 gfp_flags=GFP_KERNEL"), reclaim(3, 0, 4));
    assert_eq!(kind("direct_reclaim_end: nr_reclaimed=32"), reclaim(4, 0, 32));
    assert_eq!(kind("lru_isolate: isolate_mode=0 order=0"), Kind::Other);
}

#[test]
fn compaction_events_keep_place_and_result() {
    let head = "  a-1  [001] .....  1.000001: mm_compaction_";
    let kind = |text: &str| match event(&format!("{head}{text}")).kind {
        Kind::Compaction { id, a, b } => (crate::event::COMPACTION_EVENTS[id as usize], a, b),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        kind("finished: node=1 zone=Normal   order=9 ret=no_suitable_page"),
        ("mm_compaction_finished", compaction_place(1, 2, 9), 3)
    );
    assert_eq!(
        kind(
            "end: zone_start=0x1000 migrate_pfn=0x2 free_pfn=0x3 zone_end=0x4, \
             mode=sync status=success"
        ),
        ("mm_compaction_end", 0x1000, 8)
    );
    assert_eq!(
        kind("isolate_freepages: range=(0x1 ~ 0x2) nr_scanned=7 nr_taken=5"),
        ("mm_compaction_isolate_freepages", 7, 5)
    );
    assert_eq!(
        kind("defer_compaction: node=0 zone=DMA32    order=9 order_failed=9 consider=1 limit=4"),
        ("mm_compaction_defer_compaction", compaction_place(0, 1, 9), 2 << 32 | 1)
    );
}

#[test]
fn losses_are_counted_by_cpu() {
    let (line, pass) = parse("CPU:3 [LOST 120 EVENTS]");
    assert_eq!(
        (line, pass.lost.total(), pass.lost.per_cpu.get(&3)),
        (Line::Nothing, 120, Some(&120))
    );
    assert_eq!(parse("CPU:3 [LOST EVENTS]").1.lost.uncounted, 1);
    assert_eq!(parse("rd: CPU:0 [7 EVENTS DROPPED]").1.lost.per_cpu.get(&0), Some(&7));
    assert_eq!(parse("CPU:0 [7 EVENTS DROPPED]").1.lost.total(), 7);
    assert_eq!(parse("# entries-in-buffer/entries-written: 10/17   #P:2").1.lost.elsewhere, 7);
}

#[test]
fn damaged_lines_are_told_from_blank_ones() {
    for line in
        ["", "# comment", "##### CPU 1 buffer started ####", " => do_anonymous_page", "cpus=2"]
    {
        assert_eq!(parse(line).0, Line::Nothing, "{line}");
    }
    let head = "  a-1  [001] .....  1.000001: ";
    for line in [
        "hello".to_string(),
        format!("{head}mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=1"),
        format!("{head}mm_page_free: page=1 pfn=0xzz order=0"),
        format!("{head}mm_page_free: page=1 pfn=0x1 order=300"),
        head.to_string(),
    ] {
        assert!(matches!(parse(&line).0, Line::Bad(_)), "{line}");
    }
}
