//! The free lists of a zone: smallest fit, halving, accounting.
//!
//! This file and `merge.rs` are the only ones that know how free blocks are kept
//! ([`crate::policy::Storage`]): one list per order and type, threaded through the page records.

use crate::allocator::{Allocator, Held};
use crate::event::{Event, PageKind};
use crate::list::List;
use crate::platform::Platform;
use crate::stat::ZoneItem;
use crate::types::{MigrateType, Pfn};
use crate::zone::FREE_HIGHATOMIC;

/// Which end of a free list a block joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Reused soon: its memory is still in a cache.
    Head,
    /// Left alone: its buddy may come free.
    Tail,
}

impl<P: Platform> Allocator<P> {
    fn area_list(&self, held: Held, order: u8, migratetype: MigrateType) -> List<'_, P::Owned> {
        let head = self.shape.area(held.zone, order, migratetype as u8);
        List { heads: &self.areas, head, pages: &self.pages }
    }

    /// First block of a list. Zone lock held.
    pub(crate) fn first_free(&self, held: Held, order: u8, t: MigrateType) -> Option<usize> {
        self.area_list(held, order, t).first()
    }

    /// Last block of a list. Zone lock held.
    pub(crate) fn last_free(&self, held: Held, order: u8, t: MigrateType) -> Option<usize> {
        self.area_list(held, order, t).last()
    }

    /// The block after this one on whatever list it is on. The lock of that list held.
    pub(crate) fn next_free(&self, page: usize) -> Option<usize> {
        List { heads: &self.areas, head: 0, pages: &self.pages }.after(page)
    }

    /// Puts a block on its list, without touching the page counters. Zone lock held.
    pub(crate) fn link_block(
        &self,
        held: Held,
        page: usize,
        order: u8,
        migratetype: MigrateType,
        end: End,
    ) {
        let list = self.area_list(held, order, migratetype);
        match end {
            End::Head => list.push_first(page),
            End::Tail => list.push_last(page),
        }
        self.set_free_head(page, order, migratetype);
        let blocks = self.free_blocks_hint(held.zone, order, migratetype);
        self.set_free_blocks(held, order, migratetype, blocks + 1);
        self.count_large_block(held, order, migratetype, 1);
    }

    /// Takes a block off its list, without touching the page counters. Zone lock held.
    pub(crate) fn unlink_block(&self, held: Held, page: usize, order: u8, t: MigrateType) {
        assert_eq!(self.free_head(page), Some((order, t)), "a free list and a page disagree");
        self.area_list(held, order, t).remove(page);
        self.clear_free_head(page);
        let blocks = self.free_blocks_hint(held.zone, order, t);
        assert!(blocks > 0, "a block was taken off a list that counts none");
        self.set_free_blocks(held, order, t, blocks - 1);
        self.count_large_block(held, order, t, -1);
    }

    fn count_large_block(&self, held: Held, order: u8, t: MigrateType, sign: i32) {
        if order >= self.shape.pageblock_order && t != MigrateType::Isolate {
            let pages = sign << order;
            self.count_zone(held.zone, held.cpu, ZoneItem::FreePagesBlocks, pages);
        }
    }

    /// Pages came free or were taken. Zone lock held.
    pub(crate) fn account(&self, held: Held, pages: i32, migratetype: MigrateType) {
        if migratetype == MigrateType::Isolate {
            return;
        }
        self.count_zone(held.zone, held.cpu, ZoneItem::FreePages, pages);
        self.account_special(held, pages, migratetype);
    }

    /// The counters that only some types have. Zone lock held.
    fn account_special(&self, held: Held, pages: i32, migratetype: MigrateType) {
        match migratetype {
            MigrateType::Cma => self.count_zone(held.zone, held.cpu, ZoneItem::FreeCma, pages),
            MigrateType::HighAtomic => {
                let before = self.zone_word(held.zone, FREE_HIGHATOMIC);
                let after = before.saturating_add_signed(pages);
                self.set_zone_word(held.zone, FREE_HIGHATOMIC, after);
            }
            _ => {}
        }
    }

    /// Moves a free block to the list of another type. Zone lock held.
    pub(crate) fn move_block(&self, held: Held, page: usize, to: MigrateType) -> u32 {
        let (order, from) = self.free_head(page).expect("only free blocks are moved");
        self.unlink_block(held, page, order, from);
        self.link_block(held, page, order, to, End::Tail);
        let pages = 1 << order;
        if (from == MigrateType::Isolate) != (to == MigrateType::Isolate) {
            let sign = if to == MigrateType::Isolate { -1 } else { 1 };
            self.count_zone(held.zone, held.cpu, ZoneItem::FreePages, sign * pages);
        }
        self.account_special(held, -pages, from);
        self.account_special(held, pages, to);
        pages as u32
    }

    /// Smallest fit: the head of the first non-empty list from `order` up. The rest of a larger
    /// block goes back, half by half, upper halves first. Zone lock held; pages are accounted.
    pub(crate) fn take_smallest(&self, held: Held, order: u8, t: MigrateType) -> Option<usize> {
        for found in order..=self.shape.max_order {
            if self.free_blocks_hint(held.zone, found, t) == 0 {
                continue;
            }
            let page = self.first_free(held, found, t).expect("a counted block is on its list");
            self.take_block(held, page, found, t, order, t);
            return Some(page);
        }
        None
    }

    /// Takes `order` out of the free block of `found` at `page`; what remains joins the lists of
    /// type `rest`. Zone lock held; pages are accounted.
    pub(crate) fn take_block(
        &self,
        held: Held,
        page: usize,
        found: u8,
        from: MigrateType,
        order: u8,
        rest: MigrateType,
    ) {
        self.unlink_block(held, page, found, from);
        if found > order {
            self.split(held, page, found, order, rest);
        }
        // What stays in the zone under the same type was never gone: one count a block taken, and
        // no difference that grows by the block that was split.
        if from == rest {
            self.account(held, -(1 << order), from);
        } else {
            self.account(held, -(1 << found), from);
            self.account(held, (1 << found) - (1 << order), rest);
        }
    }

    /// Halves the block at `page` down to `to`; each upper half becomes the head of its list, so
    /// that single pages come out in ascending order.
    fn split(&self, held: Held, page: usize, from: u8, to: u8, t: MigrateType) {
        for order in (to..from).rev() {
            self.platform.note(Event::Split { zone: held.zone, order: order + 1 });
            self.link_block(held, page + (1 << order), order, t, End::Head);
        }
    }

    /// Marks a block as gone to a caller or a per-CPU list. Zone lock held.
    pub(crate) fn hand_out(
        &self,
        held: Held,
        page: usize,
        order: u8,
        t: MigrateType,
        kind: PageKind,
    ) {
        self.set_state(page, kind, order, t, held.cpu);
        let pfn = Pfn(self.zone(held.zone).pfn(page));
        let zone = held.zone;
        self.platform.note(Event::ZoneTake { zone, pfn, order, migratetype: t });
    }
}
