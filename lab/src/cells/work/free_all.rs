//! What a CPU does in a parallel free: unmaps its part of a large area, a group of pages at a time.

use pageyard::Request;

use super::page_fault::{BATCH, ask_for_swap_cache};
use super::{Record, Stage, Watch};
use crate::cells::lru::RELEASE_BATCH;
use crate::cells::page_fault1::ZAP_INSTRUCTIONS;

/// Pages that a CPU faults in before it is another one's turn, at set-up: a refill or two.
const TURN: usize = 63;

/// Every CPU's part, faulted in by turns; `set_up_as` lets the stage work as a CPU.
pub fn fault_in<S: Stage>(
    stage: &S,
    set_up_as: impl Fn(usize),
    cpus: usize,
    share: usize,
) -> Vec<Vec<S::Page>> {
    let mut held: Vec<Vec<S::Page>> = (0..cpus).map(|_| Vec::with_capacity(share)).collect();
    while held.iter().any(|pages| pages.len() < share) {
        for (cpu, mine) in held.iter_mut().enumerate() {
            set_up_as(cpu);
            let had = mine.len();
            let take = TURN.min(share - had);
            mine.extend((0..take).map(|_| stage.take(&Request::user(0))));
            stage.list(&mine[had..]);
        }
    }
    held
}

/// Unmaps pages until none is left or it is over. `think_ps` is the time of unmapping a page
/// outside of what is run.
pub fn unmap_all<S: Stage>(stage: &S, watch: &impl Watch, pages: Vec<S::Page>, think_ps: u64) {
    let mut left = pages.into_iter();
    while !left.as_slice().is_empty() && !watch.is_over() {
        let group = BATCH.min(left.len());
        for page in &left.as_slice()[..group] {
            stage.spend(think_ps);
            stage.execute(ZAP_INSTRUCTIONS);
            stage.record(page, Record::Locked);
        }
        ask_for_swap_cache(stage, &left.as_slice()[..group]);
        for pages in left.as_slice()[..group].chunks(RELEASE_BATCH) {
            stage.unlist(pages);
        }
        for page in left.by_ref().take(group) {
            stage.free(page);
            watch.did(1);
        }
    }
}
