//! `pageyard record` against the running kernel: it records, and it leaves no trace of itself.
//!
//! These tests need root and tracefs; without them each prints why it skipped. They run one after
//! the other, because each compares all settings of tracefs before and after.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

const TRACEFS: &str = "/sys/kernel/tracing";
/// The longest that a recorder may take to react.
const PATIENCE: Duration = Duration::from_secs(60);
const WORKLOAD: &str = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A scratch folder and the settings of tracefs as they were.
struct Yard {
    folder: PathBuf,
    settings: BTreeMap<PathBuf, String>,
    /// Instances of other recorders.
    recorders: Vec<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

impl Yard {
    /// Nothing, and a printed reason, where no recording can be made.
    fn new(name: &str) -> Option<Yard> {
        let turn = ONE_AT_A_TIME
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let reason = if !is_root() {
            "not root"
        } else if !Path::new(TRACEFS).join("instances").exists() {
            "no tracefs is mounted on /sys/kernel/tracing"
        } else {
            let folder =
                std::env::temp_dir().join(format!("pageyard-{}-{name}", std::process::id()));
            fs::create_dir(&folder).expect("a fresh folder");
            return Some(Yard {
                folder,
                settings: settings(),
                recorders: recorders(),
                _turn: turn,
            });
        };
        println!("skipped: {reason}");
        None
    }

    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
        command
            .arg("record")
            .arg("-o")
            .arg(self.out())
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("the program starts")
    }

    /// Starts a recording without an end and waits until it traces.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut child = self.command(arguments).spawn().expect("the program starts");
        let instance = format!("pageyard-{}-", child.id());
        let traces = |path: &PathBuf| {
            path.to_string_lossy().contains(&instance)
                && fs::read_to_string(path.join("tracing_on")).is_ok_and(|on| on == "1\n")
        };
        let began = Instant::now();
        while !recorders().iter().any(traces) {
            if began.elapsed() > PATIENCE {
                child.kill().expect("a child can be killed");
                let output = child.wait_with_output().expect("a killed child ends");
                panic!("no tracing after {PATIENCE:?}: {}", errors(&output));
            }
            sleep(Duration::from_millis(10));
        }
        child
    }

    /// Asserts that tracefs is as it was and that the folder holds `names` and no more.
    #[track_caller]
    fn check_left(&self, names: &[&str]) {
        let left: Vec<String> = list(&self.folder)
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(left, names);
        assert_eq!(settings(), self.settings);
        let instances = recorders();
        assert!(
            instances.iter().all(|path| self.recorders.contains(path)),
            "{instances:?}"
        );
    }

    fn meta(&self) -> serde_json::Value {
        let text =
            fs::read_to_string(self.out().join("meta")).expect("a recording has a file meta");
        serde_json::from_str(&text).expect("meta is JSON")
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|uid| uid.split_whitespace().nth(1) == Some("0"))
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn recorders() -> Vec<PathBuf> {
    let mut instances = list(&Path::new(TRACEFS).join("instances"));
    instances.retain(|path| path.to_string_lossy().contains("/pageyard-"));
    instances
}

/// Every setting of the top-level tracer that can be read in one piece: the small files of the
/// root and of `options`, and which events are on, with which filters.
fn settings() -> BTreeMap<PathBuf, String> {
    /// Contents that change by themselves, or block.
    const NOT_SETTINGS: &[&str] = &[
        "trace",
        "trace_pipe",
        "trace_marker",
        "trace_marker_raw",
        "saved_cmdlines",
        "saved_tgids",
        "free_buffer",
        "buffer_total_size_kb",
        "dyn_ftrace_total_info",
        "enabled_functions",
        "touched_functions",
        "available_filter_functions",
        "available_filter_functions_addrs",
        "README",
        "printk_formats",
        "error_log",
        "uprobe_profile",
        "kprobe_profile",
    ];
    let root = Path::new(TRACEFS);
    let mut files: Vec<PathBuf> = list(root)
        .into_iter()
        .filter(|path| path.is_file())
        .collect();
    files.retain(|path| !NOT_SETTINGS.iter().any(|name| path.ends_with(name)));
    files.extend(list(&root.join("options")));
    for system in ["kmem", "lock", "compaction", "vmscan"] {
        for event in list(&root.join("events").join(system)) {
            files.extend(["enable", "filter"].map(|file| event.join(file)));
        }
    }
    let read = |path: PathBuf| Some((path.clone(), fs::read_to_string(path).ok()?));
    files.into_iter().filter_map(read).collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(child.id().to_string())
        .status();
    assert!(status.expect("kill is there").success());
}

/// The events of a trace.dat by name, as trace-cmd counts them; nothing without trace-cmd.
fn counted_by_trace_cmd(file: &Path) -> Option<BTreeMap<String, u64>> {
    let output = match Command::new("trace-cmd")
        .arg("report")
        .arg("-i")
        .arg(file)
        .output()
    {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped the comparison: trace-cmd is not installed");
            return None;
        }
        Err(error) => panic!("trace-cmd: {error}"),
    };
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(errors(&output), "", "trace-cmd has complaints");
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines().skip(1) {
        // `TASK-PID [CPU] SECONDS: EVENT: FIELDS`; a task's name may hold blanks.
        let rest = &line[line.find(']').expect("a line of an event") + 1..];
        let event = rest.split(':').nth(1).expect("an event has a name").trim();
        *counts.entry(event.to_string()).or_default() += 1;
    }
    Some(counts)
}

