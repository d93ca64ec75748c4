//! Options of every verb that runs cells, the bar meanwhile, and how ^C ends them.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageyard_lab::experiment::pool::{Ended, Options, Pool, Progress};
use pageyard_lab::experiment::store::Store;
use pageyard_trace::interrupt::Interrupt;

/// How often it is looked whether the user wants to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How cells are run.
#[derive(clap::Args)]
pub struct CellArgs {
    /// Folder of stored results [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Run every cell, also those with a stored result
    #[arg(long)]
    fresh: bool,

    /// Cells that run at the same time [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

impl CellArgs {
    /// Runs `question` with a pool as the user wants it, a bar on a terminal, and ^C caught: its
    /// answer, and whether the user ended it.
    pub fn pool<T>(self, question: impl FnOnce(&Pool<'_>) -> T) -> anyhow::Result<(T, bool)> {
        let interrupt = Interrupt::catch()?;
        let shown = Mutex::new(Shown { bar: bar(), running: Vec::new() });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let folder = self.store.or_else(Store::default_folder);
        let options = Options {
            store: folder.as_deref().map(Store::at),
            fresh: self.fresh,
            workers: self.workers.map_or(cores, usize::from),
            stop: &|| interrupt.came(),
            progress: &|progress: Progress| {
                if let Ok(mut shown) = shown.lock() {
                    shown.update(progress);
                }
            },
        };
        let is_over = AtomicBool::new(false);
        let (answer, ended) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                // Relaxed: nothing else is handed over with it, and a late look costs 100 ms.
                while !is_over.load(Ordering::Relaxed) {
                    if interrupt.came() {
                        let _ = shown.lock().map(|shown| shown.tell_of_the_end());
                        return;
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
            });
            let over = Over(&is_over, watch.thread().clone());
            let outcome = Pool::with(options, question);
            drop(over);
            outcome
        });
        if let Ok(shown) = shown.lock() {
            shown.bar.finish_and_clear();
        }
        tell(&ended, folder, interrupt.came());
        Ok((answer, interrupt.came()))
    }
}

/// Lets the thread that watches for ^C go, also when the question panicked.
struct Over<'a>(&'a AtomicBool, Thread);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

/// What the user sees while cells run.
struct Shown {
    bar: ProgressBar,
    running: Vec<String>,
}

impl Shown {
    fn update(&mut self, progress: Progress) {
        self.bar.set_length(progress.asked as u64);
        self.bar.set_position(progress.done as u64);
        // The one that was begun first is that which all wait for.
        self.bar.set_message(progress.running.first().cloned().unwrap_or_default());
        self.running = progress.running;
    }

    /// After ^C: what is waited for. Nobody looks at a run that seems to ignore them.
    fn tell_of_the_end(&self) {
        if self.running.is_empty() {
            return;
        }
        let (count, s) = (self.running.len(), if self.running.len() == 1 { "" } else { "s" });
        let mut text = format!("pageyard: ends when {count} running cell{s} can be kept:");
        self.running.iter().for_each(|cell| text.push_str(&format!("\n  {cell}")));
        text.push_str("\npageyard: ^C again ends at once, without them");
        self.bar.suspend(|| eprintln!("{text}"));
    }
}

/// What the user should know about how it ended.
fn tell(ended: &Ended, folder: Option<PathBuf>, interrupted: bool) {
    if let Some(error) = &ended.not_stored {
        let folder = folder.unwrap_or_default();
        eprintln!(
            "pageyard: cannot store results in {}: {error}; name another folder with --store",
            folder.display()
        );
    }
    if interrupted {
        let kept = if ended.not_stored.is_none() { ", kept for the next time" } else { "" };
        eprintln!(
            "pageyard: interrupted: {} of {} cells asked for are done{kept}",
            ended.progress.done, ended.progress.asked
        );
    }
}

/// A line on a terminal, none elsewhere. It ticks, so that one can see that time goes on.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("cells {bar:30} {pos} of {len}, {elapsed}  {wide_msg}");
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
