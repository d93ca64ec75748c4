//! `pageyard trace info`: what a recording holds, and whether it can be trusted.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pageyard_trace::honesty::Report;
use pageyard_trace::reader::EventReader;
use pageyard_trace::recording::Recording;

/// Options of `pageyard trace info`.
#[derive(clap::Args)]
pub struct Args {
    /// A trace (ftrace text, trace.dat, perf.data; also .zst, .gz, .xz) or a recording's folder.
    recording: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&args.recording)?;
    let mut meter = Meter::new("reading");
    let report = Report::of(&recording, |reader| meter.show(reader))?;
    meter.clear();
    let text = if args.json {
        let mut text = serde_json::to_string_pretty(&report)?;
        text.push('\n');
        text
    } else {
        report.text()
    };
    super::print(&text)?;
    Ok(if report.trusted() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A line on the terminal that says how far a pass has come; silent where there is no terminal
/// and for whatever is done within half a second.
pub(super) struct Meter {
    action: &'static str,
    shown: Option<Instant>,
    begun: Instant,
    terminal: bool,
}

impl Meter {
    pub(super) fn new(action: &'static str) -> Meter {
        let terminal = std::io::stderr().is_terminal();
        Meter { action, shown: None, begun: Instant::now(), terminal }
    }

    /// Shows progress; always true, so that it can be the callback of a pass.
    pub(super) fn show(&mut self, reader: &EventReader) -> bool {
        let last = self.shown.unwrap_or(self.begun);
        if self.terminal && last.elapsed() > Duration::from_millis(500) {
            let (done, total) = reader.progress();
            let share = done as f64 * 100.0 / total.max(1) as f64;
            let events = reader.events_read();
            eprint!("\r{}: {share:.0} %, {events} events", self.action);
            let _ = std::io::stderr().flush();
            self.shown = Some(Instant::now());
        }
        true
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
