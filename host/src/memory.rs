//! Page frames that are memory: a mapping whose pages have numbers.
//!
//! Frame `first` is the first page. The mapping begins at a multiple of 4 MiB and `first` at one
//! of 1024, so that a block of any order up to 10 is aligned to its size in memory as it is by
//! number, and a pageblock may be backed by a huge page.

use std::io;
use std::ptr::NonNull;

use pageyard::Pfn;

use crate::map::Mapping;

/// Bytes of a page frame (x86-64).
pub const PAGE_BYTES: usize = 4096;
/// Frames between possible first frames: a block of the largest order.
const FIRST_ALIGN: u64 = 1 << 10;

/// Why there is no [`Region`].
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The first frame is no multiple of 1024.
    #[error("first page frame {0:#x} is no multiple of 0x400, a block of order 10")]
    Unaligned(u64),
    /// No pages, or more than an address can name.
    #[error("a region of {0} pages: there must be at least one, and fewer than 2^52 in all")]
    Size(u64),
    /// The system said no.
    #[error(
        "cannot map {pages} pages of 4 KiB: {error}; ask for less, or raise `ulimit -v` or \
         vm.overcommit_memory"
    )]
    Map {
        /// Pages asked for.
        pages: u64,
        /// What the system said.
        error: io::Error,
    },
}

/// Pages of mapped memory, numbered. Zero until written; costs nothing until touched. Returned
/// to the system when dropped.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    first: Pfn,
    pages: u64,
}

impl Region {
    /// Maps `pages` pages; the first one is frame `first`, a multiple of 1024.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn map(first: Pfn, pages: u64) -> Result<Region, RegionError> {
        if !first.0.is_multiple_of(FIRST_ALIGN) {
            return Err(RegionError::Unaligned(first.0));
        }
        let end = first.0.checked_add(pages);
        if pages == 0 || end.is_none_or(|end| end > 1 << 52) {
            return Err(RegionError::Size(pages));
        }
        let bytes = usize::try_from(pages)
            .ok()
            .and_then(|pages| pages.checked_mul(PAGE_BYTES))
            .ok_or(RegionError::Size(pages))?;
        let align = FIRST_ALIGN as usize * PAGE_BYTES;
        let mapping =
            Mapping::zeroed(bytes, align).map_err(|error| RegionError::Map { pages, error })?;
        Ok(Region { mapping, first, pages })
    }

    /// Has the system back every page with memory. Contents stay as they are.
    pub fn populate(&mut self) {
        let base = self.mapping.base();
        for page in 0..self.pages as usize {
            // SAFETY: inside the mapping, which `&mut self` makes ours alone; mapped memory is
            // initialised. Volatile: the write is what makes the system back the page.
            unsafe {
                let byte = base.as_ptr().add(page * PAGE_BYTES);
                byte.write_volatile(byte.read_volatile());
            }
        }
    }

    /// The first frame.
    #[must_use]
    pub fn first(&self) -> Pfn {
        self.first
    }

    /// Number of frames.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The memory of the `1 << order` frames from `pfn` on; `None` if they do not all lie inside.
    /// Valid while the region lives; who may touch it is for the allocator to say.
    #[must_use]
    pub fn bytes(&self, pfn: Pfn, order: u8) -> Option<NonNull<[u8]>> {
        let pages = 1u64.checked_shl(u32::from(order))?;
        let at = pfn.0.checked_sub(self.first.0)?;
        if at.checked_add(pages)? > self.pages {
            return None;
        }
        // SAFETY: page `at` lies inside the mapping, as was just checked.
        let start = unsafe { self.mapping.base().add(at as usize * PAGE_BYTES) };
        Some(NonNull::slice_from_raw_parts(start, pages as usize * PAGE_BYTES))
    }

    /// The frame that an address lies in; `None` outside.
    #[must_use]
    pub fn pfn(&self, address: *const u8) -> Option<Pfn> {
        let base = self.mapping.base().as_ptr().addr();
        let page = (address.addr().checked_sub(base)? / PAGE_BYTES) as u64;
        (page < self.pages).then_some(Pfn(self.first.0 + page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_addresses_answer_each_other() {
        let region = Region::map(Pfn(1 << 20), 1025).expect("four megabytes");
        let at = |pfn| region.bytes(Pfn(pfn), 0).expect("inside").cast::<u8>();
        let first = 1 << 20;
        for pfn in [first, first + 1, first + 1024] {
            let address = at(pfn).as_ptr();
            assert_eq!(region.pfn(address), Some(Pfn(pfn)));
            assert_eq!(region.pfn(address.wrapping_add(4095)), Some(Pfn(pfn)));
        }
        assert_eq!(region.pfn(at(first).as_ptr().wrapping_sub(1)), None);
        assert_eq!(region.pfn(at(first + 1024).as_ptr().wrapping_add(4096)), None);
        assert_eq!(region.bytes(Pfn(first - 1), 0), None);
        assert_eq!(region.bytes(Pfn(first + 1025), 0), None);
        assert_eq!(region.bytes(Pfn(first + 1024), 1), None);
        assert_eq!(region.bytes(Pfn(first), 64), None);
    }

    #[test]
    fn a_block_is_aligned_to_its_size_and_writable() {
        let region = Region::map(Pfn(1 << 20), 2048).expect("eight megabytes");
        for order in 0..=10 {
            let block = region.bytes(Pfn((1 << 20) + 1024), order).expect("inside");
            let bytes = PAGE_BYTES << order;
            assert_eq!((block.len(), block.cast::<u8>().align_offset(bytes)), (bytes, 0));
            let last = block.cast::<u8>().as_ptr().wrapping_add(bytes - 1);
            // SAFETY: inside the region, which is ours alone.
            unsafe {
                last.write(order + 1);
                assert_eq!(last.read(), order + 1);
            }
        }
    }

    #[test]
    fn impossible_regions_are_refused() {
        let error = |first, pages| Region::map(Pfn(first), pages).expect_err("impossible");
        assert!(matches!(error(1, 1), RegionError::Unaligned(1)));
        assert!(matches!(error(0, 0), RegionError::Size(0)));
        assert!(matches!(error(1 << 60, 1 << 63), RegionError::Size(_)));
        #[cfg(not(miri))]
        assert!(matches!(error(0, 1 << 50), RegionError::Map { .. }));
    }
}
