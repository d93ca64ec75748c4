//! On which line each word of the allocator's tables lies, as a kernel lays its structures out.
//!
//! `struct page` takes a line. A zone has read-mostly words first, then the free areas (one
//! `free_area` is 104 bytes: six list heads and a count), then flags and lock, then its counters. A
//! per-CPU cache has one line of words and four list heads a line after it. Widths of the real
//! structures (include/linux/mmzone.h), not those of our tables.

use pageyard::platform::{Field, TableId};
use pageyard::{Geometry, NodeId, ORDERS_MAX, TYPES, ZoneItem};

use crate::instructions::Kernel;
use crate::memory::Line;

/// Lines of a zone.
const ZONE_LINES: u64 = 32;
const AREA_LINE: u64 = 2;
const AREA_BYTES: u64 = 104;
const LOCK_LINE: u64 = 22;
/// Zone counters: `vm_stat[]` begins on a line of its own, behind `_pad3_`.
const STAT_LINE: u64 = 24;
/// Events that no kernel counts by zone with atomic words (`pgalloc`, `pgfree`).
const EVENT_LINE: u64 = 28;
/// Lines of a per-CPU cache: words, lists, counters.
const PCP_LINES: u64 = 8;
const PCP_LISTS_LINE: u64 = 1;
const PCP_STAT_LINE: u64 = 5;
/// List heads that a cache's table has room for.
const PCP_HEADS: u64 = 16;
/// Pageblocks whose types share a line: four bits each.
const BLOCKS_PER_LINE: u64 = 128;
/// Fields of a zone's record that are bits of its flags: work of reclaim, below high, boosted.
const FLAG_FIELDS: std::ops::RangeInclusive<u8> = 5..=7;

/// The zone counter of free CMA pages; those before it are on the first line.
const FREE_CMA: u64 = ZoneItem::FreeCma as u64;
/// Counters of 8 bytes on a line.
const WORDS: u64 = 8;
/// The first six event counters are those of NUMA placement, in the kernel's order.
const NUMA_ITEMS: u64 = 6;
/// Lines of counters of the machine: three of `vm_zone_stat[]`, one of `vm_numa_stat[]`.
const GLOBAL_LINES: u64 = 4;
const GLOBAL_NUMA: u64 = 3;

/// Where a kernel keeps the counters of NUMA placement (include/linux/mmzone.h, mm/vmstat.c). Which
/// of them shares a line with a word that every allocation reads decides what an overflow costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaLines {
    /// Up to 4.13: items 12 to 17 of `vm_stat[]`, of the zone and of the machine. With zsmalloc
    /// configured, free pages are item 0 and free CMA pages item 18, next to `numa_local`.
    InStat,
    /// 4.14 to 5.13: `vm_numa_stat[]`, right behind the 13 items of `vm_stat[]`, of which free CMA
    /// pages are the last, next to `numa_hit`. A line of the machine's own.
    Behind,
    /// 5.14 on: the same, behind 11 items; folded by readers only, no counter of the machine.
    Folded,
}

impl NumaLines {
    /// Place of free CMA pages among a zone's counters.
    const fn free_cma(self) -> u64 {
        match self {
            NumaLines::InStat => 18,
            NumaLines::Behind => 12,
            NumaLines::Folded => 10,
        }
    }

    /// Place of `numa_hit`, the first of the six.
    const fn numa_hit(self) -> u64 {
        match self {
            NumaLines::InStat => 12,
            NumaLines::Behind => 13,
            NumaLines::Folded => 11,
        }
    }
}

/// How structures of one era differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// The zone lock shares its line with the list heads of order 0.
    pub lock_on_area_line: bool,
    /// A per-CPU cache is guarded by interrupts being off: no word is locked.
    pub pcp_irq_off: bool,
    /// Who waits for a lock spins on its line, as all others do.
    pub ticket_locks: bool,
    /// Where the counters of NUMA placement lie.
    pub numa_lines: NumaLines,
    /// Whose instructions a page takes under the zone lock.
    pub kernel: Kernel,
}

