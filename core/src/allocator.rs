//! The allocator as a whole: its tables, and how it is built over a geometry and a policy.

use crate::geometry::{Geometry, GeometryError, Shape, Zone};
use crate::platform::{Field, Locks, Ordering, Platform, Shared, Site, TableId};
use crate::policy::{NoFragment, Policy};
use crate::types::{CpuId, MigrateType, NodeId, ZONES_MAX, ZoneId, ZoneKind};
use crate::zonelist::Zonelists;

/// One word of the CPU table: the node of the CPU. Written once, before anybody allocates.
const CPU_NODE: Field = Field(0);

/// A page allocator over the machine `P`.
///
/// All methods take `&self` and may be called from any CPU at the same time, except where a
/// method says that it belongs to set-up.
pub struct Allocator<P: Platform> {
    pub(crate) platform: P,
    pub(crate) policy: Policy,
    pub(crate) shape: Shape,
    pub(crate) zonelists: Zonelists,
    /// Zones whose requests keep types apart at first, a bit each.
    apart_zones: u64,
    /// Links and free heads of pages. Links: the lock of the list the page is on; heads: the
    /// zone lock.
    pub(crate) pages: P::Owned,
    /// Who holds each page. Raced.
    pub(crate) states: P::Shared,
    /// Types of pageblocks. Written under the zone lock, peeked at by frees.
    pub(crate) blocks: P::Shared,
    /// Heads of the free lists. Zone lock.
    pub(crate) areas: P::Owned,
    /// Blocks on each free list. Written under the zone lock, peeked at by watermark tests.
    pub(crate) area_counts: P::Shared,
    /// Marks and flags of zones. Raced; see `zone.rs`.
    pub(crate) zones: P::Shared,
    /// Limits and state of per-CPU caches. pcp lock.
    pub(crate) pcps: P::Owned,
    /// Words of per-CPU caches that others peek at. Written under the pcp lock.
    pub(crate) pcp_shared: P::Shared,
    /// Heads of the per-CPU lists. pcp lock.
    pub(crate) pcp_lists: P::Owned,
    /// See `stat.rs` for these four.
    pub(crate) stat_diffs: P::Shared,
    pub(crate) stat_totals: P::Wide,
    pub(crate) event_diffs: P::Wide,
    pub(crate) event_totals: P::Wide,
    cpus: P::Shared,
    zone_locks: P::Locks,
    pub(crate) pcp_locks: P::Locks,
}

/// Proof that the zone lock is held: made by [`Allocator::with_zone`] alone, never stored.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub zone: ZoneId,
    /// The CPU that works, a hint: selects which per-CPU words are charged.
    pub cpu: CpuId,
}

impl<P: Platform> Allocator<P> {
    /// Builds an allocator that holds no memory yet; see [`Allocator::add_memory`].
    ///
    /// Its tables come from the platform: 16 bytes a page and small change.
    ///
    /// # Errors
    /// The geometry or the policy contradicts itself.
    pub fn new(
        platform: P,
        geometry: &Geometry<'_>,
        policy: Policy,
    ) -> Result<Self, GeometryError> {
        policy.check().map_err(GeometryError::Policy)?;
        let shape = Shape::of(geometry)?;
        let zonelists = Zonelists::of(&shape, geometry.nodes);
        let apart_zones = apart_zones(&shape, policy.nofragment);
        let allocator = Allocator {
            pages: platform.owned(shape.spec(TableId::Pages)),
            states: platform.shared(shape.spec(TableId::PageStates)),
            blocks: platform.shared(shape.spec(TableId::Blocks)),
            areas: platform.owned(shape.spec(TableId::Areas)),
            area_counts: platform.shared(shape.spec(TableId::AreaCounts)),
            zones: platform.shared(shape.spec(TableId::Zones)),
            pcps: platform.owned(shape.spec(TableId::Pcps)),
            pcp_shared: platform.shared(shape.spec(TableId::PcpShared)),
            pcp_lists: platform.owned(shape.spec(TableId::PcpLists)),
            stat_diffs: platform.shared(shape.spec(TableId::StatDiffs)),
            stat_totals: platform.wide(shape.spec(TableId::StatTotals)),
            event_diffs: platform.wide(shape.spec(TableId::EventDiffs)),
            event_totals: platform.wide(shape.spec(TableId::EventTotals)),
            cpus: platform.shared(shape.spec(TableId::Cpus)),
            zone_locks: platform.locks(shape.spec(TableId::ZoneLocks)),
            pcp_locks: platform.locks(shape.spec(TableId::PcpLocks)),
            platform,
            policy,
            shape,
            zonelists,
            apart_zones,
        };
        for (cpu, node) in geometry.cpu_nodes.iter().enumerate() {
            // Relaxed: the embedder shares the allocator only after `new` returned.
            allocator.cpus.store(cpu, CPU_NODE, u32::from(node.0), Ordering::Relaxed);
        }
        allocator.set_all_block_types();
        allocator.set_up_limits(geometry);
        Ok(allocator)
    }

