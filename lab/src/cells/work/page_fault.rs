//! What a process of page_fault1 or page_fault2 does: maps an area, touches every page, unmaps it,
//! over and over.
//!
//! A fault takes a page, fills it and lets it wait for the LRU list; unmapping takes the pages off
//! their page table, thousands at a time (`mmu_gather`), before it takes them off the list and
//! frees them, batch by batch.

use std::vec::IntoIter;

use super::area::{Area, UNMAP};
use super::{Record, Stage, Watch};
use crate::cells::dice::Dice;
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
    /// What it unmaps first, if it begins with that.
    pub rest: Rest,
}

/// What is left of a group that is being unmapped; its pages are off their page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Pages. 0: nothing is being unmapped.
    pub group: usize,
    /// Pages of its first batch, 1 to [`BATCH`].
    pub batch: usize,
    /// Pages of that batch that are off the LRU list, the first ones.
    pub unlisted: usize,
}

impl Rest {
    /// All of a group.
    fn of_group(pages: usize) -> Rest {
        Rest { group: pages, batch: pages.min(BATCH), unlisted: 0 }
    }

    /// What may be left at any time, of a process with so many pages. A batch is taken off the LRU
    /// list before its first page is freed: half of all are at the one, half at the other, as if
    /// both took as long.
    pub(crate) fn at_some_time(pages: usize, dice: &mut Dice) -> Rest {
        let group = (1 + dice.below(GATHER as u64) as usize).min(pages);
        let done = dice.below(BATCH as u64) as usize;
        let (batch, unlisted) = match dice.below(2) {
            0 => (BATCH, done / RELEASE_BATCH * RELEASE_BATCH),
            _ => (BATCH - done, BATCH - done),
        };
        let batch = batch.min(group);
        Rest { group, batch, unlisted: unlisted.min(batch) }
    }
}

impl<S: Stage> Process<'_, S> {
    /// Runs until it is over. Returns the pages that it has then; all of them are on the LRU list.
    pub fn run(self, watch: &impl Watch) -> Vec<S::Page> {
        let is_unmapping = self.rest.group > 0;
        let stage = self.area.stage;
        let mut begun = Some(self.rest).filter(|rest| rest.group > 0);
        let unmap_one = |pages: &mut IntoIter<S::Page>| match begun.take() {
            Some(rest) => release(stage, watch, pages, rest),
            None => {
                unmap_group(stage, watch, pages, 0);
                watch.noted(GROUPS, 1);
            }
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

/// Unmaps as many pages as are gathered; `think_ps` is what each takes beside what is modelled.
pub(super) fn unmap_group<S: Stage>(
    stage: &S,
    watch: &impl Watch,
    pages: &mut IntoIter<S::Page>,
    think_ps: u64,
) {
    let rest = Rest::of_group(GATHER.min(pages.len()));
    zap(stage, watch, &pages.as_slice()[..rest.group], think_ps);
    release(stage, watch, pages, rest);
}

/// Takes a group of pages off their page table.
fn zap<S: Stage>(stage: &S, watch: &impl Watch, group: &[S::Page], think_ps: u64) {
    for batch in group.chunks(BATCH) {
        if watch.is_over() {
            return;
        }
        stage.sync();
        let from = stage.now_ps();
        for (at, page) in batch.iter().enumerate() {
            if let Some(later) = batch.get(at + SOON) {
                stage.soon(later);
            }
            stage.spend(think_ps);
            stage.execute(ZAP_INSTRUCTIONS);
            stage.record(page, Record::Locked);
        }
        watch.spent(UNMAP, stage.now_ps() - from, 0);
    }
}

/// Takes a group of pages off the LRU list and frees them, those that were mapped first. Once it is
/// over it ends with the batch that was begun: groups are long.
pub(super) fn release<S: Stage>(
    stage: &S,
    watch: &impl Watch,
    pages: &mut IntoIter<S::Page>,
    rest: Rest,
) {
    let Rest { group: mut left, mut batch, mut unlisted } = rest;
    while left > 0 && (unlisted > 0 || !watch.is_over()) {
        // Told often: a batch takes longer than a short stretch is measured.
        let mut from = stage.now_ps();
        let mut tell = |pages| {
            let now = stage.now_ps();
            watch.spent(UNMAP, now - from, pages);
            from = now;
        };
        // Also those that are off the list: their records are near.
        ask_for_swap_cache(stage, &pages.as_slice()[..batch]);
        for pages in pages.as_slice()[unlisted..batch].chunks(RELEASE_BATCH) {
            stage.unlist(pages);
            tell(0);
        }
        for freed in (0..batch).step_by(RELEASE_BATCH) {
            let some = RELEASE_BATCH.min(batch - freed);
            for page in pages.by_ref().take(some) {
                stage.free(page);
            }
            tell(some as u64);
        }
        left -= batch;
        (batch, unlisted) = (left.min(BATCH), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmap_that_was_begun_is_at_any_step_of_it() {
        let mut dice = Dice(1);
        let rests: Vec<Rest> = (0..2000).map(|_| Rest::at_some_time(32768, &mut dice)).collect();
        let often = |is: fn(&Rest) -> bool| rests.iter().filter(|rest| is(rest)).count();
        assert!(rests.iter().all(|rest| (1..=GATHER).contains(&rest.group)));
        assert!(rests.iter().all(|rest| rest.unlisted <= rest.batch && rest.batch <= rest.group));
        // Half of them free pages; of the others one in sixteen is at the start of its batch.
        assert!((900..1200).contains(&often(|rest| rest.unlisted == rest.batch)));
        assert!((40..90).contains(&often(|rest| rest.unlisted == 0)));
        assert!((400..600).contains(&often(|rest| rest.group <= GATHER / 4)));
    }

    #[test]
    fn who_holds_nothing_unmaps_nothing_and_few_pages_are_one_batch() {
        let mut dice = Dice(2);
        assert!((0..100).all(|_| Rest::at_some_time(0, &mut dice) == Rest::default()));
        let rest = Rest::at_some_time(7, &mut dice);
        assert!(rest.group <= 7 && rest.batch <= 7 && rest.unlisted <= 7, "{rest:?}");
    }
}
