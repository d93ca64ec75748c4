//! Policies are data: every way in which one release of Linux differs from another, as plain
//! values. No policy is a type, a feature or a fork of the code.
//!
//! A [`Policy`] only holds numbers and choices. What they mean is written where they are read:
//! `sizing.rs` (how much a CPU keeps), `pcp.rs` (how a cache is emptied), `fallback.rs` (who
//! may take whose memory), `stat.rs` (how counters are kept). Presets are in `preset.rs`,
//! reading and printing by key in `keys.rs`.

/// A choice among named values, so that a policy can be read, printed and listed by text.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every value with its name, in order of appearance in Linux.
    const NAMED: &'static [(Self, &'static str)];

    /// The name of this value.
    fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(value, _)| *value == self).map_or("?", |(_, name)| name)
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }
        impl Choice for $name {
            const NAMED: &'static [(Self, &'static str)] = &[$(($name::$variant, $text)),+];
        }
    };
}

choice! {
    /// How many pages a CPU may keep of a zone.
    PcpHigh {
        /// Six batches (up to 5.13).
        SixBatches = "6*batch",
        /// The low mark shared by the CPUs of the node (5.14 to 6.6).
        LowMark = "low/cpus",
        /// Moves between that value and an eighth of the zone (6.7 on).
        Auto = "auto",
    }
}
choice! {
    /// Which orders have per-CPU lists.
    PcpLists {
        /// Order 0, three types (up to 5.13).
        Three = "3",
        /// Orders 0 to 3 and one list of whole pageblocks (5.14 to 6.9).
        Thirteen = "13",
        /// Orders 0 to 3 and two lists of whole pageblocks, movable apart (6.10 on).
        Fourteen = "14",
    }
}

