//! What the files say: the fields of the recorded kernel, filled from an allocator where it
//! models them.
//!
//! Counters that a kernel keeps since boot (NUMA, pages allocated and freed) go on from the
//! snapshot: its value plus what the allocator counted. Levels (free pages, marks, per-CPU
//! lists) are the allocator's alone. As a kernel does, marks are printed with the boost on top.

use pageyard::platform::Platform;
use pageyard::policy::NumaStat as NumaCounting;
use pageyard::watermark::{extfrag_index, unusable_index};
use pageyard::{
    Allocator, CpuId, EventItem, Geometry, MigrateType, Pfn, ZoneId, ZoneItem, ZoneKind,
};
use pageyard_trace::snapshot::{BlockRow, BuddyInfo, BuddyRow, FreeRow, NodeStat, NumaStat};
use pageyard_trace::snapshot::{PageTypeInfo, VmStat};

use super::report::FileReport;
use super::text::{Index, count};

/// Zone counters by the name that `zoneinfo` and `vmstat` print.
const ZONE_ITEMS: [(&str, ZoneItem); 3] = [
    ("nr_free_pages", ZoneItem::FreePages),
    ("nr_free_pages_blocks", ZoneItem::FreePagesBlocks),
    ("nr_free_cma", ZoneItem::FreeCma),
];
/// NUMA counters: name in `zoneinfo` and `vmstat`, name in `numastat`.
const NUMA_ITEMS: [(&str, &str, EventItem); 6] = [
    ("numa_hit", "numa_hit", EventItem::NumaHit),
    ("numa_miss", "numa_miss", EventItem::NumaMiss),
    ("numa_foreign", "numa_foreign", EventItem::NumaForeign),
    ("numa_interleave", "interleave_hit", EventItem::NumaInterleave),
    ("numa_local", "local_node", EventItem::NumaLocal),
    ("numa_other", "other_node", EventItem::NumaOther),
];
/// Pages allocated by kind of zone, as `vmstat` names them.
const PGALLOC: [(&str, ZoneKind); 4] = [
    ("pgalloc_dma", ZoneKind::Dma),
    ("pgalloc_dma32", ZoneKind::Dma32),
    ("pgalloc_normal", ZoneKind::Normal),
    ("pgalloc_movable", ZoneKind::Movable),
];

/// A number of the allocator for a field of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// The value itself.
    Level(u64),
    /// What came on top of the kernel's value.
    Since(u64),
}

impl Number {
    pub(super) fn over(self, template: u64) -> u64 {
        match self {
            Number::Level(value) => value,
            Number::Since(more) => template.saturating_add(more),
        }
    }
}

/// An allocator with the geometry it was built over.
pub(super) struct View<'a, P: Platform> {
    pub(super) allocator: &'a Allocator<P>,
    geometry: &'a Geometry<'a>,
}

