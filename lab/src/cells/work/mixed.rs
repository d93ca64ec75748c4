//! What a process of small faults does beside one of huge ones, each mapping, touching and
//! unmapping its area over and over.
//!
//! A huge fault takes a block of order 9, clears it all and counts as its 512 pages, as
//! will-it-scale counts touches. If there is none, the whole 2 MiB are faulted in page by page, as
//! the kernel does once a page table is there.

use std::vec::IntoIter;

use pageyard::{Request, Scope};

use super::area::{Area, UNMAP};
use super::page_fault::{BATCH, ask_for_swap_cache};
use super::{Record, Stage, Watch};
use crate::cells::lru::RELEASE_BATCH;
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
    /// Its area; no file.
    pub area: Area<'a, S>,
    /// How it faults.
    pub kind: Kind,
}

/// A request for a huge page under `MADV_HUGEPAGE`: it may compact, once.
#[must_use]
pub fn huge_page() -> Request {
    Request { no_retry: true, ..Request::user(HUGE_ORDER) }
}

impl<S: Stage> Process<'_, S> {
    /// Runs until it is over, unmapping first or mapping. Returns the blocks that it has then; all
    /// of them are on the LRU list.
    pub fn run(self, watch: &impl Watch, is_unmapping: bool) -> Vec<S::Page> {
        let (stage, kind) = (self.area.stage, self.kind);
        let unmap_one = |held: &mut IntoIter<S::Page>| {
            let from = stage.now_ps();
            let pages = unmap(stage, held);
            watch.spent(UNMAP, stage.now_ps() - from, pages);
        };
        let fault_one = |area: &mut Area<'_, S>, pages| fault(area, kind, pages, watch);
        self.area.cycle(watch, is_unmapping, fault_one, unmap_one)
    }
}

/// One fault, where so many pages are mapped; returns how many it maps.
fn fault<S: Stage>(area: &mut Area<'_, S>, kind: Kind, pages: usize, watch: &impl Watch) -> usize {
    if kind == Kind::Huge && pages.is_multiple_of(HUGE_PAGES) {
        let taken = area.stage.try_take(&huge_page());
        watch.noted(if taken.is_some() { HAD } else { MISSED }, 1);
        if let Some(page) = taken {
            return fault_huge(area, page);
        }
    }
    area.fault_page()
}

fn fault_huge<S: Stage>(area: &mut Area<'_, S>, mut page: S::Page) -> usize {
    // Every page of the block is told that it is a part of one (`prep_compound_page`).
    area.stage.records(&page, Record::Write);
    area.stage.fill(&mut page, area.file, 0);
    area.held.push(page);
    // A huge page takes along what waits (`__lru_cache_add`).
    area.waiting += 1;
    area.list();
    HUGE_PAGES
}

/// Unmaps a group of what was mapped first; a huge page is one of it. Returns its pages.
fn unmap<S: Stage>(stage: &S, held: &mut IntoIter<S::Page>) -> u64 {
    let group = BATCH.min(held.len());
    let blocks = &held.as_slice()[..group];
    for page in blocks {
        stage.execute(ZAP_INSTRUCTIONS);
        stage.record(page, Record::Locked);
    }
    ask_for_swap_cache(stage, blocks);
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

/// A page of the CPU's node, as long as there is one.
fn page_of_node() -> Request {
    Request { scope: Scope::ThisNode, may_wait: false, ..Request::user(0) }
}

/// Takes all memory page by page, each CPU in its turn, and gives it back in the same way: large
/// blocks are left only where merging makes them. `set_up_as` lets what follows work as a CPU; what
/// their caches keep is still there.
pub fn break_up<P>(
    cpus: usize,
    set_up_as: impl Fn(usize),
    take: impl Fn(&Request) -> Option<P>,
    give: impl Fn(P),
) {
    let page = page_of_node();
    let mut held: Vec<Vec<P>> = (0..cpus).map(|_| Vec::new()).collect();
    let mut open: Vec<usize> = (0..cpus).collect();
    while !open.is_empty() {
        open.retain(|&cpu| {
            set_up_as(cpu);
            let before = held[cpu].len();
            held[cpu].extend((0..TURN).map_while(|_| take(&page)));
            held[cpu].len() > before
        });
    }
    let mut left: Vec<_> = held.into_iter().map(Vec::into_iter).collect();
    while left.iter().any(|pages| pages.len() > 0) {
        for (cpu, pages) in left.iter_mut().enumerate() {
            set_up_as(cpu);
            pages.take(BATCH).for_each(&give);
        }
    }
}
