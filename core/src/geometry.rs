//! The memory that an allocator manages, as the embedder describes it, and where each page,
//! pageblock and per-CPU cache has its record.

use crate::platform::{TableId, TableSpec};
use crate::policy::Conflict;
use crate::types::{NODES_MAX, NodeId, ORDERS_MAX, Pfn, TYPES, ZONES_MAX, ZoneId, ZoneKind};

/// A zone: a span of page frames of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDesc {
    /// Its node.
    pub node: NodeId,
    /// Its kind.
    pub kind: ZoneKind,
    /// First page frame.
    pub start: Pfn,
    /// Page frames from first to last, holes included.
    pub spanned_pages: u64,
    /// Page frames that the allocator may hand out; sizes all limits.
    pub managed_pages: u64,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDesc {
    /// Distance to each node, itself included (ACPI SLIT: 10 is local).
    pub distance: [u8; NODES_MAX],
    /// Online CPUs of this node.
    pub cpus: u16,
}

/// Numbers that `sysctl` sets on a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// `vm.min_free_kbytes`; 0 computes it from the size of low memory.
    pub min_free_kbytes: u64,
    /// `vm.watermark_scale_factor`, 1/10000 of a zone between marks.
    pub watermark_scale_factor: u64,
    /// `vm.lowmem_reserve_ratio` for DMA, DMA32, Normal, Movable.
    pub lowmem_reserve_ratio: [u32; 4],
    /// Pages of the last-level cache that one CPU may call its own; 0 is unknown. Decides
    /// whether a run of high-order frees must exceed a batch (`FREE_HIGH_BATCH`, 6.7 on).
    pub cache_slice_pages: u32,
}

impl Default for Tuning {
    /// The defaults of Linux.
    fn default() -> Tuning {
        Tuning {
            min_free_kbytes: 0,
            watermark_scale_factor: 10,
            lowmem_reserve_ratio: [256, 256, 32, 0],
            cache_slice_pages: 0,
        }
    }
}

/// What an allocator is built over.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    /// Largest order; 10 on Linux.
    pub max_order: u8,
    /// Order of a pageblock, at most `max_order`; 9 on x86-64.
    pub pageblock_order: u8,
    /// Node of each CPU; its length is the number of CPUs.
    pub cpu_nodes: &'a [NodeId],
    /// Nodes by number.
    pub nodes: &'a [NodeDesc],
    /// Zones, sorted by start, not overlapping; numbered by position.
    pub zones: &'a [ZoneDesc],
    /// Sysctls.
    pub tuning: Tuning,
}

/// A [`Geometry`] that no allocator can be built over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// `max_order` above 10, or `pageblock_order` above `max_order`.
    Orders,
    /// No CPU, or more than 65535.
    Cpus,
    /// No node, more than 16, or a CPU or zone on a node that does not exist.
    Nodes,
    /// No zone, more than 64, an empty one, or more than 2^32 - 2 pages spanned in all.
    Zones,
    /// This zone begins before the one in front of it ends.
    Overlap(ZoneId),
    /// The policy contradicts itself.
    Policy(Conflict),
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            GeometryError::Orders => {
                f.write_str("max_order must be at most 10 and pageblock_order at most max_order")
            }
            GeometryError::Cpus => f.write_str("there must be 1 to 65535 CPUs"),
            GeometryError::Nodes => {
                f.write_str("there must be 1 to 16 nodes, and each CPU and zone on one of them")
            }
            GeometryError::Zones => f.write_str(
                "there must be 1 to 64 zones, none empty, spanning fewer than 2^32 - 1 pages",
            ),
            GeometryError::Overlap(zone) => {
                write!(f, "zone {} begins before the zone in front of it ends", zone.0)
            }
            GeometryError::Policy(conflict) => conflict.fmt(f),
        }
    }
}

impl core::error::Error for GeometryError {}

/// A zone with the place of its records. Never changes once built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    pub node: NodeId,
    pub kind: ZoneKind,
    pub start: u64,
    pub end: u64,
    pub managed: u64,
    /// Record of the first page.
    pub page_base: usize,
    /// Record of the pageblock that holds the first page.
    pub block_base: usize,
}

impl Zone {
    const NONE: Zone = Zone {
        node: NodeId(0),
        kind: ZoneKind::Dma,
        start: 0,
        end: 0,
        managed: 0,
        page_base: 0,
        block_base: 0,
    };

    pub fn page(&self, pfn: u64) -> usize {
        debug_assert!(self.holds(pfn));
        self.page_base + (pfn - self.start) as usize
    }

    pub fn pfn(&self, page: usize) -> u64 {
        debug_assert!(page >= self.page_base);
        self.start + (page - self.page_base) as u64
    }

    pub fn holds(&self, pfn: u64) -> bool {
        (self.start..self.end).contains(&pfn)
    }

    /// True if all of a block lies inside.
    pub fn holds_block(&self, pfn: u64, order: u8) -> bool {
        self.start <= pfn && pfn + (1 << order) <= self.end
    }
}

/// Everything about the memory that is fixed when the allocator is built.
#[derive(Debug)]
pub(crate) struct Shape {
    pub max_order: u8,
    pub pageblock_order: u8,
    pub cpus: usize,
    pub nodes: usize,
    pub zones: usize,
    pub zone: [Zone; ZONES_MAX],
    pub page_records: usize,
    pub block_records: usize,
}

