//! The same start for every policy: caches cut to the policy's own limits, a first pass that is
//! not counted, and between the passes the memory in use brought back to what it was.
//!
//! A 6.18 cache may hold four times what 5.17 allows. Replaying 5.17 from such a state would
//! charge it for a drain that no 5.17 kernel would ever have had to do. So each cache is first
//! cut to its own limit. The first pass then lets the policy settle into its own habits (limits
//! that move, types of pageblocks, what lies on which list); only the second is counted.

use std::collections::{BTreeMap, BTreeSet};

use pageyard::policy::PcpHigh;
use pageyard::sizing::PcpSize;
use pageyard::{CpuId, MigrateType, NodeId, PageKind, Pfn, Request, Scope, ZoneId, ZoneKind};
use pageyard_trace::error::TraceError;
use pageyard_trace::event::Kind;

use crate::twin::infer::Twin;
use crate::twin::replay::Replay;

/// Cuts each cache to the limit that the policy allows it and sets the limit so. The moving
/// parts that a foreign kernel left behind (runs of frees) begin at zero. Returns the pages cut,
/// with those that the policy could not cache at all.
pub fn cut_caches(replay: &Replay<'_>, twin: &Twin) -> u64 {
    let allocator = replay.allocator();
    let auto = allocator.policy().pcp_high == PcpHigh::Auto;
    for zone in (0..twin.world.zones.len() as u8).map(ZoneId) {
        for cpu in (0..twin.world.cpus() as u16).map(CpuId) {
            let size = allocator.pcp(zone, cpu).size;
            let high = match auto {
                true => size.high.max(size.high_min).min(size.high_max),
                false => size.high_max,
            };
            let state = PcpSize { high, free_run: 0, freed_high_order: false, ..size };
            allocator.set_pcp_state(zone, cpu, state);
            allocator.platform().run_on(cpu);
            allocator.trim_zone_cpu(zone, cpu, size.count.saturating_sub(high));
        }
    }
    let recorded: u64 = replay.start.caches.iter().map(|c| u64::from(c.used)).sum();
    recorded.saturating_sub(cached_pages(replay, twin))
}

/// Pages in all caches.
#[must_use]
pub fn cached_pages(replay: &Replay<'_>, twin: &Twin) -> u64 {
    let zones = (0..twin.world.zones.len() as u8).map(ZoneId);
    let cpus = twin.world.cpus() as u16;
    let caches = zones.flat_map(|zone| (0..cpus).map(move |cpu| (zone, CpuId(cpu))));
    caches.map(|(zone, cpu)| u64::from(replay.allocator().pcp_pages(zone, cpu))).sum()
}

/// CPUs that first freed the pages in use at the first event, by page frame: these pages are
/// allocated again between the passes, there.
///
/// # Errors
/// The recording cannot be read again.
pub fn first_freed_by(twin: &Twin) -> Result<BTreeMap<u64, u16>, TraceError> {
    let in_use: BTreeMap<u64, u8> =
        twin.history.in_use.iter().map(|&(pfn, order, _)| (pfn, order)).collect();
    let mut cpus = BTreeMap::new();
    twin.each_event(|event| {
        if let Kind::PageFree { pfn, .. } = event.kind
            && in_use.contains_key(&pfn)
        {
            cpus.entry(pfn).or_insert(event.cpu);
        }
    })?;
    Ok(cpus)
}

/// What bringing the memory back took. Not counted in any figure; told beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Blocks in use at the end of the first pass, freed.
    pub freed: u64,
    /// Blocks in use at the first event, allocated again.
    pub allocated: u64,
    /// Of them, those for which there was no memory.
    pub failed: u64,
}

/// Brings the pages in use after a pass back to those at the first event, so that free memory
/// does not drift from pass to pass.
///
/// Blocks in use now but not then are freed on the CPU that touched them last; blocks in use
/// then but not now are allocated with the order, type and zone of then, on the CPU that freed
/// them in the recording (`freed_by`). This traffic is not the workload's and must not teach the
/// policy anything: while it lasts no cache is drained, and afterwards each cache holds as many
/// pages as at the end of the pass, with the limit and the runs it had then.
pub fn reconcile(
    replay: &mut Replay<'_>,
    twin: &Twin,
    freed_by: &BTreeMap<u64, u16>,
) -> Reconciled {
    let caches = Caches::of(replay, twin);
    for zone in (0..twin.world.zones.len() as u8).map(ZoneId) {
        replay.allocator().set_reclaim_active(zone, false);
    }
    let mut done = Reconciled::default();
    let in_use = twin.history.in_use.iter();
    let then: BTreeMap<u64, (u8, u8)> = in_use.map(|&(pfn, order, t)| (pfn, (order, t))).collect();
    let now: Vec<(u64, Pfn)> = replay.names().collect();
    let mut kept = BTreeSet::new();
    for (pfn, page) in now {
        let state = replay.allocator().inspect(page);
        let Some(state) = state.filter(|state| state.kind == PageKind::Allocated) else {
            replay.set_name(pfn, None);
            continue;
        };
        if then.get(&pfn).is_some_and(|&(order, _)| order == state.order) {
            kept.insert(pfn);
            continue;
        }
        let zone = replay.allocator().zone_of(page);
        caches.open(replay, zone.unwrap_or(ZoneId(0)), state.last_cpu);
        replay.allocator().free(page, state.order);
        replay.set_name(pfn, None);
        done.freed += 1;
    }
    for (&pfn, &block) in then.iter().filter(|(pfn, _)| !kept.contains(pfn)) {
        let cpu = freed_by.get(&pfn).copied().unwrap_or(0);
        match allocate_again(replay, twin, &caches, (pfn, block), CpuId(cpu)) {
            true => done.allocated += 1,
            false => done.failed += 1,
        }
    }
    caches.level(replay);
    done
}

