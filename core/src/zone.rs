//! May this zone serve? Marks, reserves and the watermark test.
//!
//! Lock order of the crate: a pcp lock, then one zone lock. Never two pcp locks, never two zone
//! locks. The words here are read without any lock; stale is allowed, because the free lists are
//! looked at again under the zone lock.

use crate::allocator::{Allocator, Held};
use crate::event::Event;
use crate::platform::{Field, Ordering, Platform, Shared};
use crate::policy::HighAtomicDiscount;
use crate::request::Request;
use crate::sizing::Pressure;
use crate::stat::ZoneItem;
use crate::types::{Mark, MigrateType, ZoneId, ZoneKind};
use crate::watermark::Marks;

// Words of a zone. All raced, all relaxed: each is a number or flag that stands alone.
const MARKS: u8 = 0; // four words: min, low, high, promo; written by set-up
const BOOST: Field = Field(4); // written under the zone lock
const RECLAIM_ACTIVE: Field = Field(5); // written by the embedder's background reclaim
const BELOW_HIGH: Field = Field(6); // set by the page hunt, cleared by frees
const BOOSTED: Field = Field(7); // set under the zone lock, cleared by allocations
pub(crate) const FREE_HIGHATOMIC: Field = Field(8); // written under the zone lock
pub(crate) const RESERVED_HIGHATOMIC: Field = Field(9); // written under the zone lock
const STAT_THRESHOLD: Field = Field(10); // written by set-up and background reclaim
const DRIFT_MARK: Field = Field(11); // written by set-up
const RESERVE: u8 = 12; // four words, by kind of the request; written by set-up

/// Blocks of the free lists as a test without the zone lock may use them.
const COUNT: Field = Field(0);

impl<P: Platform> Allocator<P> {
    pub(crate) fn zone_word(&self, zone: ZoneId, field: Field) -> u32 {
        self.zones.peek(usize::from(zone.0), field)
    }

    pub(crate) fn set_zone_word(&self, zone: ZoneId, field: Field, value: u32) {
        // Relaxed: see the top of the file.
        self.zones.store(usize::from(zone.0), field, value, Ordering::Relaxed);
    }

    /// Marks of a zone without its boost, pages.
    #[must_use]
    pub fn marks(&self, zone: ZoneId) -> Marks {
        let word = |mark: Mark| self.zone_word(zone, Field(MARKS + mark as u8));
        Marks {
            min: word(Mark::Min),
            low: word(Mark::Low),
            high: word(Mark::High),
            promo: word(Mark::Promo),
        }
    }

    /// Sets the marks of a zone.
    pub fn set_marks(&self, zone: ZoneId, marks: Marks) {
        let words = [marks.min, marks.low, marks.high, marks.promo];
        for (at, word) in words.into_iter().enumerate() {
            self.set_zone_word(zone, Field(MARKS + at as u8), word);
        }
    }

    /// Raises the marks of a zone by so many pages, as a recorded zone was found.
    pub fn set_boost(&self, zone: ZoneId, pages: u32) {
        self.set_zone_word(zone, BOOST, pages);
    }

    /// What the marks of a zone are raised by at the moment, pages.
    #[must_use]
    pub fn boost(&self, zone: ZoneId) -> u32 {
        self.zone_word(zone, BOOST)
    }

    /// Lowers the boost of a zone by what background reclaim saw when it began.
    pub fn settle_boost(&self, zone: ZoneId, pages: u32) {
        let cpu = self.platform.cpu();
        self.with_zone(zone, cpu, crate::platform::Site::ZoneAdmin, |held| {
            let boost = self.boost(held.zone);
            self.set_zone_word(held.zone, BOOST, boost.saturating_sub(pages));
        });
    }

    /// Pages that a request whose highest zone is `kind` must leave in a zone.
    #[must_use]
    pub fn reserve(&self, zone: ZoneId, kind: ZoneKind) -> u32 {
        self.zone_word(zone, Field(RESERVE + kind as u8))
    }

    /// Sets what a request whose highest zone is `kind` must leave in a zone, pages.
    pub fn set_protection(&self, zone: ZoneId, kind: ZoneKind, pages: u32) {
        self.set_zone_word(zone, Field(RESERVE + kind as u8), pages);
    }

    /// Threshold of the zone counters.
    #[must_use]
    pub fn stat_threshold(&self, zone: ZoneId) -> u32 {
        self.zone_word(zone, STAT_THRESHOLD)
    }

    pub(crate) fn set_stat_threshold(&self, zone: ZoneId, threshold: u32, drift_mark: u32) {
        self.set_zone_word(zone, STAT_THRESHOLD, threshold);
        self.set_zone_word(zone, DRIFT_MARK, drift_mark);
    }

    pub(crate) fn drift_mark(&self, zone: ZoneId) -> u32 {
        self.zone_word(zone, DRIFT_MARK)
    }

    pub(crate) fn pressure(&self, zone: ZoneId) -> Pressure {
        Pressure {
            reclaim_active: self.zone_word(zone, RECLAIM_ACTIVE) != 0,
            below_high: self.zone_word(zone, BELOW_HIGH) != 0,
        }
    }

    /// Told by background reclaim when it begins and ends work on the node of this zone: caps
    /// per-CPU caches meanwhile.
    pub fn set_reclaim_active(&self, zone: ZoneId, active: bool) {
        self.set_zone_word(zone, RECLAIM_ACTIVE, u32::from(active));
    }

    pub(crate) fn set_below_high(&self, zone: ZoneId, below: bool) {
        self.set_zone_word(zone, BELOW_HIGH, u32::from(below));
    }

