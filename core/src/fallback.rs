//! Who may take whose memory when the lists of a type are empty.
//!
//! One function for the caller, [`Allocator::take`]; behind it the four rules of Linux 4.14 to
//! 6.19 ([`Fallback`]). The zone lock is held throughout, so nothing changes underneath, and the
//! mode found out for one page may be remembered for the rest of a refill.

use crate::allocator::{Allocator, Held};
use crate::event::Event;
use crate::platform::Platform;
use crate::policy::Fallback;
use crate::stat::ZoneItem;
use crate::types::{MigrateType, Pfn};

/// Rights of the request that matter under the zone lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Movable requests may use what CMA lends.
    pub cma: bool,
    /// Whole pageblocks only may change hands, so that types stay apart.
    pub nofragment: bool,
    /// A boost may wake background reclaim.
    pub may_wake: bool,
}

/// What rule D learned for the rest of a refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Normal,
    Cma,
    Steal,
}

/// A free block of another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub order: u8,
    pub migratetype: MigrateType,
}

/// Types to ask, in order, when the lists of a type are empty.
pub(crate) const fn fallback_types(t: MigrateType) -> [MigrateType; 2] {
    use MigrateType::*;
    match t {
        Movable => [Reclaimable, Unmovable],
        Reclaimable => [Unmovable, Movable],
        _ => [Reclaimable, Movable],
    }
}

impl<P: Platform> Allocator<P> {
    /// Takes one block for a request of type `t`: from its own lists, from CMA where the request
    /// may, else from another type by the rule of the policy. Zone lock held.
    pub(crate) fn take(
        &self,
        held: Held,
        order: u8,
        t: MigrateType,
        rights: Rights,
        mode: &mut Mode,
    ) -> Option<usize> {
        if rights.cma && self.is_cma_ahead(held) {
            let page = self.take_smallest(held, order, MigrateType::Cma);
            if page.is_some() {
                return page;
            }
        }
        if self.policy.fallback == Fallback::D {
            return self.take_by_mode(held, order, t, rights, mode);
        }
        if let Some(page) = self.take_smallest(held, order, t) {
            return Some(page);
        }
        if rights.cma
            && let Some(page) = self.take_smallest(held, order, MigrateType::Cma)
        {
            return Some(page);
        }
        match self.policy.fallback {
            Fallback::A => self.take_by_stealing(held, order, t, rights),
            _ => self.take_with_hygiene(held, order, t, rights),
        }
    }

    /// CMA first once it holds more than half of the free memory.
    fn is_cma_ahead(&self, held: Held) -> bool {
        let cma = self.zone_count_cheap(held.zone, ZoneItem::FreeCma);
        cma > 0 && cma > self.zone_count_cheap(held.zone, ZoneItem::FreePages) / 2
    }

    /// Rule D: own lists, CMA, whole blocks, single pages; each failed stage is skipped for the
    /// rest of the refill, and a claimed block brings back the first stage.
    fn take_by_mode(
        &self,
        held: Held,
        order: u8,
        t: MigrateType,
        rights: Rights,
        mode: &mut Mode,
    ) -> Option<usize> {
        if *mode == Mode::Normal
            && let Some(page) = self.take_smallest(held, order, t)
        {
            return Some(page);
        }
        if matches!(*mode, Mode::Normal | Mode::Cma)
            && rights.cma
            && let Some(page) = self.take_smallest(held, order, MigrateType::Cma)
        {
            *mode = Mode::Cma;
            return Some(page);
        }
        if *mode != Mode::Steal
            && let Some(page) = self.claim_any(held, order, t, rights)
        {
            *mode = Mode::Normal;
            return Some(page);
        }
        if rights.nofragment {
            return None;
        }
        let page = self.steal_smallest(held, order, t)?;
        *mode = Mode::Steal;
        Some(page)
    }

    /// Lowest order at which a block of another type may be taken.
    fn min_order(&self, order: u8, rights: Rights) -> u8 {
        if rights.nofragment { order.max(self.shape.pageblock_order) } else { order }
    }

    /// Claims a pageblock, largest first; stops where blocks become too small to claim.
    fn claim_any(&self, held: Held, order: u8, t: MigrateType, rights: Rights) -> Option<usize> {
        for found in (self.min_order(order, rights)..=self.shape.max_order).rev() {
            let Some(block) = self.find_fallback(held, found, t) else {
                continue;
            };
            if !self.may_claim(found, t) {
                return None;
            }
            let page = self.claim(held, order, t, block, rights);
            if page.is_some() {
                return page;
            }
        }
        None
    }

    /// The smallest block of another type, and only as much of it as was asked for.
    fn steal_smallest(&self, held: Held, order: u8, t: MigrateType) -> Option<usize> {
        let found = self.smallest_fallback(held, order, t)?;
        self.take_part(held, order, t, found)
    }

