//! This machine as a stage: real pages, real locks, real time.

use std::hint::{black_box, spin_loop};
use std::panic::resume_unwind;
use std::time::Instant;

use pageyard::platform::Platform;
use pageyard::{Pfn, Request};
use pageyard_host::{Block, BlockRing, HostAllocator, PAGE_BYTES};

use super::list::Pages;
use crate::cells::file::{BLOCK_ORDER, LOOKUP_INSTRUCTIONS};
use crate::cells::work::{Record, Stage};

/// An instruction of kernel code that is not run itself, picoseconds: 2 a cycle at 2.8 GHz, as for
/// think times of modelled machines.
const INSTRUCTION_PS: u64 = 178;
/// Turns of a loop by which its speed is taken, and how often: the fastest counts.
const PACE_TURNS: u64 = 200_000;
const PACE_TRIES: usize = 7;

/// From this time on it is cheaper to look at the clock than to trust in a speed taken beforehand,
/// picoseconds: reading it takes a thousandth of this.
const BY_CLOCK_PS: u64 = 20_000_000;

/// Instructions that take so long.
#[must_use]
pub const fn instructions(ps: u64) -> u64 {
    ps / INSTRUCTION_PS
}

/// How fast this machine counts: thousandths of a turn of the waiting loop in a nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Pace(u64);

impl Pace {
    /// Takes the speed, on the CPU where it is to hold.
    #[must_use]
    pub fn take() -> Pace {
        let once = |_| {
            let from = Instant::now();
            count(PACE_TURNS);
            from.elapsed().as_nanos() as u64
        };
        let fastest = (0..PACE_TRIES).map(once).min().unwrap_or(1).max(1);
        Pace((PACE_TURNS * 1000 / fastest).max(1))
    }

    fn spend(self, ps: u64) {
        count(ps.saturating_mul(self.0) / 1_000_000);
    }
}

/// Counts: each turn depends on the one before.
fn count(turns: u64) {
    let mut at = 0u64;
    while at < turns {
        at = black_box(at + 1);
    }
}

/// What the threads of a run share.
pub struct Ground {
    /// Allocator and memory.
    pub host: HostAllocator,
    /// Page records and the list of pages in use.
    pub pages: Pages,
    /// Locked instructions for a page that is put on the list, see
    /// [`KERNEL`](crate::cells::lru::KERNEL).
    pub lru_locked: u32,
}

/// A CPU's part of this machine.
pub struct Live<'a> {
    pub(super) ground: &'a Ground,
    pace: Pace,
}

/// The end of a workload that takes more than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What it asked for.
    pub order: u8,
}

impl<'a> Live<'a> {
    /// The part of the CPU that this thread is on.
    #[must_use]
    pub fn new(ground: &'a Ground, pace: Pace) -> Live<'a> {
        Live { ground, pace }
    }
}

impl<'a> Stage for Live<'a> {
    type Page = Block<'a>;
    /// Blocks of [`BLOCK_ORDER`].
    type File = Vec<Block<'a>>;
    type Ring = BlockRing<'a>;

    fn take(&self, request: &Request) -> Block<'a> {
        self.try_take(request).unwrap_or_else(|| {
            self.ground.pages.give_up();
            // No panic: nothing is wrong with the program, and nothing is to be printed.
            resume_unwind(Box::new(OutOfMemory { order: request.order }))
        })
    }

    fn take_many(&self, request: &Request, wanted: usize, pages: &mut Vec<Block<'a>>) {
        if self.ground.host.alloc_bulk(request, wanted, pages) == 0 {
            pages.push(self.take(request));
        }
    }

    fn try_take(&self, request: &Request) -> Option<Block<'a>> {
        self.ground.host.alloc(request).ok()
    }

    fn free(&self, page: Block<'a>) {
        drop(page);
    }

    fn frame(page: &Block<'a>) -> u64 {
        page.pfn().0
    }

    fn order(page: &Block<'a>) -> u8 {
        page.order()
    }

    fn record(&self, page: &Block<'a>, how: Record) {
        self.ground.pages.touch(page.pfn(), how);
    }

    fn records(&self, page: &Block<'a>, how: Record) {
        let first = page.pfn().0;
        (first..first + (1 << page.order())).for_each(|pfn| self.ground.pages.touch(Pfn(pfn), how));
    }

    fn fill(&self, page: &mut Block<'a>, file: &Vec<Block<'a>>, index: usize) {
        let Some(block) = file.get(index >> BLOCK_ORDER) else {
            page.bytes_mut().fill(0);
            return;
        };
        let at = index % (1 << BLOCK_ORDER);
        let locked = || self.ground.pages.touch(Pfn(block.pfn().0 + at as u64), Record::Locked);
        self.execute(LOOKUP_INSTRUCTIONS);
        // A reference, the page's lock; after the copy, both back.
        locked();
        locked();
        let from = &block.bytes()[at * PAGE_BYTES..][..PAGE_BYTES];
        page.bytes_mut().copy_from_slice(from);
        locked();
        locked();
    }

    fn list(&self, pages: &[Block<'a>]) {
        self.ground.pages.list(pages.iter().map(Block::pfn), self.ground.lru_locked);
    }

    fn unlist(&self, pages: &[Block<'a>]) {
        self.ground.pages.unlist(pages.iter().map(Block::pfn));
    }

    fn send(&self, ring: &BlockRing<'a>, page: Block<'a>) -> Option<Block<'a>> {
        ring.send(page)
    }

    fn receive(&self, ring: &BlockRing<'a>) -> Option<Block<'a>> {
        ring.receive()
    }

    fn pause(&self) {
        spin_loop();
    }

    fn execute(&self, instructions: u64) {
        self.pace.spend(instructions * INSTRUCTION_PS);
    }

    fn spend(&self, ps: u64) {
        if ps < BY_CLOCK_PS {
            self.pace.spend(ps);
            return;
        }
        let end = self.now_ps().saturating_add(ps);
        while self.now_ps() < end {
            spin_loop();
        }
    }

    fn sync(&self) {}

    fn now_ps(&self) -> u64 {
        self.ground.host.platform().now_ns() * 1000
    }
}
