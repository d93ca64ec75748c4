//! How many frees in a row a cache had behind it at the first event (5.14 to 6.6).
//!
//! There each free that drains doubles the next, each allocation halves it, and a block of order
//! 1 to 3 freed amid such a run empties the cache whatever its limit. So where the first drain of
//! a cache follows a block of order 1 to 3, takes more than half of what the cache held, and that
//! was less than half its limit, the run had begun before the recording.

use std::collections::BTreeMap;

use pageyard::Policy;
use pageyard::policy::FreeScale;
use pageyard_trace::event::{Event, Kind};

use super::observe::is_cached;
use super::runs::Drain;
use super::unasked::Unasked;
use super::world::World;

/// Allocations after which a run is over, whatever it was: as many as it can be halved
/// (`CONFIG_PCP_BATCH_SCALE_MAX`).
const HALVINGS_MAX: u32 = 5;

/// What went into a cache and out of it so far.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    /// Pages that came in, less those that left.
    pages: i64,
    /// The same when zoneinfo was read.
    at_snapshot: i64,
    allocs: u32,
    last_free_order: u8,
    drained: bool,
}

/// Follows every cache up to its first drain.
#[derive(Debug)]
pub struct FirstFrees {
    /// By CPU and zone; empty where the policy knows no such runs.
    fills: Vec<Fill>,
    zones: usize,
    snapshot_ns: Option<u64>,
    /// Frees in a row at the first event, as [`pageyard::sizing::PcpSize::free_run`] has them.
    pub found: BTreeMap<(u16, usize), u32>,
}

impl FirstFrees {
    /// Begins. `snapshot_ns` is when zoneinfo was read, if known.
    #[must_use]
    pub fn new(world: &World, policy: &Policy, snapshot_ns: Option<u64>) -> FirstFrees {
        let zones = world.zones.len();
        let caches = if policy.free_scale == FreeScale::Factor { world.cpus() * zones } else { 0 };
        FirstFrees {
            fills: vec![Fill::default(); caches],
            zones,
            snapshot_ns,
            found: BTreeMap::new(),
        }
    }

    fn fill(&mut self, cpu: u16, zone: usize) -> Option<&mut Fill> {
        self.fills.get_mut(usize::from(cpu) * self.zones + zone)
    }

    /// Takes an event about a page; `drain` events only where they follow a free.
    pub fn on_page(&mut self, event: &Event, zone: usize, policy: &Policy) {
        let is_before = self.snapshot_ns.is_some_and(|at| event.time_ns <= at);
        let Some(fill) = self.fill(event.cpu, zone) else {
            return;
        };
        match event.kind {
            Kind::PageAlloc { order, .. } if is_cached(policy, order) => {
                fill.pages -= 1 << order;
                fill.allocs += u32::from(!fill.drained);
            }
            Kind::PageFree { order, .. } if is_cached(policy, order) => {
                fill.pages += 1 << order;
                fill.last_free_order = order;
            }
            Kind::ZoneLocked { order, .. } if is_cached(policy, order) => fill.pages += 1 << order,
            Kind::PcpuDrain { order, .. } => fill.pages -= 1 << order,
            _ => {}
        }
        if is_before {
            fill.at_snapshot = fill.pages;
        }
    }

    /// Takes a drain that no free set off, once its owner is known.
    pub fn on_unasked(&mut self, drain: &Unasked) {
        let is_before = self.snapshot_ns.is_some_and(|at| drain.time_ns <= at);
        if let Some(fill) = self.fill(drain.cpu, drain.zone) {
            fill.pages -= i64::from(drain.pages);
            if is_before {
                fill.at_snapshot = fill.pages;
            }
        }
    }

    /// Takes a drain that a free set off.
    pub fn on_drain(&mut self, drain: &Drain, world: &World) {
        let Some(fill) = self.fill(drain.cpu, drain.zone) else {
            return;
        };
        if std::mem::replace(&mut fill.drained, true) {
            return;
        }
        let fill = *fill;
        let Some(set) = world.zones[drain.zone].pagesets.get(usize::from(drain.cpu)) else {
            return;
        };
        let pages = i64::from(drain.pages);
        let held = set.count + fill.pages - fill.at_snapshot + pages;
        let high_order = (1..=pageyard::COSTLY_ORDER).contains(&fill.last_free_order);
        let emptied = held * 2 < set.high && pages * 2 > held;
        if high_order && emptied && fill.allocs < HALVINGS_MAX {
            self.found.insert((drain.cpu, drain.zone), 1 << fill.allocs);
        }
    }
}