impl<'a, P: Platform> View<'a, P> {
    pub(super) fn of(allocator: &'a Allocator<P>, geometry: &'a Geometry<'a>) -> View<'a, P> {
        View { allocator, geometry }
    }

    /// Zones by node, then kind: the order in which a kernel prints them.
    pub(super) fn zones(&self) -> Vec<(u16, ZoneKind, ZoneId)> {
        let numbered = self.geometry.zones.iter().enumerate();
        let mut zones: Vec<_> = numbered
            .map(|(at, desc)| (u16::from(desc.node.0), desc.kind, ZoneId(at as u8)))
            .collect();
        zones.sort();
        zones
    }

    /// The zone of this node and name.
    pub(super) fn zone(&self, node: u16, name: &str) -> Option<ZoneId> {
        let mut zones = self.geometry.zones.iter();
        let same =
            |desc: &pageyard::ZoneDesc| u16::from(desc.node.0) == node && desc.kind.name() == name;
        zones.position(same).map(|at| ZoneId(at as u8))
    }

    pub(super) fn desc(&self, zone: ZoneId) -> &pageyard::ZoneDesc {
        &self.geometry.zones[usize::from(zone.0)]
    }

    pub(super) fn has_cpu(&self, cpu: u32) -> Option<CpuId> {
        let known = (cpu as usize) < self.geometry.cpu_nodes.len();
        u16::try_from(cpu).ok().filter(|_| known).map(CpuId)
    }

    pub(super) fn cpus(&self) -> u32 {
        self.geometry.cpu_nodes.len() as u32
    }

    fn orders(&self) -> usize {
        usize::from(self.geometry.max_order) + 1
    }

    /// A counter of some zones by the name that a kernel prints; `None` is not modelled.
    pub(super) fn counter(&self, zones: &[ZoneId], name: &str) -> Option<Number> {
        if let Some((_, item)) = ZONE_ITEMS.iter().find(|(known, _)| *known == name) {
            let pages = |zone: &ZoneId| self.allocator.zone_count(*zone, *item).max(0) as u64;
            return Some(Number::Level(zones.iter().map(pages).sum()));
        }
        let counts = self.allocator.policy().numa_stat != NumaCounting::Off;
        let mut numa = NUMA_ITEMS.iter().filter(|_| counts);
        let item = numa.find(|(known, ..)| *known == name)?.2;
        Some(Number::Since(self.events(zones, item)))
    }

    fn events(&self, zones: &[ZoneId], item: EventItem) -> u64 {
        let count = |zone: &ZoneId| self.allocator.event_count(*zone, item);
        zones.iter().map(count).fold(0, u64::wrapping_add)
    }

    /// Free blocks of every type by order, in a row of `orders`.
    fn blocks(&self, zone: ZoneId, orders: usize) -> Vec<u64> {
        let of_order = |order: usize| {
            let types = MigrateType::ALL.iter();
            types.map(|&t| self.list(zone, order, t)).sum()
        };
        (0..orders).map(of_order).collect()
    }

    fn list(&self, zone: ZoneId, order: usize, migratetype: MigrateType) -> u64 {
        // A kernel with a larger MAX_PAGE_ORDER prints columns that no block of ours can be in.
        if order >= self.orders() {
            return 0;
        }
        self.allocator.free_blocks(zone, order as u8, migratetype)
    }

    pub(super) fn buddyinfo(&self, template: Option<&BuddyInfo>) -> (BuddyInfo, FileReport) {
        let mut report = FileReport::new("buddyinfo");
        let row = |node, zone: &str, blocks| BuddyRow { node, zone: zone.to_string(), blocks };
        report.model("free blocks by order");
        let rows = match template {
            Some(template) => {
                let rows = template.rows.iter();
                rows.map(|old| match self.zone(old.node, &old.zone) {
                    Some(id) => row(old.node, &old.zone, self.blocks(id, old.blocks.len())),
                    None => {
                        report.remark(copied_whole(old.node, &old.zone));
                        old.clone()
                    }
                })
                .collect()
            }
            None => {
                report.without_template();
                let zones = self.zones().into_iter();
                zones
                    .map(|(node, kind, id)| row(node, kind.name(), self.blocks(id, self.orders())))
                    .collect()
            }
        };
        let raw = String::new();
        (BuddyInfo { rows, raw }, report)
    }

    pub(super) fn vmstat(&self, template: Option<&VmStat>) -> (VmStat, FileReport) {
        let mut report = FileReport::new("vmstat");
        let all: Vec<ZoneId> = self.zones().into_iter().map(|(_, _, id)| id).collect();
        let number = |name: &str| {
            if name == "pgfree" {
                return Some(Number::Since(self.events(&all, EventItem::PagesFreed)));
            }
            if let Some((_, kind)) = PGALLOC.iter().find(|(known, _)| *known == name) {
                let zones = self.zones().into_iter();
                let zones: Vec<ZoneId> =
                    zones.filter(|zone| zone.1 == *kind).map(|zone| zone.2).collect();
                return Some(Number::Since(self.events(&zones, EventItem::PagesAllocated)));
            }
            self.counter(&all, name)
        };
        let names: Vec<(String, u64)> = match template {
            Some(template) => template.values.clone(),
            None => {
                report.without_template();
                let zone = ["nr_free_pages", "nr_free_cma"].into_iter();
                let numa = NUMA_ITEMS.iter().map(|item| item.0);
                let pages = PGALLOC.iter().map(|item| item.0).chain(["pgfree"]);
                let names = zone.chain(numa).chain(pages);
                let known = names.filter(|name| number(name).is_some());
                known.map(|name| (name.to_string(), 0)).collect()
            }
        };
        let fill = |(name, old): (String, u64)| match number(&name) {
            Some(number) => {
                report.model(&name);
                (name, number.over(old))
            }
            None => {
                report.copy(&name);
                (name, old)
            }
        };
        let values = names.into_iter().map(fill).collect();
        let raw = String::new();
        (VmStat { values, raw }, report)
    }

    pub(super) fn numastat(&self, template: Option<&NumaStat>) -> (NumaStat, FileReport) {
        let mut report = FileReport::new("numastat");
        let nodes = match template {
            Some(template) => template.nodes.clone(),
            None => {
                report.without_template();
                let zero = || NUMA_ITEMS.iter().map(|item| (item.1.to_string(), 0)).collect();
                let mut nodes: Vec<u16> = self.zones().iter().map(|zone| zone.0).collect();
                nodes.dedup();
                let node = |node| NodeStat { node, values: zero() };
                nodes.into_iter().map(node).collect()
            }
        };
        let fill = |mut stat: NodeStat| {
            let zones = self.zones().into_iter().filter(|zone| zone.0 == stat.node);
            let zones: Vec<ZoneId> = zones.map(|zone| zone.2).collect();
            for (name, value) in &mut stat.values {
                let item = NUMA_ITEMS.iter().find(|item| item.1 == name);
                match item.and_then(|item| self.counter(&zones, item.0)) {
                    Some(number) => {
                        report.model(name);
                        *value = number.over(*value);
                    }
                    None => report.copy(name),
                }
            }
            stat
        };
        let nodes = nodes.into_iter().map(fill).collect();
        let raw = String::new();
        (NumaStat { nodes, raw }, report)
    }
}

/// Pagetypeinfo, the one file of two tables.
impl<P: Platform> View<'_, P> {
    pub(super) fn pagetypeinfo(
        &self,
        template: Option<&PageTypeInfo>,
    ) -> (PageTypeInfo, FileReport) {
        let mut report = FileReport::new("pagetypeinfo");
        report.model("free blocks by type and order");
        report.model("pageblocks by type");
        let mut info = match template {
            Some(template) => PageTypeInfo { raw: String::new(), ..template.clone() },
            None => {
                report.without_template();
                self.blank_pagetypeinfo()
            }
        };
        for row in &mut info.free {
            match (self.zone(row.node, &row.zone), type_of(&row.migratetype)) {
                (Some(id), Some(t)) => {
                    for (order, slot) in row.blocks.iter_mut().enumerate() {
                        *slot = count(self.list(id, order, t));
                    }
                }
                _ => report.remark(copied_whole(row.node, &row.zone)),
            }
        }
        for row in &mut info.pageblocks {
            match self.zone(row.node, &row.zone) {
                Some(id) => self.pageblocks(id, &info.types, row, template.is_some(), &mut report),
                None => report.remark(copied_whole(row.node, &row.zone)),
            }
        }
        for (node, kind, id) in self.zones() {
            self.unprinted_types(
                id,
                &info.types,
                &format!("node {node} {}", kind.name()),
                |text| {
                    report.remark(text);
                },
            );
        }
        (info, report)
    }