/// Allocates a block that was in use at the first event; false if there is no memory for it.
fn allocate_again(
    replay: &mut Replay<'_>,
    twin: &Twin,
    caches: &Caches,
    (pfn, (order, t)): (u64, (u8, u8)),
    cpu: CpuId,
) -> bool {
    let Some(zone) = twin.world.zone_of(pfn) else {
        return false;
    };
    let desc = &twin.world.zones[zone];
    let known = usize::from(cpu.0) < twin.world.cpus();
    caches.open(replay, ZoneId(zone as u8), if known { cpu } else { CpuId(0) });
    let request = Request {
        highest: desc.kind,
        node: Some(NodeId(desc.node)),
        ..quiet_request(order, MigrateType::of(u32::from(t.min(2))))
    };
    match replay.allocator().alloc(&request) {
        Ok(page) => {
            replay.set_name(pfn, Some(page));
            true
        }
        Err(_) => false,
    }
}

/// A request that wakes nobody and minds no mark.
fn quiet_request(order: u8, mobility: MigrateType) -> Request {
    Request {
        mobility,
        scope: Scope::AllNodes,
        no_marks: true,
        may_wait: false,
        may_wake: false,
        ..Request::kernel(order)
    }
}

/// A limit that no cache reaches, pages.
const NO_LIMIT: u32 = 1 << 30;

/// Every cache as it was at the end of a pass.
struct Caches {
    sizes: BTreeMap<(ZoneId, CpuId), PcpSize>,
}

impl Caches {
    fn of(replay: &Replay<'_>, twin: &Twin) -> Caches {
        let cpus = twin.world.cpus() as u16;
        let zones = (0..twin.world.zones.len() as u8).map(ZoneId);
        let keys = zones.flat_map(|zone| (0..cpus).map(move |cpu| (zone, CpuId(cpu))));
        let size = |(zone, cpu)| ((zone, cpu), replay.allocator().pcp(zone, cpu).size);
        Caches { sizes: keys.map(size).collect() }
    }

    /// Makes a cache take what comes and forget what it saw, and lets its CPU work.
    fn open(&self, replay: &Replay<'_>, zone: ZoneId, cpu: CpuId) {
        let allocator = replay.allocator();
        allocator.platform().run_on(cpu);
        if let Some(size) = self.sizes.get(&(zone, cpu)) {
            allocator.set_pcp_state(zone, cpu, open(size, size.batch));
        }
    }

    /// Gives every cache the count, limit and runs it had.
    fn level(&self, replay: &Replay<'_>) {
        let allocator = replay.allocator();
        for (&(zone, cpu), size) in &self.sizes {
            allocator.platform().run_on(cpu);
            let count = allocator.pcp_pages(zone, cpu);
            if count < size.count {
                fill(replay, (zone, cpu), size, size.count - count);
            }
            let above = allocator.pcp_pages(zone, cpu).saturating_sub(size.count);
            allocator.trim_zone_cpu(zone, cpu, above);
            allocator.set_pcp_state(zone, cpu, *size);
        }
    }
}

fn open(size: &PcpSize, batch: u32) -> PcpSize {
    PcpSize {
        batch,
        high: NO_LIMIT,
        high_min: NO_LIMIT,
        high_max: NO_LIMIT,
        alloc_factor: 0,
        free_run: 0,
        freed_high_order: false,
        ..*size
    }
}

/// Brings `pages` more into a cache: takes all movable pages out until a refill of just that
/// size comes, and puts them back.
fn fill(replay: &Replay<'_>, (zone, cpu): (ZoneId, CpuId), size: &PcpSize, pages: u32) {
    let allocator = replay.allocator();
    let request = Request {
        highest: ZoneKind::Movable,
        scope: Scope::Only(zone),
        ..quiet_request(0, MigrateType::Movable)
    };
    let mut taken = Vec::new();
    let mut count = allocator.pcp_pages(zone, cpu);
    loop {
        allocator.set_pcp_state(zone, cpu, open(size, pages));
        let Ok(page) = allocator.alloc(&request) else {
            break;
        };
        taken.push(page);
        let before = std::mem::replace(&mut count, allocator.pcp_pages(zone, cpu));
        // A hit takes one page away; anything else is the refill, or a zone without pages.
        if count + 1 != before {
            break;
        }
    }
    for page in taken {
        allocator.set_pcp_state(zone, cpu, open(size, size.batch));
        allocator.free(page, 0);
    }
}