/// What a line belongs to, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// Page records.
    Page,
    /// Types of pageblocks.
    Blocks,
    /// Free areas.
    Area,
    /// Zone lock and flags.
    ZoneLock,
    /// Marks and reserves of a zone.
    Zone,
    /// Counters of a zone.
    Counters,
    /// Per-CPU caches.
    Pcp,
    /// Locks and lists of the workload: LRU, page tables.
    Workload,
}

impl Structure {
    /// All, in order of declaration.
    pub const ALL: [Structure; 8] = [
        Structure::Page,
        Structure::Blocks,
        Structure::Area,
        Structure::ZoneLock,
        Structure::Zone,
        Structure::Counters,
        Structure::Pcp,
        Structure::Workload,
    ];
}

/// Where every table lies.
#[derive(Clone, Debug)]
pub struct Layout {
    era: Era,
    cpus: u64,
    /// First page record of each zone, its node, and one past the last.
    pages: Vec<(u64, u64, u8)>,
    zone_nodes: Vec<u8>,
    cpu_nodes: Vec<u8>,
    blocks_at: u64,
    zones_at: u64,
    pcps_at: u64,
    cpus_at: u64,
    queue_at: u64,
    globals_at: u64,
    extra_at: u64,
    end: u64,
}

impl Layout {
    /// Lays out the tables of an allocator, and `extra` lines for the workload.
    #[must_use]
    pub fn new(geometry: &Geometry<'_>, era: Era, extra: u64) -> Layout {
        let mut pages = Vec::new();
        let mut at = 0;
        let mut blocks = 0;
        for zone in geometry.zones {
            pages.push((at, at + zone.spanned_pages, zone.node.0));
            at += zone.spanned_pages;
            blocks += (zone.spanned_pages >> geometry.pageblock_order) + 2;
        }
        let (zones, cpus) = (geometry.zones.len() as u64, geometry.cpu_nodes.len() as u64);
        let blocks_at = at.next_multiple_of(2);
        let zones_at = (blocks_at + blocks.div_ceil(BLOCKS_PER_LINE)).next_multiple_of(2);
        let pcps_at = zones_at + zones * ZONE_LINES;
        let cpus_at = pcps_at + zones * cpus * PCP_LINES;
        let queue_at = cpus_at + cpus;
        let globals_at = (queue_at + cpus).next_multiple_of(2);
        let extra_at = globals_at + GLOBAL_LINES;
        Layout {
            era,
            cpus,
            pages,
            zone_nodes: geometry.zones.iter().map(|zone| zone.node.0).collect(),
            cpu_nodes: geometry.cpu_nodes.iter().map(|node| node.0).collect(),
            blocks_at,
            zones_at,
            pcps_at,
            cpus_at,
            queue_at,
            globals_at,
            extra_at,
            end: extra_at + extra,
        }
    }

    /// Puts what belongs to a node without memory where that memory is found; `homes` has a node
    /// for each.
    #[must_use]
    pub fn homes(mut self, homes: &[NodeId]) -> Layout {
        let move_home =
            |node: &mut u8| *node = homes.get(usize::from(*node)).map_or(*node, |h| h.0);
        self.zone_nodes.iter_mut().for_each(move_home);
        self.cpu_nodes.iter_mut().for_each(move_home);
        self
    }

    /// What differs by era.
    #[must_use]
    pub fn era(&self) -> Era {
        self.era
    }

