//! What is written is read back as the same events, and a tool of others opens it.

use std::path::{Path, PathBuf};
use std::process::Command;

use pageyard_trace::convert::{self, Filter, Target};
use pageyard_trace::event::{Event, Kind};
use pageyard_trace::recording::Recording;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

fn bundled(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../traces")).join(name)
}

fn events(path: &Path) -> (Vec<Event>, u64) {
    let recording = Recording::open(path).unwrap();
    let mut reader = recording.events().unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.read_block(&mut block).unwrap() {
        all.extend(block.iter().filter(|event| event.kind != Kind::Other));
    }
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    let ring: u64 = recording.ring_stats.iter().map(|stats| stats.lost()).sum();
    (all, reader.lost().total().max(ring))
}

fn write(input: &Path, out: &Path, filter: &Filter) -> convert::Summary {
    let target = Target::of(out, 3).unwrap();
    convert::write(&Recording::open(input).unwrap(), out, target, filter, |_| true).unwrap()
}

#[test]
fn every_written_form_is_read_back_as_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let input = data("small-v7-zstd.dat");
    let (expected, _) = events(&input);
    for name in ["a.txt", "b.txt.zst", "c.txt.gz", "d.dat", "e.dat.zst"] {
        let out = folder.path().join(name);
        let summary = write(&input, &out, &Filter::default());
        assert_eq!((summary.written, summary.left_out), (expected.len() as u64, 1), "{name}");
        let (found, lost) = events(&out);
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            // A trace.dat may move an event by nanoseconds to keep the order of equal times.
            assert!(found.time_ns.abs_diff(expected.time_ns) < 100, "{name}");
            assert_eq!(Event { time_ns: 0, ..*found }, Event { time_ns: 0, ..*expected }, "{name}");
        }
        // 3522 events that the pages mark as lost on CPU 1; CPU 0 has a mark without a number.
        assert_eq!(lost, 3522, "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 5, "only what was asked for is left behind");
}

#[test]
fn text_with_equal_times_keeps_its_order_as_trace_dat() {
    let folder = tempfile::tempdir().unwrap();
    let input = bundled("udplimit-6.18-2cpu");
    let out = folder.path().join("out.dat");
    write(&input, &out, &Filter::default());
    let ((expected, _), (found, _)) = (events(&input), events(&out));
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!((found.cpu, found.kind), (expected.cpu, expected.kind), "event {index}");
    }
}

#[test]
fn a_cut_keeps_the_asked_for_stretch_cpus_and_events() {
    let folder = tempfile::tempdir().unwrap();
    let input = data("small-v6.dat.zst");
    let (all, _) = events(&input);
    let (from, to) = (all[100].time_ns, all[900].time_ns);
    let filter = Filter {
        from_ns: Some(from),
        to_ns: Some(to),
        cpus: vec![1],
        events: vec!["mm_page_alloc".to_string(), "mm_page_free".to_string()],
    };
    let out = folder.path().join("cut.txt");
    write(&input, &out, &filter);
    let wanted = |event: &&Event| {
        (from..to).contains(&event.time_ns)
            && event.cpu == 1
            && matches!(event.kind, Kind::PageAlloc { .. } | Kind::PageFree { .. })
    };
    let expected: Vec<Event> = all.iter().filter(wanted).copied().collect();
    assert!(!expected.is_empty());
    assert_eq!(events(&out).0, expected);
}

#[test]
fn reclaim_events_survive_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let input = bundled("pressure-6.1-4cpu-2node");
    let names = pageyard_trace::event::RECLAIM_EVENTS.iter().map(ToString::to_string).collect();
    let filter = Filter { events: names, ..Filter::default() };
    let (all, _) = events(&input);
    let is_reclaim = |event: &&Event| matches!(event.kind, Kind::Reclaim { .. });
    let expected: Vec<Kind> = all.iter().filter(is_reclaim).map(|event| event.kind).collect();
    // Counted with `trace-cmd report`: 34 wakes, 4 sleeps, 33 calls, 21 direct begins and ends.
    assert_eq!(expected.len(), 34 + 4 + 33 + 21 + 21);
    for name in ["a.txt", "b.dat"] {
        let out = folder.path().join(name);
        assert_eq!(write(&input, &out, &filter).written, expected.len() as u64, "{name}");
        let found: Vec<Kind> = events(&out).0.iter().map(|event| event.kind).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_interrupted_conversion_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.txt");
    let recording = Recording::open(bundled("udplimit-6.18-2cpu")).unwrap();
    let target = Target::of(&out, 3).unwrap();
    let error = convert::write(&recording, &out, target, &Filter::default(), |_| false);
    assert!(error.unwrap_err().to_string().contains("interrupted"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn trace_cmd_opens_what_is_written_and_sees_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.dat");
    let input = data("small-v7-zstd.dat");
    write(&input, &out, &Filter::default());
    let report = Command::new("trace-cmd").args(["report", "-t", "-i"]).arg(&out).output();
    let Ok(report) = report else {
        println!("skipped: trace-cmd is not installed");
        return;
    };
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let text = folder.path().join("report.txt");
    std::fs::write(&text, &report.stdout).unwrap();
    let ((expected, _), (found, _)) = (events(&out), events(&text));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            (found.time_ns, found.cpu, found.pid),
            (expected.time_ns, expected.cpu, expected.pid)
        );
        assert_eq!(found.kind, expected.kind);
    }
}