#[test]
fn a_command_is_recorded_and_trace_cmd_counts_the_same_events() {
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
    assert!(
        events["kmem:mm_page_alloc"] > 200 * 20,
        "200 processes need pages: {events:?}"
    );
    assert!(
        events["kmem:mm_page_free"] > 200 * 20,
        "and give them back: {events:?}"
    );
    let own = meta["recorder_events"].as_u64().unwrap();
    assert!(own < 1000, "the recorder caused {own} events itself");
    if let Some(theirs) = counted_by_trace_cmd(&yard.out().join("trace.dat")) {
        let ours = events.iter().filter(|(_, count)| **count > 0);
        let plain = |name: &String| name.split(':').nth(1).unwrap_or_default().to_string();
        let ours: BTreeMap<String, u64> = ours.map(|(name, count)| (plain(name), *count)).collect();
        assert_eq!(ours, theirs);
    }
}

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
        assert!(
            begin <= end && allowed.contains(&begin) && allowed.contains(&end),
            "{line}"
        );
        *files.entry(words[0].to_string()).or_default() += number(2);
    }
    for file in [
        "zoneinfo",
        "buddyinfo",
        "pagetypeinfo",
        "vmstat",
        "kpageflags",
    ] {
        for when in ["before", "after"] {
            let bytes: u64 = files[&format!("{file}.{when}")];
            let path = yard.out().join(format!("{file}.{when}"));
            match path.metadata() {
                Ok(metadata) => assert_eq!(metadata.len(), bytes, "{file}.{when}"),
                Err(_) => assert!(
                    path.with_extension(format!("{when}.zst")).exists(),
                    "{file}"
                ),
            }
        }
    }
}

#[test]
fn a_signal_ends_a_recording_well() {
    let Some(yard) = Yard::new("signal") else {
        return;
    };
    for name in ["INT", "TERM", "HUP"] {
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
    assert_eq!(
        running.status.code(),
        Some(2),
        "it still runs: {}",
        errors(&running)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let next = yard.run(&["--duration", "1"]);
    assert_eq!(next.status.code(), Some(2));
    assert!(
        errors(&next).contains("was left by a killed recorder"),
        "{}",
        errors(&next)
    );
    assert!(
        errors(&next).contains("out.partial is there"),
        "{}",
        errors(&next)
    );
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
    mount
        .args(["-t", "tmpfs", "-o", "size=256k", "none"])
        .arg(&disk);
    let mounted = mount.status().is_ok_and(|status| status.success());
    if !mounted {
        println!("skipped: no tmpfs can be mounted here");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    let out = disk.join("out");
    let script = format!("while :; do {WORKLOAD}; done");
    command
        .arg("record")
        .arg("-o")
        .arg(&out)
        .args(["--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    let left = list(&disk);
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    fs::remove_dir(&disk).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("is full after"),
        "{}",
        errors(&output)
    );
    assert_eq!(left, [] as [PathBuf; 0]);
    yard.check_left(&[]);
}

#[test]
fn what_cannot_be_recorded_leaves_nothing() {
    let Some(yard) = Yard::new("refused") else {
        return;
    };
    for (arguments, message) in [
        (
            &["--", "/no/such/program"][..],
            "cannot start \"/no/such/program\"",
        ),
        (
            &["--duration", "1", "--events", "kmem:nonsense"],
            "has no event \"kmem:nonsense\"",
        ),
        (
            &["--duration", "1", "--buffer-kb", "4294967295"],
            "lower --buffer-kb",
        ),
    ] {
        let output = yard.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(errors(&output).contains(message), "{}", errors(&output));
        yard.check_left(&[]);
    }
    fs::create_dir(yard.out()).unwrap();
    let output = yard.run(&["--duration", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("exists already"),
        "{}",
        errors(&output)
    );
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
    let output = Command::new(&program)
        .args(["record", "--duration", "1"])
        .uid(65534)
        .output();
    fs::remove_file(&program).unwrap();
    let output = output.expect("the copy starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("takes root"),
        "{}",
        errors(&output)
    );
    yard.check_left(&[]);
}

#[test]
fn another_tracer_goes_on_undisturbed() {
    let Some(yard) = Yard::new("beside") else {
        return;
    };
    let other = Path::new(TRACEFS)
        .join("instances")
        .join(format!("beside-{}", std::process::id()));
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
    assert_eq!(
        (on.unwrap().as_str(), enabled.unwrap().as_str()),
        ("1\n", "1\n")
    );
    assert!(
        stats.contains("entries: ") && !stats.starts_with("entries: 0\n"),
        "{stats}"
    );
    yard.check_left(&["out"]);
}