    /// The rows of a kernel whose zones and types are the allocator's, without CMA unless used.
    fn blank_pagetypeinfo(&self) -> PageTypeInfo {
        let has_cma = |zone: &(u16, ZoneKind, ZoneId)| {
            self.allocator.zone_count(zone.2, ZoneItem::FreeCma) > 0
        };
        let cma = self.zones().iter().any(has_cma);
        let types = MigrateType::ALL.iter().filter(|&&t| cma || t != MigrateType::Cma);
        let types: Vec<String> = types.map(|t| t.name().to_string()).collect();
        let order = u32::from(self.geometry.pageblock_order);
        let mut info = PageTypeInfo {
            pageblock_order: Some(order),
            pageblock_pages: Some(1 << order),
            types: types.clone(),
            ..PageTypeInfo::default()
        };
        for (node, kind, _) in self.zones() {
            let zone = kind.name().to_string();
            for migratetype in &types {
                info.free.push(FreeRow {
                    node,
                    zone: zone.clone(),
                    migratetype: migratetype.clone(),
                    blocks: vec![count(0); self.orders()],
                });
            }
            info.pageblocks.push(BlockRow { node, zone, blocks: vec![0; types.len()] });
        }
        info
    }

    /// Fills a row of the second table. A kernel leaves pageblocks in holes out; here they are
    /// Movable, the type that no one gave them.
    fn pageblocks(
        &self,
        zone: ZoneId,
        types: &[String],
        row: &mut BlockRow,
        printed: bool,
        report: &mut FileReport,
    ) {
        let desc = self.desc(zone);
        let was = row.blocks.iter().fold(0u64, |sum, blocks| sum.saturating_add(*blocks));
        row.blocks.fill(0);
        let end = desc.start.0 + desc.spanned_pages;
        let mut total = 0;
        for pfn in (desc.start.0..end).step_by(1 << self.geometry.pageblock_order) {
            let migratetype = self.allocator.pageblock_type(Pfn(pfn));
            let at = types.iter().position(|name| type_of(name) == migratetype);
            if let Some(slot) = at.and_then(|at| row.blocks.get_mut(at)) {
                *slot += 1;
                total += 1;
            }
        }
        let movable = types.iter().position(|name| name == MigrateType::Movable.name());
        if printed
            && total > was
            && let Some(slot) = movable.and_then(|at| row.blocks.get_mut(at))
        {
            let holes = (total - was).min(*slot);
            *slot -= holes;
            report.remark(format!(
                "node {} {}: {holes} pageblocks in holes are left out, as the kernel does",
                row.node, row.zone
            ));
        }
    }

    /// Names free blocks of types that the kernel has no row for.
    fn unprinted_types(
        &self,
        zone: ZoneId,
        types: &[String],
        name: &str,
        mut remark: impl FnMut(String),
    ) {
        let missing = |t: &&MigrateType| !types.iter().any(|known| known == t.name());
        for t in MigrateType::ALL.iter().filter(missing) {
            let pages: u64 = (0..self.orders()).map(|o| self.list(zone, o, *t) << o).sum();
            if pages > 0 {
                remark(format!("{name}: {pages} free pages of type {} have no row", t.name()));
            }
        }
    }
}

fn type_of(name: &str) -> Option<MigrateType> {
    MigrateType::ALL.into_iter().find(|t| t.name() == name)
}

pub(super) fn copied_whole(node: u16, zone: &str) -> String {
    format!("node {node} {zone}: not a zone of the allocator, copied whole")
}

/// An index in thousandths for every order.
pub(super) fn indices(index: Index, blocks: &[u64]) -> Vec<i64> {
    let of_order = |order: usize| match index {
        Index::Extfrag => extfrag_index(blocks, order as u8),
        Index::Unusable => unusable_index(blocks, order as u8) as i64,
    };
    (0..blocks.len()).map(of_order).collect()
}