/// Lists of one per-CPU cache: orders 0 to 3 of three types, and two of whole pageblocks.
pub(crate) const PCP_LISTS: usize = 14;
/// List heads that a per-CPU cache has room for: a power of two, so that a platform which aligns
/// its tables keeps the heads of two CPUs on different cache lines.
pub(crate) const PCP_HEADS: usize = PCP_LISTS.next_power_of_two();

impl Shape {
    pub fn of(geometry: &Geometry<'_>) -> Result<Shape, GeometryError> {
        check(geometry)?;
        let mut shape = Shape {
            max_order: geometry.max_order,
            pageblock_order: geometry.pageblock_order,
            cpus: geometry.cpu_nodes.len(),
            nodes: geometry.nodes.len(),
            zones: geometry.zones.len(),
            zone: [Zone::NONE; ZONES_MAX],
            page_records: 0,
            block_records: 0,
        };
        for (slot, desc) in shape.zone.iter_mut().zip(geometry.zones) {
            let end = desc.start.0 + desc.spanned_pages;
            *slot = Zone {
                node: desc.node,
                kind: desc.kind,
                start: desc.start.0,
                end,
                managed: desc.managed_pages,
                page_base: shape.page_records,
                block_base: shape.block_records,
            };
            shape.page_records += desc.spanned_pages as usize;
            let first = desc.start.0 >> geometry.pageblock_order;
            let last = (end - 1) >> geometry.pageblock_order;
            shape.block_records += (last - first + 1) as usize;
        }
        Ok(shape)
    }

    pub fn zone_ids(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (0..self.zones as u8).map(ZoneId)
    }

    #[inline]
    pub fn zone_of(&self, pfn: u64) -> Option<ZoneId> {
        let at = self.zone[..self.zones].iter().position(|zone| zone.holds(pfn))?;
        Some(ZoneId(at as u8))
    }

    /// Record of the pageblock of a page.
    pub fn block(&self, zone: &Zone, pfn: u64) -> usize {
        let first = zone.start >> self.pageblock_order;
        zone.block_base + ((pfn >> self.pageblock_order) - first) as usize
    }

    pub fn pcp(&self, zone: ZoneId, cpu: usize) -> usize {
        usize::from(zone.0) * self.cpus + cpu
    }

    pub fn area(&self, zone: ZoneId, order: u8, migratetype: u8) -> usize {
        (usize::from(zone.0) * ORDERS_MAX + usize::from(order)) * TYPES + usize::from(migratetype)
    }

    /// The size of each table.
    pub fn spec(&self, id: TableId) -> TableSpec {
        let pcps = self.zones * self.cpus;
        let (records, fields) = match id {
            TableId::Pages => (self.page_records, 3),
            TableId::PageStates => (self.page_records, 1),
            TableId::Blocks => (self.block_records, 1),
            TableId::Areas => (self.zones * ORDERS_MAX * TYPES, 2),
            TableId::AreaCounts => (self.zones * ORDERS_MAX * TYPES, 1),
            TableId::Zones => (self.zones, 16),
            TableId::Pcps => (pcps, 8),
            TableId::PcpShared => (pcps, 2),
            TableId::PcpLists => (pcps * PCP_HEADS, 2),
            TableId::StatDiffs => (pcps, 3),
            TableId::StatTotals => (self.zones, 3),
            TableId::EventDiffs => (pcps, 8),
            TableId::EventTotals => (self.zones, 8),
            TableId::Cpus => (self.cpus, 1),
            TableId::ZoneLocks => (self.zones, 1),
            TableId::PcpLocks => (pcps, 1),
        };
        TableSpec { id, records, fields }
    }
}

fn check(geometry: &Geometry<'_>) -> Result<(), GeometryError> {
    let Geometry { max_order, pageblock_order, cpu_nodes, nodes, zones, .. } = *geometry;
    if usize::from(max_order) >= ORDERS_MAX || pageblock_order > max_order {
        return Err(GeometryError::Orders);
    }
    if cpu_nodes.is_empty() || cpu_nodes.len() > usize::from(u16::MAX) {
        return Err(GeometryError::Cpus);
    }
    let exists = |node: NodeId| usize::from(node.0) < nodes.len();
    let placed =
        cpu_nodes.iter().all(|&node| exists(node)) && zones.iter().all(|zone| exists(zone.node));
    if nodes.is_empty() || nodes.len() > NODES_MAX || !placed {
        return Err(GeometryError::Nodes);
    }
    let spanned: u64 = zones.iter().fold(0, |sum, zone| sum.saturating_add(zone.spanned_pages));
    let empty = zones.iter().any(|zone| zone.spanned_pages == 0);
    let far = zones.iter().any(|zone| zone.start.0 > 1 << 52);
    if zones.is_empty() || zones.len() > ZONES_MAX || empty || far || spanned > (1 << 32) - 2 {
        return Err(GeometryError::Zones);
    }
    for (at, pair) in zones.windows(2).enumerate() {
        if pair[0].start.0 + pair[0].spanned_pages > pair[1].start.0 {
            return Err(GeometryError::Overlap(ZoneId(at as u8 + 1)));
        }
    }
    Ok(())
}
