//! Words that every CPU writes without a lock: who asks for such a line waits for its turn.
//!
//! The agent that keeps a line coherent answers one request for it at a time. Elsewhere that is
//! rarely seen, since a lock admits one CPU at a time. A counter that overflows, though, is asked
//! for by all CPUs that read a word beside it, at once (Boyd-Wickizer and others, Non-scalable
//! locks are dangerous, OLS 2012: readers of a line just written are served one after another).

use std::collections::BTreeMap;

use crate::memory::{Line, Source};

/// A stretch of virtual time, picoseconds: from when a line was asked for until it was there.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    from: u64,
    to: u64,
}

impl Stretch {
    /// How long somebody waits who comes at a time within it. Who comes before it, in virtual time,
    /// was there first and waits for nobody.
    fn wait(self, now: u64) -> u64 {
        if now < self.from { 0 } else { self.to.saturating_sub(now) }
    }
}

#[derive(Debug, Default)]
struct Turn {
    busy: Stretch,
    /// The last fetch of each core that fetched it.
    fetches: Vec<(usize, Stretch)>,
}

/// Turns at the lines of counters.
#[derive(Debug, Default)]
pub struct Turns {
    lines: BTreeMap<Line, Turn>,
}

impl Turns {
    /// A core found a line somewhere, at a cost: what it costs in turn.
    pub fn take(
        &mut self,
        core: usize,
        line: Line,
        source: Source,
        latency: u64,
        now: u64,
    ) -> (Source, u64) {
        let turn = self.lines.entry(line).or_default();
        let at = turn.fetches.iter().position(|&(who, _)| who == core);
        if source <= Source::L2 {
            // The sibling thread asked for it before, and it is on its way.
            let wait = at.map_or(0, |at| turn.fetches[at].1.wait(now));
            return if wait > latency { (Source::Llc, wait) } else { (source, latency) };
        }
        let wait = turn.busy.wait(now);
        let to = now + wait + latency;
        turn.busy = match wait {
            0 if now < turn.busy.from => turn.busy,
            0 => Stretch { from: now, to },
            _ => Stretch { to, ..turn.busy },
        };
        let fetch = (core, Stretch { from: now, to });
        match at {
            Some(at) => turn.fetches[at] = fetch,
            None => turn.fetches.push(fetch),
        }
        (source, wait + latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line(7);

    #[test]
    fn requests_at_one_time_are_answered_one_after_another() {
        let mut turns = Turns::default();
        let mut take = |core, now| turns.take(core, LINE, Source::Llc, 20_000, now).1;
        assert_eq!([take(0, 1000), take(1, 1000), take(2, 6000)], [20_000, 40_000, 55_000]);
        assert_eq!(take(3, 61_000), 20_000, "nobody is there any more");
        assert_eq!(take(4, 500), 20_000, "was there before all others");
    }

    #[test]
    fn a_sibling_waits_for_what_its_core_asked_for() {
        let mut turns = Turns::default();
        assert_eq!(turns.take(0, LINE, Source::Core, 50_000, 0), (Source::Core, 50_000));
        assert_eq!(turns.take(0, LINE, Source::L1, 1000, 10_000), (Source::Llc, 40_000));
        assert_eq!(turns.take(0, LINE, Source::L1, 1000, 50_000), (Source::L1, 1000));
        assert_eq!(turns.take(1, LINE, Source::L1, 1000, 10_000), (Source::L1, 1000));
    }
}
