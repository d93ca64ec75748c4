//! What a CPU does in a parallel free: unmaps its part of a large area, a group of pages at a time.

use pageyard::Request;

use super::page_fault::{Rest, release, unmap_group};
use super::{Stage, Watch};

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

/// Unmaps pages until none is left or it is over, at first the rest of a group that was begun
/// before. `think_ps` is the time of unmapping a page outside of what is run.
pub fn unmap_all<S: Stage>(
    stage: &S,
    watch: &impl Watch,
    pages: Vec<S::Page>,
    rest: Rest,
    think_ps: u64,
) {
    let watch = &Freed(watch);
    let mut left = pages.into_iter();
    release(stage, watch, &mut left, rest);
    while left.len() > 0 && !watch.is_over() {
        unmap_group(stage, watch, &mut left, think_ps);
    }
}

/// The unit of work is a page that was freed; time of the parts is not told.
struct Freed<'a, W>(&'a W);

impl<W: Watch> Watch for Freed<'_, W> {
    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn did(&self, pages: u64) {
        self.0.did(pages);
    }

    fn spent(&self, _part: usize, _ps: u64, pages: u64) {
        if pages > 0 {
            self.did(pages);
        }
    }
}
