//! The same start for every policy: caches cut to the policy's own limits, a first pass that is
//! not counted, and between the passes the memory in use brought back to what it was.
//!
//! A 6.18 cache may hold four times what 5.17 allows. Replaying 5.17 from such a state would
//! charge it for a drain that no 5.17 kernel would ever have had to do. So each cache is first
//! cut to its own limit. The first pass then lets the policy settle into its own habits (limits
//! that move, types of pageblocks, what lies on which list); only the second is counted.

use std::collections::BTreeMap;

use pageyard::policy::PcpHigh;
use pageyard::sizing::PcpSize;
use pageyard::{CpuId, MigrateType, NodeId, PageKind, Pfn, Request, Scope, ZoneId};
use pageyard_trace::error::TraceError;
use pageyard_trace::event::Kind;

use crate::twin::replay::Replay;
use crate::twin::twin::Twin;

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
            let state = PcpSize {
                high,
                free_run: 0,
                freed_high_order: false,
                ..size
            };
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
    caches
        .map(|(zone, cpu)| u64::from(replay.allocator().pcp_pages(zone, cpu)))
        .sum()
}

/// CPUs that first freed the pages in use at the first event, by page frame: these pages are
/// allocated again between the passes, there.
///
/// # Errors
/// The recording cannot be read again.
pub fn first_freed_by(twin: &Twin) -> Result<BTreeMap<u64, u16>, TraceError> {
    let in_use: BTreeMap<u64, u8> = twin
        .history
        .in_use
        .iter()
        .map(|&(pfn, order, _)| (pfn, order))
        .collect();
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
/// them in the recording (`freed_by`). Each cache then gets back the limit and the runs it had
/// at the end of the pass, and what is above the limit is given back: this traffic is not the
/// workload's and must not teach the policy anything.
pub fn reconcile(
    replay: &mut Replay<'_>,
    twin: &Twin,
    freed_by: &BTreeMap<u64, u16>,
) -> Reconciled {
    let states = cache_states(replay, twin);
    let mut done = Reconciled::default();
    let then: BTreeMap<u64, (u8, u8)> = twin
        .history
        .in_use
        .iter()
        .map(|&(pfn, order, t)| (pfn, (order, t)))
        .collect();
    let now: Vec<(u64, Pfn)> = replay.names().collect();
    let mut kept = BTreeMap::new();
    for (pfn, page) in now {
        let state = replay.allocator().inspect(page);
        let Some(state) = state.filter(|state| state.kind == PageKind::Allocated) else {
            replay.set_name(pfn, None);
            continue;
        };
        if then
            .get(&pfn)
            .is_some_and(|&(order, _)| order == state.order)
        {
            kept.insert(pfn, ());
            continue;
        }
        replay.allocator().platform().run_on(state.last_cpu);
        replay.allocator().free(page, state.order);
        replay.set_name(pfn, None);
        done.freed += 1;
    }
    for (&pfn, &(order, t)) in then.iter().filter(|(pfn, _)| !kept.contains_key(pfn)) {
        let Some(zone) = twin.world.zone_of(pfn) else {
            continue;
        };
        let desc = &twin.world.zones[zone];
        let cpu = freed_by.get(&pfn).copied().unwrap_or(0);
        let cpu = if usize::from(cpu) < twin.world.cpus() {
            cpu
        } else {
            0
        };
        let request = Request {
            mobility: MigrateType::of(u32::from(t.min(2))),
            highest: desc.kind,
            node: Some(NodeId(desc.node)),
            scope: Scope::AllNodes,
            no_marks: true,
            may_wait: false,
            may_wake: false,
            ..Request::kernel(order)
        };
        replay.allocator().platform().run_on(CpuId(cpu));
        match replay.allocator().alloc(&request) {
            Ok(page) => {
                replay.set_name(pfn, Some(page));
                done.allocated += 1;
            }
            Err(_) => done.failed += 1,
        }
    }
    restore_caches(replay, &states);
    done
}

/// Limits and runs of each cache.
fn cache_states(replay: &Replay<'_>, twin: &Twin) -> Vec<(ZoneId, CpuId, PcpSize)> {
    let mut states = Vec::new();
    for zone in (0..twin.world.zones.len() as u8).map(ZoneId) {
        for cpu in (0..twin.world.cpus() as u16).map(CpuId) {
            states.push((zone, cpu, replay.allocator().pcp(zone, cpu).size));
        }
    }
    states
}

fn restore_caches(replay: &Replay<'_>, states: &[(ZoneId, CpuId, PcpSize)]) {
    let allocator = replay.allocator();
    for &(zone, cpu, size) in states {
        allocator.set_pcp_state(zone, cpu, size);
        allocator.platform().run_on(cpu);
        let above = allocator.pcp_pages(zone, cpu).saturating_sub(size.high);
        allocator.trim_zone_cpu(zone, cpu, above);
    }
}