    /// Lines in all.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.end
    }

    /// Line of the workload's own.
    #[must_use]
    pub fn extra(&self, at: u64) -> Line {
        assert!(self.extra_at + at < self.end, "the workload asked for fewer lines");
        Line(self.extra_at + at)
    }

    /// Line on which a CPU spins that is in a lock's queue, until it is its head.
    #[must_use]
    pub fn queue(&self, cpu: usize) -> Line {
        Line(self.queue_at + cpu as u64)
    }

    /// Line of a page record.
    #[must_use]
    pub fn page(&self, record: usize) -> Line {
        Line(record as u64)
    }

    /// The line of the machine on which whoever adds to a zone's counter adds too, if there is one.
    #[must_use]
    pub fn machine_counter(&self, table: TableId, field: Field) -> Option<Line> {
        let item = u64::from(field.0);
        let line = match (table, self.era.numa_lines) {
            // Free pages are the first of `vm_zone_stat[]`.
            (TableId::StatTotals, _) => 0,
            (TableId::EventTotals, _) if item >= NUMA_ITEMS => return None,
            (TableId::EventTotals, NumaLines::InStat) => (12 + item) / WORDS,
            (TableId::EventTotals, NumaLines::Behind) => GLOBAL_NUMA,
            _ => return None,
        };
        Some(Line(self.globals_at + line))
    }

    /// Node whose memory a line is in.
    #[must_use]
    pub fn home(&self, line: u64) -> u8 {
        if line < self.blocks_at {
            let zone = self.pages.partition_point(|&(_, end, _)| end <= line);
            return self.pages.get(zone).map_or(0, |&(_, _, node)| node);
        }
        if (self.zones_at..self.pcps_at).contains(&line) {
            return self.zone_nodes[((line - self.zones_at) / ZONE_LINES) as usize];
        }
        if (self.pcps_at..self.cpus_at).contains(&line) {
            let pcp = (line - self.pcps_at) / PCP_LINES;
            return self.cpu_nodes[(pcp % self.cpus) as usize];
        }
        if (self.cpus_at..self.queue_at + self.cpus).contains(&line) {
            return self.cpu_nodes[((line - self.cpus_at) % self.cpus) as usize];
        }
        0
    }

    /// What a line belongs to.
    #[must_use]
    #[inline]
    pub fn structure(&self, line: Line) -> Structure {
        let line = line.0;
        if line < self.blocks_at {
            Structure::Page
        } else if line < self.zones_at {
            Structure::Blocks
        } else if line < self.pcps_at {
            match (line - self.zones_at) % ZONE_LINES {
                AREA_LINE..LOCK_LINE => Structure::Area,
                LOCK_LINE..STAT_LINE => Structure::ZoneLock,
                STAT_LINE.. => Structure::Counters,
                _ => Structure::Zone,
            }
        } else if line < self.globals_at {
            // Words of a CPU beside its caches count as theirs.
            Structure::Pcp
        } else if line < self.extra_at {
            Structure::Counters
        } else {
            Structure::Workload
        }
    }

    fn zone(&self, zone: u64, line: u64) -> Line {
        Line(self.zones_at + zone * ZONE_LINES + line)
    }

    fn pcp(&self, pcp: u64, line: u64) -> Line {
        Line(self.pcps_at + pcp * PCP_LINES + line)
    }

    fn area(&self, record: u64, byte: u64) -> Line {
        let types = TYPES as u64;
        let (zone, order) =
            (record / types / ORDERS_MAX as u64, record / types % ORDERS_MAX as u64);
        self.zone(zone, AREA_LINE + (order * AREA_BYTES + byte) / 64)
    }

    /// Line of a zone's counter.
    fn counter(&self, table: TableId, zone: u64, field: Field) -> Line {
        let (lines, item) = (self.era.numa_lines, u64::from(field.0));
        let at = match table {
            TableId::StatTotals if item < FREE_CMA => 0,
            TableId::StatTotals => lines.free_cma(),
            _ if item < NUMA_ITEMS => lines.numa_hit() + item,
            _ => return self.zone(zone, EVENT_LINE),
        };
        self.zone(zone, STAT_LINE + at / WORDS)
    }

    /// Line of a word.
    #[must_use]
    pub fn line(&self, table: TableId, record: usize, field: Field) -> Line {
        let record = record as u64;
        match table {
            TableId::Pages | TableId::PageStates => Line(record),
            TableId::Blocks => Line(self.blocks_at + record / BLOCKS_PER_LINE),
            TableId::Areas => self.area(record, record % TYPES as u64 * 16),
            TableId::AreaCounts => self.area(record, AREA_BYTES - 8),
            TableId::Zones if FLAG_FIELDS.contains(&field.0) => self.zone(record, LOCK_LINE),
            TableId::Zones => self.zone(record, u64::from(field.0) / 12),
            TableId::ZoneLocks if self.era.lock_on_area_line => self.zone(record, AREA_LINE),
            TableId::ZoneLocks => self.zone(record, LOCK_LINE),
            TableId::StatTotals | TableId::EventTotals => self.counter(table, record, field),
            TableId::Pcps | TableId::PcpShared | TableId::PcpLocks => self.pcp(record, 0),
            TableId::PcpLists => {
                let (pcp, list) = (record / PCP_HEADS, record % PCP_HEADS);
                self.pcp(pcp, PCP_LISTS_LINE + list / 4)
            }
            TableId::StatDiffs => self.pcp(record, PCP_STAT_LINE),
            TableId::EventDiffs => self.pcp(record, PCP_STAT_LINE + 1),
            TableId::Cpus => Line(self.cpus_at + record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{EventItem, NodeDesc, Pfn, Tuning, ZoneDesc, ZoneKind};

    fn layout(numa_lines: NumaLines) -> Layout {
        let node = NodeDesc { distance: [10; pageyard::NODES_MAX], cpus: 1 };
        let zone = ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(1 << 10),
            spanned_pages: 1 << 10,
            managed_pages: 1 << 10,
        };
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &[NodeId(0)],
            nodes: &[node],
            zones: &[zone],
            tuning: Tuning::default(),
        };
        let era = Era {
            lock_on_area_line: false,
            pcp_irq_off: true,
            ticket_locks: false,
            numa_lines,
            kernel: Kernel::V6_1,
        };
        Layout::new(&geometry, era, 2)
    }

    fn stat(layout: &Layout, item: ZoneItem) -> Line {
        layout.line(TableId::StatTotals, 0, Field(item as u8))
    }

    fn event(layout: &Layout, item: EventItem) -> Line {
        layout.line(TableId::EventTotals, 0, Field(item as u8))
    }

    #[test]
    fn a_counter_of_numa_shares_the_line_of_free_cma_pages() {
        use NumaLines::{Behind, Folded, InStat};
        for (lines, hit, local) in
            [(InStat, false, true), (Behind, true, false), (Folded, true, true)]
        {
            let layout = layout(lines);
            let read = stat(&layout, ZoneItem::FreeCma);
            assert_eq!(event(&layout, EventItem::NumaHit) == read, hit, "{lines:?}");
            assert_eq!(event(&layout, EventItem::NumaLocal) == read, local, "{lines:?}");
            assert_ne!(stat(&layout, ZoneItem::FreePages), read, "{lines:?}");
            assert_eq!(layout.structure(read), Structure::Counters);
        }
    }

    #[test]
    fn counters_of_the_machine_end_with_the_fold_by_readers() {
        let line = |lines, item| layout(lines).machine_counter(TableId::EventTotals, item);
        let (hit, local) = (Field(EventItem::NumaHit as u8), Field(EventItem::NumaLocal as u8));
        assert_ne!(line(NumaLines::InStat, hit), line(NumaLines::InStat, local));
        assert_eq!(line(NumaLines::Behind, hit), line(NumaLines::Behind, local));
        assert_eq!(line(NumaLines::Folded, hit), None);
        let freed = Field(EventItem::PagesFreed as u8);
        assert_eq!(line(NumaLines::InStat, freed), None, "a count of each CPU");
        let layout = layout(NumaLines::Behind);
        let shared = layout.machine_counter(TableId::EventTotals, hit).expect("a line");
        assert_eq!(layout.structure(shared), Structure::Counters);
        assert_eq!(layout.structure(layout.extra(0)), Structure::Workload);
    }
}