    /// Takes only what was asked for out of another type's block; the rest stays that type's.
    fn take_part(&self, held: Held, order: u8, t: MigrateType, found: Found) -> Option<usize> {
        let page = self.first_free(held, found.order, found.migratetype)?;
        self.take_block(held, page, found.order, found.migratetype, order, found.migratetype);
        self.note_fallback(held, page, order, t, found, false);
        Some(page)
    }

    fn smallest_fallback(&self, held: Held, order: u8, t: MigrateType) -> Option<Found> {
        (order..=self.shape.max_order).find_map(|order| self.find_fallback(held, order, t))
    }

    fn largest_fallback(&self, held: Held, lowest: u8, t: MigrateType) -> Option<Found> {
        (lowest..=self.shape.max_order).rev().find_map(|order| self.find_fallback(held, order, t))
    }

    /// Rules B and C: a pageblock is claimed whole or not at all.
    fn take_with_hygiene(
        &self,
        held: Held,
        order: u8,
        t: MigrateType,
        rights: Rights,
    ) -> Option<usize> {
        let found = self.largest_fallback(held, self.min_order(order, rights), t)?;
        let claimable = self.may_claim(found.order, t);
        if !claimable && t == MigrateType::Movable && found.order > order {
            return self.steal_smallest(held, order, t);
        }
        if claimable && let Some(page) = self.claim(held, order, t, found, rights) {
            return Some(page);
        }
        if self.policy.fallback == Fallback::C {
            return match rights.nofragment {
                true => None,
                false => self.steal_smallest(held, order, t),
            };
        }
        self.take_part(held, order, t, found)
    }

    /// Rule A: free pages move to the lists of the new type, whether or not their block does.
    fn take_by_stealing(
        &self,
        held: Held,
        order: u8,
        t: MigrateType,
        rights: Rights,
    ) -> Option<usize> {
        let mut found = self.largest_fallback(held, self.min_order(order, rights), t)?;
        let whole_block = self.may_claim(found.order, t);
        if !whole_block && t == MigrateType::Movable && found.order > order {
            found = self.smallest_fallback(held, order, t)?;
        }
        let page = self.first_free(held, found.order, found.migratetype)?;
        let claimed = self.steal_into(held, page, found, t, whole_block, rights);
        self.note_fallback(held, page, order, t, found, claimed);
        self.take_smallest(held, order, t)
    }

    /// Moves the block found, or all free pages of its pageblock, to the lists of `t`; true if
    /// the pageblock changed its type.
    fn steal_into(
        &self,
        held: Held,
        page: usize,
        found: Found,
        t: MigrateType,
        whole_block: bool,
        rights: Rights,
    ) -> bool {
        let zone = *self.zone(held.zone);
        let pfn = zone.pfn(page);
        let block_type = self.block_type(&zone, pfn);
        if block_type == MigrateType::HighAtomic {
            self.move_block(held, page, t);
            return false;
        }
        if found.order >= self.shape.pageblock_order {
            self.retype_range(held, &zone, pfn, found.order, block_type, t);
            self.move_block(held, page, t);
            return true;
        }
        self.raise_boost(held, rights.may_wake);
        if !whole_block {
            self.move_block(held, page, t);
            return false;
        }
        let Some(census) = self.census(&zone, pfn) else {
            self.move_block(held, page, t);
            return false;
        };
        self.move_free_pages(held, pfn, t);
        let enough = self.is_mostly(census, block_type, t);
        if enough {
            self.retype_block(held, &zone, pfn, block_type, t);
        }
        enough
    }

    /// The preferred other type with a free block of exactly this order.
    pub(crate) fn find_fallback(&self, held: Held, order: u8, t: MigrateType) -> Option<Found> {
        let types = fallback_types(t);
        let migratetype =
            types.into_iter().find(|&t| self.free_blocks_hint(held.zone, order, t) > 0)?;
        Some(Found { order, migratetype })
    }

    /// Whether a block of this order is worth a change of its pageblock's type: half a
    /// pageblock's order or more, or a type whose pages would pollute the block for good.
    pub(crate) fn may_claim(&self, order: u8, t: MigrateType) -> bool {
        order >= self.shape.pageblock_order / 2
            || matches!(t, MigrateType::Unmovable | MigrateType::Reclaimable)
    }

    pub(crate) fn note_fallback(
        &self,
        held: Held,
        page: usize,
        order: u8,
        wanted: MigrateType,
        found: Found,
        claimed: bool,
    ) {
        let pfn = Pfn(self.zone(held.zone).pfn(page));
        self.platform.note(Event::Fallback {
            zone: held.zone,
            pfn,
            order,
            found_order: found.order,
            wanted,
            found: found.migratetype,
            claimed,
        });
    }
}
