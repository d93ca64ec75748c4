//! Counters that cost a CPU almost nothing to write and stay exact to read.
//!
//! Two families. Zone counters (free pages) change under the zone lock: a CPU gathers a
//! difference and spills it into the zone's total above a threshold. Event counters (NUMA hits,
//! pages allocated and freed) change on every operation: plain stores by the holder of the pcp
//! lock, read-modify-writes on the zone's total by everybody else, so that neither loses a count.

use crate::allocator::Allocator;
use crate::event::Event;
use crate::platform::{Field, Ordering, Platform, Shared};
use crate::policy::NumaStat;
use crate::types::{CpuId, ZoneId};

/// Counters of a zone that are kept with differences; named as /proc/zoneinfo names them.
#[allow(clippy::enum_variant_names)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneItem {
    /// Free pages (`nr_free_pages`).
    FreePages = 0,
    /// Free pages in blocks of a pageblock or more (`nr_free_pages_blocks`, 6.15 on).
    FreePagesBlocks = 1,
    /// Free pages lent by CMA (`nr_free_cma`).
    FreeCma = 2,
}

/// Counters of what happened in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventItem {
    /// Served from the preferred node (`numa_hit`).
    NumaHit = 0,
    /// Served although another node was preferred (`numa_miss`).
    NumaMiss = 1,
    /// Preferred, but served elsewhere (`numa_foreign`).
    NumaForeign = 2,
    /// Served where an interleaving policy wanted it (`numa_interleave`).
    NumaInterleave = 3,
    /// Served from the node of the CPU (`numa_local`).
    NumaLocal = 4,
    /// Served from another node than the CPU's (`numa_other`).
    NumaOther = 5,
    /// Pages allocated (`pgalloc_*`).
    PagesAllocated = 6,
    /// Pages freed (`pgfree`, here by zone).
    PagesFreed = 7,
}

/// Every event counter, by number.
pub const EVENT_ITEMS: [EventItem; 8] = [
    EventItem::NumaHit,
    EventItem::NumaMiss,
    EventItem::NumaForeign,
    EventItem::NumaInterleave,
    EventItem::NumaLocal,
    EventItem::NumaOther,
    EventItem::PagesAllocated,
    EventItem::PagesFreed,
];

impl EventItem {
    fn is_numa(self) -> bool {
        (self as u8) < 6
    }
}

/// Who counts: decides whether a plain store is enough.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The holder of the pcp lock of the zone that is counted for: the record of that cache.
    UnderPcpLock(usize),
    /// Anybody else.
    Raced,
}

impl<P: Platform> Allocator<P> {
    /// Adds to a zone counter. Zone lock held.
    pub(crate) fn count_zone(&self, zone: ZoneId, cpu: CpuId, item: ZoneItem, delta: i32) {
        let pcp = self.pcp_record(zone, cpu);
        let field = Field(item as u8);
        // Relaxed throughout: the zone lock orders writers; readers accept a moment's staleness.
        let before = self.stat_diffs.add(pcp, field, delta as u32, Ordering::Relaxed) as i32;
        let threshold = self.stat_threshold(zone) as i32;
        if (before + delta).abs() > threshold {
            self.spill_zone(zone, pcp, field);
        }
    }

    fn spill_zone(&self, zone: ZoneId, pcp: usize, field: Field) {
        // Swap: the periodic fold races with the zone lock's holder for the same difference.
        let diff = self.stat_diffs.swap(pcp, field, 0, Ordering::Relaxed) as i32;
        if diff != 0 {
            let wide = i64::from(diff) as u64;
            self.stat_totals.add(usize::from(zone.0), field, wide, Ordering::Relaxed);
            self.platform.note(Event::CounterSpill { zone });
        }
    }

    /// A zone counter as a watermark test reads it: cheap, off by what CPUs still hold.
    pub(crate) fn zone_count_cheap(&self, zone: ZoneId, item: ZoneItem) -> i64 {
        (self.stat_totals.peek(usize::from(zone.0), Field(item as u8)) as i64).max(0)
    }

    /// A zone counter with every CPU's difference summed.
    #[must_use]
    pub fn zone_count(&self, zone: ZoneId, item: ZoneItem) -> i64 {
        let field = Field(item as u8);
        let mut sum = self.stat_totals.load(usize::from(zone.0), field, Ordering::Relaxed) as i64;
        for cpu in 0..self.shape.cpus {
            let diff = self.stat_diffs.peek(self.shape.pcp(zone, cpu), field) as i32;
            sum += i64::from(diff);
        }
        self.platform.note(Event::CounterRead { words: self.shape.cpus as u32 });
        sum
    }

