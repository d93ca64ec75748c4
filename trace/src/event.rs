//! The one decoded form of a kernel event, whatever file it came from.

/// One event of a recording, 40 bytes or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time stamp of the recording's own clock, nanoseconds.
    pub time_ns: u64,
    /// CPU that emitted the event.
    pub cpu: u16,
    /// Task that was running.
    pub pid: i32,
    /// Where the CPU was: see [`Context`].
    pub context: Context,
    /// What happened.
    pub kind: Kind,
}

/// The interrupt state printed by ftrace as `dNh2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context(pub u8);

impl Context {
    /// Interrupts were off (`d`).
    pub const IRQS_OFF: u8 = 1;
    /// Inside a hard interrupt (`h` or `H`).
    pub const HARDIRQ: u8 = 2;
    /// Inside a soft interrupt (`s` or `H`).
    pub const SOFTIRQ: u8 = 4;
    /// A non-maskable interrupt (`z` or `Z`).
    pub const NMI: u8 = 8;
    /// Soft interrupts were off (`b` or `D`).
    pub const BH_OFF: u8 = 16;
    /// The task was to be rescheduled (`N`, `n`, `p`, …).
    pub const NEED_RESCHED: u8 = 32;
    /// True in a hard or soft interrupt or an NMI: not the task that `pid` names.
    pub fn in_interrupt(self) -> bool {
        self.0 & (Self::HARDIRQ | Self::SOFTIRQ | Self::NMI) != 0
    }
}

/// Page frame number that a failed allocation reports.
pub const PFN_NONE: u64 = u64::MAX;

/// What happened. Field meanings: `kmem:*`, `lock:*`, `compaction:*` tracepoints of Linux.
///
/// `pfn`, `order`, `migratetype` and the like are numbers as the kernel prints them; migratetypes
/// are numbered as in 4.x and later: 0 unmovable, 1 movable, 2 reclaimable.
#[expect(missing_docs, reason = "fields carry the names that the kernel prints")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `mm_page_alloc`: one allocator call ended; `pfn` is [`PFN_NONE`] when it failed.
    PageAlloc { pfn: u64, order: u8, migratetype: u8, gfp: Gfp },
    /// `mm_page_free`: a free began.
    PageFree { pfn: u64, order: u8 },
    /// `mm_page_free_batched`: a page of a batch of frees reached the per-CPU list.
    PageFreeBatched { pfn: u64 },
    /// `mm_page_alloc_zone_locked`: one block left the buddy lists under the zone lock.
    ZoneLocked { pfn: u64, order: u8, migratetype: u8, percpu_refill: bool },
    /// `mm_page_pcpu_drain`: one block went from a per-CPU list to the buddy lists.
    PcpuDrain { pfn: u64, order: u8, migratetype: u8 },
    /// `mm_page_alloc_extfrag`: an allocation fell back to another migratetype.
    Extfrag {
        pfn: u64,
        alloc_order: u8,
        fallback_order: u8,
        alloc_migratetype: u8,
        fallback_migratetype: u8,
        change_ownership: bool,
    },
    /// `lock:contention_begin`; `flags` as the kernel's LCB_F_* bits (1 = SPIN, 2 = READ, …).
    ContentionBegin { lock: u64, flags: u32 },
    /// `lock:contention_end`.
    ContentionEnd { lock: u64, ret: i32 },
    /// Any `compaction:*` event; `id` indexes [`COMPACTION_EVENTS`]. The two values are, by event:
    /// begin: first and last page of the zone; end: first page of the zone, result; finished,
    /// suitable: [`compaction_place`], result; deferred, `defer_*`: place, `defer_shift << 32 |
    /// considered`; `isolate_*`: pages scanned, taken; migratepages: pages migrated, failed;
    /// `try_to_compact_pages`: order, priority; `kcompactd_*`: place, 0.
    Compaction { id: u8, a: u64, b: u64 },
    /// A `vmscan:*` event of [`RECLAIM_EVENTS`], which `id` indexes. `node` is 0 where the event
    /// names none; `value` is the order asked for, of `direct_reclaim_end` the pages reclaimed,
    /// and 0 where the event has neither.
    Reclaim { id: u8, node: u16, value: u64 },
    /// An event that Pageyard does not interpret.
    Other,
}

impl Kind {
    /// The kernel's name of the event; `other` for [`Kind::Other`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::PageAlloc { .. } => "mm_page_alloc",
            Kind::PageFree { .. } => "mm_page_free",
            Kind::PageFreeBatched { .. } => "mm_page_free_batched",
            Kind::ZoneLocked { .. } => "mm_page_alloc_zone_locked",
            Kind::PcpuDrain { .. } => "mm_page_pcpu_drain",
            Kind::Extfrag { .. } => "mm_page_alloc_extfrag",
            Kind::ContentionBegin { .. } => "contention_begin",
            Kind::ContentionEnd { .. } => "contention_end",
            Kind::Compaction { id, .. } => {
                COMPACTION_EVENTS.get(usize::from(*id)).copied().unwrap_or("mm_compaction_?")
            }
            Kind::Reclaim { id, .. } => {
                RECLAIM_EVENTS.get(usize::from(*id)).copied().unwrap_or("mm_vmscan_?")
            }
            Kind::Other => "other",
        }
    }
}

/// Names of the compaction events, by the `id` of [`Kind::Compaction`].
pub const COMPACTION_EVENTS: &[&str] = &[
    "mm_compaction_begin",
    "mm_compaction_end",
    "mm_compaction_finished",
    "mm_compaction_suitable",
    "mm_compaction_deferred",
    "mm_compaction_defer_compaction",
    "mm_compaction_defer_reset",
    "mm_compaction_isolate_migratepages",
    "mm_compaction_isolate_freepages",
    "mm_compaction_fast_isolate_freepages",
    "mm_compaction_migratepages",
    "mm_compaction_try_to_compact_pages",
    "mm_compaction_kcompactd_sleep",
    "mm_compaction_kcompactd_wake",
    "mm_compaction_wakeup_kcompactd",
];

/// Names of the reclaim events, by the `id` of [`Kind::Reclaim`].
pub const RECLAIM_EVENTS: &[&str] = &[
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_kswapd_sleep",
    "mm_vmscan_wakeup_kswapd",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
];

/// `id` of the event with which a round of background reclaim begins.
pub const KSWAPD_WAKE: u8 = 0;

/// Fields of a reclaim event that a [`Kind::Reclaim`] holds: whether it names a node, and the
/// name of its value, if it has one.
#[must_use]
pub fn reclaim_fields(id: u8) -> (bool, Option<&'static str>) {
    match RECLAIM_EVENTS.get(usize::from(id)).copied() {
        Some("mm_vmscan_kswapd_wake" | "mm_vmscan_wakeup_kswapd") => (true, Some("order")),
        Some("mm_vmscan_kswapd_sleep") => (true, None),
        Some("mm_vmscan_direct_reclaim_begin") => (false, Some("order")),
        Some("mm_vmscan_direct_reclaim_end") => (false, Some("nr_reclaimed")),
        _ => (false, None),
    }
}

/// Node, zone index and order of a compaction event as one number.
#[must_use]
pub const fn compaction_place(node: u64, zone: u64, order: u64) -> u64 {
    (node & 0xffff) << 16 | (zone & 0xff) << 8 | order & 0xff
}

/// A set of allocation flags by Pageyard's own numbering; bits that a kernel numbers differently
/// in each release are decoded by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gfp(pub u64);

const _: () = assert!(size_of::<Event>() <= 40, "a block of events must stay small");
