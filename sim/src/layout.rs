//! On which line each word of the allocator's tables lies, as a kernel lays its structures out.
//!
//! `struct page` takes a line. A zone has read-mostly words first, then the free areas (one
//! `free_area` is 104 bytes: six list heads and a count), then flags and lock, then its counters. A
//! per-CPU cache has one line of words and four list heads a line after it. Widths of the real
//! structures (include/linux/mmzone.h), not those of our tables.

use pageyard::platform::{Field, TableId};
use pageyard::{Geometry, ORDERS_MAX, TYPES};

use crate::memory::Line;

/// Lines of a zone.
const ZONE_LINES: u64 = 32;
const AREA_LINE: u64 = 2;
const AREA_BYTES: u64 = 104;
const LOCK_LINE: u64 = 22;
const STAT_LINE: u64 = 24;
const EVENT_LINE: u64 = 26;
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

/// How structures of one era differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// The zone lock shares its line with the list heads of order 0.
    pub lock_on_area_line: bool,
    /// A per-CPU cache is guarded by interrupts being off: no word is locked.
    pub pcp_irq_off: bool,
    /// Event counters are also kept for all zones together, on one line of the machine.
    pub global_events: bool,
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
        let extra_at = (cpus_at + cpus + 1).next_multiple_of(2);
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
            extra_at,
            end: extra_at + extra,
        }
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

    /// Line of a page record.
    #[must_use]
    pub fn page(&self, record: usize) -> Line {
        Line(record as u64)
    }

    /// Where counters are kept for all zones together, if they are.
    #[must_use]
    pub fn global_events(&self) -> Option<Line> {
        self.era.global_events.then_some(Line(self.cpus_at + self.cpus))
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
        if (self.cpus_at..self.cpus_at + self.cpus).contains(&line) {
            return self.cpu_nodes[(line - self.cpus_at) as usize];
        }
        0
    }

    /// What a line belongs to.
    #[must_use]
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
        } else if line < self.cpus_at {
            Structure::Pcp
        } else if line == self.cpus_at + self.cpus {
            Structure::Counters
        } else if line < self.extra_at {
            Structure::Pcp
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
            TableId::StatTotals => self.zone(record, STAT_LINE),
            TableId::EventTotals => self.zone(record, EVENT_LINE),
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
