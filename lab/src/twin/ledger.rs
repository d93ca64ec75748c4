//! Refills and drains in sequence, predicted or observed, by CPU and zone.

use std::collections::BTreeMap;

use pageyard::event::DrainCause;
use pageyard::{Event, ZoneId};
use pageyard_host::seq::Listener;
use serde::Serialize;

/// One refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillEntry {
    /// Number of the recording's event at which it happened.
    pub event: u64,
    /// Order of the blocks.
    pub order: u8,
    /// Type of the list, 0 to 2.
    pub migratetype: u8,
    /// Blocks obtained.
    pub blocks: u32,
    /// Limit of the cache right after, pages; 0 for the kernel's own, which are not seen.
    pub high: u32,
}

/// One drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainEntry {
    /// Number of the recording's event at which it happened.
    pub event: u64,
    /// Base pages.
    pub pages: u32,
    /// It left the cache empty.
    pub emptied: bool,
    /// A tick or a request caused it, not a free.
    pub ticked: bool,
}

/// What one CPU did with the zone lock of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Refills in order.
    pub refills: Vec<RefillEntry>,
    /// Drains in order.
    pub drains: Vec<DrainEntry>,
    /// Blocks allocated past the per-CPU lists, and their pages.
    pub direct_allocs: u64,
    /// Pages of them.
    pub direct_alloc_pages: u64,
    /// Blocks freed past the per-CPU lists.
    pub direct_frees: u64,
    /// Pages of them.
    pub direct_free_pages: u64,
}

impl Account {
    /// Base pages refilled.
    #[must_use]
    pub fn refilled_pages(&self) -> u64 {
        self.refills.iter().map(|refill| u64::from(refill.blocks) << refill.order).sum()
    }

    /// Base pages drained.
    #[must_use]
    pub fn drained_pages(&self) -> u64 {
        self.drains.iter().map(|drain| u64::from(drain.pages)).sum()
    }

    /// Change of the zone's free pages by this CPU.
    #[must_use]
    pub fn free_change(&self) -> i64 {
        let freed = self.drained_pages() + self.direct_free_pages;
        let taken = self.refilled_pages() + self.direct_alloc_pages;
        freed as i64 - taken as i64
    }
}

/// Accounts by CPU and zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By CPU and zone.
    pub accounts: BTreeMap<(u16, usize), Account>,
}

impl Ledger {
    /// The account of a CPU and zone.
    pub fn account(&mut self, cpu: u16, zone: usize) -> &mut Account {
        self.accounts.entry((cpu, zone)).or_default()
    }

    /// Change of a zone's free pages.
    #[must_use]
    pub fn free_change(&self, zone: usize) -> i64 {
        self.of_zone(zone).map(Account::free_change).sum()
    }

    /// Accounts of a zone.
    pub fn of_zone(&self, zone: usize) -> impl Iterator<Item = &Account> {
        self.accounts.iter().filter(move |((_, z), _)| *z == zone).map(|(_, account)| account)
    }
}

/// Totals that a policy is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Blocks served from per-CPU lists.
    pub pcp_hits: u64,
    /// Per-CPU caches found busy.
    pub pcp_busy: u64,
    /// Holds of a zone lock for a refill.
    pub refills: u64,
    /// Pages of them.
    pub refilled_pages: u64,
    /// Holds of a zone lock for a drain.
    pub drains: u64,
    /// Pages of them.
    pub drained_pages: u64,
    /// Refills that the zone had nothing for.
    pub refills_empty: u64,
    /// Pages of the largest refill.
    pub refill_pages_max: u64,
    /// Drains because a cache was above its limit.
    pub limit_drains: u64,
    /// Pages of them.
    pub limit_drain_pages: u64,
    /// Drains because of runs of high-order frees.
    pub free_high_drains: u64,
    /// Pages of them.
    pub free_high_pages: u64,
    /// Drains by the periodic tick.
    pub tick_drains: u64,
    /// Drains that somebody asked for, as a request does before it fails.
    pub asked_drains: u64,
    /// Drains that left a cache empty.
    pub drains_emptying: u64,
    /// Pages of the largest drain.
    pub drain_pages_max: u64,
    /// Pages of the largest block allocated or freed past the per-CPU lists.
    pub direct_pages_max: u64,
    /// Holds of a zone lock for one allocation.
    pub direct_allocs: u64,
    /// Holds of a zone lock for one free.
    pub direct_frees: u64,
    /// Most pages moved under one hold of a zone lock.
    pub hold_pages_max: u64,
    /// Pages moved under zone locks.
    pub hold_pages: u64,
    /// Blocks taken from another type.
    pub fallbacks: u64,
    /// Of them, pageblocks that changed their type.
    pub claims: u64,
    /// Buddies joined.
    pub merges: u64,
    /// Blocks halved.
    pub splits: u64,
    /// Zones passed over because they were below the mark asked for.
    pub below_mark: u64,
    /// Times that background reclaim was woken.
    pub wakes: u64,
}

