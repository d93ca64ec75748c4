//! What a process of page_fault1 or page_fault2 does: maps an area, touches every page, unmaps it,
//! over and over.
//!
//! A fault takes a page, fills it and lets it wait for the LRU list; unmapping takes the pages off
//! their page table, thousands at a time (`mmu_gather`), before it takes them off the list and
//! frees them.

use pageyard::Request;

use super::{Record, Stage, Watch};
use crate::cells::lru::{PAGEVEC, RELEASE_BATCH};
use crate::cells::page_fault1::ZAP_INSTRUCTIONS;

/// Parts that [`Watch::spent`] is told of: mapping and touching.
pub const MAP: usize = 0;
/// See [`MAP`].
pub const UNMAP: usize = 1;
/// Pages that are released together: pointers that fit a page beside its header
/// (`MAX_GATHER_BATCH`, asm-generic/tlb.h).
pub const BATCH: usize = 510;
/// Pages of one group of an unmap: so many batches, no more than 10,000 pages in all
/// (`MAX_GATHER_BATCH_COUNT`), and eight pages in the gather itself.
pub const GATHER: usize = 10_000 / BATCH * BATCH + 8;

/// How many pages ahead [`Stage::soon`] is told of what comes.
const SOON: usize = 8;

/// A process.
pub struct Process<'a, S: Stage> {
    /// The machine.
    pub stage: &'a S,
    /// What a fault copies from, if it does.
    pub file: &'a S::File,
    /// Pages of its area.
    pub size: usize,
    /// Time of a fault outside of the allocator, the LRU list and filling, picoseconds.
    pub think_ps: u64,
    /// Pages that it has mapped, in the order of their faults; all are on the LRU list.
    pub pages: Vec<S::Page>,
    /// Pages of the group that it unmaps first: the rest of one that was begun before.
    pub first_group: usize,
}

impl<S: Stage> Process<'_, S> {
    /// Runs until it is over, unmapping first or mapping. Returns the pages that it has then; all
    /// of them are on the LRU list.
    pub fn run(mut self, watch: &impl Watch, mut is_unmapping: bool) -> Vec<S::Page> {
        while !watch.is_over() {
            if !is_unmapping {
                self.map(watch);
            }
            is_unmapping = false;
            let mut pages = std::mem::take(&mut self.pages).into_iter();
            let mut group = match std::mem::take(&mut self.first_group) {
                0 => GATHER,
                rest => rest,
            };
            while !watch.is_over() && pages.len() > 0 {
                self.unmap(watch, &mut pages, group);
                group = GATHER;
            }
            self.pages = pages.collect();
        }
        self.pages
    }

    /// Maps and touches what is left of the area.
    fn map(&mut self, watch: &impl Watch) {
        let mut waiting = 0;
        while self.pages.len() < self.size && !watch.is_over() {
            let from = self.stage.now_ps();
            self.fault(&mut waiting);
            watch.did(1);
            watch.spent(MAP, self.stage.now_ps() - from, 1);
        }
        self.stage.list(&self.pages[self.pages.len() - waiting..]);
    }

    fn fault(&mut self, waiting: &mut usize) {
        self.stage.spend(self.think_ps);
        let mut page = self.stage.take(&Request::user(0));
        self.stage.fill(&mut page, self.file, self.pages.len());
        self.stage.record(&page, Record::Write);
        self.pages.push(page);
        *waiting += 1;
        if *waiting == PAGEVEC {
            self.stage.list(&self.pages[self.pages.len() - PAGEVEC..]);
            *waiting = 0;
        }
    }

    /// Unmaps the group of pages that were mapped first.
    fn unmap(&self, watch: &impl Watch, pages: &mut std::vec::IntoIter<S::Page>, group: usize) {
        let stage = self.stage;
        let group = group.min(pages.len());
        for batch in pages.as_slice()[..group].chunks(BATCH) {
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
        let mut left = group;
        while left > 0 {
            let batch = left.min(BATCH);
            let from = stage.now_ps();
            for pages in pages.as_slice()[..batch].chunks(RELEASE_BATCH) {
                stage.unlist(pages);
            }
            pages.by_ref().take(batch).for_each(|page| stage.free(page));
            watch.spent(UNMAP, stage.now_ps() - from, batch as u64);
            left -= batch;
        }
    }
}
