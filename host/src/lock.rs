//! The queue spin lock of the plain platform.
//!
//! A word says whether the lock is held; beside it stands the tail of a queue of those who wait
//! (Mellor-Crummey and Scott 1991, with the split of Linux' qspinlock between owner and queue).
//! Each waiter spins on its own cache line, on its own stack, so a hand-over moves two lines
//! however many wait; a ticket lock moves one to every waiter, which is what a zone lock under
//! 100 CPUs dies of. The owner keeps no node: an uncontended entry is one compare-and-swap, the
//! exit a plain store, and a thread may hold a pcp lock while it queues for a zone lock.
//!
//! **More threads than CPUs.** A queue hands over in order, also to a thread that the system has
//! put to sleep. Whoever waits therefore gives its CPU away after `SPINS_MAX` tries, each time
//! it looks. Threads of different real-time priorities must not share an allocator: yielding
//! lets no lower priority run.
//!
//! **Panics.** What a lock guards may be half changed when the closure panics. The lock is then
//! poisoned for good: everyone who waits or comes later panics too, and nobody spins for ever on
//! it or goes on with a broken list. Misuse that the allocator finds in front of its locks (a
//! double free, say) poisons nothing.
//!
//! Entering a lock that the same thread holds already waits for ever, as in the kernel.

use std::fmt::Debug;
use std::hint::spin_loop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread::yield_now;

use pageyard::platform::{Locks, Site};

/// Looks at a word before the CPU is given away, one pause instruction after each. A pause takes
/// 10 to 140 cycles on x86-64 (Intel's optimization manual: 140 since Skylake), so this is 1 to
/// 12 µs: about the time under which a zone lock is held for a batch of 63 pages.
const SPINS_MAX: u32 = 256;

const FREE: u32 = 0;
const HELD: u32 = 1;
const POISONED: u32 = 2;

/// One who waits. Lives on the stack of [`QueueLock::wait`], on a cache line of its own.
#[repr(align(64))]
struct Node {
    /// Who queued up behind.
    next: AtomicPtr<Node>,
    /// Set by the one in front: this node is the first of the queue now.
    first: AtomicBool,
}

/// A lock on a cache line of its own.
#[repr(align(64))]
struct QueueLock {
    held: AtomicU32,
    /// The last of the queue; null is no queue.
    tail: AtomicPtr<Node>,
}

/// Poisons the lock unless it is forgotten: dropped only by unwinding.
struct Poison<'a>(&'a QueueLock);

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of whoever panics about it; it may look at the lists.
        self.0.held.store(POISONED, Ordering::Release);
    }
}

