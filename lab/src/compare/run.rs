//! Takes every recording through both policies, on a few threads, in a fixed order of results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pageyard_trace::error::TraceError;
use pageyard_trace::recording::Recording;

use super::agree::Agreement;
use super::measure::Measure;
use crate::named::{NamedPolicy, PolicyError};
use crate::twin::infer::{Twin, TwinError};

/// Threads at the most: each holds a twin of a whole machine, some hundred megabytes.
const THREADS_MAX: usize = 4;

/// Why a recording could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(Box<TraceError>),
    /// It has no twin.
    #[error(transparent)]
    Twin(Box<TwinError>),
    /// It does not say which kernel it is of.
    #[error(
        "{0}: the recording does not say its kernel's release; give it with --kernel, as in \
         --kernel 6.1.0"
    )]
    NoKernel(String),
    /// Its kernel has no preset.
    #[error("{path}: {error}")]
    Kernel {
        /// The recording.
        path: String,
        /// What is wrong with the release.
        error: Box<PolicyError>,
    },
    /// The allocator stopped on an inconsistency.
    #[error("{path}: the replay stopped on an inconsistency: {what}; please report it")]
    Stopped {
        /// The recording.
        path: String,
        /// In the allocator's words.
        what: String,
    },
}

impl From<TraceError> for CompareError {
    fn from(error: TraceError) -> CompareError {
        CompareError::Trace(Box::new(error))
    }
}

impl From<TwinError> for CompareError {
    fn from(error: TwinError) -> CompareError {
        CompareError::Twin(Box::new(error))
    }
}

/// One recording under both policies.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Release of its kernel.
    pub kernel: String,
    /// The preset that stands for that kernel.
    pub kernel_policy: NamedPolicy,
    /// What ran.
    pub command: Option<String>,
    /// Events in it.
    pub events: u64,
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Whether free blocks start where the kernel had them.
    pub positions: bool,
    /// The twin of the kernel against the kernel.
    pub agreement: Agreement,
    /// What was inferred.
    pub remarks: Vec<String>,
    /// BASE.
    pub base: Measure,
    /// HEAD.
    pub head: Measure,
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Question {
    /// The policy in force.
    pub base: NamedPolicy,
    /// The policy proposed.
    pub head: NamedPolicy,
    /// Release for recordings that do not say theirs.
    pub kernel: Option<String>,
}

impl Case {
    /// Compares over one recording.
    ///
    /// # Errors
    /// The recording cannot be read or has no twin.
    pub fn of(path: &Path, question: &Question) -> Result<Case, CompareError> {
        let stopped = |what| CompareError::Stopped { path: path.display().to_string(), what };
        // The core reports misuse by stopping; one odd recording must not take the others along.
        catch_unwind(AssertUnwindSafe(|| Case::compare(path, question)))
            .unwrap_or_else(|panic| Err(stopped(words(&*panic))))
    }

    fn compare(path: &Path, question: &Question) -> Result<Case, CompareError> {
        let recording = Recording::open(path)?;
        let shown = || path.display().to_string();
        let kernel = recording.kernel().or(question.kernel.as_deref());
        let kernel = kernel.ok_or_else(|| CompareError::NoKernel(shown()))?.to_string();
        let kernel_policy = NamedPolicy::for_kernel(&kernel).map_err(|error| {
            let path = shown();
            let error = Box::new(error);
            CompareError::Kernel { path, error }
        })?;
        let (name, command) = (recording.name(), recording.command.clone());
        let twin = Twin::of(recording, kernel_policy.policy)?;
        let agreement = Agreement::of(&twin, &kernel_policy.name)?;
        let base = Measure::of(&twin, question.base.policy)?;
        let head = match question.head.policy == question.base.policy {
            true => base.clone(),
            false => Measure::of(&twin, question.head.policy)?,
        };
        Ok(Case {
            name,
            kernel,
            kernel_policy,
            command,
            events: twin.history.events,
            cpus: twin.world.cpus(),
            nodes: twin.world.nodes,
            positions: base.merges.is_some(),
            agreement,
            remarks: twin.world.remarks.clone(),
            base,
            head,
        })
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no reason given");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where a thread leaves its result.
type Slot = Mutex<Option<Result<Case, CompareError>>>;

/// Compares over all recordings; results stand in the order of `paths`. `progress` hears how
/// many are done.
pub fn over(
    paths: &[PathBuf],
    question: &Question,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<Result<Case, CompareError>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(THREADS_MAX).min(paths.len());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Slot> = paths.iter().map(|_| Mutex::new(None)).collect();
    let order = largest_first(paths);
    let work = || {
        // Relaxed: the counters order nothing; the scope's join publishes the results.
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = Case::of(&paths[at], question);
            if let Ok(mut slot) = results[at].lock() {
                *slot = Some(case);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let taken = results.into_iter().map(|slot| slot.into_inner().ok().flatten());
    taken.map(|case| case.expect("every recording was worked on")).collect()
}

/// The largest files first, so that no thread is left alone with one at the end.
fn largest_first(paths: &[PathBuf]) -> Vec<usize> {
    let size = |path: &PathBuf| -> u64 {
        let Ok(entries) = std::fs::read_dir(path) else {
            return path.metadata().map_or(0, |file| file.len());
        };
        let files = entries.filter_map(|entry| entry.ok()?.metadata().ok());
        files.map(|file| file.len()).sum()
    };
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(size(&paths[at])));
    order
}
