//! `pageyard record`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pageyard_trace::record::{self, Clock, Options, Progress, Summary, Until};

/// Options of `pageyard record`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --duration and COMMAND it records until ^C. What is recorded, how it is kept small and \
what the folder holds is told in docs/RECORDING.md.

Examples:
  sudo pageyard record -o idle --duration 10
  sudo pageyard record -o build -- make -j8
  sudo pageyard record --clean")]
pub struct Args {
    /// Folder to make [default: recording-KERNEL]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Stop after this many seconds
    #[arg(short, long, value_name = "S", value_parser = seconds, conflicts_with = "command")]
    duration: Option<Duration>,

    /// Ring buffer of each CPU
    #[arg(long, value_name = "N", default_value_t = record::BUFFER_KB_DEFAULT,
          value_parser = clap::value_parser!(u32).range(64..))]
    buffer_kb: u32,

    /// How full a buffer gets before it is read
    #[arg(long, value_name = "PERCENT", default_value_t = record::BUFFER_PERCENT_DEFAULT,
          value_parser = clap::value_parser!(u8).range(1..=100))]
    buffer_percent: u8,

    /// What to record: page, lock, compaction, reclaim, SYSTEM or SYSTEM:EVENT
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = record::GROUPS_DEFAULT)]
    events: Vec<String>,

    /// Trace clock: mono, mono_raw or boot
    #[arg(long, value_name = "CLOCK", default_value = "mono", value_parser = clock)]
    clock: Clock,

    /// Leave /proc/kpageflags out (8 bytes a page are read, before and after)
    #[arg(long)]
    no_kpageflags: bool,

    /// Write trace.dat.zst, compressed with this level
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "9",
          require_equals = true, value_parser = clap::value_parser!(i32).range(1..=19))]
    zstd: Option<i32>,

    /// Remove what a killed recording left (with -o its unfinished folder, too), and record nothing
    #[arg(long, conflicts_with_all = ["command", "duration"])]
    clean: bool,

    /// Program to record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("give a number of seconds above 0".to_string()),
    }
}

fn clock(text: &str) -> Result<Clock, String> {
    let known = Clock::ALL.iter().find(|clock| clock.name() == text).copied();
    known.ok_or_else(|| {
        let names: Vec<&str> = Clock::ALL.iter().map(|clock| clock.name()).collect();
        format!("give one of {}, which can be read by programs too", names.join(", "))
    })
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.clean {
        let removed = record::clean(args.out.as_deref())?;
        for path in &removed {
            println!("removed {}", path.display());
        }
        if removed.is_empty() {
            println!("nothing to remove");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let until = match args.duration {
        Some(duration) => Until::Duration(duration),
        None if args.command.is_empty() => Until::Signal,
        None => Until::Command(args.command),
    };
    let options = Options {
        out: args.out.unwrap_or_else(default_folder),
        until,
        buffer_kb: args.buffer_kb,
        buffer_percent: args.buffer_percent,
        events: args.events,
        clock: args.clock,
        kpageflags: !args.no_kpageflags,
        zstd_level: args.zstd,
    };
    let terminal = std::io::stderr().is_terminal();
    let mut line = Line { terminal, shown: 0 };
    let result = record::record(&options, terminal, &mut |progress| line.show(progress));
    line.clear();
    let summary = result?;
    print(&summary);
    Ok(if summary.command_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `recording-` and the release of the kernel.
fn default_folder() -> PathBuf {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match release.trim() {
        "" => "recording".into(),
        release => format!("recording-{release}").into(),
    }
}

/// One line on a terminal, written over and over; a bar that draws by itself would add its own
/// page traffic to the recording.
struct Line {
    terminal: bool,
    /// Columns in use.
    shown: usize,
}

impl Line {
    fn show(&mut self, progress: Progress<'_>) {
        let text = match progress {
            Progress::Note(note) => {
                self.clear();
                eprintln!("{note}");
                return;
            }
            Progress::Recording { elapsed, bytes, lost } => {
                let lost = if lost { "  EVENTS LOST" } else { "" };
                let (seconds, mb) = (elapsed.as_secs_f64(), megabytes(bytes));
                format!("recording {seconds:6.1} s  {mb:9.1} MB{lost}  (^C ends it)")
            }
            Progress::Writing { done, total } => {
                format!("writing {:9.1} of {:.1} MB", megabytes(done), megabytes(total))
            }
        };
        if self.terminal {
            eprint!("\r{text:<width$}", width = self.shown);
            let _ = std::io::stderr().flush();
            self.shown = text.len();
        }
    }

    fn clear(&mut self) {
        if self.terminal && self.shown > 0 {
            eprint!("\r{:width$}\r", "", width = self.shown);
            self.shown = 0;
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn print(summary: &Summary) {
    let meta = &summary.meta;
    let events: u64 = meta.events.values().sum();
    let seconds = (meta.window_ns[1] - meta.window_ns[0]) as f64 / 1e9;
    let stopped = match &meta.command_end {
        Some(end) => format!("{} ({end})", meta.stopped),
        None => meta.stopped.clone(),
    };
    println!("{}: {events} events in {seconds:.1} s; {stopped}", summary.folder.display());
    println!(
        "  {} of them ({:.1} %) are the recorder's own; {:.1} MB of pages, {:.0} bytes an event",
        meta.recorder_events,
        100.0 * meta.recorder_events as f64 / events.max(1) as f64,
        megabytes(meta.trace_bytes),
        meta.event_bytes as f64 / events.max(1) as f64,
    );
    if meta.lost_events > 0 {
        println!(
            "  EVENTS LOST: {} by the kernel's count; the recording is kept, but do not trust a \
             replay of it. A larger --buffer-kb (now {}) or fewer --events help",
            meta.lost_events, meta.buffer_kb
        );
    }
    if !meta.past_page_cache {
        println!("  the file system has no direct writes: the recorder's page cache is in it");
    }
    for missing in meta.events_missing.iter().chain(&meta.files_missing) {
        println!("  not recorded, this kernel lacks it: {missing}");
    }
    if !summary.command_succeeded {
        println!("  the command failed; the recording is kept");
    }
}
