//! When background reclaim of a node was at work: its flag caps the per-CPU caches of the node,
//! and no event shows it.
//!
//! The kernel raises the flag for one round of balancing and prints a wake before each. Where the
//! wakes were recorded, a round begins there and goes on to the last page event of `kswapd` before
//! the next. Where they were not, page events of `kswapd` alone tell, and a gap ends the round.
//!
//! A round goes on for a while after its last page event, up to some hundred microseconds as
//! recorded. There the kernel's answers tell: a drain of exactly what the cap leaves over.

use pageyard::Policy;
use pageyard::policy::FreeScale;
use pageyard_trace::event::{Event, KSWAPD_WAKE, Kind};

use super::history::page_of;
use super::runs::Drain;

/// A stretch of events during which the background reclaim of a node was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Node.
    pub node: u8,
    /// Number of its first event.
    pub from: u64,
    /// Number of its last event.
    pub to: u64,
    /// Time of its last event, nanoseconds.
    pub to_ns: u64,
    /// Its first event is the wake that begins a round.
    pub from_wake: bool,
    /// Its last event is a free whose drain only the cap explains, not one of `kswapd`.
    pub to_drain: bool,
}

/// Silence after which background reclaim is taken to sleep: its nap before it sleeps for good
/// (HZ/10, mm/vmscan as of 6.1).
const GAP_NS: u64 = 100_000_000;

/// How long after its last page event a round is looked for in the drains.
const TAIL_NS: u64 = 1_000_000;

/// Batches that the cap leaves in a cache, and of them what the drain then takes: the cap is
/// four, and one stays (`nr_pcp_high` and `nr_pcp_free`, mm/page_alloc of 5.14 to 6.6).
const CAPPED_BATCHES: u32 = 3;

/// A drain of a size that the cap makes.
#[derive(Clone, Copy, Debug)]
struct Capped {
    /// Number of the free that set it off.
    event: u64,
    node: u8,
    time_ns: u64,
}

/// Finds the stretches while the events go by.
#[derive(Debug, Default)]
pub struct Rounds {
    wakes_recorded: bool,
    stretches: Vec<Stretch>,
    capped: Vec<Capped>,
}

impl Rounds {
    /// Takes an event of a node's `kswapd`, outside interrupts.
    pub fn on_kswapd(&mut self, node: u8, number: u64, event: &Event) {
        let wakes = matches!(event.kind, Kind::Reclaim { id: KSWAPD_WAKE, .. });
        self.wakes_recorded |= wakes;
        let open = self.stretches.iter_mut().rev().find(|stretch| stretch.node == node);
        let goes_on = |stretch: &Stretch| match self.wakes_recorded {
            true => !wakes,
            false => event.time_ns <= stretch.to_ns.saturating_add(GAP_NS),
        };
        match open {
            _ if self.wakes_recorded && !wakes && page_of(event).is_none() => {}
            Some(stretch) if goes_on(stretch) => {
                (stretch.to, stretch.to_ns) = (number, event.time_ns);
            }
            _ => {
                let (from, to, to_ns) = (number, number, event.time_ns);
                let (from_wake, to_drain) = (wakes, false);
                self.stretches.push(Stretch { node, from, to, to_ns, from_wake, to_drain });
            }
        }
    }

    /// Takes a drain of a zone of the node, at the time at which it ended.
    pub fn on_drain(
        &mut self,
        time_ns: u64,
        node: u8,
        drain: &Drain,
        (policy, batch): (&Policy, u32),
    ) {
        let caps = policy.free_scale == FreeScale::Factor;
        if caps && drain.after_free && drain.pages == CAPPED_BATCHES * batch {
            self.capped.push(Capped { event: drain.event, node, time_ns });
        }
    }