/// Looks until `done`, first spinning, then giving the CPU away between looks.
fn wait_until(mut done: impl FnMut() -> bool) {
    let mut looks = 0;
    while !done() {
        if looks < SPINS_MAX {
            looks += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }
}

impl QueueLock {
    fn new() -> QueueLock {
        QueueLock { held: AtomicU32::new(FREE), tail: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Takes the lock if it is free and nobody queues for it.
    #[inline(always)]
    fn try_enter(&self) -> bool {
        // Relaxed: racy, harmless. One who overtakes a queue that just formed delays it once.
        if !self.tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Acquire: pairs with the Release at the end of `run`; what was done inside is seen.
        self.held.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let poison = Poison(self);
        let result = f();
        std::mem::forget(poison);
        // Release: pairs with the Acquire of the next entry.
        self.held.store(FREE, Ordering::Release);
        result
    }

    /// Queues up and returns as the owner.
    #[cold]
    fn wait(&self, site: &dyn Debug) {
        let node = Node { next: AtomicPtr::new(ptr::null_mut()), first: AtomicBool::new(false) };
        let me = ptr::from_ref(&node).cast_mut();
        // AcqRel: publishes our node to the one behind, and sees that of the one in front.
        let before = self.tail.swap(me, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: `before` points to the node of a thread inside `wait`. That thread leaves
            // only after it has read `next`, which we alone write, and it was the tail, so it
            // cannot leave in between without seeing us: its node outlives this store.
            // Release: pairs with the Acquire of `next` in `leave`; our node is initialised.
            unsafe { (*before).next.store(me, Ordering::Release) };
            // Acquire: pairs with the Release in `leave`.
            wait_until(|| node.first.load(Ordering::Acquire));
        }
        let mut poisoned = false;
        wait_until(|| match self.held.load(Ordering::Relaxed) {
            FREE => {
                // Acquire: as in `try_enter`.
                let entered = self.held.compare_exchange_weak(
                    FREE,
                    HELD,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                entered.is_ok()
            }
            POISONED => {
                poisoned = true;
                true
            }
            _ => false,
        });
        self.leave(&node);
        if poisoned {
            report_poison(site);
        }
    }

    /// Takes the first node off the queue and tells the next one. Nothing refers to the node
    /// afterwards.
    fn leave(&self, node: &Node) {
        let me = ptr::from_ref(node).cast_mut();
        // Acquire: pairs with the Release of the one behind, who initialised its node.
        let mut next = node.next.load(Ordering::Acquire);
        if next.is_null() {
            // Relaxed: an empty queue hands nothing over.
            let emptied = self.tail.compare_exchange(
                me,
                ptr::null_mut(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if emptied.is_ok() {
                return;
            }
            // Somebody swapped the tail and is about to write our `next`.
            wait_until(|| {
                next = node.next.load(Ordering::Acquire);
                !next.is_null()
            });
        }
        // SAFETY: `next` points to the node of a thread inside `wait` that cannot leave before
        // this store. The store goes through the field alone: the node may be gone right after.
        // Release: pairs with the Acquire in `wait`.
        unsafe { (*next).first.store(true, Ordering::Release) };
    }
}

#[cold]
fn report_poison(site: &dyn Debug) -> ! {
    panic!(
        "a lock of the page allocator is poisoned (entered for {site:?}): a thread panicked \
         while it changed what the lock guards; build a new allocator"
    );
}

/// How often entries found a lock held, by what they came for. Free of cost until one does.
#[derive(Debug, Default)]
pub struct Contention {
    waits: [AtomicU64; SITES.len()],
    refusals: [AtomicU64; SITES.len()],
}

/// Every site, by number.
const SITES: [Site; 9] = [
    Site::PcpAlloc,
    Site::PcpFree,
    Site::PcpDrain,
    Site::PcpAdmin,
    Site::Refill,
    Site::Direct,
    Site::BulkFree,
    Site::DirectFree,
    Site::ZoneAdmin,
];
const _: () = assert!(SITES[8] as usize == 8, "sites are listed by number");

impl Contention {
    /// Blocking entries for `site` that had to queue.
    #[must_use]
    pub fn waits(&self, site: Site) -> u64 {
        self.waits[site as usize].load(Ordering::Relaxed)
    }

    /// Try-locks for `site` that found the lock held or queued for.
    #[must_use]
    pub fn refusals(&self, site: Site) -> u64 {
        self.refusals[site as usize].load(Ordering::Relaxed)
    }

    /// Every site with waits and refusals.
    pub fn all(&self) -> impl Iterator<Item = (Site, u64, u64)> + '_ {
        SITES.into_iter().map(|site| (site, self.waits(site), self.refusals(site)))
    }
}

/// A table of queue spin locks, each on a cache line of its own.
pub struct QueueLocks {
    locks: Box<[QueueLock]>,
    contention: Arc<Contention>,
}

impl QueueLocks {
    pub(crate) fn new(records: usize, contention: Arc<Contention>) -> QueueLocks {
        let locks = (0..records).map(|_| QueueLock::new()).collect();
        QueueLocks { locks, contention }
    }

    #[cold]
    fn wait(&self, lock: &QueueLock, site: Site) {
        // Relaxed: a count orders nothing.
        self.contention.waits[site as usize].fetch_add(1, Ordering::Relaxed);
        lock.wait(&site);
    }

    #[cold]
    fn refuse(&self, lock: &QueueLock, site: Site) {
        // Acquire: pairs with the Release of `Poison`.
        if lock.held.load(Ordering::Acquire) == POISONED {
            report_poison(&site);
        }
        self.contention.refusals[site as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// One such lock for an embedder's own structures, beside those of the allocator.
///
/// ```
/// let lock = pageyard_host::lock::SpinLock::new("list");
/// assert_eq!(lock.with(|| 7), 7);
/// assert_eq!(lock.waits(), 0);
/// ```
pub struct SpinLock {
    lock: QueueLock,
    waits: AtomicU64,
    name: &'static str,
}

impl SpinLock {
    /// A free lock; messages call it by its name.
    #[must_use]
    pub fn new(name: &'static str) -> SpinLock {
        SpinLock { lock: QueueLock::new(), waits: AtomicU64::new(0), name }
    }

    /// Waits for the lock, runs `f` while holding it.
    ///
    /// # Panics
    /// A thread panicked while it held the lock.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        if !self.lock.try_enter() {
            // Relaxed: a count orders nothing.
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.lock.wait(&self.name);
        }
        self.lock.run(f)
    }

    /// Entries that had to queue.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

impl Locks for QueueLocks {
    #[inline(always)]
    fn with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> R {
        let lock = &self.locks[index];
        if !lock.try_enter() {
            self.wait(lock, site);
        }
        lock.run(f)
    }

    #[inline(always)]
    fn try_with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> Option<R> {
        let lock = &self.locks[index];
        if !lock.try_enter() {
            self.refuse(lock, site);
            return None;
        }
        Some(lock.run(f))
    }

    #[inline(always)]
    fn enter<R>(&self, index: usize, site: Site, wait: bool, f: impl FnOnce() -> R) -> Option<R> {
        let lock = &self.locks[index];
        if !lock.try_enter() {
            if !wait {
                self.refuse(lock, site);
                return None;
            }
            self.wait(lock, site);
        }
        Some(lock.run(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    fn locks() -> QueueLocks {
        QueueLocks::new(2, Arc::default())
    }

    /// A plain number that only the lock protects: a lost update or a tool sees a broken lock.
    struct Guarded(UnsafeCell<u64>);
    // SAFETY: the tests below touch the cell under the lock alone.
    unsafe impl Sync for Guarded {}

    impl Guarded {
        fn bump(&self) {
            // SAFETY: called under lock 0 only.
            unsafe { *self.0.get() += 1 };
        }
    }

    #[test]
    fn nobody_is_inside_together() {
        let (threads, rounds) = if cfg!(miri) { (3, 20u64) } else { (8, 20_000) };
        let locks = locks();
        let inside = Guarded(UnsafeCell::new(0));
        let start = Barrier::new(threads);
        let tried: u64 = std::thread::scope(|scope| {
            let work = || {
                start.wait();
                let mut tried = 0;
                for round in 0..rounds {
                    if round % 3 == 0 {
                        let entry = locks.try_with(0, Site::PcpAlloc, || inside.bump());
                        tried += u64::from(entry.is_some());
                    } else {
                        locks.with(0, Site::Refill, || inside.bump());
                    }
                }
                tried
            };
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().map(|h| h.join().expect("no panic")).sum()
        });
        let blocking = threads as u64 * (rounds - rounds.div_ceil(3));
        assert_eq!(inside.0.into_inner(), blocking + tried);
        let refused = locks.contention.refusals(Site::PcpAlloc);
        let tries = threads as u64 * rounds.div_ceil(3);
        assert_eq!(tried + refused, tries, "a try enters or is refused");
    }

    #[test]
    fn a_held_lock_refuses_a_try_and_others_stay_open() {
        let locks = locks();
        locks.with(0, Site::PcpDrain, || {
            assert_eq!(locks.try_with(0, Site::PcpFree, || ()), None);
            assert_eq!(locks.try_with(1, Site::PcpFree, || 7), Some(7));
        });
        assert_eq!(locks.try_with(0, Site::PcpFree, || 7), Some(7));
        assert_eq!(locks.contention.refusals(Site::PcpFree), 1);
    }

    #[test]
    fn a_panic_inside_reaches_those_who_wait_and_those_who_come_later() {
        let locks = locks();
        let held = Barrier::new(2);
        let message = |result: std::thread::Result<()>| {
            let payload = result.expect_err("the lock is poisoned");
            payload.downcast_ref::<String>().expect("a text").clone()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    locks.with(0, Site::Refill, || {
                        held.wait();
                        let all_wait = || locks.contention.waits(Site::BulkFree) == 2;
                        // Bounded: a lock that lets everybody in must fail, not hang.
                        let seen = (0..1 << 20).any(|_| {
                            yield_now();
                            all_wait()
                        });
                        assert!(seen, "nobody waits for a held lock");
                        panic!("half way");
                    })
                }));
                assert!(outcome.is_err());
            });
            held.wait();
            let waiters: Vec<_> =
                (0..2).map(|_| scope.spawn(|| locks.with(0, Site::BulkFree, || ()))).collect();
            for waiter in waiters {
                assert!(message(waiter.join()).contains("poisoned (entered for BulkFree)"));
            }
        });
        let late = || locks.with(0, Site::Direct, || ());
        assert!(message(catch_unwind(AssertUnwindSafe(late))).contains("for Direct"));
        let try_late = || assert_eq!(locks.try_with(0, Site::PcpAlloc, || ()), None);
        assert!(message(catch_unwind(AssertUnwindSafe(try_late))).contains("for PcpAlloc"));
        assert_eq!(locks.try_with(1, Site::PcpAlloc, || 7), Some(7));
    }

    #[test]
    fn locks_share_no_cache_line() {
        assert_eq!(size_of::<QueueLock>(), 64);
        assert_eq!(align_of::<QueueLock>(), 64);
        assert_eq!(size_of::<Node>(), 64);
    }
}
