//! What a process of page_fault1 or page_fault2 does: maps an area, touches every page, unmaps it,
//! over and over.
//!
//! A fault takes a page, fills it and lets it wait for the LRU list; unmapping takes the pages off
//! their page table, thousands at a time (`mmu_gather`), before it takes them off the list and
//! frees them, batch by batch.

use std::vec::IntoIter;

use super::area::{Area, UNMAP};
use super::{Record, Stage, Watch};
use crate::cells::lru::RELEASE_BATCH;
use crate::cells::page_fault1::ZAP_INSTRUCTIONS;

/// Pages that are released together: pointers that fit a page beside its header
/// (`MAX_GATHER_BATCH`, asm-generic/tlb.h).
pub const BATCH: usize = 510;
/// Pages of one group of an unmap: so many batches, no more than 10,000 pages in all
/// (`MAX_GATHER_BATCH_COUNT`), and eight pages in the gather itself.
pub const GATHER: usize = 10_000 / BATCH * BATCH + 8;

/// What [`Watch::noted`] is told of: groups that were taken off their page table and released.
pub const GROUPS: usize = 0;

/// Instructions for a page that is asked whether it is in the swap cache, beside the load of its
/// flags: an estimate, a loop with three tests.
const SWAP_CACHE_INSTRUCTIONS: u64 = 10;

/// How many pages ahead [`Stage::soon`] is told of what comes.
const SOON: usize = 8;

/// A process.
pub struct Process<'a, S: Stage> {
    /// Its area.
    pub area: Area<'a, S>,
    /// Pages of the group that it unmaps first, if it begins with that: the rest of one that was
    /// begun before, and is off its page table. 0: it maps first.
    pub first_group: usize,
}

impl<S: Stage> Process<'_, S> {
    /// Runs until it is over. Returns the pages that it has then; all of them are on the LRU list.
    pub fn run(self, watch: &impl Watch) -> Vec<S::Page> {
        let is_unmapping = self.first_group > 0;
        let stage = self.area.stage;
        let rest = if self.area.held.is_empty() { 0 } else { self.first_group };
        let mut rest = Some(rest).filter(|&rest| rest > 0);
        let unmap_one = |pages: &mut IntoIter<S::Page>| {
            let group = rest.unwrap_or(GATHER).min(pages.len());
            let is_whole = rest.take().is_none();
            if is_whole {
                zap(stage, watch, &pages.as_slice()[..group]);
            }
            release(stage, watch, pages, group);
            watch.noted(GROUPS, u64::from(is_whole));
        };
        self.area.cycle(watch, is_unmapping, |area, _| area.fault_page(), unmap_one)
    }
}

/// Asks every page of a batch whether it is in the swap cache, before the first is taken off the
/// LRU list (`free_pages_and_swap_cache`, mm/swap_state.c): their records are near when its lock
/// is taken.
pub fn ask_for_swap_cache<S: Stage>(stage: &S, pages: &[S::Page]) {
    for page in pages {
        stage.execute(SWAP_CACHE_INSTRUCTIONS);
        stage.record(page, Record::Read);
    }
}

/// Takes a group of pages off their page table.
fn zap<S: Stage>(stage: &S, watch: &impl Watch, group: &[S::Page]) {
    for batch in group.chunks(BATCH) {
        stage.sync();
        let from = stage.now_ps();
        for (at, page) in batch.iter().enumerate() {
            if let Some(later) = batch.get(at + SOON) {
                stage.soon(later);
            }
            stage.execute(ZAP_INSTRUCTIONS);
            stage.record(page, Record::Locked);
        }
        watch.spent(UNMAP, stage.now_ps() - from, 0);
    }
}

/// Takes a group of pages off the LRU list and frees them, those that were mapped first.
fn release<S: Stage>(stage: &S, watch: &impl Watch, pages: &mut IntoIter<S::Page>, group: usize) {
    let mut left = group;
    while left > 0 {
        let batch = left.min(BATCH);
        // Told often: a batch takes longer than a short stretch is measured.
        let mut from = stage.now_ps();
        let mut tell = |pages| {
            let now = stage.now_ps();
            watch.spent(UNMAP, now - from, pages);
            from = now;
        };
        ask_for_swap_cache(stage, &pages.as_slice()[..batch]);
        for pages in pages.as_slice()[..batch].chunks(RELEASE_BATCH) {
            stage.unlist(pages);
            tell(0);
        }
        let mut unfreed = batch;
        while unfreed > 0 {
            let some = unfreed.min(RELEASE_BATCH);
            for page in pages.by_ref().take(some) {
                stage.free(page);
            }
            tell(some as u64);
            unfreed -= some;
        }
        left -= batch;
    }
}