    pub(crate) fn is_below_high(&self, zone: ZoneId) -> bool {
        self.zone_word(zone, BELOW_HIGH) != 0
    }

    /// Raises the marks after types mixed in a block. Zone lock held.
    pub(crate) fn raise_boost(&self, held: Held, may_wake: bool) {
        let Held { zone, .. } = held;
        let block_pages = 1u32 << self.shape.pageblock_order;
        let high = self.marks(zone).high;
        let small = self.zone(zone).managed < 4 * u64::from(block_pages);
        if self.policy.boost_factor == 0 || small || high == 0 {
            return;
        }
        let share = u64::from(high) * u64::from(self.policy.boost_factor) / 10_000;
        let most = (share as u32).max(block_pages);
        let boost = (self.boost(zone) + block_pages).min(most);
        self.set_zone_word(zone, BOOST, boost);
        if may_wake {
            self.set_zone_word(zone, BOOSTED, 1);
        }
        self.platform.note(Event::Boost { zone, boost_pages: boost });
    }

    /// An allocation passing by wakes background reclaim for a boosted zone, once.
    pub(crate) fn wake_if_boosted(&self, zone: ZoneId) {
        if self.zone_word(zone, BOOSTED) != 0 {
            // Racy, harmless: two wakes instead of one.
            self.set_zone_word(zone, BOOSTED, 0);
            self.platform.note(Event::Wake { node: self.zone(zone).node, order: 0 });
        }
    }

    /// The test of the page hunt: order 0 passes on one comparison where it can.
    pub(crate) fn is_above(&self, zone: ZoneId, mark: Mark, request: &Request) -> bool {
        let boost = self.boost(zone);
        let mark_pages = i64::from(self.zone_word(zone, Field(MARKS + mark as u8)));
        let free = self.zone_count_cheap(zone, ZoneItem::FreePages);
        let reserve = i64::from(self.reserve(zone, request.highest));
        if request.order == 0 {
            let usable = free - self.unusable_pages(zone, request).min(free);
            if usable > mark_pages + i64::from(boost) + reserve {
                return true;
            }
        }
        if self.is_ok(zone, mark_pages + i64::from(boost), request, free) {
            return true;
        }
        let forgive_boost =
            request.order == 0 && request.high_priority && boost != 0 && mark == Mark::Min;
        forgive_boost && self.is_ok(zone, mark_pages, request, free)
    }

    /// The test of background work: every CPU's difference is summed where it could matter.
    #[must_use]
    pub fn is_above_safe(&self, zone: ZoneId, mark: Mark, request: &Request) -> bool {
        let mut free = self.zone_count_cheap(zone, ZoneItem::FreePages);
        if free < i64::from(self.drift_mark(zone)) {
            free = self.zone_count(zone, ZoneItem::FreePages);
        }
        let mark_pages = self.zone_word(zone, Field(MARKS + mark as u8)) + self.boost(zone);
        self.is_ok(zone, i64::from(mark_pages), request, free)
    }

    /// Free pages that this request could not take.
    fn unusable_pages(&self, zone: ZoneId, request: &Request) -> i64 {
        let mut pages = 0;
        if !request.has_reserve_right() {
            pages += i64::from(match self.policy.highatomic_discount {
                HighAtomicDiscount::Reserved => self.zone_word(zone, RESERVED_HIGHATOMIC),
                HighAtomicDiscount::Free => self.zone_word(zone, FREE_HIGHATOMIC),
            });
        }
        if !request.may_use_cma() {
            pages += self.zone_count_cheap(zone, ZoneItem::FreeCma);
        }
        pages
    }

    fn is_ok(&self, zone: ZoneId, mark_pages: i64, request: &Request, free: i64) -> bool {
        let free = free - ((1 << request.order) - 1) - self.unusable_pages(zone, request);
        let mut min = mark_pages;
        if request.high_priority {
            min -= min / 2;
            if request.non_block {
                min -= min / 4;
            }
        }
        if request.oom_victim {
            min -= min / 2;
        }
        if free <= min + i64::from(self.reserve(zone, request.highest)) {
            return false;
        }
        request.order == 0 || self.has_block(zone, request)
    }

    /// Whether a block large enough waits on a list that the request may use.
    fn has_block(&self, zone: ZoneId, request: &Request) -> bool {
        let usable = |migratetype: MigrateType| match migratetype {
            MigrateType::Cma => request.may_use_cma(),
            MigrateType::HighAtomic => request.is_high_atomic() || request.oom_victim,
            other => other.is_mergeable(),
        };
        (request.order..=self.shape.max_order).any(|order| {
            MigrateType::ALL.iter().any(|&t| usable(t) && self.free_blocks_hint(zone, order, t) > 0)
        })
    }

    /// Blocks on a free list. Racy without the zone lock: a hint.
    pub(crate) fn free_blocks_hint(
        &self,
        zone: ZoneId,
        order: u8,
        migratetype: MigrateType,
    ) -> u32 {
        self.area_counts.peek(self.shape.area(zone, order, migratetype as u8), COUNT)
    }

    pub(crate) fn set_free_blocks(
        &self,
        held: Held,
        order: u8,
        migratetype: MigrateType,
        blocks: u32,
    ) {
        let area = self.shape.area(held.zone, order, migratetype as u8);
        // Relaxed: written under the zone lock; readers without it take it as a hint.
        self.area_counts.store(area, COUNT, blocks, Ordering::Relaxed);
    }
}
