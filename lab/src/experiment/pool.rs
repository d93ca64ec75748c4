//! Runs cells on worker threads, each cell once, and keeps what is finished.
//!
//! Whoever wants results asks [`Pool::run`] from a thread of its own and waits. Which worker runs
//! which cell, and when, changes no result: a cell is deterministic and knows nothing of others.

use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cell::{self, CellError, Ready};
use super::outcome::CellResult;
use super::store::Store;
use crate::cells::yard::OutOfMemory;

/// How often a waiting worker looks whether it was asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The user ended the run.
    #[error("interrupted")]
    Interrupted,
    /// A cell has no result.
    #[error(transparent)]
    Cell(#[from] CellError),
}

/// How far the work is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Cells asked for so far; a search asks for more as it goes.
    pub asked: usize,
    /// Cells answered.
    pub done: usize,
    /// Of them, out of the store, or with the answer to an equal question of this run.
    pub stored: usize,
    /// Cells that run now, the one that was begun first in front.
    pub running: Vec<String>,
}

type Answer = (usize, Result<CellResult, CellError>);

struct Job {
    /// Those that others wait for before any other, then the longest; among equals the one asked
    /// for first.
    rank: (bool, usize, std::cmp::Reverse<usize>),
    at: usize,
    ready: Ready,
    reply: Sender<Answer>,
}

impl PartialEq for Job {
    fn eq(&self, other: &Job) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Job) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Job) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

#[derive(Default)]
struct State {
    jobs: BinaryHeap<Job>,
    progress: Progress,
    /// Nobody will ask any more, or nobody may.
    closed: bool,
    /// Results of this run, by key.
    known: BTreeMap<String, CellResult>,
    /// Cells that a worker is at, by key, with those who asked for the same meanwhile.
    underway: BTreeMap<String, Vec<Job>>,
    /// Why the first result that could not be stored was not.
    not_stored: Option<String>,
}

/// What to do and how.
pub struct Options<'a> {
    /// Where results are kept; `None` keeps none.
    pub store: Option<Store>,
    /// Whether results in the store are left aside.
    pub fresh: bool,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// True once the user wants to end.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told when a question comes, when a cell begins and when it is answered.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// Cells to run and those who run them.
pub struct Pool<'a> {
    options: Options<'a>,
    state: Mutex<State>,
    wake: Condvar,
}

/// What a pool had done when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Cells.
    pub progress: Progress,
    /// Why results could not be stored, if so.
    pub not_stored: Option<String>,
}