impl Totals {
    /// Adds the totals of another replay; of maxima the larger stays.
    pub fn add(&mut self, other: &Totals) {
        let Totals {
            pcp_hits,
            pcp_busy,
            refills,
            refilled_pages,
            drains,
            drained_pages,
            refills_empty,
            refill_pages_max,
            limit_drains,
            limit_drain_pages,
            free_high_drains,
            free_high_pages,
            tick_drains,
            asked_drains,
            drains_emptying,
            drain_pages_max,
            direct_pages_max,
            direct_allocs,
            direct_frees,
            hold_pages_max,
            hold_pages,
            fallbacks,
            claims,
            merges,
            splits,
            below_mark,
            wakes,
        } = *other;
        self.pcp_hits += pcp_hits;
        self.pcp_busy += pcp_busy;
        self.refills += refills;
        self.refilled_pages += refilled_pages;
        self.drains += drains;
        self.drained_pages += drained_pages;
        self.refills_empty += refills_empty;
        self.refill_pages_max = self.refill_pages_max.max(refill_pages_max);
        self.limit_drains += limit_drains;
        self.limit_drain_pages += limit_drain_pages;
        self.free_high_drains += free_high_drains;
        self.free_high_pages += free_high_pages;
        self.tick_drains += tick_drains;
        self.asked_drains += asked_drains;
        self.drains_emptying += drains_emptying;
        self.drain_pages_max = self.drain_pages_max.max(drain_pages_max);
        self.direct_pages_max = self.direct_pages_max.max(direct_pages_max);
        self.direct_allocs += direct_allocs;
        self.direct_frees += direct_frees;
        self.hold_pages_max = self.hold_pages_max.max(hold_pages_max);
        self.hold_pages += hold_pages;
        self.fallbacks += fallbacks;
        self.claims += claims;
        self.merges += merges;
        self.splits += splits;
        self.below_mark += below_mark;
        self.wakes += wakes;
    }

    fn drained(&mut self, pages: u64, left_pages: u32, cause: DrainCause) {
        self.drains += 1;
        self.drained_pages += pages;
        self.drains_emptying += u64::from(left_pages == 0);
        self.drain_pages_max = self.drain_pages_max.max(pages);
        match cause {
            DrainCause::Limit => {
                self.limit_drains += 1;
                self.limit_drain_pages += pages;
            }
            DrainCause::FreeHigh => {
                self.free_high_drains += 1;
                self.free_high_pages += pages;
            }
            DrainCause::Decay | DrainCause::Expire => self.tick_drains += 1,
            DrainCause::Asked => self.asked_drains += 1,
        }
    }
}

/// Hears the allocator: keeps totals, and the refills and drains since it was last asked.
#[derive(Debug, Default)]
pub struct Tally {
    /// Totals since the last reset.
    pub totals: Totals,
    recent: Vec<Event>,
}

impl Tally {
    /// Zone-lock acquisitions of the ordinary paths.
    #[must_use]
    pub fn has_recent(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Takes the refills, drains and direct operations since it was last asked.
    pub fn take_recent(&mut self, into: &mut Vec<Event>) {
        into.clear();
        std::mem::swap(into, &mut self.recent);
    }

    fn hold(&mut self, pages: u64) {
        self.totals.hold_pages += pages;
        self.totals.hold_pages_max = self.totals.hold_pages_max.max(pages);
    }
}

impl Listener for Tally {
    #[inline]
    fn on_event(&mut self, event: Event) {
        let totals = &mut self.totals;
        match event {
            Event::PcpHit { .. } => totals.pcp_hits += 1,
            Event::Merge { .. } => totals.merges += 1,
            Event::Split { .. } => totals.splits += 1,
            Event::PcpBusy { .. } => totals.pcp_busy += 1,
            Event::Refill { order, got_blocks, .. } => {
                let pages = u64::from(got_blocks) << order;
                totals.refills += 1;
                totals.refilled_pages += pages;
                totals.refills_empty += u64::from(got_blocks == 0);
                totals.refill_pages_max = totals.refill_pages_max.max(pages);
                self.hold(pages);
                self.recent.push(event);
            }
            Event::Drain { pages, left_pages, cause, .. } => {
                totals.drained(u64::from(pages), left_pages, cause);
                self.hold(u64::from(pages));
                self.recent.push(event);
            }
            Event::Direct { order, .. } => {
                totals.direct_allocs += 1;
                totals.direct_pages_max = totals.direct_pages_max.max(1 << order);
                self.hold(1 << order);
                self.recent.push(event);
            }
            Event::DirectFree { order, .. } => {
                totals.direct_frees += 1;
                totals.direct_pages_max = totals.direct_pages_max.max(1 << order);
                self.hold(1 << order);
                self.recent.push(event);
            }
            Event::Fallback { claimed, .. } => {
                totals.fallbacks += 1;
                totals.claims += u64::from(claimed);
            }
            Event::BelowMark { .. } => totals.below_mark += 1,
            Event::Wake { .. } => totals.wakes += 1,
            _ => {}
        }
    }
}

/// Index of a zone in the tables of the lab.
#[must_use]
pub fn zone_index(zone: ZoneId) -> usize {
    usize::from(zone.0)
}
