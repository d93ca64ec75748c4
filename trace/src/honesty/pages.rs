//! Which pages a recording says are in use: finds what the recording cannot have seen.

use std::collections::HashMap;

/// Pages of a chunk of the ledger.
const CHUNK_PAGES: u64 = 512;
/// Largest order that a kernel allocates: 10, or 13 on arm64 with 64 KiB pages; damage says more.
pub(super) const ORDER_MAX: u8 = 18;

/// Two bits a page, kept for the parts of memory that the recording touches.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    chunks: HashMap<u64, Chunk>,
    pub(super) counts: PageCounts,
    pub(super) orders_impossible: u64,
}

#[derive(Debug, Default)]
struct Chunk {
    seen: [u64; (CHUNK_PAGES / 64) as usize],
    used: [u64; (CHUNK_PAGES / 64) as usize],
}

/// What the events say about pages. Counts are pages, but where the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PageCounts {
    /// Allocations that succeeded (events).
    pub alloc_events: u64,
    /// Pages allocated.
    pub allocated: u64,
    /// Frees (events).
    pub free_events: u64,
    /// Pages freed.
    pub freed: u64,
    /// Allocations that failed (events).
    pub failed_events: u64,
    /// Pages freed of which no event came before: allocated before the recording, or unseen.
    pub freed_never_seen: u64,
    /// Pages freed that were free by the events: allocated in between without an event.
    pub freed_while_free: u64,
    /// Pages allocated that were in use by the events: their free is missing.
    pub allocated_while_used: u64,
    /// Pages in use at the end, of those allocated in the recording.
    pub in_use_at_end: u64,
}

enum Before {
    Unseen,
    Free,
    Used,
}

impl Ledger {
    pub(super) fn alloc(&mut self, pfn: u64, order: u8) {
        self.counts.alloc_events += 1;
        for page in self.pages(pfn, order) {
            self.counts.allocated += 1;
            self.counts.in_use_at_end += 1;
            if let Before::Used = self.set(page, true) {
                self.counts.allocated_while_used += 1;
                self.counts.in_use_at_end -= 1;
            }
        }
    }

    pub(super) fn free(&mut self, pfn: u64, order: u8) {
        self.counts.free_events += 1;
        for page in self.pages(pfn, order) {
            self.counts.freed += 1;
            match self.set(page, false) {
                Before::Unseen => self.counts.freed_never_seen += 1,
                Before::Free => self.counts.freed_while_free += 1,
                Before::Used => self.counts.in_use_at_end -= 1,
            }
        }
    }

    fn pages(&mut self, pfn: u64, order: u8) -> std::ops::Range<u64> {
        if order > ORDER_MAX {
            self.orders_impossible += 1;
            return 0..0;
        }
        pfn..pfn.saturating_add(1 << order)
    }

    fn set(&mut self, page: u64, used: bool) -> Before {
        let chunk = self.chunks.entry(page / CHUNK_PAGES).or_default();
        let (word, bit) = ((page % CHUNK_PAGES / 64) as usize, 1u64 << (page % 64));
        let before = match (chunk.seen[word] & bit != 0, chunk.used[word] & bit != 0) {
            (false, _) => Before::Unseen,
            (true, false) => Before::Free,
            (true, true) => Before::Used,
        };
        chunk.seen[word] |= bit;
        if used {
            chunk.used[word] |= bit;
        } else {
            chunk.used[word] &= !bit;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_events_cannot_have_seen_is_found() {
        let mut ledger = Ledger::default();
        ledger.alloc(8, 2);
        ledger.free(8, 1); // half of the block, split by its owner
        ledger.free(9, 0); // again: someone took page 9 without an event
        ledger.free(1000, 0); // never seen
        ledger.alloc(11, 0); // still in use: its free is missing
        ledger.free(0, 200); // no such order
        let expected = PageCounts {
            alloc_events: 2,
            allocated: 5,
            free_events: 4,
            freed: 4,
            failed_events: 0,
            freed_never_seen: 1,
            freed_while_free: 1,
            allocated_while_used: 1,
            in_use_at_end: 2,
        };
        assert_eq!((ledger.counts, ledger.orders_impossible), (expected, 1));
    }
}
