//! `pageyard record` against the running kernel: it records, and it leaves no trace of itself.
//!
//! These tests need root and tracefs; without them each prints why it skipped. They run one after
//! the other, because each compares all settings of tracefs before and after.

mod trace_cmd;
mod yard;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use yard::{PATIENCE, TRACEFS, WORKLOAD, Yard, errors, list, signal};

#[test]
fn the_snapshots_lie_inside_the_traced_window_around_the_command() {
    let Some(yard) = Yard::new("snapshots") else {
        return;
    };
    let output = yard.run(&["--", "true"]);
    assert!(output.status.success(), "{}", errors(&output));
    let meta = yard.meta();
    let times = |key: &str| -> [u64; 2] { serde_json::from_value(meta[key].clone()).unwrap() };
    let (window, workload) = (times("window_ns"), times("workload_ns"));
    let snapshots = fs::read_to_string(yard.out().join("snapshots")).unwrap();
    let mut files = BTreeMap::new();
    for line in snapshots.lines().skip(1) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let (begin, end) = (number(3), number(4));
        let allowed = match words[0].ends_with(".before") {
            true => window[0]..=workload[0],
            false => workload[1]..=window[1],
        };
        assert!(begin <= end && allowed.contains(&begin) && allowed.contains(&end), "{line}");
        *files.entry(words[0].to_string()).or_default() += number(2);
    }
    for file in ["zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat", "kpageflags"] {
        for when in ["before", "after"] {
            let bytes: u64 = files[&format!("{file}.{when}")];
            let path = yard.out().join(format!("{file}.{when}"));
            match path.metadata() {
                Ok(metadata) => assert_eq!(metadata.len(), bytes, "{file}.{when}"),
                Err(_) => assert!(path.with_extension(format!("{when}.zst")).exists(), "{file}"),
            }
        }
    }
}

/// Whether a signal is ignored here, as under `nohup` or in the background of a script: children
/// inherit that, and the recorder leaves it so.
fn is_ignored(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[test]
fn a_signal_ends_a_recording_well() {
    let Some(yard) = Yard::new("signal") else {
        return;
    };
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        if is_ignored(number) {
            println!(
                "SIG{name} skipped: whoever started this test ignores it, so the recorder does"
            );
            continue;
        }
        let child = yard.start(&[]);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        yard.check_left(&["out"]);
        assert_eq!(yard.meta()["stopped"], format!("stopped by SIG{name}"));
        fs::remove_dir_all(yard.out()).unwrap();
    }
}

#[test]
fn a_signal_ends_the_command_too() {
    let Some(yard) = Yard::new("child") else {
        return;
    };
    let child = yard.start(&["--", "sleep", "1000"]);
    // The command starts after the first snapshots: its recorder's children tell when.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let began = Instant::now();
    let sleeper = loop {
        assert!(began.elapsed() < PATIENCE, "the command does not start");
        let text = fs::read_to_string(&children).unwrap_or_default();
        if let Some(pid) = text.split_whitespace().next() {
            break pid.to_string();
        }
        sleep(Duration::from_millis(10));
    };
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(yard.meta()["command_end"], "killed by SIGTERM");
    assert!(!Path::new("/proc").join(sleeper).exists());
    yard.check_left(&["out"]);
}

#[test]
fn a_killed_recorder_is_cleaned_up_after() {
    let Some(yard) = Yard::new("killed") else {
        return;
    };
    let mut child = yard.start(&[]);
    let running = yard.run(&["--clean"]);
    assert_eq!(running.status.code(), Some(2), "it still runs: {}", errors(&running));
    child.kill().unwrap();
    child.wait().unwrap();
    let next = yard.run(&["--duration", "1"]);
    assert_eq!(next.status.code(), Some(2));
    assert!(errors(&next).contains("was left by a killed recorder"), "{}", errors(&next));
    assert!(errors(&next).contains("out.partial is there"), "{}", errors(&next));
    let clean = yard.run(&["--clean"]);
    assert!(clean.status.success(), "{}", errors(&clean));
    yard.check_left(&[]);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let Some(yard) = Yard::new("full") else {
        return;
    };
    let disk = yard.folder.join("disk");
    fs::create_dir(&disk).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&disk);
    let mounted = mount.status().is_ok_and(|status| status.success());
    if !mounted {
        println!("skipped: no tmpfs can be mounted here");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    let out = disk.join("out");
    let script = format!("while :; do {WORKLOAD}; done");
    command.arg("record").arg("-o").arg(&out).args(["--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    let left = list(&disk);
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    fs::remove_dir(&disk).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("is full after"), "{}", errors(&output));
    assert_eq!(left, [] as [PathBuf; 0]);
    yard.check_left(&[]);
}

#[test]
fn what_cannot_be_recorded_leaves_nothing() {
    let Some(yard) = Yard::new("refused") else {
        return;
    };
    for (arguments, message) in [
        (&["--", "/no/such/program"][..], "cannot start \"/no/such/program\""),
        (&["--duration", "1", "--events", "kmem:nonsense"], "has no event \"kmem:nonsense\""),
        (&["--duration", "1", "--buffer-kb", "4294967295"], "lower --buffer-kb"),
    ] {
        let output = yard.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(errors(&output).contains(message), "{}", errors(&output));
        yard.check_left(&[]);
    }
    fs::create_dir(yard.out()).unwrap();
    let output = yard.run(&["--duration", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("exists already"), "{}", errors(&output));
    yard.check_left(&["out"]);
}

#[test]
fn only_root_may_record_and_is_told_so() {
    let Some(yard) = Yard::new("user") else {
        return;
    };
    // A copy where everybody may run it: the target folder may be closed to others.
    let program = yard.folder.join("pageyard");
    fs::copy(env!("CARGO_BIN_EXE_pageyard"), &program).unwrap();
    let output = Command::new(&program).args(["record", "--duration", "1"]).uid(65534).output();
    fs::remove_file(&program).unwrap();
    let output = output.expect("the copy starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("takes root"), "{}", errors(&output));
    yard.check_left(&[]);
}

#[test]
fn another_tracer_goes_on_undisturbed() {
    let Some(yard) = Yard::new("beside") else {
        return;
    };
    let other = Path::new(TRACEFS).join("instances").join(format!("beside-{}", std::process::id()));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("events/kmem/mm_page_alloc/enable"), "1").unwrap();
    let output = yard.run(&["--", "sh", "-c", WORKLOAD]);
    let (on, enabled) = (
        fs::read_to_string(other.join("tracing_on")),
        fs::read_to_string(other.join("events/kmem/mm_page_alloc/enable")),
    );
    let stats = fs::read_to_string(other.join("per_cpu/cpu0/stats")).unwrap_or_default();
    fs::remove_dir(&other).unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!((on.unwrap().as_str(), enabled.unwrap().as_str()), ("1\n", "1\n"));
    assert!(stats.contains("entries: ") && !stats.starts_with("entries: 0\n"), "{stats}");
    yard.check_left(&["out"]);
}
