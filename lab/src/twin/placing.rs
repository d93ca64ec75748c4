//! Finding room for free blocks whose positions were not recorded.
//!
//! buddyinfo and pagetypeinfo say how many free blocks of each order there are, not where. The
//! twin invents positions: aligned, clear of every page that the recording names, and never with
//! both buddies of a pair free as a whole (the kernel would have merged them). Room is kept as
//! aligned slots, split like the allocator's own blocks.

use std::collections::BTreeSet;

use super::world::MAX_ORDER;

/// Aligned room of one order.
#[derive(Debug, Default)]
struct Room {
    /// May become one free block.
    clear: BTreeSet<u64>,
    /// The buddy is a free block of the same order: may be split, but not become one.
    beside_free: BTreeSet<u64>,
}

/// Aligned room by order.
#[derive(Debug)]
pub struct Slots {
    by_order: Vec<Room>,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { by_order: (0..=MAX_ORDER).map(|_| Room::default()).collect() }
    }
}

impl Slots {
    /// Adds the room between two page frames, except the pages in `taken` (sorted).
    pub fn add_range(&mut self, from: u64, to: u64, taken: &[u64]) {
        let mut start = from;
        let first = taken.partition_point(|&pfn| pfn < from);
        for &pfn in taken[first..].iter().take_while(|&&pfn| pfn < to) {
            self.add_clear(start, pfn);
            start = pfn + 1;
        }
        self.add_clear(start, to);
    }

    fn add_clear(&mut self, from: u64, to: u64) {
        let mut pfn = from;
        while pfn < to {
            let aligned = pfn.trailing_zeros().min(u32::from(MAX_ORDER)) as u8;
            let fits = |order: &u8| pfn + (1 << order) <= to;
            let order = (0..=aligned).rev().find(fits).unwrap_or(0);
            self.by_order[usize::from(order)].clear.insert(pfn);
            pfn += 1 << order;
        }
    }

    /// Takes room for a free block of `order`. With `apart`, its buddy is kept from being free
    /// as a whole; without, any room will do.
    pub fn take(&mut self, order: u8, apart: bool) -> Option<u64> {
        let room = &mut self.by_order[usize::from(order)];
        let whole = match apart {
            true => room.clear.pop_first(),
            false => room.beside_free.pop_first().or_else(|| room.clear.pop_first()),
        };
        if let Some(pfn) = whole {
            self.flag_buddy(pfn, order, apart);
            return Some(pfn);
        }
        let pfn = self.split_down_to(order)?;
        self.flag_buddy(pfn, order, apart);
        Some(pfn)
    }

    /// Halves the smallest larger room; the lower part is taken, the upper parts stay.
    fn split_down_to(&mut self, order: u8) -> Option<u64> {
        for larger in order + 1..=MAX_ORDER {
            let room = &mut self.by_order[usize::from(larger)];
            // Room that must be split anyway goes first.
            let found = room.beside_free.pop_first().or_else(|| room.clear.pop_first());
            let Some(pfn) = found else { continue };
            for half in (order..larger).rev() {
                self.by_order[usize::from(half)].clear.insert(pfn + (1 << half));
            }
            return Some(pfn);
        }
        None
    }

    /// Adds the room that another keeper has left.
    pub fn absorb(&mut self, other: Slots) {
        for (mine, theirs) in self.by_order.iter_mut().zip(other.by_order) {
            mine.clear.extend(theirs.clear);
            mine.beside_free.extend(theirs.beside_free);
        }
    }

    fn flag_buddy(&mut self, pfn: u64, order: u8, apart: bool) {
        let buddy = pfn ^ (1 << order);
        let room = &mut self.by_order[usize::from(order)];
        if apart && order < MAX_ORDER && room.clear.remove(&buddy) {
            room.beside_free.insert(buddy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buddies_are_never_both_free() {
        let mut slots = Slots::default();
        slots.add_range(0, 4096, &[]);
        let mut taken = Vec::new();
        for order in [3u8, 3, 3, 2, 2, 0, 0, 0] {
            taken.push((slots.take(order, true).expect("room"), order));
        }
        for &(pfn, order) in &taken {
            assert_eq!(pfn & ((1 << order) - 1), 0, "aligned");
            assert!(!taken.contains(&(pfn ^ (1 << order), order)), "no pair: {taken:?}");
        }
        let mut pages: Vec<u64> =
            taken.iter().flat_map(|&(pfn, order)| pfn..pfn + (1 << order)).collect();
        pages.sort_unstable();
        let before = pages.len();
        pages.dedup();
        assert_eq!(pages.len(), before, "no page twice");
    }

    #[test]
    fn named_pages_are_left_alone() {
        let mut slots = Slots::default();
        slots.add_range(1024, 2048, &[1030, 1500]);
        assert_eq!(slots.take(10, true), None);
        while let Some(pfn) = slots.take(0, false) {
            assert!(pfn != 1030 && pfn != 1500);
        }
    }
}
