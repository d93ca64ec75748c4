//! Free pages that were left apart join late: when a larger block is wanted and none is there.
//!
//! Under [`Merge::Deferred`](crate::policy::Merge) a single page is linked at the head of its list
//! without a look at its buddy. Those that lie at the tail were freed longest ago, so that their
//! neighbours are likely free as well: their pageblocks are joined first, one at a hold of the zone
//! lock. A page that still finds no buddy goes to the head: it is the best one to hand out.

use crate::allocator::{Allocator, Held};
use crate::buddy::End;
use crate::merge::Hint;
use crate::platform::{Platform, Site};
use crate::types::{MigrateType, ZoneId};

/// Pageblocks that one request joins at the most: 64 MiB of 4 KiB pages. A bound on what a request
/// may cost, not a measured figure.
const BLOCKS_MAX: u32 = 32;

impl<P: Platform> Allocator<P> {
    /// Joins free pages of a zone that were left apart, until there is a free block of at least
    /// `order` or enough was tried; says whether there is one. Does nothing where nothing was left
    /// apart. For background work of the embedder; requests do it by themselves.
    pub fn join_apart(&self, zone: ZoneId, order: u8) -> bool {
        let cpu = self.platform.cpu();
        for _ in 0..BLOCKS_MAX {
            if self.has_free_of(zone, order) {
                return true;
            }
            let joined = self.with_zone(zone, cpu, Site::ZoneAdmin, |held| self.join_oldest(held));
            if !joined {
                break;
            }
        }
        self.has_free_of(zone, order)
    }

    fn has_free_of(&self, zone: ZoneId, order: u8) -> bool {
        (order..=self.shape.max_order).any(|order| {
            let usual = MigrateType::ALL.into_iter().filter(|t| t.is_mergeable());
            { usual }.any(|t| self.free_blocks_hint(zone, order, t) > 0)
        })
    }

    /// Joins what is free in the pageblock of the page that was freed longest ago, of the list that
    /// has most pages; false if there is none. Zone lock held.
    fn join_oldest(&self, held: Held) -> bool {
        let usual = MigrateType::ALL.into_iter().filter(|t| t.is_mergeable());
        let fullest = usual.max_by_key(|&t| self.free_blocks_hint(held.zone, 0, t));
        let oldest = fullest.and_then(|t| self.last_free(held, 0, t));
        let Some(oldest) = oldest else {
            return false;
        };
        self.join_pageblock(held, self.zone(held.zone).pfn(oldest));
        if let Some((0, t)) = self.free_head(oldest) {
            self.unlink_block(held, oldest, 0, t);
            self.link_block(held, oldest, 0, t, End::Head);
        }
        true
    }

    fn join_pageblock(&self, held: Held, pfn: u64) {
        let zone = *self.zone(held.zone);
        let step = 1 << self.shape.pageblock_order;
        let start = pfn & !(step - 1);
        for at in start.max(zone.start)..(start + step).min(zone.end) {
            let page = zone.page(at);
            if let Some((0, t)) = self.free_head(page) {
                self.unlink_block(held, page, 0, t);
                self.merge_now(held, at, 0, t, Hint::None);
            }
        }
    }
}
