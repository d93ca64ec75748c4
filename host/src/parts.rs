//! A block that is given back in parts, by whichever thread is done with one.

use std::sync::atomic::{AtomicU64, Ordering};

use pageyard::{MigrateType, PageKind, Pfn};

use crate::allocator::{Block, HostAllocator};
use crate::counters::Notes;

/// Pages of a word.
const WORD_PAGES: u16 = 64;

/// A block of which parts are taken out, each once, as blocks of their own: the kernel splits
/// blocks that are in use, too. Dropping it frees what was never taken out.
///
/// ```
/// use pageyard::{Request, preset};
/// use pageyard_host::{HostAllocator, Parts};
///
/// let host = HostAllocator::new(1 << 14, preset::find("linux-6.18").expect("a release"))?;
/// let parts = Parts::of(host.alloc(&Request::user(3))?);
/// let upper_half = parts.take(4, 2).expect("nobody took it");
/// assert_eq!(upper_half.bytes().len(), 4 * 4096);
/// assert!(parts.take(5, 0).is_none(), "it is in the upper half");
/// drop((parts, upper_half));
/// assert_eq!(host.settle(), 1 << 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Parts<'a, N: Notes = ()> {
    host: &'a HostAllocator<N>,
    pfn: Pfn,
    order: u8,
    /// A bit for each page that was taken out: of the first 64, and of the others.
    first: AtomicU64,
    others: Box<[AtomicU64]>,
}

impl<'a, N: Notes> Parts<'a, N> {
    /// All of a block.
    #[must_use]
    pub fn of(block: Block<'a, N>) -> Parts<'a, N> {
        let host = block.host();
        let (pfn, order) = block.into_raw();
        let words = (1usize << order).div_ceil(usize::from(WORD_PAGES));
        let others = (1..words).map(|_| AtomicU64::new(0)).collect();
        Parts { host, pfn, order, first: AtomicU64::new(0), others }
    }

    /// Takes out the `1 << order` pages from page `offset` of the block on; `None` if they are not
    /// such a part of it, or one of them was taken out before.
    #[must_use]
    pub fn take(&self, offset: u16, order: u8) -> Option<Block<'a, N>> {
        let is_part = order <= self.order
            && u32::from(offset) < 1 << self.order
            && offset.is_multiple_of(1 << order);
        if !is_part || !self.claim(offset, order) {
            return None;
        }
        let pfn = Pfn(self.pfn.0 + u64::from(offset));
        let allocator = self.host.allocator();
        let state = allocator.inspect(pfn);
        let is_whole = state.is_some_and(|s| s.kind == PageKind::Allocated && s.order == order);
        if !is_whole {
            let migratetype = state.map_or(MigrateType::Movable, |state| state.migratetype);
            allocator.seed_allocated(pfn, order, migratetype);
        }
        Some(Block::of_raw(self.host, pfn, order))
    }

    fn word(&self, at: u16) -> &AtomicU64 {
        match at.checked_sub(1) {
            None => &self.first,
            Some(at) => &self.others[usize::from(at)],
        }
    }

    /// Marks pages as taken out; false, and nothing is marked, if one was.
    fn claim(&self, offset: u16, order: u8) -> bool {
        let pages = 1u16 << order;
        let mask = (u64::MAX >> (64 - pages.min(WORD_PAGES))) << (offset % WORD_PAGES);
        let words = offset / WORD_PAGES..(offset + pages).div_ceil(WORD_PAGES);
        for at in words.clone() {
            // Relaxed: the bit alone decides who has the page. Whoever gave the block to this
            // thread had to synchronise with it for that.
            let free = |word| (word & mask == 0).then_some(word | mask);
            let relaxed = Ordering::Relaxed;
            if self.word(at).fetch_update(relaxed, relaxed, free).is_err() {
                for before in words.start..at {
                    self.word(before).fetch_and(!mask, relaxed);
                }
                return false;
            }
        }
        true
    }

    /// Frees what is left of a part, in blocks as large as can be.
    fn free(&self, offset: u16, order: u8) {
        if self.take(offset, order).is_none() && order > 0 {
            let half = 1 << (order - 1);
            [offset, offset + half].into_iter().for_each(|offset| self.free(offset, order - 1));
        }
    }
}

impl<N: Notes> Drop for Parts<'_, N> {
    fn drop(&mut self) {
        self.free(0, self.order);
    }
}

#[cfg(test)]
mod tests {
    use pageyard::{Request, preset};

    use super::*;

    const PAGES: u64 = 1 << 12;

    fn host() -> HostAllocator {
        HostAllocator::new(PAGES, preset::find("linux-6.6").expect("a release")).expect("16 MiB")
    }

    #[test]
    fn every_page_comes_out_once_whatever_is_asked_for_and_by_whom() {
        let host = host();
        for order in [0, 3, 6, 7, 10] {
            let parts = Parts::of(host.alloc(&Request::user(order)).expect("there is memory"));
            let pages: usize = std::thread::scope(|scope| {
                let take_all = |of: u8| {
                    let parts = &parts;
                    let offsets = (0..1u16 << order).step_by(1 << of);
                    move || {
                        offsets
                            .filter_map(|at| parts.take(at, of))
                            .map(|b| b.bytes().len() / 4096)
                            .sum()
                    }
                };
                let all = [0, 2, 7, 10].map(|of: u8| of.min(order));
                let threads = all.map(|of| scope.spawn(take_all(of)));
                threads.into_iter().map(|t| -> usize { t.join().expect("no panic") }).sum()
            });
            assert!(pages <= 1 << order, "{pages} of order {order}");
            drop(parts);
            assert_eq!(host.settle(), PAGES, "order {order}, {pages} taken out");
        }
    }

    #[test]
    fn what_is_no_part_is_refused_and_what_is_left_goes_back() {
        let host = host();
        let parts = Parts::of(host.alloc(&Request::user(7)).expect("there is memory"));
        for (offset, order) in [(0, 8), (128, 0), (1, 1), (96, 6)] {
            assert!(parts.take(offset, order).is_none(), "{offset} {order}");
        }
        drop(parts.take(65, 0).expect("the second of the upper half"));
        assert!(parts.take(0, 7).is_none() && parts.take(64, 6).is_none());
        let lower = parts.take(0, 6).expect("the whole lower half");
        drop(parts);
        drop(lower);
        assert_eq!(host.settle(), PAGES);
    }
}
