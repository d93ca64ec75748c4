//! What a process of small faults does beside one of huge ones, each mapping, touching and
//! unmapping its area over and over.
//!
//! A huge fault takes a block of order 9, clears it all and counts as its 512 pages, as
//! will-it-scale counts touches. If there is none, the whole 2 MiB are faulted in page by page, as
//! the kernel does once a page table is there.

use pageyard::{Request, Scope};

use super::page_fault::{BATCH, MAP, UNMAP};
use super::{Record, Stage, Watch};
use crate::cells::lru::{PAGEVEC, RELEASE_BATCH};
use crate::cells::page_fault1::ZAP_INSTRUCTIONS;

/// Order of a huge page.
pub const HUGE_ORDER: u8 = 9;
/// Its pages.
pub const HUGE_PAGES: usize = 1 << HUGE_ORDER;
/// Pages that a CPU takes before it is another one's turn, at set-up: a refill.
pub const TURN: usize = 63;
/// What [`Watch::noted`] is told of: huge faults that had a block.
pub const HAD: usize = 0;
/// The same of those that found none.
pub const MISSED: usize = 1;

/// The two kinds of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Faults page by page.
    Small,
    /// Faults huge pages in where it can.
    Huge,
}

impl Kind {
    /// What runs on a CPU of so many: the first half has the small faults.
    #[must_use]
    pub const fn of(cpu: usize, cpus: usize) -> Kind {
        if cpu < cpus.div_ceil(2) { Kind::Small } else { Kind::Huge }
    }
}

/// A process.
pub struct Process<'a, S: Stage> {
    /// The machine.
    pub stage: &'a S,
    /// No file.
    pub file: &'a S::File,
    /// How it faults.
    pub kind: Kind,
    /// Pages of its area.
    pub size: usize,
    /// Time of a fault outside of the allocator, the LRU list and clearing, picoseconds.
    pub think_ps: u64,
    /// Blocks that it has mapped, in the order of their faults; all are on the LRU list.
    pub held: Vec<S::Page>,
}

/// A request for a huge page under `MADV_HUGEPAGE`: it may compact, once.
#[must_use]
pub fn huge_page() -> Request {
    Request { no_retry: true, ..Request::user(HUGE_ORDER) }
}

impl<S: Stage> Process<'_, S> {
    /// Runs until it is over, unmapping first or mapping. Returns the blocks that it has then; all
    /// of them are on the LRU list.
    pub fn run(mut self, watch: &impl Watch, mut is_unmapping: bool) -> Vec<S::Page> {
        while !watch.is_over() {
            if !is_unmapping {
                self.map(watch);
            }
            is_unmapping = false;
            let mut held = std::mem::take(&mut self.held).into_iter();
            while !watch.is_over() && held.len() > 0 {
                let from = self.stage.now_ps();
                let pages = self.unmap(&mut held);
                watch.spent(UNMAP, self.stage.now_ps() - from, pages);
            }
            self.held = held.collect();
        }
        self.held
    }

    /// Maps and touches what is left of the area.
    fn map(&mut self, watch: &impl Watch) {
        let (mut waiting, mut pages) = (0, 0);
        self.held.iter().for_each(|page| pages += 1usize << S::order(page));
        while pages < self.size && !watch.is_over() {
            let from = self.stage.now_ps();
            let mapped = self.fault(watch, pages, &mut waiting);
            pages += mapped;
            watch.did(mapped as u64);
            watch.spent(MAP, self.stage.now_ps() - from, mapped as u64);
        }
        self.list(&mut waiting);
    }

    /// One fault, of a process that has so many pages; returns pages that were mapped.
    fn fault(&mut self, watch: &impl Watch, pages: usize, waiting: &mut usize) -> usize {
        self.stage.spend(self.think_ps);
        if self.kind == Kind::Huge && pages.is_multiple_of(HUGE_PAGES) {
            let taken = self.stage.try_take(&huge_page());
            watch.noted(if taken.is_some() { HAD } else { MISSED }, 1);
            if let Some(page) = taken {
                self.fault_huge(page, waiting);
                return HUGE_PAGES;
            }
        }
        self.fault_small(waiting);
        1
    }

    fn fault_small(&mut self, waiting: &mut usize) {
        let mut page = self.stage.take(&Request::user(0));
        self.stage.fill(&mut page, self.file, 0);
        self.stage.record(&page, Record::Write);
        self.held.push(page);
        *waiting += 1;
        if *waiting == PAGEVEC {
            self.list(waiting);
        }
    }

    fn fault_huge(&mut self, mut page: S::Page, waiting: &mut usize) {
        // Every page of the block is told that it is a part of one (`prep_compound_page`).
        self.stage.records(&page, Record::Write);
        self.stage.fill(&mut page, self.file, 0);
        self.held.push(page);
        // A huge page takes along what waits (`__lru_cache_add`).
        *waiting += 1;
        self.list(waiting);
    }

    /// Lists what waits: the blocks that were faulted in last.
    fn list(&self, waiting: &mut usize) {
        self.stage.list(&self.held[self.held.len() - *waiting..]);
        *waiting = 0;
    }

    /// Unmaps a group of what was mapped first; a huge page is one of it. Returns its pages.
    fn unmap(&self, held: &mut std::vec::IntoIter<S::Page>) -> u64 {
        let stage = self.stage;
        let group = BATCH.min(held.len());
        let blocks = &held.as_slice()[..group];
        for page in blocks {
            stage.execute(ZAP_INSTRUCTIONS);
            stage.record(page, Record::Locked);
        }
        for same in blocks.chunk_by(|a, b| S::order(a) == S::order(b)) {
            // A huge page is taken off alone (`__put_compound_page`).
            let together = if S::order(&same[0]) == 0 { RELEASE_BATCH } else { 1 };
            same.chunks(together).for_each(|pages| stage.unlist(pages));
        }
        let mut pages = 0;
        for page in held.by_ref().take(group) {
            pages += 1 << S::order(&page);
            if S::order(&page) > 0 {
                // Its pages are looked at and parted one by one (`free_pages_prepare`).
                stage.records(&page, Record::Write);
            }
            stage.free(page);
        }
        pages
    }
}

/// Takes all memory page by page, each CPU in its turn, and gives it back in the same way: large
/// blocks are left only where merging makes them. `set_up_as` lets the stage work as a CPU; what
/// their caches keep is still there.
pub fn break_up<S: Stage>(stage: &S, set_up_as: impl Fn(usize), cpus: usize) {
    let page = Request { scope: Scope::ThisNode, may_wait: false, ..Request::user(0) };
    let mut held: Vec<Vec<S::Page>> = (0..cpus).map(|_| Vec::new()).collect();
    let mut open: Vec<usize> = (0..cpus).collect();
    while !open.is_empty() {
        open.retain(|&cpu| {
            set_up_as(cpu);
            let before = held[cpu].len();
            held[cpu].extend((0..TURN).map_while(|_| stage.try_take(&page)));
            held[cpu].len() > before
        });
    }
    let mut left: Vec<_> = held.into_iter().map(Vec::into_iter).collect();
    while left.iter().any(|pages| pages.len() > 0) {
        for (cpu, pages) in left.iter_mut().enumerate() {
            set_up_as(cpu);
            pages.take(BATCH).for_each(|page| stage.free(page));
        }
    }
}
