//! Real files of every format, each compared with what its own tool prints for it.
//!
//! `small*`: an instance of a kernel 6.18 recorded with small buffers (events were overwritten),
//! extracted, stripped of foreign event formats and converted by trace-cmd 3.1.6; the reports are
//! trace-cmd's of the same file, `small.trace.txt` the kernel's own text. `perf-*`: `perf record`
//! 6.1 into a file, compressed, and into a pipe; the scripts are `perf script`'s.

use std::path::PathBuf;

use pageyard_trace::event::{Context, Event, Gfp, Kind};
use pageyard_trace::reader::EventReader;
use pageyard_trace::recording::Recording;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

fn read(name: &str) -> (Vec<Event>, EventReader, Recording) {
    let recording = Recording::open(data(name)).unwrap();
    let mut reader = recording.events().unwrap();
    let (mut events, mut block) = (Vec::new(), Vec::new());
    while reader.read_block(&mut block).unwrap() {
        events.extend_from_slice(&block);
    }
    (events, reader, recording)
}

/// What every printed form of an event holds: no interrupt state, hashed lock addresses, times to
/// the microsecond (rounded, or cut by perf), flags without what a name implies.
fn printed(event: &Event) -> (u16, i32, Kind) {
    let kind = match event.kind {
        Kind::PageAlloc { pfn, order, migratetype, gfp } => {
            // 6.7 made __GFP_NOWARN part of GFP_NOWAIT: text does not say it.
            let gfp = Gfp(gfp.0 & !Gfp::NOWARN.0);
            Kind::PageAlloc { pfn, order, migratetype, gfp }
        }
        Kind::ContentionBegin { flags, .. } => Kind::ContentionBegin { lock: 0, flags },
        Kind::ContentionEnd { ret, .. } => Kind::ContentionEnd { lock: 0, ret },
        // Text names no sync mode and begins in another order; place and result are the same.
        kind => kind,
    };
    (event.cpu, event.pid, kind)
}

#[track_caller]
fn check_same(binary: &str, text: &str) {
    let (events, reader, _) = read(binary);
    let (expected, text_reader, _) = read(text);
    assert!(reader.damage().is_empty(), "{binary}: {:?}", reader.damage());
    assert!(text_reader.damage().is_empty(), "{text}: {:?}", text_reader.damage());
    assert_eq!(events.len(), expected.len(), "{binary}, {text}");
    for (index, (event, expected)) in events.iter().zip(&expected).enumerate() {
        assert_eq!(printed(event), printed(expected), "{binary}, {text}: event {index}");
        assert!(event.time_ns.abs_diff(expected.time_ns) < 1000, "{binary}, {text}: event {index}");
        let comm = reader.comm(event.pid);
        assert!(comm.is_some(), "{binary}: event {index} of pid {}", event.pid);
    }
}

#[test]
fn trace_dat_of_both_versions_equals_the_report_of_trace_cmd() {
    for binary in ["small-v6.dat.zst", "small-v7-plain.dat.xz", "small-v7-zstd.dat"] {
        check_same(binary, "small.report.txt.zst");
    }
}

#[test]
fn trace_dat_equals_the_text_of_the_kernel_itself() {
    let (events, _, _) = read("small-v6.dat.zst");
    let (expected, text, _) = read("small.trace.txt.zst");
    assert!(text.damage().is_empty(), "{:?}", text.damage());
    assert_eq!(events.len(), expected.len());
    for (event, expected) in events.iter().zip(&expected) {
        assert_eq!((printed(event), event.context), (printed(expected), expected.context));
        // The kernel prints microseconds, rounded.
        assert_eq!((event.time_ns + 500) / 1000, expected.time_ns / 1000);
    }
    assert!(events.iter().any(|event| event.context.0 & Context::IRQS_OFF != 0));
}

#[test]
fn trace_dat_equals_the_raw_report_to_the_nanosecond() {
    let (events, _, _) = read("small-v7-zstd.dat");
    let (expected, text, _) = read("small.report-raw.txt.gz");
    assert!(text.damage().is_empty(), "{:?}", text.damage());
    assert_eq!(events.len(), expected.len());
    for (event, expected) in events.iter().zip(&expected) {
        assert_eq!(event.time_ns, expected.time_ns);
        if let (Kind::PageAlloc { gfp, .. }, Kind::PageAlloc { gfp: raw, .. }) =
            (event.kind, expected.kind)
        {
            // Raw text has numbers and no table: they are kept apart, never guessed.
            assert!(raw.has_unknown() && !gfp.has_unknown());
        } else {
            assert_eq!(event.kind, expected.kind);
        }
    }
}

#[test]
fn losses_are_those_that_the_tools_print() {
    // trace-cmd: `CPU:1 [3522 EVENTS DROPPED]` and `CPU:0 [EVENTS DROPPED]` without a number.
    for name in ["small-v6.dat.zst", "small-v7-zstd.dat", "small.report.txt.zst"] {
        let (_, reader, _) = read(name);
        let lost = reader.lost();
        assert_eq!((lost.per_cpu.get(&1), lost.uncounted), (Some(&3522), 1), "{name}");
    }
    // The buffers' own statistics count both CPUs: 3522 and 4553.
    let (_, _, recording) = read("small-v6.dat.zst");
    let lost: u64 = recording.ring_stats.iter().map(|stats| stats.lost()).sum();
    assert_eq!(lost, 3522 + 4553);
    let (_, reader, _) = read("small.trace.txt.zst");
    assert_eq!(reader.lost().total(), 3522 + 4553);
}

#[test]
fn the_head_of_a_file_names_its_kernel() {
    for name in ["small-v6.dat.zst", "small-v7-plain.dat.xz", "small-v7-zstd.dat"] {
        let recording = Recording::open(data(name)).unwrap();
        assert_eq!(recording.kernel(), Some("6.18.44-fc-v657"), "{name}");
        assert_eq!(recording.ring_stats.len(), 2, "{name}");
    }
    for name in ["perf-p.data.zst", "perf-pz.data.zst"] {
        let recording = Recording::open(data(name)).unwrap();
        assert_eq!(recording.kernel(), Some("6.18.44-fc-v657"), "{name}");
    }
}

#[test]
fn perf_data_equals_the_output_of_perf_script() {
    check_same("perf-p.data.zst", "perf-p.script.txt.zst");
    check_same("perf-pz.data.zst", "perf-pz.script.txt.zst");
    check_same("perf-pipe.data.gz", "perf-pipe.script.txt.zst");
}
