//! What the allocator asks of the machine below it: the only type parameter of the crate.
//!
//! The same allocator runs on real memory and threads, on virtual CPUs one after the other, on a
//! modelled machine, and under model checkers. Each of them is one implementation of
//! [`Platform`]. State lives in tables, not in loose words, so that a platform may place, charge
//! or watch every access by (table, record, field).
//!
//! Rules of the tables. An **owned** field is touched only by the holder of the lock that its
//! comment names; a checker verifies that. A **shared** field is raced on; each access states its
//! ordering, and `peek` is a relaxed read that may be stale.

pub use core::sync::atomic::Ordering;

use crate::event::{Bug, Event};
use crate::types::{CpuId, NodeId};

/// A field of a record, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(pub u8);

/// Which tables exist. A platform uses it to lay out memory and to name lines in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableId {
    /// One record a page: list links and the free-block head.
    Pages,
    /// One record a page: who holds it.
    PageStates,
    /// One record a pageblock: its migratetype.
    Blocks,
    /// One record a (zone, order, type): a free list.
    Areas,
    /// One record a (zone, order, type): how many blocks that list holds.
    AreaCounts,
    /// One record a zone: marks, flags, reserves.
    Zones,
    /// One record a (zone, CPU): limits and state of a per-CPU cache, pcp lock.
    Pcps,
    /// One record a (zone, CPU): the words of a per-CPU cache that others peek at.
    PcpShared,
    /// One record a (zone, CPU, list): a list of a per-CPU cache.
    PcpLists,
    /// One record a (zone, CPU): differences not yet folded into the zone counters.
    StatDiffs,
    /// One record a zone: the zone counters.
    StatTotals,
    /// One record a (zone, CPU): event and NUMA counters.
    EventDiffs,
    /// One record a zone: event and NUMA counters that were folded or counted directly.
    EventTotals,
    /// One record a CPU: its node.
    Cpus,
    /// The zone locks.
    ZoneLocks,
    /// The pcp locks, one a (zone, CPU).
    PcpLocks,
}

/// What the allocator needs of a table. All words start as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Which table.
    pub id: TableId,
    /// Number of records.
    pub records: usize,
    /// Words in a record; 1 for locks.
    pub fields: u8,
}

/// A table whose fields belong to the holder of a lock.
pub trait Owned {
    /// Reads a field. The caller holds the lock that owns it.
    fn get(&self, record: usize, field: Field) -> u32;
    /// Writes a field. The caller holds the lock that owns it.
    fn set(&self, record: usize, field: Field, value: u32);
    /// Writes a link of a record next to which another is put on a list, or taken off it. A kernel
    /// that checks its lists (`CONFIG_DEBUG_LIST`) compares the link first: a platform that models
    /// one may charge for that.
    #[inline]
    fn relink(&self, record: usize, field: Field, value: u32) {
        self.set(record, field, value);
    }
}

/// A table of words that CPUs race on. `W` is `u32` or `u64`; sums wrap.
pub trait Shared<W> {
    /// Reads with the ordering given.
    fn load(&self, record: usize, field: Field, ordering: Ordering) -> W;
    /// Writes with the ordering given.
    fn store(&self, record: usize, field: Field, value: W, ordering: Ordering);
    /// Adds and returns the value before.
    fn add(&self, record: usize, field: Field, delta: W, ordering: Ordering) -> W;
    /// Replaces and returns the value before.
    fn swap(&self, record: usize, field: Field, value: W, ordering: Ordering) -> W;
    /// A relaxed read that may be stale: for hints only.
    fn peek(&self, record: usize, field: Field) -> W;
}

/// Where in the allocator a lock is taken; contention is reported by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// Allocation from a per-CPU list.
    PcpAlloc,
    /// Free to a per-CPU list.
    PcpFree,
    /// Drain of a per-CPU cache by anyone but its own free path.
    PcpDrain,
    /// Setting limits of a per-CPU cache, or reading them all.
    PcpAdmin,
    /// Refill of a per-CPU list.
    Refill,
    /// Allocation that bypasses the per-CPU lists.
    Direct,
    /// Bulk free from a per-CPU cache.
    BulkFree,
    /// Free that bypasses the per-CPU lists.
    DirectFree,
    /// Reserving or returning high-atomic blocks, changing types, adding memory.
    ZoneAdmin,
}

/// A table of locks. Closures instead of guards: a lock cannot be leaked or returned.
///
/// Lock order: a pcp lock, then one zone lock. Never two pcp locks, never two zone locks.
pub trait Locks {
    /// Waits for lock `index`, runs `f` while holding it.
    fn with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> R;
    /// Runs `f` under lock `index` if it is free, else returns `None` at once.
    fn try_with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> Option<R>;
    /// Waits if `wait` says so, else tries. One entry for a choice made by policy: a platform
    /// that writes it out keeps a single copy of `f`, which the compiler can then inline.
    fn enter<R>(&self, index: usize, site: Site, wait: bool, f: impl FnOnce() -> R) -> Option<R> {
        match wait {
            true => Some(self.with(index, site, f)),
            false => self.try_with(index, site, f),
        }
    }
}

/// Where prefetched data should land. Names of the x86 instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchHint {
    /// Every cache level.
    T0,
    /// Second level and beyond.
    T2,
    /// Close to the processor, without displacing other lines.
    Nta,
}

/// Work that the ladder of an allocation asks of the embedder. No lock is held meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Free some pages of this node and its neighbours; returns pages freed.
    Reclaim,
    /// Move pages until a block of the order comes free; returns blocks made.
    CompactAsync,
    /// The same, allowed to wait for pages.
    CompactSyncLight,
}

/// The machine. Every method takes `&self`: a platform is shared by all CPUs.
pub trait Platform: Sized {
    /// Tables guarded by locks.
    type Owned: Owned;
    /// Tables of raced 32-bit words.
    type Shared: Shared<u32>;
    /// Tables of raced 64-bit words.
    type Wide: Shared<u64>;
    /// Tables of locks.
    type Locks: Locks;

    /// Makes a zeroed owned table.
    fn owned(&self, spec: TableSpec) -> Self::Owned;
    /// Makes a zeroed shared table of 32-bit words.
    fn shared(&self, spec: TableSpec) -> Self::Shared;
    /// Makes a zeroed shared table of 64-bit words.
    fn wide(&self, spec: TableSpec) -> Self::Wide;
    /// Makes a table of free locks.
    fn locks(&self, spec: TableSpec) -> Self::Locks;

    /// The CPU we run on. A hint: a stale answer is slow, never wrong.
    fn cpu(&self) -> CpuId;
    /// Time of this machine in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Starts fetching the record of a page.
    fn prefetch(&self, pages: &Self::Owned, page: usize, hint: PrefetchHint) {
        let _ = (pages, page, hint);
    }
    /// Told of everything that happens; see [`Event`].
    fn note(&self, event: Event) {
        let _ = event;
    }
    /// Asked by an allocation that may wait. Returns progress; 0 is "could not".
    fn work(&self, work: Work, node: NodeId, order: u8) -> u64 {
        let _ = (work, node, order);
        0
    }
    /// The embedder misused the allocator. Nothing was changed yet.
    fn bug(&self, bug: Bug) -> !;
}
