//! When a run on this machine is measured, and what each of its threads did meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pageyard_host::pin::thread_cpu_ns;

use crate::cells::work::Watch;

/// Threads warm up.
const WARM: u32 = 0;
/// What they do counts.
const MEASURE: u32 = 1;
/// They end.
const OVER: u32 = 2;
/// Parts of a workload that time is told of.
pub const PARTS: usize = 3;
/// Kinds of what else is counted.
pub const NOTES: usize = 2;

/// The clock on the wall: all threads look at it.
pub struct Clock {
    phase: AtomicU32,
    start: Barrier,
}

impl Clock {
    /// A clock for so many threads, and whoever sets it.
    #[must_use]
    pub fn new(threads: usize) -> Clock {
        Clock { phase: AtomicU32::new(WARM), start: Barrier::new(threads + 1) }
    }

    /// Waits until all are here.
    pub fn wait(&self) {
        self.start.wait();
    }

    /// Lets all begin, and measures from the one time until the other has passed; without a time to
    /// warm up, from the beginning. `between` is called as measuring begins and as it ends.
    pub fn run(&self, warm: Duration, measure: Duration, mut between: impl FnMut()) {
        if !warm.is_zero() {
            self.start.wait();
            self.sleep(warm);
        }
        between();
        self.set(MEASURE);
        if warm.is_zero() {
            self.start.wait();
        }
        self.sleep(measure);
        self.set(OVER);
        between();
    }

    /// Looks now and then whether a thread has ended the run.
    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.phase() != OVER {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    fn set(&self, phase: u32) {
        // Relaxed: tells of time passed and of nothing else. A run that was ended stays so.
        self.phase.fetch_max(phase, Ordering::Relaxed);
    }

    fn phase(&self) -> u32 {
        self.phase.load(Ordering::Relaxed)
    }

    /// Ends the run.
    pub fn end(&self) {
        self.set(OVER);
    }
}

/// What a thread did while it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Units of the workload's score.
    pub units: u64,
    /// In so much time, nanoseconds: from its first to its last look at the clock.
    pub ns: u64,
    /// Of it on a CPU, nanoseconds: less where the host does something else, too.
    pub cpu_ns: u64,
    /// Picoseconds and pages of each part.
    pub parts: [(u64, u64); PARTS],
    /// What else was counted.
    pub notes: [u64; NOTES],
    /// First pages of the blocks that it took, each once, rising, where the workload tells of them.
    pub frames: Vec<u64>,
}

/// A moment by the clock on the wall and by that of a thread, nanoseconds.
#[derive(Clone, Copy)]
struct Moment(Instant, u64);

impl Moment {
    fn now() -> Moment {
        Moment(Instant::now(), thread_cpu_ns())
    }
}

/// A thread's look at the clock.
pub struct Eye<'a> {
    clock: &'a Clock,
    seen: Cell<u32>,
    begin: Cell<Option<Moment>>,
    end: Cell<Option<Moment>>,
    /// The unit under way began before it was measured.
    is_late: Cell<bool>,
    units: Cell<u64>,
    parts: [Cell<(u64, u64)>; PARTS],
    notes: [Cell<u64>; NOTES],
    frames: RefCell<HashSet<u64>>,
}

impl<'a> Eye<'a> {
    /// A look from a thread that has done nothing yet.
    #[must_use]
    pub fn new(clock: &'a Clock) -> Eye<'a> {
        Eye {
            clock,
            seen: Cell::new(WARM),
            begin: Cell::new(None),
            end: Cell::new(None),
            is_late: Cell::new(false),
            units: Cell::new(0),
            parts: Default::default(),
            notes: Default::default(),
            frames: RefCell::default(),
        }
    }

    fn is_measuring(&self) -> bool {
        self.seen.get() == MEASURE && self.clock.phase() == MEASURE
    }

    /// The thread begins.
    pub fn start(&self) {
        let phase = self.clock.phase();
        if phase != self.seen.get() {
            self.turn(phase, 0);
        }
    }

    /// What was done, of a thread that has just ended. One that was never seen between both ends
    /// has done nothing.
    #[must_use]
    pub fn done(&self) -> Done {
        if self.seen.get() == MEASURE {
            self.turn(OVER, 0);
        }
        let time = self.begin.get().zip(self.end.get());
        let (ns, cpu_ns) = time.map_or((0, 0), |(begin, end)| {
            (end.0.duration_since(begin.0).as_nanos() as u64, end.1.saturating_sub(begin.1))
        });
        let units = if ns == 0 { 0 } else { self.units.get() };
        let mut frames: Vec<u64> = self.frames.borrow().iter().copied().collect();
        frames.sort_unstable();
        let (parts, notes) =
            (self.parts.each_ref().map(Cell::get), self.notes.each_ref().map(Cell::get));
        Done { units, ns, cpu_ns, parts, notes, frames }
    }

    #[cold]
    fn turn(&self, phase: u32, units: u64) {
        let before = self.seen.replace(phase);
        match (before, phase) {
            (WARM, MEASURE) => self.begin.set(Some(Moment::now())),
            (MEASURE, _) => {
                self.units.set(self.units.get() + units);
                self.end.set(Some(Moment::now()));
            }
            _ => {}
        }
    }
}

impl Watch for Eye<'_> {
    fn is_over(&self) -> bool {
        self.clock.phase() == OVER
    }