impl<'a> Pool<'a> {
    /// Runs `question` with a pool of workers and ends them afterwards.
    pub fn with<T>(options: Options<'a>, question: impl FnOnce(&Pool<'a>) -> T) -> (T, Ended) {
        let pool = Pool { options, state: Mutex::default(), wake: Condvar::new() };
        let answer = std::thread::scope(|scope| {
            for _ in 0..pool.options.workers.max(1) {
                scope.spawn(|| pool.work());
            }
            let closer = Closer(&pool);
            let answer = question(&pool);
            drop(closer);
            answer
        });
        let state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (answer, Ended { progress: state.progress, not_stored: state.not_stored })
    }

    /// Results of these cells, in their order.
    ///
    /// # Errors
    /// The user ended the run, or a cell has no result: the first of these, in their order.
    pub fn run(&self, cells: &[Ready]) -> Result<Vec<CellResult>, Stop> {
        self.ask(cells, false)
    }

    /// The same of cells on which it depends what is asked next: they go before all others, so that
    /// no worker waits for the last of a search when nothing else is left.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn run_ahead(&self, cells: &[Ready]) -> Result<Vec<CellResult>, Stop> {
        self.ask(cells, true)
    }

    fn ask(&self, cells: &[Ready], ahead: bool) -> Result<Vec<CellResult>, Stop> {
        let (reply, answers) = channel();
        let progress = {
            let mut state = self.state();
            for (at, ready) in cells.iter().enumerate() {
                let rank = (ahead, ready.cost(), std::cmp::Reverse(state.progress.asked));
                state.jobs.push(Job { rank, at, ready: ready.clone(), reply: reply.clone() });
                state.progress.asked += 1;
            }
            state.progress.clone()
        };
        drop(reply);
        self.wake.notify_all();
        (self.options.progress)(progress);
        let mut results: Vec<Option<Result<CellResult, CellError>>> = Vec::new();
        results.resize_with(cells.len(), || None);
        for (at, result) in answers {
            results[at] = Some(result);
        }
        // A job that was dropped leaves a gap: the run was ended.
        results.into_iter().map(|result| Ok(result.ok_or(Stop::Interrupted)??)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A worker that died in here left the state whole: it is changed in single steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next_job() {
            let key = job.ready.key();
            let Some(job) = self.claim(&key, job) else {
                continue;
            };
            let name = job.ready.to_string();
            self.step(|progress| progress.running.push(name.clone()));
            let (result, was_stored) = self.answer(&job.ready, &key);
            self.step(|progress| {
                progress.done += 1;
                progress.stored += usize::from(was_stored);
                let at = progress.running.iter().position(|running| *running == name);
                at.map(|at| progress.running.remove(at));
            });
            self.answer_others(&key, &result);
            // Nobody waits any more when the run is over.
            let _ = job.reply.send((job.at, result));
        }
    }

    /// The job for whoever asks, unless another worker is at the same cell: then it is answered
    /// when that one is done. Two tables often fit the same baseline at the same time.
    fn claim(&self, key: &str, job: Job) -> Option<Job> {
        let mut state = self.state();
        if let Some(others) = state.underway.get_mut(key) {
            others.push(job);
            return None;
        }
        state.underway.insert(key.to_string(), Vec::new());
        Some(job)
    }

    /// Answers those who asked for a cell while it ran. Without a result each asks again: errors
    /// are rare, and belong to who gets them.
    fn answer_others(&self, key: &str, result: &Result<CellResult, CellError>) {
        let others = self.state().underway.remove(key).unwrap_or_default();
        for job in others {
            match result {
                Ok(result) => {
                    self.step(|progress| {
                        progress.done += 1;
                        progress.stored += 1;
                    });
                    let _ = job.reply.send((job.at, Ok(result.clone())));
                }
                Err(_) => {
                    self.state().jobs.push(job);
                    self.wake.notify_one();
                }
            }
        }
    }

    /// Changes how far the work is, and tells.
    fn step(&self, change: impl FnOnce(&mut Progress)) {
        let progress = {
            let mut state = self.state();
            change(&mut state.progress);
            state.progress.clone()
        };
        (self.options.progress)(progress);
    }

    /// The next job; `None` when there will be none. Drops all that wait when the user ends it.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if (self.options.stop)() {
                state.jobs.clear();
            } else if let Some(job) = state.jobs.pop() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            let waited = self.wake.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn answer(&self, ready: &Ready, key: &str) -> (Result<CellResult, CellError>, bool) {
        if let Some(result) = self.state().known.get(key) {
            return (Ok(result.clone()), true);
        }
        let store = self.options.store.as_ref();
        let stored = store.filter(|_| !self.options.fresh).and_then(|store| store.get(key));
        let was_stored = stored.is_some();
        let result = match stored {
            Some(result) => Ok(result),
            None => compute(ready),
        };
        if let Ok(result) = &result {
            let written = match store.filter(|_| !was_stored) {
                Some(store) => store.put(key, result),
                None => Ok(()),
            };
            let mut state = self.state();
            if let Err(error) = written {
                state.not_stored.get_or_insert(error.to_string());
            }
            state.known.insert(key.to_string(), result.clone());
        }
        (result, was_stored)
    }
}

/// Lets the workers go, also when the question panicked.
struct Closer<'p, 'a>(&'p Pool<'a>);

impl Drop for Closer<'_, '_> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.wake.notify_all();
    }
}

/// Runs a cell. A workload that finds no memory unwinds with [`OutOfMemory`]: that is its result.
/// One that panics has none, which ends nothing but this cell.
fn compute(ready: &Ready) -> Result<CellResult, CellError> {
    let run = catch_unwind(AssertUnwindSafe(|| cell::run(ready)));
    run.unwrap_or_else(|panic| {
        let panic = match panic.downcast::<OutOfMemory>() {
            Ok(end) => {
                return Ok(CellResult { out_of_memory: Some(*end), ..CellResult::default() });
            }
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(CellError::Ended {
            machine: ready.cell.machine.clone(),
            policy: ready.cell.policy.clone(),
            cpus: ready.cell.cpus,
            message: text.unwrap_or_else(|| "no message".to_string()),
        })
    })
}
