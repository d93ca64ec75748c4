//! A block that several threads hold, each of which may write into it.

use std::sync::atomic::AtomicU64;

use pageyard::Pfn;

use crate::allocator::Block;
use crate::counters::Notes;

/// A block as words that all holders may read and write at any time; which of them holds which
/// part is for them to agree on. Dropping it frees the block.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
/// use pageyard::{Request, preset};
/// use pageyard_host::{HostAllocator, SharedBlock};
///
/// let host = HostAllocator::new(1 << 14, preset::find("linux-6.18").expect("a release"))?;
/// let shared = SharedBlock::new(host.alloc(&Request::user(1))?);
/// assert_eq!(shared.words().len(), 2 * 512);
/// shared.words()[513].store(7, Relaxed);
/// let block = shared.into_block();
/// assert_eq!(block.bytes()[513 * 8], 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedBlock<'a, N: Notes = ()>(Block<'a, N>);

impl<'a, N: Notes> SharedBlock<'a, N> {
    /// Makes a block one that can be shared.
    #[must_use]
    pub fn new(block: Block<'a, N>) -> SharedBlock<'a, N> {
        SharedBlock(block)
    }

    /// The first frame.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.0.pfn()
    }

    /// Its memory, 512 words a page.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let bytes = self.0.memory();
        let words = std::ptr::slice_from_raw_parts(
            bytes.as_ptr().cast::<AtomicU64>(),
            bytes.len() / size_of::<AtomicU64>(),
        );
        // SAFETY: whole pages of mapped memory, zero or written, aligned to a page; `Block` hands
        // them out as bytes only by itself, and it is inside of us until `into_block` ends every
        // borrow of these words. Whatever else reads or writes them does so as atomics, too.
        unsafe { &*words }
    }

    /// The block again: nobody shares it any more.
    #[must_use]
    pub fn into_block(self) -> Block<'a, N> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use pageyard::{Request, preset};

    use super::*;
    use crate::HostAllocator;

    #[test]
    fn threads_write_parts_of_one_block_and_it_is_freed_once() {
        let policy = preset::find("linux-6.6").expect("a release");
        let host = HostAllocator::new(1 << 10, policy).expect("4 MiB");
        let shared = SharedBlock::new(host.alloc(&Request::user(3)).expect("there is memory"));
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let words = &shared.words()[part as usize * 1024..][..1024];
                scope.spawn(move || words.iter().for_each(|word| word.store(part + 1, Relaxed)));
            }
        });
        let block = shared.into_block();
        let sum: u64 = block.bytes().iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!((block.order(), sum), (3, 1024 * (1 + 2 + 3 + 4)));
        drop(block);
        assert_eq!(host.settle(), 1 << 10);
    }
}
