//! A scratch folder for a recording, and what tracefs looked like before it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where these tests look for tracefs.
pub const TRACEFS: &str = "/sys/kernel/tracing";
/// The longest that a recorder may take to react.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Two hundred processes that come and go.
pub const WORKLOAD: &str = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A scratch folder and the settings of tracefs as they were.
pub struct Yard {
    pub folder: PathBuf,
    settings: BTreeMap<PathBuf, String>,
    /// Instances of other recorders.
    recorders: Vec<PathBuf>,
    _turn: MutexGuard<'static, ()>,
}

impl Yard {
    /// Nothing, and a printed reason, where no recording can be made.
    pub fn new(name: &str) -> Option<Yard> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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

    pub fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
        command.arg("record").arg("-o").arg(self.out()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    /// Starts a recording without an end and waits until it traces.
    pub fn start(&self, arguments: &[&str]) -> Child {
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
    pub fn check_left(&self, names: &[&str]) {
        let left: Vec<String> = list(&self.folder)
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(left, names);
        assert_eq!(settings(), self.settings);
        let instances = recorders();
        assert!(instances.iter().all(|path| self.recorders.contains(path)), "{instances:?}");
    }

    pub fn meta(&self) -> serde_json::Value {
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

/// True when this process may record.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|uid| uid.split_whitespace().nth(1) == Some("0"))
}

/// The paths in a folder, sorted; none when it cannot be read.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The trace instances of recorders.
pub fn recorders() -> Vec<PathBuf> {
    let mut instances = list(&Path::new(TRACEFS).join("instances"));
    instances.retain(|path| path.to_string_lossy().contains("/pageyard-"));
    instances
}

/// Every setting of the top-level tracer that can be read in one piece: the small files of the
/// root and of `options`, and which events are on, with which filters.
pub fn settings() -> BTreeMap<PathBuf, String> {
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
    let mut files: Vec<PathBuf> = list(root).into_iter().filter(|path| path.is_file()).collect();
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

/// What a program wrote to its standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(status.expect("kill is there").success());
}