    /// The machine below.
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Number of zones over all nodes.
    #[must_use]
    pub fn zone_count_total(&self) -> usize {
        self.shape.zones
    }

    /// Every pageblock starts as Movable; boot and the embedder change that.
    fn set_all_block_types(&self) {
        for block in 0..self.shape.block_records {
            let movable = MigrateType::Movable as u32;
            self.blocks.store(block, Field(0), movable, Ordering::Relaxed);
        }
    }

    pub(crate) fn zone(&self, zone: ZoneId) -> &Zone {
        &self.shape.zone[usize::from(zone.0)]
    }

    pub(crate) fn node_of(&self, cpu: CpuId) -> NodeId {
        let cpu = usize::from(cpu.0) % self.shape.cpus;
        NodeId(self.cpus.peek(cpu, CPU_NODE) as u8)
    }

    /// Record of a per-CPU cache. A CPU number beyond the geometry shares a cache: slow, not
    /// wrong.
    pub(crate) fn pcp_record(&self, zone: ZoneId, cpu: CpuId) -> usize {
        let cpu = usize::from(cpu.0);
        let cpu = if cpu < self.shape.cpus { cpu } else { cpu % self.shape.cpus };
        self.shape.pcp(zone, cpu)
    }

    /// Whether a request that prefers this zone uses up a lower zone of the node before types
    /// may mix.
    pub(crate) fn starts_apart(&self, preferred: ZoneId) -> bool {
        self.apart_zones >> preferred.0 & 1 != 0
    }

    /// Runs `f` under the zone lock.
    pub(crate) fn with_zone<R>(
        &self,
        zone: ZoneId,
        cpu: CpuId,
        site: Site,
        f: impl FnOnce(Held) -> R,
    ) -> R {
        self.zone_locks.with(usize::from(zone.0), site, || f(Held { zone, cpu }))
    }
}

const _: () = assert!(ZONES_MAX <= 64, "zones are bits of a word");

/// Normal zones with a DMA32 zone below them on their node, or all Normal zones of a machine
/// with one node; every zone where the policy says so.
fn apart_zones(shape: &Shape, nofragment: NoFragment) -> u64 {
    let zones = &shape.zone[..shape.zones];
    let is_apart = |zone: &Zone| match nofragment {
        NoFragment::Off => false,
        NoFragment::Strict => true,
        NoFragment::On => {
            let lower = |other: &Zone| other.node == zone.node && other.kind == ZoneKind::Dma32;
            zone.kind == ZoneKind::Normal && (shape.nodes == 1 || zones.iter().any(lower))
        }
    };
    zones
        .iter()
        .enumerate()
        .filter(|(_, zone)| is_apart(zone))
        .fold(0, |bits, (at, _)| bits | 1 << at)
}