    /// The stretches, in order of their first events.
    #[must_use]
    pub fn finish(mut self) -> Vec<Stretch> {
        if !self.wakes_recorded {
            return self.stretches;
        }
        for at in 0..self.stretches.len() {
            let stretch = self.stretches[at];
            let next = self.stretches[at + 1..].iter().find(|next| next.node == stretch.node);
            let end = next.map_or(u64::MAX, |next| next.from);
            let tail = stretch.to_ns.saturating_add(TAIL_NS);
            let last = self.capped.iter().filter(|drain| {
                let after = drain.event > stretch.to && drain.event < end;
                drain.node == stretch.node && after && drain.time_ns <= tail
            });
            if let Some(last) = last.max_by_key(|drain| drain.event) {
                let (to, to_ns) = (last.event, last.time_ns);
                self.stretches[at] = Stretch { to, to_ns, to_drain: true, ..stretch };
            }
        }
        self.stretches
    }
}

/// When background reclaim of each node begins and ends, last first: event, node, at work.
#[must_use]
pub fn switches(stretches: &[Stretch]) -> Vec<(u64, u8, bool)> {
    let mut switches: Vec<(u64, u8, bool)> = stretches
        .iter()
        .flat_map(|stretch| {
            [(stretch.from, stretch.node, true), (stretch.to + 1, stretch.node, false)]
        })
        .collect();
    switches.sort_unstable_by(|a, b| b.cmp(a));
    switches
}

#[cfg(test)]
mod tests {
    use super::super::testing::{event, free, policy};
    use super::*;

    const WAKE: Kind = Kind::Reclaim { id: KSWAPD_WAKE, node: 0, value: 0 };
    const US: u64 = 1000;

    /// Events of `kswapd0`: number, time in microseconds, kind.
    fn rounds(events: &[(u64, u64, Kind)]) -> Rounds {
        let mut rounds = Rounds::default();
        for &(number, time_us, kind) in events {
            rounds.on_kswapd(0, number, &event(time_us * US, (0, kind)));
        }
        rounds
    }

    fn drained(rounds: &mut Rounds, at: u64, time_us: u64, pages: u32) {
        let (policy, batch) = (policy("linux-6.1"), 7);
        let drain = Drain { cpu: 1, zone: 0, pages, event: at, pid: 1, after_free: true };
        rounds.on_drain(time_us * US, 0, &drain, (&policy, batch));
    }

    fn found(rounds: Rounds) -> Vec<(u64, u64, bool)> {
        rounds.finish().iter().map(|s| (s.from, s.to, s.to_drain)).collect()
    }

    #[test]
    fn a_round_goes_from_its_wake_to_its_last_page() {
        let page = free(1, 0);
        let other = Kind::Compaction { id: 0, a: 0, b: 0 };
        let events = [(0, 0, WAKE), (5, 5, page), (6, 6, other), (9, 900_000, WAKE)];
        assert_eq!(found(rounds(&events)), [(0, 5, false), (9, 9, false)]);
    }

    #[test]
    fn without_wakes_a_gap_ends_a_round() {
        let page = free(1, 0);
        let events = [(0, 0, page), (5, 99_000, page), (9, 200_000, page)];
        assert_eq!(found(rounds(&events)), [(0, 5, false), (9, 9, false)]);
    }

    #[test]
    fn a_drain_that_only_the_cap_explains_prolongs_a_round() {
        let mut rounds = rounds(&[(0, 0, WAKE), (5, 5, free(1, 0)), (90, 5000, WAKE)]);
        drained(&mut rounds, 10, 200, 21);
        drained(&mut rounds, 20, 300, 28);
        drained(&mut rounds, 30, 2000, 21);
        assert_eq!(found(rounds), [(0, 10, true), (90, 90, false)]);
    }

    #[test]
    fn switches_come_last_first() {
        let rounds = rounds(&[(3, 0, WAKE), (5, 5, free(1, 0))]);
        assert_eq!(switches(&rounds.finish()), [(6, 0, false), (3, 0, true)]);
    }
}