    fn did(&self, units: u64) {
        let phase = self.clock.phase();
        if phase != self.seen.get() {
            self.turn(phase, units);
        } else if phase == MEASURE && !self.is_late.replace(false) {
            self.units.set(self.units.get() + units);
        }
    }

    fn spent(&self, part: usize, ps: u64, pages: u64) {
        if self.seen.get() == WARM && self.clock.phase() == MEASURE {
            // Who does nothing that counts, such as a sender, has its time nevertheless. What this
            // was a part of began before.
            self.turn(MEASURE, 0);
            self.is_late.set(true);
        } else if self.seen.get() == MEASURE {
            let (spent, counted) = self.parts[part].get();
            self.parts[part].set((spent + ps, counted + pages));
        }
    }

    fn noted(&self, what: usize, times: u64) {
        if self.is_measuring() {
            self.notes[what].set(self.notes[what].get() + times);
        }
    }

    fn took(&self, frame: u64) {
        if self.is_measuring() {
            self.frames.borrow_mut().insert(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_between_both_ends_counts() {
        let clock = Clock::new(0);
        let eye = Eye::new(&clock);
        eye.did(5);
        eye.spent(0, 9, 9);
        eye.noted(0, 9);
        eye.took(7);
        clock.set(MEASURE);
        eye.did(7);
        std::thread::yield_now();
        eye.did(2);
        eye.spent(1, 30, 3);
        eye.noted(0, 1);
        [9, 4, 9].into_iter().for_each(|frame| eye.took(frame));
        assert!(!eye.is_over());
        clock.end();
        clock.set(MEASURE);
        assert!(eye.is_over(), "what has ended stays so");
        eye.noted(0, 8);
        eye.took(8);
        eye.did(3);
        eye.did(4);
        eye.spent(1, 30, 3);
        let done = eye.done();
        // The unit that was under way as it began is left out, the one as it ended is not.
        assert_eq!((done.units, done.parts), (5, [(0, 0), (30, 3), (0, 0)]));
        assert_eq!((done.notes, done.frames), ([1, 0], vec![4, 9]));
        assert!(done.ns > 0);
    }

    #[test]
    fn a_unit_whose_parts_are_told_first_counts_with_them_or_not_at_all() {
        let clock = Clock::new(0);
        let eye = Eye::new(&clock);
        clock.set(MEASURE);
        eye.spent(0, 10, 1);
        eye.did(1);
        for _ in 0..2 {
            eye.spent(0, 10, 1);
            std::thread::yield_now();
            eye.did(1);
        }
        clock.end();
        eye.spent(0, 10, 1);
        eye.did(1);
        let done = eye.done();
        assert_eq!((done.units, done.parts[0]), (3, (30, 3)));
    }

    #[test]
    fn without_a_time_to_warm_up_everything_counts() {
        let clock = Clock::new(0);
        let mut calls = 0;
        clock.end();
        clock.run(Duration::ZERO, Duration::ZERO, || calls += 1);
        assert_eq!(calls, 2);
        let clock = Clock::new(0);
        clock.set(MEASURE);
        let eye = Eye::new(&clock);
        eye.start();
        eye.did(3);
        std::thread::yield_now();
        eye.did(4);
        assert_eq!(eye.done().units, 7);
    }

    #[test]
    fn a_thread_that_was_never_seen_has_done_nothing() {
        let clock = Clock::new(0);
        let eye = Eye::new(&clock);
        clock.end();
        eye.did(5);
        assert_eq!(eye.done(), Done::default());
    }
}
