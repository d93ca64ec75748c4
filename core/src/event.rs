//! The one vocabulary of what happens: costs, counters, traces and coverage all speak it.

use crate::types::{CpuId, MigrateType, NodeId, Pfn, ZoneId};

/// Why pages left a per-CPU cache for the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainCause {
    /// A free found the cache above its limit.
    Limit,
    /// A run of high-order frees emptied it ("free_high").
    FreeHigh,
    /// The periodic tick lowered the limit.
    Decay,
    /// The periodic tick of a remote, quiet cache.
    Expire,
    /// Somebody asked for it.
    Asked,
}

/// What happened. Page counts are in base pages; fields mean what their types and names say.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block came from a per-CPU list.
    PcpHit { zone: ZoneId, cpu: CpuId, order: u8 },
    /// A block went to a per-CPU list.
    PcpPut { zone: ZoneId, cpu: CpuId, order: u8 },
    /// The pcp lock was held by somebody else; the zone was used instead.
    PcpBusy { zone: ZoneId, cpu: CpuId },
    /// A block left the free lists under the zone lock.
    ZoneTake { zone: ZoneId, pfn: Pfn, order: u8, migratetype: MigrateType },
    /// A list was refilled: one hold of the zone lock.
    Refill { zone: ZoneId, cpu: CpuId, order: u8, list: u8, asked_blocks: u32, got_blocks: u32 },
    /// A block went back from a per-CPU cache under the zone lock.
    DrainBlock { zone: ZoneId, pfn: Pfn, order: u8, migratetype: MigrateType },
    /// A bulk free ended: one hold of the zone lock.
    Drain { zone: ZoneId, cpu: CpuId, pages: u32, left_pages: u32, cause: DrainCause },
    /// An allocation was served by the zone itself: one hold of the zone lock.
    Direct { zone: ZoneId, order: u8 },
    /// A free went to the zone itself: one hold of the zone lock.
    DirectFree { zone: ZoneId, order: u8 },
    /// Two buddies became one block of `order`.
    Merge { zone: ZoneId, order: u8 },
    /// A block of `order` was halved.
    Split { zone: ZoneId, order: u8 },
    /// A request took a block of another type.
    Fallback {
        zone: ZoneId,
        pfn: Pfn,
        order: u8,
        found_order: u8,
        wanted: MigrateType,
        found: MigrateType,
        claimed: bool,
    },
    /// A pageblock changed its type.
    Retype { zone: ZoneId, pfn: Pfn, from: MigrateType, to: MigrateType },
    /// Marks of the zone were raised after types mixed.
    Boost { zone: ZoneId, boost_pages: u32 },
    /// Background reclaim of the node should run.
    Wake { node: NodeId, order: u8 },
    /// A zone was passed over: below the mark demanded.
    BelowMark { zone: ZoneId },
    /// A page was served from another node than the preferred one.
    RemoteNode { zone: ZoneId, preferred: ZoneId },
    /// A pageblock joined or left the high-atomic reserve.
    HighAtomic { zone: ZoneId, reserved: bool },
    /// Per-CPU words were read one by one to answer exactly.
    CounterRead { words: u32 },
    /// A difference was folded into a shared counter.
    CounterSpill { zone: ZoneId },
}

/// What a page is at the moment, as its record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Never handed out, and never put on a list of its own.
    Untouched = 0,
    /// The first page of a block that is in use.
    Allocated = 1,
    /// The first page of a block in a per-CPU cache.
    Pcp = 2,
    /// On a free list of its zone, or merged into such a block.
    Free = 3,
}

/// The record of a page, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// What it is.
    pub kind: PageKind,
    /// Order of the block that began here when it was last handed out or given back.
    pub order: u8,
    /// Type of the request while allocated, of the list while cached.
    pub migratetype: MigrateType,
    /// CPU that touched it last.
    pub last_cpu: CpuId,
}

impl PageState {
    /// Packs into the word of the page-state table: kind 3 bits, order 4, type 3, CPU 16.
    #[must_use]
    pub const fn pack(self) -> u32 {
        self.kind as u32
            | (self.order as u32) << 3
            | (self.migratetype as u32) << 7
            | (self.last_cpu.0 as u32) << 10
    }

    /// Unpacks a word of the page-state table.
    #[must_use]
    pub const fn unpack(word: u32) -> PageState {
        PageState {
            kind: match word & 7 {
                0 => PageKind::Untouched,
                1 => PageKind::Allocated,
                2 => PageKind::Pcp,
                _ => PageKind::Free,
            },
            order: (word >> 3 & 15) as u8,
            migratetype: MigrateType::of(word >> 7 & 7),
            last_cpu: CpuId((word >> 10 & 0xffff) as u16),
        }
    }
}

/// Misuse by the embedder, found before anything was changed. `order` is the one given.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Freed while it was free or in a per-CPU cache.
    DoubleFree { pfn: Pfn, order: u8, state: PageState },
    /// Freed with another order than it was allocated with.
    WrongOrder { pfn: Pfn, order: u8, state: PageState },
    /// Freed although no block that begins here was ever handed out.
    NeverAllocated { pfn: Pfn, order: u8 },
    /// Outside every zone of this allocator, or not aligned to its order.
    ForeignPage { pfn: Pfn, order: u8 },
    /// A list held a page that its record says is elsewhere: two CPUs freed it at the same time.
    ListMismatch { pfn: Pfn, state: PageState },
    /// An order above the largest.
    OrderTooLarge { order: u8 },
}

impl core::fmt::Display for Bug {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Bug::DoubleFree { pfn, order, state } => write!(
                f,
                "double free of pfn {:#x} (order {order}): it is {:?} with order {} since CPU {} \
                 touched it last",
                pfn.0, state.kind, state.order, state.last_cpu.0
            ),
            Bug::WrongOrder { pfn, order, state } => write!(
                f,
                "pfn {:#x} freed with order {order}, but CPU {} allocated it with order {}",
                pfn.0, state.last_cpu.0, state.order
            ),
            Bug::NeverAllocated { pfn, order } => {
                write!(f, "pfn {:#x} (order {order}) freed, but it was never allocated", pfn.0)
            }
            Bug::ForeignPage { pfn, order } => write!(
                f,
                "pfn {:#x} (order {order}) is in no zone of this allocator or is not aligned",
                pfn.0
            ),
            Bug::ListMismatch { pfn, state } => write!(
                f,
                "pfn {:#x} is on a list but its record says {:?} (CPU {}): freed twice at once",
                pfn.0, state.kind, state.last_cpu.0
            ),
            Bug::OrderTooLarge { order } => write!(f, "order {order} is above the largest"),
        }
    }
}
