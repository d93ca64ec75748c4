//! The same recording read by trace-cmd and by this project: every event and field is equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use pageyard_trace::event::{Event, Kind};
use pageyard_trace::recording::Recording;

use crate::yard::{WORKLOAD, Yard, errors};

/// An event without its time: CPU, task, name, and the fields that name a page.
type Plain = (u16, i32, String, Vec<(String, u64)>);

/// The events of a trace.dat as `trace-cmd report` prints them; nothing without trace-cmd.
fn read_by_trace_cmd(file: &Path) -> Option<Vec<Plain>> {
    let output = match Command::new("trace-cmd").arg("report").arg("-i").arg(file).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped the comparison: trace-cmd is not installed");
            return None;
        }
        Err(error) => panic!("trace-cmd: {error}"),
    };
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(errors(&output), "", "trace-cmd has complaints");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().skip(1).map(plain_of_line).collect())
}

/// `TASK-PID [CPU] SECONDS: EVENT: FIELDS`; a task's name may hold blanks.
fn plain_of_line(line: &str) -> Plain {
    let (task, rest) = line.split_once(" [").expect("a CPU in brackets");
    let (cpu, rest) = rest.split_once(']').expect("a CPU in brackets");
    let pid = task.trim().rsplit_once('-').expect("a pid behind the name").1;
    let mut parts = rest.splitn(3, ':').skip(1);
    let name = parts.next().expect("an event has a name").trim().to_string();
    let mut fields = Vec::new();
    for word in parts.next().unwrap_or_default().split_whitespace() {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        if PAGE_FIELDS.contains(&key) && name.starts_with("mm_page_") {
            let value = match value.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).expect("a number"),
                None => value.parse().expect("a number"),
            };
            fields.push((key.to_string(), value));
        }
    }
    (cpu.parse().expect("a number"), pid.parse().expect("a number"), name, fields)
}

/// Fields that both print as plain numbers.
const PAGE_FIELDS: &[&str] = &[
    "pfn",
    "order",
    "migratetype",
    "percpu_refill",
    "alloc_order",
    "fallback_order",
    "alloc_migratetype",
    "fallback_migratetype",
    "change_ownership",
];

/// The page events of a recording as this project reads them.
fn read_by_ourselves(folder: &Path) -> Vec<Plain> {
    let recording = Recording::open(folder).expect("our own recording opens");
    let mut reader = recording.events().expect("and has events");
    let (mut block, mut plain) = (Vec::new(), Vec::new());
    while reader.read_block(&mut block).expect("readable to the end") {
        plain.extend(block.iter().filter_map(plain_of_event));
    }
    assert!(reader.damage().is_empty(), "{:?}", reader.damage());
    plain
}

fn plain_of_event(event: &Event) -> Option<Plain> {
    let fields: Vec<(&str, u64)> = match event.kind {
        Kind::PageAlloc { pfn, order, migratetype, .. }
        | Kind::PcpuDrain { pfn, order, migratetype } => {
            vec![("pfn", pfn), ("order", order.into()), ("migratetype", migratetype.into())]
        }
        Kind::PageFree { pfn, order } => vec![("pfn", pfn), ("order", order.into())],
        Kind::PageFreeBatched { pfn } => vec![("pfn", pfn), ("order", 0)],
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => vec![
            ("pfn", pfn),
            ("order", order.into()),
            ("migratetype", migratetype.into()),
            ("percpu_refill", percpu_refill.into()),
        ],
        Kind::Extfrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => vec![
            ("pfn", pfn),
            ("alloc_order", alloc_order.into()),
            ("fallback_order", fallback_order.into()),
            ("alloc_migratetype", alloc_migratetype.into()),
            ("fallback_migratetype", fallback_migratetype.into()),
            ("change_ownership", change_ownership.into()),
        ],
        _ => return None,
    };
    let fields = fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    Some((event.cpu, event.pid, name_of(event.kind)?.to_string(), fields))
}

fn name_of(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::PageAlloc { .. } => "mm_page_alloc",
        Kind::PageFree { .. } => "mm_page_free",
        Kind::PageFreeBatched { .. } => "mm_page_free_batched",
        Kind::ZoneLocked { .. } => "mm_page_alloc_zone_locked",
        Kind::PcpuDrain { .. } => "mm_page_pcpu_drain",
        Kind::Extfrag { .. } => "mm_page_alloc_extfrag",
        _ => return None,
    })
}

fn count<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

#[test]
fn a_command_is_recorded_and_trace_cmd_reads_the_same_events() {
    let Some(yard) = Yard::new("command") else {
        return;
    };
    let output = yard.run(&["--", "sh", "-c", WORKLOAD]);
    assert!(output.status.success(), "{}", errors(&output));
    yard.check_left(&["out"]);
    let command = fs::read_to_string(yard.out().join("command")).unwrap();
    assert_eq!(command, format!("sh -c '{WORKLOAD}'\n"));

    let meta = yard.meta();
    assert_eq!(meta["format"], 1);
    assert_eq!(meta["lost_events"], 0);
    let events: BTreeMap<String, u64> =
        serde_json::from_value(meta["events"].clone()).expect("counts by name");
    assert!(events["kmem:mm_page_alloc"] > 200 * 20, "200 processes need pages: {events:?}");
    assert!(events["kmem:mm_page_free"] > 200 * 20, "and give them back: {events:?}");
    let own = meta["recorder_events"].as_u64().unwrap();
    assert!(own < 1000, "the recorder caused {own} events itself");
    let Some(theirs) = read_by_trace_cmd(&yard.out().join("trace.dat")) else {
        return;
    };
    let ours = events.iter().filter(|(_, count)| **count > 0);
    let plain = |name: &String| name.split(':').nth(1).unwrap_or_default().to_string();
    let ours: BTreeMap<String, u64> = ours.map(|(name, count)| (plain(name), *count)).collect();
    assert_eq!(ours, count(theirs.iter().map(|event| &event.2)));

    // Sorted by CPU, each CPU's events in their order: equal times on two CPUs have no order.
    let mut ours = read_by_ourselves(&yard.out());
    let known: BTreeSet<String> = ours.iter().map(|event| event.2.clone()).collect();
    let mut theirs: Vec<Plain> =
        theirs.into_iter().filter(|event| known.contains(&event.2)).collect();
    ours.sort_by_key(|event| event.0);
    theirs.sort_by_key(|event| event.0);
    assert_eq!(ours.len(), theirs.len());
    let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differing, None, "ours and trace-cmd's reading of an event");
}
