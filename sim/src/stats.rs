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
    /// Lines used under a lock, by the innermost.
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
        for (at, count) in &other.under {
            *self.under.entry(*at).or_default() += count;
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

/// Uses of lines by structure and source.
type Uses = [[u64; Source::ALL.len()]; Structure::ALL.len()];

/// Counts uses of lines, which happen millions of times a second.
#[derive(Clone, Debug, Default)]
pub struct LineCounts {
    all: Uses,
    under: Vec<(LockAt, Uses)>,
}

impl LineCounts {
    /// Place of a lock among the counts.
    pub fn place(&mut self, at: LockAt) -> usize {
        self.under.iter().position(|(known, _)| *known == at).unwrap_or_else(|| {
            self.under.push((at, Uses::default()));
            self.under.len() - 1
        })
    }

    /// A line was used, under the lock of a place if any.
    pub fn count(&mut self, structure: Structure, source: Source, place: Option<usize>) {
        let (structure, source) = (structure as usize, source as usize);
        self.all[structure][source] += 1;
        if let Some(place) = place {
            self.under[place].1[structure][source] += 1;
        }
    }

    /// Begins again; places stay.
    pub fn reset(&mut self) {
        self.all = Uses::default();
        self.under.iter_mut().for_each(|(_, uses)| *uses = Uses::default());
    }

    /// Puts the counts into `stats`.
    pub fn tell(&self, stats: &mut Stats) {
        stats.lines = used(&self.all).collect();
        let under = self.under.iter().flat_map(|(at, uses)| {
            used(uses).map(move |((structure, source), count)| ((*at, structure, source), count))
        });
        stats.under = under.collect();
        stats.events += self.all.iter().flatten().sum::<u64>();
    }
}

fn used(uses: &Uses) -> impl Iterator<Item = ((Structure, Source), u64)> {
    let all = Structure::ALL.into_iter().zip(uses).flat_map(|(structure, uses)| {
        Source::ALL.into_iter().zip(uses).map(move |(source, count)| ((structure, source), *count))
    });
    all.filter(|&(_, count)| count > 0)
}
