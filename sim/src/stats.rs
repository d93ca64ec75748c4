//! What a run did: time at locks by call site, lines by structure and source.

use std::collections::BTreeMap;

use pageyard::platform::Site;

use crate::layout::Structure;
use crate::memory::Source;

/// Which lock. Sites of the allocator are kept apart; the workload names its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockAt {
    /// A zone lock, taken there.
    Zone(Site),
    /// A pcp lock, taken there.
    Pcp(Site),
    /// A lock of the workload.
    Workload(&'static str),
}

/// Time at a lock, picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockTime {
    /// Times it was taken.
    pub taken: u64,
    /// Of them, after waiting.
    pub waited: u64,
    /// Waiting, in all.
    pub wait_ps: u64,
    /// Holding, in all.
    pub hold_ps: u64,
    /// The longest hold.
    pub hold_max_ps: u64,
}

impl LockTime {
    fn add(&mut self, other: &LockTime) {
        self.taken += other.taken;
        self.waited += other.waited;
        self.wait_ps += other.wait_ps;
        self.hold_ps += other.hold_ps;
        self.hold_max_ps = self.hold_max_ps.max(other.hold_max_ps);
    }
}

/// Counted since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Time at locks.
    pub locks: BTreeMap<LockAt, LockTime>,
    /// Lines used, by structure and source.
    pub lines: BTreeMap<(Structure, Source), u64>,
    /// Lines of page contents used, by source.
    pub contents: BTreeMap<Source, u64>,
    /// The same under a lock, by the innermost.
    pub under: BTreeMap<(LockAt, Structure, Source), u64>,
    /// Line events in all.
    pub events: u64,
}

impl Stats {
    /// Adds what was counted in another stretch.
    pub fn add(&mut self, other: &Stats) {
        for (at, time) in &other.locks {
            self.locks.entry(*at).or_default().add(time);
        }
        for (at, count) in &other.lines {
            *self.lines.entry(*at).or_default() += count;
        }
        for (at, count) in &other.contents {
            *self.contents.entry(*at).or_default() += count;
        }
        self.events += other.events;
    }

    /// Time at all locks that `which` picks.
    #[must_use]
    pub fn lock(&self, which: impl Fn(&LockAt) -> bool) -> LockTime {
        let mut sum = LockTime::default();
        for (_, time) in self.locks.iter().filter(|(at, _)| which(at)) {
            sum.add(time);
        }
        sum
    }
}