impl PcpLists {
    /// True for orders that per-CPU lists hold; blocks of the others are freed straight to the
    /// free lists.
    #[must_use]
    pub fn hold(self, order: u8, pageblock_order: u8) -> bool {
        match self {
            PcpLists::Three => order == 0,
            PcpLists::Thirteen | PcpLists::Fourteen => {
                order <= crate::types::COSTLY_ORDER || order == pageblock_order
            }
        }
    }
}
choice! {
    /// How the size of a refill grows.
    AllocScale {
        /// Always one batch (up to 6.6).
        None = "none",
        /// Doubles with each refill in a row (6.7 on).
        Factor = "factor",
    }
}
choice! {
    /// How the size of a bulk free grows.
    FreeScale {
        /// Always one batch (up to 5.13).
        None = "none",
        /// Doubles with each bulk free in a row (5.14 to 6.6).
        Factor = "factor",
        /// Counts the pages freed in a row (6.7 on).
        Count = "count",
    }
}
choice! {
    /// What a run of high-order frees does to the cache.
    FreeHigh {
        /// Nothing (up to 5.17).
        Never = "never",
        /// Frees everything once above `free_high_limit` (5.18 to 6.6; f26b3fa04611).
        All = "all",
        /// Frees at most `batch << scale_max` pages (6.7 on).
        Capped = "capped",
    }
}
choice! {
    /// The limit that a run of high-order frees leaves to the cache under [`FreeHigh::All`].
    FreeHighLimit {
        /// Nothing stays (as merged in 5.18).
        Zero = "0",
        /// One batch (proposed 2022-04-29, not merged).
        Batch = "batch",
        /// Four batches, or high if that is less (proposed 2022-04-29, not merged).
        FourBatches = "4*batch",
    }
}
choice! {
    /// How many pages freed in a row make a run under [`FreeHigh::Capped`].
    FreeHighRun {
        /// One batch (6.7 to 6.15).
        Batch = "batch",
        /// One batch and half the lowest limit (6.16 on; c544a952ba61).
        BatchAndHalfMin = "batch+high_min/2",
    }
}
choice! {
    /// In which order a bulk free empties the lists.
    BulkOrder {
        /// Round and round, more from a list the more empty ones were met (up to 5.17).
        RoundRobin = "round-robin",
        /// List after list, from the one just freed to (5.18 on; 8b10b465d0e1).
        SinglePass = "single-pass",
    }
}
choice! {
    /// Where the pages of a bulk free are chosen.
    Collect {
        /// Inside the zone lock (up to 4.16, and 5.18 on).
        UnderLock = "under-lock",
        /// Before the zone lock is taken (4.17 to 5.17).
        OutsideLock = "outside-lock",
    }
}
choice! {
    /// Whether a bulk free prefetches the record of each page's buddy.
    Prefetch {
        /// No.
        None = "none",
        /// To every cache level.
        T0 = "t0",
        /// To the second level.
        T2 = "t2",
        /// Non-temporal: what the kernel's `prefetch` compiled to (4.17 to 5.17).
        Nta = "nta",
    }
}
choice! {
    /// How long the zone lock is held at a stretch.
    LockChunk {
        /// For the whole request.
        Whole = "whole",
        /// `batch << scale_max` pages.
        Scaled = "scaled",
        /// One batch of pages.
        Batch = "batch",
    }
}
choice! {
    /// What guards a per-CPU cache.
    PcpLock {
        /// Interrupts are off; nobody else reaches it (up to 5.13).
        IrqOff = "irq-off",
        /// A local lock, the same for this purpose (5.14 to 5.19).
        LocalLock = "local-lock",
        /// A spin lock entered by try-lock; drained from afar (6.0 on).
        Spin = "spin",
    }
}
choice! {
    /// Whether the zone lock shares a cache line with the free areas. Read by modelled machines.
    LockLine {
        /// Next to them (up to 4.0).
        Shared = "shared",
        /// On a line of its own (4.1 on; a368ab67aa55).
        Own = "own",
    }
}
choice! {
    /// How CPUs wait for a spin lock. Read by modelled machines.
    SpinLock {
        /// Each on a word of its own; the lock is handed to the first (x86, 4.2 on).
        Queued = "queued",
        /// All on the lock itself, which says whose number is next (x86, 2.6.25 to 4.1).
        Ticket = "ticket",
    }
}
choice! {
    /// When freed blocks join their buddies.
    Merge {
        /// At once.
        Eager = "eager",
        /// Single pages stay apart until a larger block is wanted and none is there; larger
        /// blocks join at once (RFC v4 of 2018-10-17, patch 2).
        Deferred = "deferred",
    }
}
choice! {
    /// How free blocks are kept.
    Storage {
        /// Linked lists threaded through the page records.
        Lists = "lists",
    }
}
choice! {
    /// Who may take whose memory when the lists of a type are empty.
    Fallback {
        /// Largest block first; moves free pages even where the block keeps its type (to 6.9).
        A = "a",
        /// As A, but lists and block types never disagree (6.10).
        B = "b",
        /// As B, but never a single page out of the largest block (6.14).
        C = "c",
        /// Claim, then steal, remembered over one refill (6.15 and stable 6.12, 6.14).
        D = "d",
    }
}
choice! {
    /// Whether types are kept apart at the price of a lower zone.
    NoFragment {
        /// No (up to 4.20).
        Off = "off",
        /// A lower zone of the node first (5.0 on).
        On = "on",
        /// Until reclaim and compaction were tried (`vm.defrag_mode=1`, 6.15 on).
        Strict = "strict",
    }
}
choice! {
    /// Which pages of the high-atomic reserve a watermark test leaves out.
    HighAtomicDiscount {
        /// All that are reserved (up to 6.11).
        Reserved = "reserved",
        /// Only those that are free.
        Free = "free",
    }
}
choice! {
    /// How NUMA counters are kept.
    NumaStat {
        /// Not at all (`vm.numa_stat=0`, or compiled out).
        Off = "off",
        /// As ordinary zone counters with their threshold (up to 4.13).
        Ordinary = "ordinary",
        /// Per-CPU differences spilled above `numa_threshold` (4.14 to 5.13).
        Threshold = "threshold",
        /// Per-CPU events, summed by readers (5.14 on; f19298b9516c).
        Event = "event",
    }
}

