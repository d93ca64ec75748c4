//! One policy over one recording: the figures of the counted pass.

use pageyard::watermark::{extfrag_index, unusable_index};
use pageyard::{CpuId, EventItem, MigrateType, Policy, ZoneId, ZoneItem};
use pageyard_trace::error::TraceError;
use serde::Serialize;

use super::fair::{self, Reconciled};
use crate::twin::infer::Twin;
use crate::twin::ledger::Totals;
use crate::twin::replay::{Placement, Replay};
use crate::twin::world::MAX_ORDER;

/// Events between two looks at the per-CPU caches.
const SAMPLE_EVENTS: u64 = 64;
/// Orders of free blocks.
pub const ORDERS: usize = MAX_ORDER as usize + 1;

/// Free blocks of a zone at the end, by order.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ZoneFree {
    /// Zone, as `node 0 Normal`.
    pub zone: String,
    /// Free blocks of each order.
    pub blocks: [u64; ORDERS],
    /// Part of free memory that cannot serve each order, thousandths.
    pub unusable_permille: [u64; ORDERS],
    /// External fragmentation index of each order, thousandths; -1000 where a block is free.
    pub extfrag_permille: [i64; ORDERS],
}

/// Where the requests of a node were served.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct NodeNuma {
    /// Node.
    pub node: u8,
    /// Blocks served here as wanted (`numa_hit`).
    pub hit: u64,
    /// Blocks served here though wanted elsewhere (`numa_miss`).
    pub miss: u64,
}

/// The figures of one policy over one recording, of the counted pass unless said otherwise.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Measure {
    /// Counters.
    pub totals: Totals,
    /// Requests that were not served.
    pub failed: u64,
    /// Pages in all caches, summed over the samples.
    pub pcp_pages_sum: u64,
    /// Samples, one every 64 events.
    pub samples: u64,
    /// Most pages in all caches at a sample.
    pub pcp_pages_max: u64,
    /// Pages in all caches as the counted pass begins.
    pub first_pcp_pages: u64,
    /// Limits of all caches together at the end, pages.
    pub limit_pages: u64,
    /// Pages that the caches held above their limits at the start, or on lists that the policy
    /// has not: given back before the first pass.
    pub cut_pages: u64,
    /// Free and cached pages after the counted pass less those after the first: the drift that
    /// bringing the memory back could not undo.
    pub drift_pages: i64,
    /// Buddies joined, where the free blocks had recorded positions.
    pub merges: Option<u64>,
    /// Blocks halved, likewise.
    pub splits: Option<u64>,
    /// Blocks freed and allocated to bring the memory back between the passes.
    pub reconciled_blocks: (u64, u64),
    /// Free blocks at the end.
    pub zones: Vec<ZoneFree>,
    /// Where requests were served, by node.
    pub numa: Vec<NodeNuma>,
}

impl Measure {
    /// Replays a recording twice under a policy, from a fair start, and measures the second pass.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn of(twin: &Twin, policy: Policy) -> Result<Measure, TraceError> {
        let mut replay = Replay::new(
            &twin.recording,
            &twin.world,
            &twin.history,
            policy,
            Placement::Own,
            &twin.assumptions,
        );
        let freed_by = fair::first_freed_by(twin)?;
        let mut measure =
            Measure { cut_pages: fair::cut_caches(&replay, twin), ..Measure::default() };
        let before = unused_pages(&replay, twin);
        twin.each_event(|event| replay.on_event(event))?;
        let Reconciled { freed, allocated, .. } = fair::reconcile(&mut replay, twin, &freed_by);
        measure.reconciled_blocks = (freed, allocated);
        measure.drift_pages = unused_pages(&replay, twin) - before;
        measure.first_pcp_pages = fair::cached_pages(&replay, twin);
        replay.rewind();
        replay.forget_totals();
        let failed = replay.oddities.failed;
        let numa = numa_counts(&replay, twin);
        let mut number = 0u64;
        twin.each_event(|event| {
            replay.on_event(event);
            number += 1;
            if number.is_multiple_of(SAMPLE_EVENTS) {
                measure.sample(&replay, twin);
            }
        })?;
        measure.sample(&replay, twin);
        measure.failed = replay.oddities.failed - failed;
        measure.finish(&replay, twin, &numa);
        Ok(measure)
    }

    fn sample(&mut self, replay: &Replay<'_>, twin: &Twin) {
        let pages = fair::cached_pages(replay, twin);
        self.samples += 1;
        self.pcp_pages_sum += pages;
        self.pcp_pages_max = self.pcp_pages_max.max(pages);
    }

    fn finish(&mut self, replay: &Replay<'_>, twin: &Twin, numa: &[NodeNuma]) {
        let allocator = replay.allocator();
        self.totals = allocator.platform().listener(|tally| tally.totals);
        if has_positions(replay.start.free_map) {
            self.merges = Some(self.totals.merges);
            self.splits = Some(self.totals.splits);
        }
        self.numa = numa_counts(replay, twin);
        for (after, before) in self.numa.iter_mut().zip(numa) {
            after.hit -= before.hit;
            after.miss -= before.miss;
        }
        for (at, desc) in twin.world.zones.iter().enumerate() {
            let zone = ZoneId(at as u8);
            let mut blocks = [0; ORDERS];
            for (order, blocks) in blocks.iter_mut().enumerate() {
                let of = |t| allocator.free_blocks(zone, order as u8, t);
                *blocks = MigrateType::ALL.into_iter().map(of).sum();
            }
            self.zones.push(ZoneFree {
                zone: desc.name(),
                blocks,
                unusable_permille: std::array::from_fn(|o| unusable_index(&blocks, o as u8)),
                extfrag_permille: std::array::from_fn(|o| extfrag_index(&blocks, o as u8)),
            });
            for cpu in (0..twin.world.cpus() as u16).map(CpuId) {
                self.limit_pages += u64::from(allocator.pcp_limit(zone, cpu));
            }
        }
    }

    /// Free blocks of the whole machine at the end, by order.
    #[must_use]
    pub fn free_blocks(&self) -> [u64; ORDERS] {
        std::array::from_fn(|order| self.zones.iter().map(|zone| zone.blocks[order]).sum())
    }
}

/// Whether free blocks start where the recorded kernel had them.
#[must_use]
pub fn has_positions(free_map: &str) -> bool {
    free_map.starts_with("kpageflags")
}

/// Pages that nobody uses: free, or in a cache.
fn unused_pages(replay: &Replay<'_>, twin: &Twin) -> i64 {
    let zones = (0..twin.world.zones.len() as u8).map(ZoneId);
    let free: i64 =
        zones.map(|zone| replay.allocator().zone_count(zone, ZoneItem::FreePages)).sum();
    free + fair::cached_pages(replay, twin) as i64
}

fn numa_counts(replay: &Replay<'_>, twin: &Twin) -> Vec<NodeNuma> {
    let mut nodes: Vec<NodeNuma> =
        (0..twin.world.nodes as u8).map(|node| NodeNuma { node, ..NodeNuma::default() }).collect();
    for (at, desc) in twin.world.zones.iter().enumerate() {
        let count = |item| replay.allocator().event_count(ZoneId(at as u8), item);
        let node = &mut nodes[usize::from(desc.node)];
        node.hit += count(EventItem::NumaHit);
        node.miss += count(EventItem::NumaMiss);
    }
    nodes
}
