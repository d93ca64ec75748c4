//! Processes that map and unmap at no cost, in turns.
//!
//! In steady state a process unmaps faster than it maps, or slower, by what both take where locks
//! are full. Turns keep that ratio and know nothing else of time.

use std::collections::VecDeque;

use pageyard::platform::Platform;
use pageyard::{Allocator, Pfn, Request};

use super::lru::PAGEVEC;

/// How fast processes go through their cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Pages of each when it has mapped everything.
    pub(super) pages: usize,
    /// Pages that it maps in a turn, as many as wait for the LRU list.
    pub(super) map: usize,
    /// Pages that it unmaps in a turn: so many more as that is faster.
    pub(super) unmap: usize,
}

impl Pace {
    /// Of processes that unmap for so many thousandths of their time.
    pub(super) fn of(pages: usize, unmapping: u64) -> Pace {
        let (unmapping, mapping) = (unmapping.max(1), 1000 - unmapping.min(999));
        let unmap = (PAGEVEC * mapping as usize / unmapping as usize).max(1);
        Pace { pages, map: PAGEVEC, unmap }
    }

    /// Turns for mapping everything.
    pub(super) fn mapping(self) -> usize {
        self.pages.div_ceil(self.map)
    }

    /// Turns for unmapping everything.
    fn unmapping(self) -> usize {
        self.pages.div_ceil(self.unmap)
    }

    /// Turns for both.
    pub(super) fn cycle(self) -> usize {
        self.mapping() + self.unmapping()
    }
}

/// What a process holds, in the order of its faults, and what it does.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapped {
    /// Pages.
    pub(super) held: VecDeque<Pfn>,
    /// It unmaps them.
    pub(super) is_unmapping: bool,
}

impl Mapped {
    /// Has a turn on the CPU that the platform runs; who has mapped or unmapped everything goes
    /// over to the other. Returns whether a cycle ended.
    pub(super) fn turn<P: Platform>(&mut self, allocator: &Allocator<P>, pace: Pace) -> bool {
        if self.is_unmapping {
            let pages = pace.unmap.min(self.held.len());
            for page in self.held.drain(..pages) {
                allocator.free(page, 0);
            }
            self.is_unmapping = !self.held.is_empty();
            return !self.is_unmapping;
        }
        for _ in 0..pace.map.min(pace.pages.saturating_sub(self.held.len())) {
            let page = allocator.alloc(&Request::user(0)).expect("room for all of them");
            self.held.push_back(page);
        }
        self.is_unmapping = self.held.len() >= pace.pages;
        false
    }
}
