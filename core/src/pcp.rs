//! Per-CPU caches: lists of blocks that a CPU takes and frees without the zone lock.
//!
//! Each (zone, CPU) has a cache with a lock of its own, so a stale CPU number is slow, never
//! wrong. Allocations and frees enter by try-lock where the policy has spin locks (6.0 on): a
//! cache that is being drained from afar costs the slower path and nothing else. Earlier
//! releases cannot find it busy, so they wait.

use crate::allocator::{Allocator, Held};
use crate::event::{DrainCause, Event, PageKind};
use crate::fallback::{Mode, Rights};
use crate::geometry::{PCP_HEADS, PCP_LISTS};
use crate::list::{List, NEXT};
use crate::merge::Hint;
use crate::platform::{Field, Locks, Ordering, Owned, Platform, PrefetchHint, Shared, Site};
use crate::policy::{BulkOrder, Collect, FreeScale, LockChunk, PcpLists, PcpLock, Prefetch};
use crate::sizing::PcpSize;
use crate::types::{COSTLY_ORDER, CpuId, MigrateType, PCP_TYPES, ZoneId};

// Words of a cache. Owned by its pcp lock.
const BATCH: Field = Field(0);
const HIGH: Field = Field(1);
const HIGH_MIN: Field = Field(2);
const HIGH_MAX: Field = Field(3);
const ALLOC_FACTOR: Field = Field(4);
const FREE_RUN: Field = Field(5);
const FLAGS: Field = Field(6);
pub(crate) const EXPIRE: Field = Field(7);
const FREED_HIGH_ORDER: u32 = 1;
const FREE_HIGH_BATCH: u32 = 2;

// Words of a cache that others peek at. Written under its pcp lock.
const COUNT: Field = Field(0);
/// Set by whoever wants a cache of 5.19 or earlier drained; obeyed by its owner's next tick.
pub(crate) const DRAIN_ASKED: Field = Field(1);

/// Proof that a pcp lock is held: made by [`Allocator::enter_pcp`] and
/// [`Allocator::with_pcp`] alone.
#[derive(Clone, Copy)]
pub(crate) struct Cache {
    pub zone: ZoneId,
    /// The CPU that works, which need not be the owner.
    pub cpu: CpuId,
    pub record: usize,
}

impl<P: Platform> Allocator<P> {
    /// The list of a cache for blocks of an order and type; `None` is not cached.
    pub(crate) fn pcp_list(&self, order: u8, migratetype: MigrateType) -> Option<u8> {
        let t = migratetype.pcp_type()?;
        let whole_block = order == self.shape.pageblock_order && order > COSTLY_ORDER;
        match self.policy.pcp_lists {
            PcpLists::Three => (order == 0).then_some(t),
            _ if order <= COSTLY_ORDER => Some(PCP_TYPES * order + t),
            PcpLists::Thirteen if whole_block => Some(12),
            PcpLists::Fourteen if whole_block => {
                Some(12 + u8::from(t == MigrateType::Movable as u8))
            }
            _ => None,
        }
    }

    /// Lists that the policy uses.
    pub(crate) fn pcp_lists_used(&self) -> usize {
        match self.policy.pcp_lists {
            PcpLists::Three => 3,
            PcpLists::Thirteen => 13,
            PcpLists::Fourteen => PCP_LISTS,
        }
    }

    /// Enters a cache if it is free (or waits, where the policy knows no try-lock).
    pub(crate) fn enter_pcp<R>(
        &self,
        zone: ZoneId,
        cpu: CpuId,
        site: Site,
        f: impl FnOnce(Cache) -> R,
    ) -> Option<R> {
        let record = self.pcp_record(zone, cpu);
        let cache = Cache { zone, cpu, record };
        let wait = self.policy.pcp_lock != PcpLock::Spin;
        self.pcp_locks.enter(record, site, wait, || f(cache))
    }

