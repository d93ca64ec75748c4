//! An area of memory that a process maps, touches and unmaps, over and over: what page_fault1 and 2
//! and `mixed` have in common. How it faults and how it unmaps is theirs.

use std::vec::IntoIter;

use pageyard::Request;

use super::{Record, Stage, Watch};
use crate::cells::lru::PAGEVEC;

/// Parts that [`Watch::spent`] is told of: mapping and touching.
pub const MAP: usize = 0;
/// See [`MAP`].
pub const UNMAP: usize = 1;

/// The area of a process.
pub struct Area<'a, S: Stage> {
    /// The machine.
    pub stage: &'a S,
    /// What a fault copies from, if it does.
    pub file: &'a S::File,
    /// Its pages.
    pub size: usize,
    /// Time of a fault outside of the allocator, the LRU list and filling, picoseconds.
    pub think_ps: u64,
    /// Blocks that are mapped, in the order of their faults.
    pub held: Vec<S::Page>,
    /// How many of them wait for the LRU list, the last ones, fewer than [`PAGEVEC`].
    pub waiting: usize,
}

impl<S: Stage> Area<'_, S> {
    /// Maps and unmaps until it is over, unmapping first or mapping: `fault`, told how many pages
    /// are mapped, maps what is next and returns how many more that is; `unmap` takes blocks from
    /// the front, at least one. Returns the blocks that are mapped then; all of them are on the LRU
    /// list.
    pub fn cycle(
        mut self,
        watch: &impl Watch,
        mut is_unmapping: bool,
        mut fault: impl FnMut(&mut Self, usize) -> usize,
        mut unmap: impl FnMut(&mut IntoIter<S::Page>),
    ) -> Vec<S::Page> {
        while !watch.is_over() {
            if !is_unmapping {
                self.map(watch, &mut fault);
            }
            is_unmapping = false;
            let mut left = std::mem::take(&mut self.held).into_iter();
            while !watch.is_over() && left.len() > 0 {
                unmap(&mut left);
            }
            self.held = left.collect();
        }
        self.held
    }

    /// Maps and touches what is left of the area.
    fn map(&mut self, watch: &impl Watch, fault: &mut impl FnMut(&mut Self, usize) -> usize) {
        let mut pages: usize = self.held.iter().map(|block| 1 << S::order(block)).sum();
        while pages < self.size && !watch.is_over() {
            let from = self.stage.now_ps();
            self.stage.spend(self.think_ps);
            let mapped = fault(self, pages);
            pages += mapped;
            watch.did(mapped as u64);
            watch.spent(MAP, self.stage.now_ps() - from, mapped as u64);
        }
        self.list();
    }

    /// A fault of one page; as many as are listed together wait for the list.
    pub fn fault_page(&mut self) -> usize {
        let mut page = self.stage.take(&Request::user(0));
        self.stage.fill(&mut page, self.file, self.held.len());
        self.stage.record(&page, Record::Write);
        self.held.push(page);
        self.waiting += 1;
        if self.waiting == PAGEVEC {
            self.list();
        }
        1
    }

    /// Lists what waits.
    pub fn list(&mut self) {
        self.stage.list(&self.held[self.held.len() - self.waiting..]);
        self.waiting = 0;
    }
}
