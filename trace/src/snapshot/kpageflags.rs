//! `/proc/kpageflags`: one u64 of flags a page frame; which frames the buddy allocator holds.

use crate::error::{At, Damage};

/// Bit of a free page held by the buddy allocator (`KPF_BUDDY`, include/uapi/linux/
/// kernel-page-flags.h). The kernel sets it for every page of a free block.
pub const KPF_BUDDY: u32 = 10;

/// The buddy bit of every page frame: one bit a page, an eighth of a percent of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KPageFlags {
    buddy: Vec<u64>,
    pages: u64,
}

/// A free block: `1 << order` pages from `pfn` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlock {
    /// First page frame, aligned to the block's size.
    pub pfn: u64,
    /// Order, 0 to the limit given.
    pub order: u8,
}

impl KPageFlags {
    /// Reads the little-endian words of the file; a partial last word goes to `damage`.
    #[must_use]
    pub fn read(bytes: &[u8], damage: &mut Damage) -> KPageFlags {
        KPageFlags::stream(bytes, u64::MAX, damage)
    }

    /// Reads a stream of at most `bytes_max` bytes, of which one bit a page is kept.
    #[must_use]
    pub fn stream(
        mut reader: impl std::io::Read,
        bytes_max: u64,
        damage: &mut Damage,
    ) -> KPageFlags {
        let mut flags = KPageFlags::default();
        let mut buffer = vec![0u8; 64 << 10];
        let mut have = 0;
        loop {
            let at = flags.pages * 8 + have as u64;
            if at >= bytes_max {
                damage.add(At::Byte(at), "longer than any machine's; the rest is not read");
                return flags;
            }
            match reader.read(&mut buffer[have..]) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    damage.add(At::Byte(at), format!("cannot be read on: {error}"));
                    return flags;
                }
            }
            let whole = have / 8 * 8;
            for word in buffer[..whole].chunks_exact(8) {
                flags.push(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            }
            buffer.copy_within(whole..have, 0);
            have -= whole;
        }
        if have > 0 {
            damage.add(At::Byte(flags.pages * 8), "the last page's flags are cut short");
        }
        flags
    }

    /// Appends the flags of the next page frame.
    pub fn push(&mut self, flags: u64) {
        let bit = self.pages % 64;
        if bit == 0 {
            self.buddy.push(0);
        }
        if let Some(last) = self.buddy.last_mut() {
            *last |= (flags >> KPF_BUDDY & 1) << bit;
        }
        self.pages += 1;
    }

    /// Page frames in the file.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// True when the buddy allocator held this page. False beyond the end.
    #[must_use]
    pub fn is_buddy(&self, pfn: u64) -> bool {
        let word = usize::try_from(pfn / 64).ok().and_then(|index| self.buddy.get(index));
        word.is_some_and(|word| word >> (pfn % 64) & 1 == 1)
    }

    /// Free blocks within `range`: at each free page the largest aligned block, of at most
    /// `order_max` (10 on an ordinary kernel), whose pages are all free and inside.
    ///
    /// The buddy allocator merges whatever it can, so this is its own decomposition, but for two
    /// neighbours that it keeps apart: of different migratetypes, or not yet merged by a policy
    /// that merges late. Compare with buddyinfo before relying on it.
    #[must_use]
    pub fn blocks(&self, range: std::ops::Range<u64>, order_max: u8) -> Vec<FreeBlock> {
        let end = range.end.min(self.pages);
        let order_max = u32::from(order_max.min(32));
        let mut blocks = Vec::new();
        let mut pfn = range.start;
        while pfn < end {
            if !self.is_buddy(pfn) {
                // Whole words of no free pages are skipped at once.
                let empty =
                    pfn.is_multiple_of(64) && self.buddy.get((pfn / 64) as usize) == Some(&0);
                pfn += if empty { 64 } else { 1 };
                continue;
            }
            let mut order = 0;
            while order < order_max && pfn.trailing_zeros() > order {
                let (half, size) = (1u64 << order, 2u64 << order);
                if pfn + size > end || !self.all_buddy(pfn + half, half) {
                    break;
                }
                order += 1;
            }
            blocks.push(FreeBlock { pfn, order: order as u8 });
            pfn += 1 << order;
        }
        blocks
    }

    /// True when `count` pages from `pfn` on are free; both are multiples of a power of two.
    fn all_buddy(&self, pfn: u64, count: u64) -> bool {
        let mut pfn = pfn;
        let end = pfn + count;
        while pfn < end {
            let whole = pfn.is_multiple_of(64) && end - pfn >= 64;
            if whole && self.buddy.get((pfn / 64) as usize) == Some(&u64::MAX) {
                pfn += 64;
            } else if !whole && self.is_buddy(pfn) {
                pfn += 1;
            } else {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(free: impl Fn(u64) -> bool, pages: u64) -> KPageFlags {
        let mut flags = KPageFlags::default();
        (0..pages).for_each(|pfn| flags.push(u64::from(free(pfn)) << KPF_BUDDY | 1));
        flags
    }

    #[test]
    fn blocks_are_aligned_and_as_large_as_can_be() {
        let flags = flags(|pfn| pfn != 3 && pfn < 16, 100);
        let blocks: Vec<_> = flags.blocks(0..100, 10).iter().map(|b| (b.pfn, b.order)).collect();
        assert_eq!(blocks, [(0, 1), (2, 0), (4, 2), (8, 3)]);
    }

    #[test]
    fn the_order_is_limited_and_the_range_respected() {
        let flags = flags(|_| true, 4096);
        assert_eq!(flags.blocks(0..4096, 10).len(), 4);
        let blocks = flags.blocks(1..1025, 10);
        let pages: u64 = blocks.iter().map(|block| 1u64 << block.order).sum();
        assert_eq!(pages, 1024);
        assert_eq!(blocks.last(), Some(&FreeBlock { pfn: 1024, order: 0 }));
    }

    #[test]
    fn a_partial_word_is_named() {
        let mut damage = Damage::default();
        let flags = KPageFlags::read(&[0, 4, 0, 0, 0, 0, 0, 0, 1, 2], &mut damage);
        assert_eq!((flags.pages(), flags.is_buddy(0), flags.is_buddy(9)), (1, true, false));
        assert_eq!(damage.faults()[0].at, At::Byte(8));
    }
}
