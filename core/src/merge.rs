//! Freed blocks grow together again.
//!
//! The socket for merging rules ([`crate::policy::Merge`]): `give_back` is the only way in which
//! pages return to the free lists.

use crate::allocator::{Allocator, Held};
use crate::buddy::End;
use crate::event::{Event, PageKind};
use crate::geometry::Zone;
use crate::platform::Platform;
use crate::policy::Merge;
use crate::types::MigrateType;

/// Whether the caller knows that a block will not be reused soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Nothing is known: the likelihood of a merge decides.
    None,
    /// Put it where it is left alone: memory that is added or put back.
    ToTail,
}

impl<P: Platform> Allocator<P> {
    /// Puts a block back that is not on any list. Zone lock held; pages are accounted.
    pub(crate) fn give_back(
        &self,
        held: Held,
        pfn: u64,
        order: u8,
        migratetype: MigrateType,
        hint: Hint,
    ) {
        self.account(held, 1 << order, migratetype);
        let page = self.zone(held.zone).page(pfn);
        self.set_state(page, PageKind::Free, order, migratetype, held.cpu);
        match self.policy.merge {
            Merge::Deferred if order == 0 && hint == Hint::None => {
                self.link_block(held, page, order, migratetype, End::Head);
            }
            Merge::Eager | Merge::Deferred => self.merge_now(held, pfn, order, migratetype, hint),
        }
    }

    /// A block larger than a pageblock goes back block by block, each by its own type.
    pub(crate) fn give_back_split(&self, held: Held, pfn: u64, order: u8, hint: Hint) {
        let zone = *self.zone(held.zone);
        let step = order.min(self.shape.pageblock_order);
        let page = zone.page(pfn);
        // The whole block was handed out under its first page.
        self.set_state(page, PageKind::Free, order, MigrateType::Movable, held.cpu);
        for at in (pfn..pfn + (1 << order)).step_by(1 << step) {
            self.give_back(held, at, step, self.block_type(&zone, at), hint);
        }
    }

    pub(crate) fn merge_now(&self, held: Held, pfn: u64, order: u8, t: MigrateType, hint: Hint) {
        let zone = *self.zone(held.zone);
        let (mut pfn, mut order) = (pfn, order);
        while order < self.shape.max_order {
            let Some(buddy_pfn) = self.free_buddy(&zone, pfn, order, t) else {
                break;
            };
            let buddy = zone.page(buddy_pfn);
            let (_, buddy_type) = self.free_head(buddy).expect("a free buddy has a head");
            self.unlink_block(held, buddy, order, buddy_type);
            if buddy_type != t {
                self.retype_merged(held, &zone, buddy_pfn, order, buddy_type, t);
            }
            pfn = pfn.min(buddy_pfn);
            order += 1;
            self.platform.note(Event::Merge { zone: held.zone, order });
        }
        let end = match hint {
            Hint::ToTail => End::Tail,
            Hint::None if self.is_merge_likely(&zone, pfn, order) => End::Tail,
            Hint::None => End::Head,
        };
        self.link_block(held, zone.page(pfn), order, t, end);
    }

    /// Cuts a free block that is larger than a pageblock and holds this page into pageblocks, so
    /// that one of them can change its type. Zone lock held; no page is gained or lost.
    pub(crate) fn cut_to_pageblocks(&self, held: Held, pfn: u64) {
        let zone = *self.zone(held.zone);
        let step = self.shape.pageblock_order;
        for order in step + 1..=self.shape.max_order {
            let start = pfn & !((1 << order) - 1);
            if !zone.holds_block(start, order) {
                return;
            }
            let page = zone.page(start);
            let Some((_, t)) = self.free_head(page).filter(|&(found, _)| found == order) else {
                continue;
            };
            self.unlink_block(held, page, order, t);
            for at in (start..start + (1 << order)).step_by(1 << step) {
                self.link_block(held, zone.page(at), step, t, End::Tail);
            }
            return;
        }
    }

    /// Lets a pageblock that is free as a whole join its buddies, after its type changed. Zone
    /// lock held.
    pub(crate) fn merge_pageblock(&self, held: Held, pfn: u64) {
        let zone = *self.zone(held.zone);
        let order = self.shape.pageblock_order;
        let start = pfn & !((1 << order) - 1);
        if !zone.holds_block(start, order) {
            return;
        }
        let page = zone.page(start);
        if let Some((found, t)) = self.free_head(page)
            && found == order
        {
            self.unlink_block(held, page, order, t);
            self.merge_now(held, start, order, t, Hint::ToTail);
        }
    }

    /// The buddy of a block, if it is free as a whole and may merge with a block of type `t`.
    fn free_buddy(&self, zone: &Zone, pfn: u64, order: u8, t: MigrateType) -> Option<u64> {
        let buddy = pfn ^ (1 << order);
        if !zone.holds_block(buddy, order) {
            return None;
        }
        let (buddy_order, buddy_list) = self.free_head(zone.page(buddy))?;
        if buddy_order != order {
            return None;
        }
        // Inside a pageblock both halves share a type; across a border both must be mergeable.
        let within = order < self.shape.pageblock_order;
        let block_type = self.block_type(zone, buddy);
        let may = within || block_type == t || (t.is_mergeable() && block_type.is_mergeable());
        // Isolated and lent memory never mixes with other lists, whatever the block says.
        let lists_may = buddy_list == t || (t.is_mergeable() && buddy_list.is_mergeable());
        (may && lists_may).then_some(buddy)
    }

    /// A block of another type was merged: page counts of its type move, and where lists and
    /// block types must agree the pageblocks take the new type.
    fn retype_merged(
        &self,
        held: Held,
        zone: &Zone,
        buddy_pfn: u64,
        order: u8,
        from: MigrateType,
        to: MigrateType,
    ) {
        if self.policy.has_hygiene() && order >= self.shape.pageblock_order {
            self.retype_range(held, zone, buddy_pfn, order, from, to);
        }
    }

    /// Retypes the pageblocks of a block of at least pageblock order. Zone lock held.
    pub(crate) fn retype_range(
        &self,
        held: Held,
        zone: &Zone,
        pfn: u64,
        order: u8,
        from: MigrateType,
        to: MigrateType,
    ) {
        let blocks = 1u64 << (order - self.shape.pageblock_order);
        for block in 0..blocks {
            let at = pfn + (block << self.shape.pageblock_order);
            self.set_block_type(zone, at, to);
            let pfn = crate::types::Pfn(at);
            self.platform.note(Event::Retype { zone: held.zone, pfn, from, to });
        }
    }

    /// True if the buddy of the block one order up is free: this block's buddy is then likely
    /// to follow, and reusing it now would cost the larger block.
    fn is_merge_likely(&self, zone: &Zone, pfn: u64, order: u8) -> bool {
        if order + 1 >= self.shape.max_order {
            return false;
        }
        let combined = pfn & !(1 << order);
        let higher = combined ^ (1 << (order + 1));
        zone.holds_block(higher, order + 1)
            && self.free_head(zone.page(higher)).is_some_and(|(o, _)| o == order + 1)
    }
}
