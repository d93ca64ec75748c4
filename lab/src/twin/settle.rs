//! Finding the page counts that zoneinfo could not give: what each cache held at the first event.
//!
//! A snapshot is read before or amid the events, so a printed count is some pages off. The first
//! drain of a cache tells: the count reached the limit at that very free. The offset is searched
//! by bisection, because the twin's first drain comes the earlier the more it starts with. It is
//! fitted to one event per cache: its first drain, or that there is none. All later refills and
//! drains are predictions, unless `infer.rs` nudges a cache whose sequences still part.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::{Account, Ledger};

/// Pages by which a printed count may be off: what a kernel does while a few files are read.
const OFFSET_MAX: i64 = 4096;
/// Bisection steps: 2^13 halved to 1, and the first try.
pub const ROUNDS_MAX: usize = 15;

#[derive(Clone, Copy, Debug)]
struct Range {
    low: i64,
    high: i64,
    now: i64,
    settled: bool,
    moved: bool,
}

/// The search over all caches at once.
#[derive(Debug, Default)]
pub struct Settling {
    ranges: BTreeMap<(u16, usize), Range>,
}

/// Event of the first drain that a free caused; none is "after the end".
fn first_drain(account: Option<&Account>) -> u64 {
    let drains = account.map(|account| account.drains.as_slice()).unwrap_or_default();
    drains.iter().find(|drain| !drain.ticked).map_or(u64::MAX, |drain| drain.event)
}

impl Settling {
    /// Offsets to try next.
    #[must_use]
    pub fn offsets(&self) -> BTreeMap<(u16, usize), i64> {
        self.ranges.iter().map(|(&key, range)| (key, range.now)).collect()
    }

    /// Takes what the kernel did and what the twin did with the offsets tried last; true if
    /// another try is wanted.
    pub fn learn(&mut self, observed: &Ledger, predicted: &Ledger) -> bool {
        let mut again = false;
        let keys: BTreeSet<(u16, usize)> =
            observed.accounts.keys().chain(predicted.accounts.keys()).copied().collect();
        for key in keys {
            let target = first_drain(observed.accounts.get(&key));
            let got = first_drain(predicted.accounts.get(&key));
            let fresh =
                Range { low: -OFFSET_MAX, high: OFFSET_MAX, now: 0, settled: false, moved: false };
            let range = self.ranges.entry(key).or_insert(fresh);
            again |= range.step(got, target);
        }
        again
    }

    /// Caches whose count was moved: CPU, zone, offset, and whether the first drain then fell on
    /// the kernel's event.
    #[must_use]
    pub fn moved(&self) -> Vec<(u16, usize, i64, bool)> {
        let moved = self.ranges.iter().filter(|(_, range)| range.moved && range.now != 0);
        moved.map(|(&(cpu, zone), range)| (cpu, zone, range.now, range.settled)).collect()
    }
}

impl Range {
    /// One step of the bisection; true if another try is wanted.
    fn step(&mut self, got: u64, target: u64) -> bool {
        if self.settled {
            return false;
        }
        if got == target && (target != u64::MAX || !self.moved) {
            self.settled = true;
            return false;
        }
        if got < target {
            self.high = self.now - 1;
        } else {
            self.low = self.now;
        }
        if self.low >= self.high {
            self.settled = target == u64::MAX;
            if self.now == self.low {
                return false;
            }
            self.now = self.low;
            self.moved = true;
            return true;
        }
        self.moved = true;
        // Rounded up, so that the range shrinks when `low` is kept.
        self.now = self.low + (self.high - self.low + 1) / 2;
        true
    }
}