/// Largest threshold of [`NumaStat::Threshold`]: a 16-bit difference less two (4.14).
pub const NUMA_THRESHOLD_MAX: u32 = 65533;

/// Every switch. Start from a preset and change what you study; [`Policy::check`] refuses pairs
/// that no kernel could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Upper bound of a batch before rounding, in pages: 128 (up to 4.18) or 256.
    pub batch_cap_pages: u32,
    /// Batch in pages; 0 computes it from the zone and the cap.
    pub batch_pages: u32,
    /// How many pages a CPU may keep.
    pub pcp_high: PcpHigh,
    /// The same as a number of pages; 0 computes it.
    pub pcp_high_pages: u32,
    /// `vm.percpu_pagelist_high_fraction` (before 5.14: `percpu_pagelist_fraction`); 0 is off.
    pub high_fraction: u32,
    /// Which orders are cached.
    pub pcp_lists: PcpLists,
    /// Growth of refills.
    pub alloc_scale: AllocScale,
    /// Growth of bulk frees.
    pub free_scale: FreeScale,
    /// Doublings at the most (`CONFIG_PCP_BATCH_SCALE_MAX`).
    pub scale_max: u32,
    /// Whether `scale_max` bounds [`FreeScale::Factor`] (6.7 and stable; unbounded before).
    pub factor_bounded: bool,
    /// Runs of high-order frees.
    pub free_high: FreeHigh,
    /// Limit under [`FreeHigh::All`].
    pub free_high_limit: FreeHighLimit,
    /// Length of a run under [`FreeHigh::Capped`].
    pub free_high_run: FreeHighRun,
    /// Order of emptying.
    pub bulk_order: BulkOrder,
    /// Where pages are chosen.
    pub collect: Collect,
    /// Prefetch of buddies, for the first batch of a bulk free.
    pub prefetch: Prefetch,
    /// Zone-lock hold of a bulk free.
    pub free_chunk: LockChunk,
    /// Zone-lock hold of drains and decay.
    pub drain_chunk: LockChunk,
    /// Guard of a per-CPU cache.
    pub pcp_lock: PcpLock,
    /// Layout of the zone lock.
    pub zone_lock_line: LockLine,
    /// Waiting for spin locks.
    pub spinlock: SpinLock,
    /// Merging.
    pub merge: Merge,
    /// Storage of free blocks.
    pub storage: Storage,
    /// Fallback between types.
    pub fallback: Fallback,
    /// Keeping types apart.
    pub nofragment: NoFragment,
    /// `vm.watermark_boost_factor` in 1/10000 of the high mark; 0 is off.
    pub boost_factor: u32,
    /// Whether high-atomic reserves are made.
    pub highatomic: bool,
    /// Which of their pages a watermark test leaves out.
    pub highatomic_discount: HighAtomicDiscount,
    /// NUMA counters.
    pub numa_stat: NumaStat,
    /// Threshold of [`NumaStat::Threshold`], 1 to [`NUMA_THRESHOLD_MAX`].
    pub numa_threshold: u32,
}

/// Two settings that cannot go together, or one that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// First key.
    pub key: &'static str,
    /// Second key; the same as `key` when one alone is wrong.
    pub other: &'static str,
    /// Why not.
    pub why: &'static str,
}

impl core::fmt::Display for Conflict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.key == self.other {
            write!(f, "policy key '{}': {}", self.key, self.why)
        } else {
            write!(f, "policy keys '{}' and '{}': {}", self.key, self.other, self.why)
        }
    }
}

impl core::error::Error for Conflict {}

