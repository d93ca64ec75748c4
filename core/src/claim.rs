//! Claiming a pageblock for another type: is enough of it free or alike, and moving its pages.

use crate::allocator::{Allocator, Held};
use crate::event::{Event, PageKind};
use crate::fallback::{Found, Rights};
use crate::geometry::Zone;
use crate::platform::Platform;
use crate::types::{MigrateType, Pfn};

/// What a pageblock holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    /// Pages of free blocks.
    pub free: u32,
    /// Pages in use that can be moved.
    pub movable: u32,
}

impl<P: Platform> Allocator<P> {
    /// First page frame of a pageblock that lies in the zone as a whole.
    fn whole_block(&self, zone: &Zone, pfn: u64) -> Option<u64> {
        let order = self.shape.pageblock_order;
        let start = pfn & !((1 << order) - 1);
        zone.holds_block(start, order).then_some(start)
    }

    /// Visits each page of a pageblock that begins a block, as far as the zone holds it; `visit`
    /// gets the page and returns how many pages to pass over. Zone lock held.
    fn walk_block(&self, zone: &Zone, pfn: u64, mut visit: impl FnMut(usize) -> u64) {
        let pages = 1 << self.shape.pageblock_order;
        let start = pfn & !(pages - 1);
        let end = (start + pages).min(zone.end);
        let mut pfn = start.max(zone.start);
        while pfn < end {
            pfn += visit(zone.page(pfn)).max(1);
        }
    }

    /// Counts free and movable pages of a pageblock; `None` if the zone ends inside it. Pages in
    /// per-CPU caches count as neither. Zone lock held; pages in use may change meanwhile, which
    /// only makes the guess a little worse.
    pub(crate) fn census(&self, zone: &Zone, pfn: u64) -> Option<Census> {
        let start = self.whole_block(zone, pfn)?;
        let mut census = Census::default();
        self.walk_block(zone, start, |page| {
            if let Some((order, _)) = self.free_head(page) {
                census.free += 1 << order;
                return 1 << order;
            }
            let state = self.state(page);
            match state.kind {
                PageKind::Allocated if state.migratetype == MigrateType::Movable => {
                    census.movable += 1 << state.order;
                    1 << state.order
                }
                PageKind::Allocated | PageKind::Pcp => 1 << state.order,
                PageKind::Untouched | PageKind::Free => 1,
            }
        });
        Some(census)
    }

    /// Moves every free block of a pageblock to the lists of `t`. Zone lock held.
    pub(crate) fn move_free_pages(&self, held: Held, pfn: u64, t: MigrateType) -> u32 {
        let zone = *self.zone(held.zone);
        let mut moved = 0;
        self.walk_block(&zone, pfn, |page| match self.free_head(page) {
            Some((order, from)) => {
                if from != t {
                    self.move_block(held, page, t);
                }
                moved += 1 << order;
                1 << order
            }
            None => 1,
        });
        moved
    }

    /// True if half of a pageblock of type `from` is free, or like what `to` holds.
    pub(crate) fn is_mostly(&self, census: Census, from: MigrateType, to: MigrateType) -> bool {
        let pages = 1u32 << self.shape.pageblock_order;
        let alike = match to {
            MigrateType::Movable => census.movable,
            _ if from == MigrateType::Movable => pages.saturating_sub(census.free + census.movable),
            _ => 0,
        };
        census.free > 0 && census.free + alike >= pages / 2
    }

    /// Gives a pageblock a new type. Zone lock held.
    pub(crate) fn retype_block(
        &self,
        held: Held,
        zone: &Zone,
        pfn: u64,
        from: MigrateType,
        to: MigrateType,
    ) {
        self.set_block_type(zone, pfn, to);
        let pfn = Pfn(pfn & !((1 << self.shape.pageblock_order) - 1));
        self.platform.note(Event::Retype { zone: held.zone, pfn, from, to });
    }

    /// Rules B to D: takes the pageblock of a free block of another type, if it qualifies, and
    /// `order` out of it. A refused claim still boosts the marks, as types are about to mix.
    pub(crate) fn claim(
        &self,
        held: Held,
        order: u8,
        t: MigrateType,
        found: Found,
        rights: Rights,
    ) -> Option<usize> {
        let zone = *self.zone(held.zone);
        let page = self.first_free(held, found.order, found.migratetype)?;
        let pfn = zone.pfn(page);
        if found.order >= self.shape.pageblock_order {
            self.retype_range(held, &zone, pfn, found.order, found.migratetype, t);
            self.take_block(held, page, found.order, found.migratetype, order, t);
            self.note_fallback(held, page, order, t, found, true);
            return Some(page);
        }
        self.raise_boost(held, rights.may_wake);
        let census = self.census(&zone, pfn)?;
        if !self.is_mostly(census, found.migratetype, t) {
            return None;
        }
        self.move_free_pages(held, pfn, t);
        self.retype_block(held, &zone, pfn, found.migratetype, t);
        self.note_fallback(held, page, order, t, found, true);
        self.take_smallest(held, order, t)
    }
}
