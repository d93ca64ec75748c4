//! The phase of the once-a-second tick: not recorded, inferred from the limits at the end.
//!
//! From 6.7 on each tick lowers a cache's limit by an eighth. Most drain nothing, so they leave
//! no event; but the limit that zoneinfo prints after the recording is lower than the refills
//! account for. A CPU's ticks come a second apart; their phase is the one for which the limit at
//! the end comes out exactly.

use std::collections::BTreeMap;

use super::ledger::Account;

/// Time between ticks (`vm.stat_interval`, 1 s by default).
pub const TICK_NS: u64 = 1_000_000_000;

/// Ticks of a CPU, placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Times, nanoseconds.
    pub times_ns: Vec<u64>,
    /// CPU.
    pub cpu: u16,
    /// Zone whose limit betrays it.
    pub zone: usize,
    /// Limit that the recording prints at the end.
    pub printed: u32,
    /// Limit that the twin had without the ticks.
    pub without: u32,
}

/// What is known of one cache's limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitAtEnd {
    /// As zoneinfo prints it after the recording.
    pub printed: u32,
    /// As the twin has it at the same time without ticks.
    pub without: u32,
    /// Limit at the first event.
    pub first: u32,
    /// Unit of refills, pages.
    pub batch: u32,
    /// Lowest and highest limit.
    pub range: (u32, u32),
    /// When zoneinfo was read, nanoseconds.
    pub at_ns: u64,
}

/// Finds the ticks of each CPU. `accounts` are the kernel's refills: each raised the limit by
/// what it asked for. `limits` holds the caches whose limit ends too high; `start_ns` is the time
/// of the first event; `times` turns an event's number into its time.
#[must_use]
pub fn infer(
    accounts: &BTreeMap<(u16, usize), Account>,
    limits: &BTreeMap<(u16, usize), LimitAtEnd>,
    start_ns: u64,
    times: &dyn Fn(u64) -> u64,
) -> Vec<Tick> {
    let mut found: Vec<Tick> = Vec::new();
    for (&(cpu, zone), limit) in limits {
        let known = found.iter().any(|tick| tick.cpu == cpu);
        let Some(account) = accounts.get(&(cpu, zone)).filter(|_| !known) else {
            continue;
        };
        let steps = steps(account, limit, times);
        let phases = steps.iter().flat_map(|step| phases_after(step.at_ns, start_ns, limit.at_ns));
        let hit = phases
            .map(|first| every_second(first, limit.at_ns))
            .find(|ticks| !ticks.is_empty() && end_with(&steps, ticks, limit) == limit.printed);
        if let Some(times_ns) = hit {
            let (printed, without) = (limit.printed, limit.without);
            found.push(Tick { times_ns, cpu, zone, printed, without });
        }
    }
    found
}

/// A rise of the limit.
#[derive(Clone, Copy)]
struct Step {
    at_ns: u64,
    before: u32,
    rise: u32,
}

fn steps(account: &Account, limit: &LimitAtEnd, times: &dyn Fn(u64) -> u64) -> Vec<Step> {
    let mut before = limit.first;
    let mut steps = Vec::new();
    for refill in &account.refills {
        // A refill of order 0 is as large as the rise, unless it was cut short.
        let rise = if refill.order == 0 { refill.blocks } else { limit.batch };
        steps.push(Step { at_ns: times(refill.event), before, rise });
        before += rise;
    }
    steps
}

/// The first tick of the window for which some tick falls right after `at`.
fn phases_after(at_ns: u64, start_ns: u64, end_ns: u64) -> Option<u64> {
    let tick = at_ns + 1;
    (tick < end_ns).then(|| start_ns + tick.saturating_sub(start_ns) % TICK_NS)
}

fn every_second(first: u64, end_ns: u64) -> Vec<u64> {
    (0..).map(|n| first + n * TICK_NS).take_while(|&at| at < end_ns).collect()
}

/// The limit at the end if these ticks happened.
fn end_with(steps: &[Step], ticks: &[u64], limit: &LimitAtEnd) -> u32 {
    let (min, max) = limit.range;
    let mut ticks = ticks.iter().peekable();
    let mut now = steps.first().map_or(limit.without, |step| step.before);
    for step in steps {
        while ticks.next_if(|&&at| at <= step.at_ns).is_some() {
            now = (now - (now >> 3)).max(min);
        }
        now = (now + step.rise).min(max);
    }
    ticks.fold(now, |now, _| (now - (now >> 3)).max(min))
}

#[cfg(test)]
mod tests {
    use super::super::ledger::RefillEntry;
    use super::*;

    #[test]
    fn a_phase_is_found_where_the_limit_comes_out() {
        let refill = |event| RefillEntry { event, order: 0, migratetype: 1, blocks: 2016, high: 0 };
        let refills = vec![refill(10), refill(20), refill(30)];
        let accounts = BTreeMap::from([((0, 2), Account { refills, ..Account::default() })]);
        let printed = (22_016 - (22_016 >> 3)) + 2016;
        let limit = LimitAtEnd {
            printed,
            without: 24_032,
            first: 17_984,
            batch: 63,
            range: (7000, 120_000),
            at_ns: 100,
        };
        let limits = BTreeMap::from([((0, 2), limit)]);
        let found = infer(&accounts, &limits, 0, &|event| event);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].times_ns, [21]);
    }
}