/// A rule that no policy may break: whether one does, the two keys, and why not.
type Rule = (fn(&Policy) -> bool, &'static str, &'static str, &'static str);

/// Settings that contradict each other, and ranges (one key named twice).
const RULES: &[Rule] = &[
    (
        |p| p.free_high == FreeHigh::All && p.free_scale != FreeScale::Factor,
        "free_high",
        "free_scale",
        "'all' watches the free factor, so free_scale must be 'factor'",
    ),
    (
        |p| p.free_high == FreeHigh::Capped && p.free_scale != FreeScale::Count,
        "free_high",
        "free_scale",
        "'capped' watches the free count, so free_scale must be 'count'",
    ),
    (
        |p| p.free_high != FreeHigh::Never && p.pcp_lists == PcpLists::Three,
        "free_high",
        "pcp_lists",
        "with 3 lists no high order is ever freed to a per-CPU list",
    ),
    (
        |p| p.prefetch != Prefetch::None && p.collect != Collect::OutsideLock,
        "prefetch",
        "collect",
        "buddies are prefetched while pages are chosen outside the zone lock",
    ),
    (
        |p| p.prefetch != Prefetch::None && p.merge == Merge::Deferred,
        "prefetch",
        "merge",
        "a page that does not join its buddy needs no record of it",
    ),
    (
        |p| p.collect == Collect::OutsideLock && p.bulk_order != BulkOrder::RoundRobin,
        "collect",
        "bulk_order",
        "choosing outside the lock goes with 'round-robin'; the single pass is one pass",
    ),
    (
        |p| p.free_chunk != LockChunk::Whole && p.pcp_lock != PcpLock::Spin,
        "free_chunk",
        "pcp_lock",
        "a bulk free can only let go between chunks under a pcp spin lock",
    ),
    (
        |p| p.nofragment == NoFragment::Strict && p.fallback != Fallback::D,
        "nofragment",
        "fallback",
        "'strict' (defrag_mode) exists only with the claim and steal modes of 'd'",
    ),
    (
        |p| p.free_scale == FreeScale::Count && p.pcp_high == PcpHigh::SixBatches,
        "free_scale",
        "pcp_high",
        "a free count needs a limit that is larger than a few batches",
    ),
    (
        |p| p.pcp_high == PcpHigh::Auto && p.pcp_high_pages != 0,
        "pcp_high",
        "pcp_high_pages",
        "a fixed number of pages leaves nothing to tune; set pcp_high=low/cpus with it",
    ),
    (
        |p| !(1..=NUMA_THRESHOLD_MAX).contains(&p.numa_threshold),
        "numa_threshold",
        "numa_threshold",
        "must lie in 1..=65533 (a 16-bit difference less two)",
    ),
    (
        |p| p.batch_cap_pages < 4 || p.batch_cap_pages > 1 << 16,
        "batch_cap_pages",
        "batch_cap_pages",
        "must lie in 4..=65536 pages",
    ),
    (
        |p| p.batch_pages > 1 << 14,
        "batch_pages",
        "batch_pages",
        "must be at most 16384 pages (0 computes it)",
    ),
    (|p| p.scale_max > 6, "scale_max", "scale_max", "must lie in 0..=6"),
    (
        |p| p.high_fraction != 0 && p.high_fraction < 8,
        "high_fraction",
        "high_fraction",
        "must be 0 (off) or at least 8, as the sysctl demands",
    ),
];

impl Policy {
    /// True where a pageblock's type and the lists its free pages are on never disagree.
    #[must_use]
    pub fn has_hygiene(&self) -> bool {
        self.fallback != Fallback::A
    }

    /// Refuses settings that contradict each other.
    ///
    /// # Errors
    /// The first pair found, by the names of its keys.
    pub fn check(&self) -> Result<(), Conflict> {
        match RULES.iter().find(|rule| (rule.0)(self)) {
            None => Ok(()),
            Some(&(_, key, other, why)) => Err(Conflict { key, other, why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PcpLists;

    #[test]
    fn large_orders_are_not_held_but_whole_pageblocks_are() {
        let held = |lists: PcpLists, orders: &[u8]| {
            (0..=10).for_each(|order| assert_eq!(lists.hold(order, 9), orders.contains(&order)));
        };
        held(PcpLists::Three, &[0]);
        held(PcpLists::Thirteen, &[0, 1, 2, 3, 9]);
        held(PcpLists::Fourteen, &[0, 1, 2, 3, 9]);
    }
}
