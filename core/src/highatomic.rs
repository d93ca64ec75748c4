//! The reserve for high-order requests that cannot wait: up to a hundredth of a zone.

use crate::allocator::Allocator;
use crate::event::Event;
use crate::geometry::Zone;
use crate::platform::{Platform, Site};
use crate::types::{CpuId, MigrateType, ZoneId};
use crate::zone::RESERVED_HIGHATOMIC;

impl<P: Platform> Allocator<P> {
    fn block_pages(&self) -> u32 {
        1 << self.shape.pageblock_order
    }

    /// Reserves the pageblocks that just served a high-atomic request, while the zone's share is
    /// not used up.
    pub(crate) fn reserve_high_atomic(&self, zone: ZoneId, page: usize, cpu: CpuId) {
        if !self.policy.highatomic {
            return;
        }
        let block = self.block_pages();
        let share = (self.zone(zone).managed / 100) as u32;
        if share < block {
            return;
        }
        let most = share.next_multiple_of(block);
        // Racy, harmless: looked at again under the lock.
        if self.zone_word(zone, RESERVED_HIGHATOMIC) >= most {
            return;
        }
        let span: Zone = *self.zone(zone);
        let pfn = span.pfn(page);
        self.with_zone(zone, cpu, Site::ZoneAdmin, |held| {
            let reserved = self.zone_word(zone, RESERVED_HIGHATOMIC);
            let from = self.block_type(&span, pfn);
            if reserved >= most || !from.is_mergeable() {
                return;
            }
            if self.census(&span, pfn).is_none() {
                return;
            }
            let to = MigrateType::HighAtomic;
            let order = self.state(page).order;
            if order > self.shape.pageblock_order {
                // All of them are in use: nothing to move.
                self.retype_range(held, &span, pfn, order, from, to);
            } else {
                self.retype_block(held, &span, pfn, from, to);
                self.move_free_pages(held, pfn, to);
            }
            let pages = block.max(1 << order);
            self.set_zone_word(zone, RESERVED_HIGHATOMIC, reserved + pages);
            self.platform.note(Event::HighAtomic { zone, reserved: true });
        });
    }

    /// Returns one reserved pageblock to the type of a request that found nothing; the last
    /// block of a zone only with `force`. True if pages were moved.
    pub(crate) fn unreserve_high_atomic(
        &self,
        zones: &[ZoneId],
        to: MigrateType,
        cpu: CpuId,
        force: bool,
    ) -> bool {
        zones.iter().any(|&zone| {
            let reserved = self.zone_word(zone, RESERVED_HIGHATOMIC);
            let keep = if force { 0 } else { self.block_pages() };
            reserved > keep && self.unreserve_in(zone, to, cpu)
        })
    }

    fn unreserve_in(&self, zone: ZoneId, to: MigrateType, cpu: CpuId) -> bool {
        let span: Zone = *self.zone(zone);
        self.with_zone(zone, cpu, Site::ZoneAdmin, |held| {
            let from = MigrateType::HighAtomic;
            let found = (0..=self.shape.max_order).find_map(|order| {
                let page = self.first_free(held, order, from)?;
                Some((page, order))
            });
            let Some((page, order)) = found else {
                return false;
            };
            let pfn = span.pfn(page);
            let reserved = self.zone_word(zone, RESERVED_HIGHATOMIC);
            let left = reserved.saturating_sub(self.block_pages().max(1 << order));
            self.set_zone_word(zone, RESERVED_HIGHATOMIC, left);
            let moved = if order > self.shape.pageblock_order {
                // Reserved pageblocks that merged go back together.
                self.retype_range(held, &span, pfn, order, from, to);
                self.move_block(held, page, to)
            } else {
                if self.block_type(&span, pfn) == from {
                    self.retype_block(held, &span, pfn, from, to);
                }
                self.move_free_pages(held, pfn, to)
            };
            self.platform.note(Event::HighAtomic { zone, reserved: false });
            moved > 0
        })
    }
}
