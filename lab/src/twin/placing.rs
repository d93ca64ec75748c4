//! Finding room for free blocks whose positions were not recorded.
//!
//! buddyinfo and pagetypeinfo say how many free blocks of each order there are, not where. The
//! twin invents positions: aligned, clear of every page that the recording names, and never with
//! both buddies of a pair free as a whole (the kernel would have merged them). Room is kept as
//! aligned slots, split like the allocator's own blocks.

use std::collections::BTreeMap;

use super::world::MAX_ORDER;

/// Aligned room by order; the flag says that the buddy of the slot is a free block of the same
/// order, so that the slot may be split but not become one free block.
#[derive(Debug)]
pub struct Slots {
    by_order: Vec<BTreeMap<u64, bool>>,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots {
            by_order: vec![BTreeMap::new(); usize::from(MAX_ORDER) + 1],
        }
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
            self.by_order[usize::from(order)].insert(pfn, false);
            pfn += 1 << order;
        }
    }

    /// Takes room for a free block of `order`. With `apart`, its buddy is kept from being free
    /// as a whole; without, any room will do.
    pub fn take(&mut self, order: u8, apart: bool) -> Option<u64> {
        let whole = self.by_order[usize::from(order)]
            .iter()
            .find(|(_, buddy_free)| !apart || !**buddy_free)
            .map(|(&pfn, _)| pfn);
        if let Some(pfn) = whole {
            self.by_order[usize::from(order)].remove(&pfn);
            self.flag_buddy(pfn, order, apart);
            return Some(pfn);
        }
        let larger =
            (order + 1..=MAX_ORDER).find(|&o| !self.by_order[usize::from(o)].is_empty())?;
        let (pfn, _) = self.by_order[usize::from(larger)].pop_first()?;
        for half in (order..larger).rev() {
            self.by_order[usize::from(half)].insert(pfn + (1 << half), false);
        }
        self.flag_buddy(pfn, order, apart);
        Some(pfn)
    }

    /// Adds the room that another keeper has left.
    pub fn absorb(&mut self, other: Slots) {
        for (mine, theirs) in self.by_order.iter_mut().zip(other.by_order) {
            mine.extend(theirs);
        }
    }

    fn flag_buddy(&mut self, pfn: u64, order: u8, apart: bool) {
        if apart
            && order < MAX_ORDER
            && let Some(flag) = self.by_order[usize::from(order)].get_mut(&(pfn ^ (1 << order)))
        {
            *flag = true;
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
            assert!(
                !taken.contains(&(pfn ^ (1 << order), order)),
                "no pair: {taken:?}"
            );
        }
        let mut pages: Vec<u64> = taken
            .iter()
            .flat_map(|&(pfn, order)| pfn..pfn + (1 << order))
            .collect();
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
