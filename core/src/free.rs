//! The way back: a block goes to the CPU's own list, and from there in bulk to the zone.

use crate::allocator::Allocator;
use crate::event::{DrainCause, Event, PageKind};
use crate::merge::Hint;
use crate::pcp::Cache;
use crate::platform::{Platform, Site};
use crate::policy::LockChunk;
use crate::request::Request;
use crate::sizing::FreeVerdict;
use crate::stat::{Counting, EventItem};
use crate::types::{CpuId, Mark, MigrateType, Pfn, ZoneId};

/// A bulk free that goes on after the locks were let go once.
#[derive(Clone, Copy)]
struct Rest {
    pages: u32,
    list: u8,
    cause: DrainCause,
}

impl<P: Platform> Allocator<P> {
    /// Frees a block by its first page and the order it was allocated with.
    ///
    /// Misuse (double free, wrong order, a page that was never allocated or is none of ours) is
    /// reported to [`Platform::bug`] before anything changes.
    pub fn free(&self, pfn: Pfn, order: u8) {
        let zone = self.checked(pfn, order);
        let block_type = self.block_type(self.zone(zone), pfn.0);
        self.free_checked(zone, pfn, order, block_type);
    }

    /// Frees a block to the lists of `migratetype`, for embedders that keep block types
    /// themselves. The zone still decides by its own block type when the page leaves the cache,
    /// where the policy keeps lists and types in agreement.
    pub fn free_as(&self, pfn: Pfn, order: u8, migratetype: MigrateType) {
        let zone = self.checked(pfn, order);
        self.free_checked(zone, pfn, order, migratetype);
    }

    fn checked(&self, pfn: Pfn, order: u8) -> ZoneId {
        match self.check_free(pfn, order) {
            Ok(zone) => zone,
            Err(bug) => self.platform.bug(bug),
        }
    }

    fn free_checked(&self, zone: ZoneId, pfn: Pfn, order: u8, t: MigrateType) {
        let cpu = self.platform.cpu();
        let cached = self.pcp_list(order, t).and_then(|list| {
            self.enter_pcp(zone, cpu, Site::PcpFree, |cache| {
                let page = self.zone(zone).page(pfn.0);
                self.count_event(
                    zone,
                    EventItem::PagesFreed,
                    1 << order,
                    Counting::UnderPcpLock(cache.record),
                );
                self.free_to_pcp(cache, page, order, t, list)
            })
            .or_else(|| {
                self.platform.note(Event::PcpBusy { zone, cpu });
                None
            })
        });
        match cached {
            Some(rest) => self.free_rest(zone, cpu, rest),
            None => self.free_direct(zone, cpu, pfn, order, t),
        }
    }

    /// Puts the block on its list and gives back what is too much. pcp lock held.
    fn free_to_pcp(
        &self,
        cache: Cache,
        page: usize,
        order: u8,
        t: MigrateType,
        list: u8,
    ) -> Option<Rest> {
        self.pcp_put(cache, page, order, t, list);
        self.platform.note(Event::PcpPut { zone: cache.zone, cpu: cache.cpu, order });
        let before = self.pcp_size(cache);
        let mut size = before;
        let verdict = size.on_free(&self.policy, order, self.pressure(cache.zone));
        self.change_pcp_size(cache, &before, &size);
        let FreeVerdict::Drain { pages, free_high } = verdict else {
            return None;
        };
        let cause = if free_high { DrainCause::FreeHigh } else { DrainCause::Limit };
        let chunk = self.chunk_pages(cache, self.policy.free_chunk);
        let freed = self.bulk_free(cache, pages.min(chunk), list, cause);
        let left = pages.saturating_sub(freed);
        let rest = Rest { pages: left, list, cause };
        (left > 0 && self.policy.free_chunk != LockChunk::Whole).then_some(rest).or_else(|| {
            self.clear_below_high(cache.zone);
            None
        })
    }

    /// 6.19 on: the rest of a bulk free, one chunk a hold; ends when the CPU changes or the
    /// cache is busy.
    fn free_rest(&self, zone: ZoneId, cpu: CpuId, rest: Option<Rest>) {
        let Some(Rest { mut pages, list, cause }) = rest else {
            return;
        };
        while pages > 0 && self.platform.cpu() == cpu {
            let freed = self.enter_pcp(zone, cpu, Site::PcpFree, |cache| {
                let chunk = self.chunk_pages(cache, self.policy.free_chunk);
                self.bulk_free(cache, pages.min(chunk), list, cause)
            });
            match freed {
                None | Some(0) => break,
                Some(freed) => pages = pages.saturating_sub(freed),
            }
        }
        self.clear_below_high(zone);
    }

    /// Frees may lift the zone above its high mark again.
    fn clear_below_high(&self, zone: ZoneId) {
        if self.is_below_high(zone) && self.is_above(zone, Mark::High, &Request::kernel(0)) {
            self.set_below_high(zone, false);
        }
    }

    /// Straight to the zone: orders without a list, isolated blocks, a busy cache.
    fn free_direct(&self, zone: ZoneId, cpu: CpuId, pfn: Pfn, order: u8, t: MigrateType) {
        self.count_event(zone, EventItem::PagesFreed, 1 << order, Counting::Raced);
        self.with_zone(zone, cpu, Site::DirectFree, |held| {
            let page = self.zone(zone).page(pfn.0);
            self.expect_kind(self.zone(zone), page, PageKind::Allocated);
            // `t` was read before the lock: the pageblock may have changed its type since.
            match self.policy.has_hygiene() {
                true => self.give_back_split(held, pfn.0, order, Hint::None),
                false => self.give_back(held, pfn.0, order, t, Hint::None),
            }
        });
        self.platform.note(Event::DirectFree { zone, order });
    }
}
