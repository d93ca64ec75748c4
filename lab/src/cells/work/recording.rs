//! What a CPU of a recording does: asks for what the recorded one asked for, after its think times.
//!
//! Between two requests a CPU thinks for as long as the recorded one took from event to event. That
//! time holds what the recorded kernel spent in its own allocator, so it is an upper bound of the
//! real think time, and a run is always longer than the recorded one. A free waits until its page
//! was allocated, whoever does that; frames have no other order.

use super::{Record, Stage, Watch};
use crate::cells::program::{Program, Step, request_of_held};

/// Parts that [`Watch::spent`] is told of: an allocation, a free, and a free's waiting for the
/// allocation on another CPU.
pub const ALLOC: usize = 0;
/// See [`ALLOC`].
pub const FREE: usize = 1;
/// See [`ALLOC`].
pub const AWAITED: usize = 2;
/// What [`Watch::noted`] is told of: an allocation that found no memory.
pub const FAILED: usize = 0;

/// A part of a block, by the block's number in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// The block.
    pub block: u32,
    /// First page of the part.
    pub offset: u16,
    /// The part has `1 << order` pages.
    pub order: u8,
}

/// What CPUs that give back each other's blocks need beside a [`Stage`].
pub trait Recall: Stage {
    /// A place for each block of a program, where any CPU finds it.
    type Shelf;

    /// A shelf with so many empty places.
    fn shelf(&self, places: usize) -> Self::Shelf;
    /// Puts a block on its place, or that there is none, for good.
    fn put(&self, shelf: &Self::Shelf, place: u32, block: Option<Self::Page>);
    /// Takes a part out of a block on the shelf, waiting until that is there: none if there never
    /// was one, or all is over. Beside it for how long it waited, picoseconds, if it had to.
    ///
    /// The part's reference is dropped with a locked instruction on its record. It is a block of
    /// its own then, as after the kernel has split one.
    fn part(
        &self,
        shelf: &Self::Shelf,
        part: PartOf,
        is_over: impl Fn() -> bool,
    ) -> (Option<Self::Page>, Option<u64>);
}

/// Takes what is in use at first; `set_up_as` lets the stage work as a CPU of the program. Returns
/// how many blocks there was no memory for.
pub fn set_up<S: Recall>(
    stage: &S,
    set_up_as: impl Fn(usize),
    program: &Program,
    shelf: &S::Shelf,
) -> u64 {
    let mut failed = 0;
    for &(block, order, cpu) in &program.held {
        set_up_as(usize::from(cpu));
        let page = stage.try_take(&request_of_held(order));
        failed += u64::from(page.is_none());
        stage.put(shelf, block, page);
    }
    failed
}

/// Runs the steps of the program's CPU `cpu`.
pub fn run<S: Recall>(
    stage: &S,
    watch: &impl Watch,
    program: &Program,
    cpu: usize,
    shelf: &S::Shelf,
) {
    for &(gap_ns, step) in &program.cpus[cpu] {
        stage.spend(gap_ns.saturating_mul(1000));
        if watch.is_over() {
            return;
        }
        // Whoever is earlier goes first, also to lines that are only read.
        stage.sync();
        match step {
            Step::Alloc { block, request } => {
                let from = stage.now_ps();
                let page = stage.try_take(&request);
                page.iter().for_each(|page| stage.record(page, Record::Write));
                watch.spent(ALLOC, stage.now_ps() - from, 1);
                watch.noted(FAILED, u64::from(page.is_none()));
                stage.put(shelf, block, page);
            }
            Step::Free { block, offset, order } => {
                let part = PartOf { block, offset, order };
                let (page, waited) = stage.part(shelf, part, || watch.is_over());
                waited.iter().for_each(|&ps| watch.spent(AWAITED, ps, 1));
                if let Some(page) = page {
                    let from = stage.now_ps();
                    stage.free(page);
                    watch.spent(FREE, stage.now_ps() - from, 1);
                }
            }
        }
        watch.did(1);
    }
}
