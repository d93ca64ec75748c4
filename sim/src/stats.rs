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

/// Counts uses of lines, which happen millions of times a second: one count a use.
#[derive(Clone, Debug)]
pub struct LineCounts {
    /// Locks by place; the first place is that of no lock.
    places: Vec<Option<LockAt>>,
    uses: Vec<Uses>,
}

impl Default for LineCounts {
    fn default() -> LineCounts {
        LineCounts { places: vec![None], uses: vec![Uses::default()] }
    }
}

impl LineCounts {
    /// Place of what is used under no lock.
    pub const NO_LOCK: usize = 0;

    /// Place of a lock among the counts.
    pub fn place(&mut self, at: LockAt) -> usize {
        self.places.iter().position(|known| *known == Some(at)).unwrap_or_else(|| {
            self.places.push(Some(at));
            self.uses.push(Uses::default());
            self.uses.len() - 1
        })
    }

    /// A line was used, under the innermost lock of a place.
    #[inline]
    pub fn count(&mut self, structure: Structure, source: Source, place: usize) {
        self.uses[place][structure as usize][source as usize] += 1;
    }

    /// Begins again; places stay.
    pub fn reset(&mut self) {
        self.uses.fill(Uses::default());
    }

    /// Puts the counts into `stats`.
    pub fn tell(&self, stats: &mut Stats) {
        stats.lines.clear();
        stats.under.clear();
        for (place, uses) in self.places.iter().zip(&self.uses) {
            for ((structure, source), count) in used(uses) {
                *stats.lines.entry((structure, source)).or_default() += count;
                stats.events += count;
                if let Some(at) = *place {
                    stats.under.insert((at, structure, source), count);
                }
            }
        }
    }
}

fn used(uses: &Uses) -> impl Iterator<Item = ((Structure, Source), u64)> {
    let all = Structure::ALL.into_iter().zip(uses).flat_map(|(structure, uses)| {
        Source::ALL.into_iter().zip(uses).map(move |(source, count)| ((structure, source), *count))
    });
    all.filter(|&(_, count)| count > 0)
}
