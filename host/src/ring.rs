//! A queue of blocks from one thread to another, as the kernel's `ptr_ring`: an array of slots of
//! which an empty one tells that there is nothing, with a lock at each end.
//!
//! The ends share no counter, so that a sender and a receiver far apart meet in no line. The
//! receiver empties slots two lines at a time, so that the sender does not write a line that is
//! still being read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pageyard::Pfn;

use crate::allocator::{Block, HostAllocator};
use crate::counters::Notes;
use crate::lock::SpinLock;

/// Slots that a receiver empties together: two lines of words.
const TOGETHER: usize = 16;
/// A slot without a block. No block looks like this: frames of a host allocator begin at 4 GiB.
const EMPTY: u64 = 0;

/// One end of a ring, on a line of its own.
#[repr(align(64))]
struct End {
    lock: SpinLock,
    /// Where it goes on. Owned by the lock.
    at: AtomicUsize,
    /// From where on slots are not emptied yet; the receiver's. Owned by the lock.
    emptied: AtomicUsize,
}

impl End {
    fn new(name: &'static str) -> End {
        End { lock: SpinLock::new(name), at: AtomicUsize::new(0), emptied: AtomicUsize::new(0) }
    }
}

/// Blocks on their way to whoever receives them.
///
/// ```
/// use pageyard::{Request, preset};
/// use pageyard_host::{BlockRing, HostAllocator};
///
/// let host = HostAllocator::new(1 << 14, preset::find("linux-6.18").expect("a release"))?;
/// let ring = BlockRing::new(&host, 32);
/// assert!(ring.send(host.alloc(&Request::user(0))?).is_none(), "there is room");
/// assert_eq!(ring.receive().map(|block| block.order()), Some(0));
/// assert!(ring.receive().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockRing<'a, N: Notes = ()> {
    host: &'a HostAllocator<N>,
    slots: Box<[AtomicU64]>,
    sender: End,
    receiver: End,
}

impl<'a, N: Notes> BlockRing<'a, N> {
    /// An empty ring with so many slots, for blocks of one allocator.
    ///
    /// # Panics
    /// Fewer than 32 slots: there would be no room while slots wait to be emptied.
    #[must_use]
    pub fn new(host: &'a HostAllocator<N>, slots: usize) -> BlockRing<'a, N> {
        assert!(slots >= 2 * TOGETHER, "a ring of {slots} slots; it needs 32");
        let slots = (0..slots).map(|_| AtomicU64::new(EMPTY)).collect();
        BlockRing { host, slots, sender: End::new("ring, sending"), receiver: End::new("ring") }
    }

    /// Sends a block; it comes back if the ring is full.
    ///
    /// # Panics
    /// The block belongs to another allocator.
    pub fn send(&self, block: Block<'a, N>) -> Option<Block<'a, N>> {
        assert!(block.is_of(self.host), "a ring is for blocks of one allocator");
        self.sender.lock.with(|| {
            // Relaxed: the lock owns it.
            let at = self.sender.at.load(Ordering::Relaxed);
            // Acquire: pairs with the Release that empties slots; the receiver has read this one.
            if self.slots[at].load(Ordering::Acquire) != EMPTY {
                return Some(block);
            }
            let (pfn, order) = block.into_raw();
            // Release: pairs with the Acquire of `receive`; what the sender wrote into the block is
            // seen there.
            self.slots[at].store(pfn.0 << 8 | u64::from(order), Ordering::Release);
            self.sender.at.store((at + 1) % self.slots.len(), Ordering::Relaxed);
            None
        })
    }

    /// Takes the next block out.
    pub fn receive(&self) -> Option<Block<'a, N>> {
        let end = &self.receiver;
        end.lock.with(|| {
            // Relaxed: the lock owns both.
            let at = end.at.load(Ordering::Relaxed);
            // Acquire: pairs with the Release of `send`.
            let word = self.slots[at].load(Ordering::Acquire);
            if word == EMPTY {
                return None;
            }
            let emptied = end.emptied.load(Ordering::Relaxed);
            let next = (at + 1) % self.slots.len();
            if at + 1 - emptied == TOGETHER || next == 0 {
                // Backwards: the sender is not to see room in a line that is still written.
                for slot in self.slots[emptied..=at].iter().rev() {
                    // Release: pairs with the Acquire of `send`.
                    slot.store(EMPTY, Ordering::Release);
                }
                end.emptied.store(next, Ordering::Relaxed);
            }
            end.at.store(next, Ordering::Relaxed);
            Some(Block::of_raw(self.host, Pfn(word >> 8), (word & 0xff) as u8))
        })
    }
}

impl<N: Notes> Drop for BlockRing<'_, N> {
    fn drop(&mut self) {
        while self.receive().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{Request, preset};

    fn host() -> HostAllocator {
        HostAllocator::new(1 << 12, preset::find("linux-6.6").expect("a release")).expect("16 MiB")
    }

    #[test]
    fn blocks_arrive_in_order_and_once_from_another_thread() {
        let host = host();
        let ring = BlockRing::new(&host, 32);
        let blocks = if cfg!(miri) { 50 } else { 5000u64 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..blocks {
                    let mut block = host.alloc(&Request::user(0)).expect("few are under way");
                    block.bytes_mut()[..8].copy_from_slice(&n.to_le_bytes());
                    let mut back = ring.send(block);
                    while let Some(block) = back {
                        std::thread::yield_now();
                        back = ring.send(block);
                    }
                }
            });
            let mut next = 0u64;
            while next < blocks {
                let Some(block) = ring.receive() else {
                    std::thread::yield_now();
                    continue;
                };
                assert_eq!(block.bytes()[..8], next.to_le_bytes());
                next += 1;
            }
        });
        assert!(ring.receive().is_none());
    }

    #[test]
    fn a_ring_that_is_dropped_gives_back_what_was_under_way() {
        let host = host();
        let ring = BlockRing::new(&host, 32);
        let alloc = || host.alloc(&Request::user(0)).expect("there is memory");
        (0..32).for_each(|_| assert!(ring.send(alloc()).is_none()));
        assert!(ring.send(alloc()).is_some(), "full");
        drop(ring);
        host.drain_all();
        assert_eq!(host.free_pages(), 1 << 12);
    }
}