    /// Waits for the cache of `owner`.
    pub(crate) fn with_pcp<R>(
        &self,
        zone: ZoneId,
        owner: CpuId,
        site: Site,
        f: impl FnOnce(Cache) -> R,
    ) -> R {
        let record = self.pcp_record(zone, owner);
        let cpu = self.platform.cpu();
        self.pcp_locks.with(record, site, || f(Cache { zone, cpu, record }))
    }

    fn cache_list(&self, cache: Cache, list: u8) -> List<'_, P::Owned> {
        let head = cache.record * PCP_HEADS + usize::from(list);
        List { heads: &self.pcp_lists, head, pages: &self.pages }
    }

    /// Pages in a cache. Racy without its lock: a hint.
    pub(crate) fn pcp_count(&self, record: usize) -> u32 {
        self.pcp_shared.peek(record, COUNT)
    }

    fn set_pcp_count(&self, cache: Cache, count: u32) {
        // Relaxed: written under the pcp lock; readers without it take it as a hint.
        self.pcp_shared.store(cache.record, COUNT, count, Ordering::Relaxed);
    }

    pub(crate) fn pcp_size(&self, cache: Cache) -> PcpSize {
        let word = |field| self.pcps.get(cache.record, field);
        let flags = word(FLAGS);
        PcpSize {
            count: self.pcp_count(cache.record),
            batch: word(BATCH),
            high: word(HIGH),
            high_min: word(HIGH_MIN),
            high_max: word(HIGH_MAX),
            alloc_factor: word(ALLOC_FACTOR),
            free_run: word(FREE_RUN),
            freed_high_order: flags & FREED_HIGH_ORDER != 0,
            free_high_batch: flags & FREE_HIGH_BATCH != 0,
        }
    }

    /// Stores limits and state, not the count.
    pub(crate) fn set_pcp_size(&self, cache: Cache, size: &PcpSize) {
        let before = self.pcp_size(cache);
        self.change_pcp_size(cache, &before, size);
    }

    /// The same for a caller that has just read them: what did not change is not touched.
    pub(crate) fn change_pcp_size(&self, cache: Cache, before: &PcpSize, size: &PcpSize) {
        let flags = |size: &PcpSize| {
            u32::from(size.freed_high_order) * FREED_HIGH_ORDER
                + u32::from(size.free_high_batch) * FREE_HIGH_BATCH
        };
        let words = [
            (BATCH, before.batch, size.batch),
            (HIGH, before.high, size.high),
            (HIGH_MIN, before.high_min, size.high_min),
            (HIGH_MAX, before.high_max, size.high_max),
            (ALLOC_FACTOR, before.alloc_factor, size.alloc_factor),
            (FREE_RUN, before.free_run, size.free_run),
            (FLAGS, flags(before), flags(size)),
        ];
        for (field, before, value) in words {
            if before != value {
                self.pcps.set(cache.record, field, value);
            }
        }
    }

    /// An allocation ends a run of frees: halves the factor or count of bulk frees.
    pub(crate) fn pcp_end_free_run(&self, cache: Cache) {
        if self.policy.free_scale != FreeScale::None {
            let run = self.pcps.get(cache.record, FREE_RUN);
            if run != 0 {
                self.pcps.set(cache.record, FREE_RUN, run >> 1);
            }
        }
    }

    /// Takes the head of a list, refilling it first if it is empty.
    pub(crate) fn pcp_take(
        &self,
        cache: Cache,
        order: u8,
        t: MigrateType,
        list: u8,
        rights: Rights,
    ) -> Option<usize> {
        let blocks = self.cache_list(cache, list);
        let page = blocks.pop_first().or_else(|| {
            self.refill(cache, order, t, list, rights);
            blocks.pop_first()
        })?;
        self.set_pcp_count(cache, self.pcp_count(cache.record) - (1 << order));
        self.expect_kind(self.zone(cache.zone), page, PageKind::Pcp);
        Some(page)
    }

    /// One hold of the zone lock: appends blocks to a list in the order obtained, stops early
    /// when the zone cannot provide.
    fn refill(&self, cache: Cache, order: u8, t: MigrateType, list: u8, rights: Rights) {
        let before = self.pcp_size(cache);
        let mut size = before;
        let asked = size.refill_blocks(&self.policy, order, self.pressure(cache.zone));
        self.change_pcp_size(cache, &before, &size);
        let blocks = self.cache_list(cache, list);
        let got = self.with_zone(cache.zone, cache.cpu, Site::Refill, |held| {
            let mut mode = Mode::Normal;
            let mut got = 0;
            while got < asked {
                let Some(page) = self.take(held, order, t, rights, &mut mode) else {
                    break;
                };
                // Lent pages go home to the lists of CMA, also where lists and block types differ.
                let lent = rights.cma && self.is_lent(cache.zone, page);
                let noted = if lent { MigrateType::Cma } else { t };
                self.hand_out(held, page, order, noted, PageKind::Pcp);
                blocks.push_last(page);
                got += 1;
            }
            got
        });
        self.set_pcp_count(cache, size.count + (got << order));
        let Cache { zone, cpu, .. } = cache;
        let event = Event::Refill { zone, cpu, order, list, asked_blocks: asked, got_blocks: got };
        self.platform.note(event);
    }

    fn is_lent(&self, zone: ZoneId, page: usize) -> bool {
        let span = self.zone(zone);
        self.block_type(span, span.pfn(page)) == MigrateType::Cma
    }

    /// Puts a block at the head of its list.
    pub(crate) fn pcp_put(&self, cache: Cache, page: usize, order: u8, t: MigrateType, list: u8) {
        self.set_state(page, PageKind::Pcp, order, t, cache.cpu);
        self.cache_list(cache, list).push_first(page);
        self.set_pcp_count(cache, self.pcp_count(cache.record) + (1 << order));
    }

    /// Puts a block at the tail of its list: set-up.
    pub(crate) fn pcp_put_last(
        &self,
        cache: Cache,
        page: usize,
        order: u8,
        t: MigrateType,
        list: u8,
    ) {
        self.set_state(page, PageKind::Pcp, order, t, cache.cpu);
        self.cache_list(cache, list).push_last(page);
        self.set_pcp_count(cache, self.pcp_count(cache.record) + (1 << order));
    }

    /// First block of a list.
    pub(crate) fn first_cached(&self, cache: Cache, list: u8) -> Option<usize> {
        self.cache_list(cache, list).first()
    }

    /// Gives back at least `pages` pages (fewer if the cache has fewer), coldest first, starting
    /// at `list` where the policy does; one hold of the zone lock.
    pub(crate) fn bulk_free(&self, cache: Cache, pages: u32, list: u8, cause: DrainCause) -> u32 {
        let count = self.pcp_count(cache.record);
        let pages = pages.min(count);
        if pages == 0 {
            return 0;
        }
        let Cache { zone, cpu, .. } = cache;
        let freed = match self.policy.collect {
            Collect::UnderLock => self.with_zone(zone, cpu, Site::BulkFree, |held| {
                self.choose(cache, pages, list, |page| self.return_block(held, page))
            }),
            Collect::OutsideLock => self.free_collected(cache, pages, list),
        };
        self.set_pcp_count(cache, count - freed);
        let left_pages = count - freed;
        self.platform.note(Event::Drain { zone, cpu, pages: freed, left_pages, cause });
        freed
    }

    /// 4.17 to 5.17: chooses first, prefetching buddies, then frees under the lock.
    fn free_collected(&self, cache: Cache, pages: u32, list: u8) -> u32 {
        // A private chain through the links of pages that are on no list: still ours by the
        // pcp lock. Zero ends it.
        let mut first = 0u32;
        let mut last: Option<usize> = None;
        let mut prefetched = 0;
        let batch = self.pcps.get(cache.record, BATCH);
        let freed = self.choose(cache, pages, list, |page| {
            match last {
                Some(last) => self.pages.set(last, NEXT, page as u32 + 1),
                None => first = page as u32 + 1,
            }
            self.pages.set(page, NEXT, 0);
            last = Some(page);
            if prefetched < batch {
                prefetched += 1;
                self.prefetch_buddy(cache.zone, page);
            }
        });
        self.with_zone(cache.zone, cache.cpu, Site::BulkFree, |held| {
            let mut next = first;
            while let Some(page) = next.checked_sub(1) {
                next = self.pages.get(page as usize, NEXT);
                self.return_block(held, page as usize);
            }
        });
        freed
    }

    fn prefetch_buddy(&self, zone: ZoneId, page: usize) {
        let hint = match self.policy.prefetch {
            Prefetch::None => return,
            Prefetch::T0 => PrefetchHint::T0,
            Prefetch::T2 => PrefetchHint::T2,
            Prefetch::Nta => PrefetchHint::Nta,
        };
        let span = self.zone(zone);
        let order = self.state(page).order;
        let buddy = span.pfn(page) ^ (1 << order);
        if span.holds_block(buddy, order) {
            self.platform.prefetch(&self.pages, span.page(buddy), hint);
        }
    }

    /// Takes blocks off list tails until `pages` pages are gone, in the order of the policy.
    /// Returns pages taken.
    fn choose(&self, cache: Cache, pages: u32, list: u8, mut taken: impl FnMut(usize)) -> u32 {
        let lists = self.pcp_lists_used();
        let mut left = i64::from(pages);
        let mut freed = 0;
        let round_robin = self.policy.bulk_order == BulkOrder::RoundRobin;
        // The single pass visits the list just freed to first; the rounds begin after list 0.
        let mut at = if round_robin { 0 } else { (usize::from(list) + lists - 1) % lists };
        let mut quota = 0usize;
        while left > 0 {
            let mut empty = 0;
            loop {
                at = (at + 1) % lists;
                quota = quota.saturating_add(1);
                if self.cache_list(cache, at as u8).last().is_some() {
                    break;
                }
                empty += 1;
                assert!(empty < lists, "a cache counts pages that no list holds");
            }
            // The only list with pages gives all that is needed.
            if !round_robin || quota == lists {
                quota = usize::MAX;
            }
            while left > 0 && quota > 0 {
                let Some(page) = self.cache_list(cache, at as u8).pop_last() else {
                    break;
                };
                let state = self.expect_kind(self.zone(cache.zone), page, PageKind::Pcp);
                left -= 1 << state.order;
                freed += 1 << state.order;
                quota -= 1;
                taken(page);
            }
            // What a list could not give of its quota, the next one may in the rounds.
            if !round_robin {
                quota = 0;
            }
        }
        freed
    }

    /// One block from a cache to the free lists. Zone lock held.
    fn return_block(&self, held: Held, page: usize) {
        let zone = *self.zone(held.zone);
        let state = self.state(page);
        let pfn = zone.pfn(page);
        let block_type = self.block_type(&zone, pfn);
        // Before 6.10 the type noted when the page was freed counts, but for isolated blocks.
        let migratetype = match self.policy.has_hygiene() || block_type == MigrateType::Isolate {
            true => block_type,
            false => state.migratetype,
        };
        self.platform.note(Event::DrainBlock {
            zone: held.zone,
            pfn: crate::types::Pfn(pfn),
            order: state.order,
            migratetype,
        });
        match self.policy.has_hygiene() && state.order > self.shape.pageblock_order {
            true => self.give_back_split(held, pfn, state.order, Hint::None),
            false => self.give_back(held, pfn, state.order, migratetype, Hint::None),
        }
    }

    /// Pages of one zone-lock hold under a chunking rule.
    pub(crate) fn chunk_pages(&self, cache: Cache, chunk: LockChunk) -> u32 {
        let batch = self.pcps.get(cache.record, BATCH).max(1);
        match chunk {
            LockChunk::Whole => u32::MAX,
            LockChunk::Scaled => batch << self.policy.scale_max,
            LockChunk::Batch => batch,
        }
    }
}
