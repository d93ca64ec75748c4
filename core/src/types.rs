//! The nouns: page frames, orders, migratetypes, zones, nodes, CPUs. Plain values, no behaviour
//! beyond conversion, so that no signature of the crate carries a bare integer of unclear unit.

/// A page frame number: physical address divided by the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pfn(pub u64);

/// A CPU, numbered from 0. Only a hint where it comes from [`crate::Platform::cpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuId(pub u16);

/// A memory node, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u8);

/// A zone, numbered over all nodes in the order of [`crate::Geometry::zones`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneId(pub u8);

/// Highest number of nodes that an allocator can have.
pub const NODES_MAX: usize = 16;
/// Highest number of zones over all nodes.
pub const ZONES_MAX: usize = 64;
/// Number of free areas at the most: orders 0 to 10 (Linux `MAX_PAGE_ORDER`).
pub const ORDERS_MAX: usize = 11;
/// Orders above this one are costly and are not cached per CPU (Linux
/// `PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY_ORDER: u8 = 3;

/// What a page may be used for, and what the blocks that hold such pages are kept for.
///
/// The numbers are those of Linux with CMA configured; see the mm/page_alloc behaviour of 4.14
/// to 6.19. A kernel without CMA prints Isolate as its fifth type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MigrateType {
    /// Never moves: kernel data.
    Unmovable = 0,
    /// Can be migrated: user memory.
    Movable = 1,
    /// Can be reclaimed but not moved: slab caches.
    Reclaimable = 2,
    /// Reserve for high-order requests that cannot wait.
    HighAtomic = 3,
    /// Lent to movable requests until a driver claims it.
    Cma = 4,
    /// Taken out of service.
    Isolate = 5,
}

/// Number of migratetypes.
pub const TYPES: usize = 6;
/// Number of types that per-CPU lists hold: Unmovable, Movable, Reclaimable.
pub const PCP_TYPES: u8 = 3;

impl MigrateType {
    /// Every type, by number.
    pub const ALL: [MigrateType; TYPES] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Cma,
        MigrateType::Isolate,
    ];

    /// The type of a number below [`TYPES`]; anything else reads as Isolate.
    #[must_use]
    pub const fn of(number: u32) -> MigrateType {
        match number {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            2 => MigrateType::Reclaimable,
            3 => MigrateType::HighAtomic,
            4 => MigrateType::Cma,
            _ => MigrateType::Isolate,
        }
    }

    /// True for the types whose pageblocks may merge across a type border.
    #[must_use]
    pub const fn is_mergeable(self) -> bool {
        (self as u8) < PCP_TYPES
    }

    /// The list that a page of this type waits on in a per-CPU cache; `None` bypasses it.
    #[must_use]
    pub const fn pcp_type(self) -> Option<u8> {
        match self {
            MigrateType::Isolate => None,
            MigrateType::HighAtomic | MigrateType::Cma => Some(MigrateType::Movable as u8),
            plain => Some(plain as u8),
        }
    }

    /// Name as `/proc/pagetypeinfo` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MigrateType::Unmovable => "Unmovable",
            MigrateType::Movable => "Movable",
            MigrateType::Reclaimable => "Reclaimable",
            MigrateType::HighAtomic => "HighAtomic",
            MigrateType::Cma => "CMA",
            MigrateType::Isolate => "Isolate",
        }
    }
}

/// The kinds of zone, lowest first, as x86-64 Linux numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ZoneKind {
    /// The first 16 MiB.
    Dma = 0,
    /// Up to 4 GiB.
    Dma32 = 1,
    /// Ordinary memory.
    Normal = 2,
    /// Holds movable pages only.
    Movable = 3,
}

impl ZoneKind {
    /// Every kind, lowest first.
    pub const ALL: [ZoneKind; 4] =
        [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable];

    /// Name as `/proc/zoneinfo` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ZoneKind::Dma => "DMA",
            ZoneKind::Dma32 => "DMA32",
            ZoneKind::Normal => "Normal",
            ZoneKind::Movable => "Movable",
        }
    }
}

/// The four marks of a zone. A pass of the page hunt demands that a zone stays above one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mark {
    /// Below it only privileged requests are served.
    Min = 0,
    /// Below it background reclaim is woken.
    Low = 1,
    /// Background reclaim stops here.
    High = 2,
    /// Where background reclaim stops on a memory tier that receives promotions.
    Promo = 3,
}

/// Why an allocation gave no page. The only errors the core knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// The ladder of the request was climbed to its end.
    NoMemory,
    /// The request may not wait, and every quick way was closed.
    WouldBlock,
}

impl core::fmt::Display for AllocError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            AllocError::NoMemory => "no memory of this order, zone and node is left",
            AllocError::WouldBlock => "no page without waiting, and the request may not wait",
        })
    }
}

impl core::error::Error for AllocError {}
