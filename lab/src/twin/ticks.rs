//! The phase of the once-a-second tick: not recorded, inferred from the limits at the end.
//!
//! From 6.7 on each tick lowers a cache's limit by an eighth. Most drain nothing, so they leave
//! no event; but the limit that zoneinfo prints after the recording is lower than the refills
//! account for. A tick is placed between the two refills where the difference comes out exactly.

use pageyard::{CpuId, Policy, ZoneId};
use pageyard_trace::recording::Recording;

use super::ledger::{Account, Ledger};
use super::replay::Replay;
use super::world::World;

/// A tick that showed in a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Event before which it is placed.
    pub event: u64,
    /// CPU.
    pub cpu: u16,
    /// Zone whose limit betrays it.
    pub zone: usize,
    /// Limit that the recording prints at the end.
    pub printed: u32,
    /// Limit that the twin had without the tick.
    pub without: u32,
}

/// Finds at most one tick a CPU (recordings of a few seconds have a few; those that drain are
/// seen as events).
#[must_use]
pub fn infer(
    recording: &Recording,
    world: &World,
    policy: &Policy,
    twin: &Replay<'_>,
    ledger: &Ledger,
) -> Vec<Tick> {
    let mut found: Vec<Tick> = Vec::new();
    let after = recording
        .after
        .as_ref()
        .and_then(|snapshot| snapshot.zoneinfo.as_ref());
    let Some(after) = after.filter(|_| policy.pcp_high == pageyard::policy::PcpHigh::Auto) else {
        return found;
    };
    for (&(cpu, zone), account) in &ledger.accounts {
        let desc = &world.zones[zone];
        let printed = after
            .zone(u16::from(desc.node), desc.kind.name())
            .and_then(|info| info.pageset(u32::from(cpu)))
            .and_then(|set| u32::try_from(set.high).ok());
        let size = twin.allocator().pcp(ZoneId(zone as u8), CpuId(cpu)).size;
        let Some(printed) = printed.filter(|&high| high < size.high) else {
            continue;
        };
        if found.iter().any(|tick| tick.cpu == cpu) {
            continue;
        }
        let limits = (size.high_min, size.high_max);
        if let Some(event) = place(account, size.high, printed, limits) {
            found.push(Tick {
                event,
                cpu,
                zone,
                printed,
                without: size.high,
            });
        }
    }
    found
}

/// The refill after which one tick makes the limit end as printed.
fn place(account: &Account, end: u32, printed: u32, (min, max): (u32, u32)) -> Option<u64> {
    let highs: Vec<u32> = account.refills.iter().map(|refill| refill.high).collect();
    for (at, &high) in highs.iter().enumerate() {
        let mut now = (high - (high >> 3)).max(min);
        for pair in highs[at..].windows(2) {
            now = (now + pair[1].saturating_sub(pair[0])).min(max);
        }
        now += end.saturating_sub(*highs.last()?);
        if now == printed {
            return Some(account.refills[at].event + 1);
        }
    }
    None
}