    /// Folds a CPU's differences into the zone counters; true if there were any.
    pub(crate) fn fold_zone_counts(&self, zone: ZoneId, cpu: CpuId) -> bool {
        let pcp = self.pcp_record(zone, cpu);
        let mut changed = false;
        for item in [ZoneItem::FreePages, ZoneItem::FreePagesBlocks, ZoneItem::FreeCma] {
            let field = Field(item as u8);
            if self.stat_diffs.peek(pcp, field) != 0 {
                self.spill_zone(zone, pcp, field);
                changed = true;
            }
        }
        changed
    }

    /// Counts an event of a zone. Inlined, so that a known item costs no choice on the hit path.
    #[inline]
    pub(crate) fn count_event(&self, zone: ZoneId, item: EventItem, delta: u64, by: Counting) {
        let numa_stat = self.policy.numa_stat;
        if item.is_numa() && numa_stat == NumaStat::Off {
            return;
        }
        let field = Field(item as u8);
        let Counting::UnderPcpLock(pcp) = by else {
            // Relaxed: a count orders nothing.
            self.event_totals.add(usize::from(zone.0), field, delta, Ordering::Relaxed);
            return;
        };
        let sum = self.event_diffs.peek(pcp, field).wrapping_add(delta);
        let left = match item.is_numa() && numa_stat != NumaStat::Event {
            true => self.spill_event(zone, field, sum),
            false => sum,
        };
        // Relaxed, plain: the pcp lock makes us the only writer; readers sum what they find.
        self.event_diffs.store(pcp, field, left, Ordering::Relaxed);
    }

    /// Folds a NUMA difference into the total if it exceeds the threshold of the policy;
    /// returns what stays with the CPU.
    fn spill_event(&self, zone: ZoneId, field: Field, sum: u64) -> u64 {
        let (limit, keep) = match self.policy.numa_stat {
            // A single increment of an ordinary counter oversteps, so that it spills less often.
            NumaStat::Ordinary => {
                let threshold = i64::from(self.stat_threshold(zone));
                (threshold, -(threshold / 2))
            }
            NumaStat::Threshold => (i64::from(self.policy.numa_threshold), 0),
            NumaStat::Event | NumaStat::Off => (i64::MAX, 0),
        };
        if sum as i64 <= limit {
            return sum;
        }
        let spilled = sum.wrapping_sub(keep as u64);
        // Relaxed: a count orders nothing.
        self.event_totals.add(usize::from(zone.0), field, spilled, Ordering::Relaxed);
        self.platform.note(Event::CounterSpill { zone });
        keep as u64
    }

    /// An event counter of a zone, exact once the CPUs are at rest. Reads a word of every CPU.
    #[must_use]
    pub fn event_count(&self, zone: ZoneId, item: EventItem) -> u64 {
        let field = Field(item as u8);
        let mut sum = self.event_totals.load(usize::from(zone.0), field, Ordering::Relaxed);
        for cpu in 0..self.shape.cpus {
            let pcp = self.shape.pcp(zone, cpu);
            sum = sum.wrapping_add(self.event_diffs.peek(pcp, field));
        }
        self.platform.note(Event::CounterRead { words: self.shape.cpus as u32 });
        sum
    }

    /// Counts where an allocation landed: `n` blocks from `zone`, wanted from `preferred`.
    pub(crate) fn count_numa(
        &self,
        zone: ZoneId,
        preferred: ZoneId,
        cpu: CpuId,
        n: u64,
        counting: Counting,
    ) {
        if self.policy.numa_stat == NumaStat::Off {
            return;
        }
        let node = self.zone(zone).node;
        if node == self.zone(preferred).node {
            self.count_event(zone, EventItem::NumaHit, n, counting);
        } else {
            self.count_event(zone, EventItem::NumaMiss, n, counting);
            // Raced: the lock held, if any, is not that of the preferred zone.
            self.count_event(preferred, EventItem::NumaForeign, n, Counting::Raced);
            self.platform.note(Event::RemoteNode { zone, preferred });
        }
        let local = node == self.node_of(cpu);
        let item = if local { EventItem::NumaLocal } else { EventItem::NumaOther };
        self.count_event(zone, item, n, counting);
    }
}
