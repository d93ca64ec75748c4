//! The numbers of a zone that follow from its size: marks, reserves, batch, limits, thresholds.
//!
//! Pure functions; formulas of mm/page_alloc and mm/vmstat behaviour as of 6.1 and 6.12, checked
//! against a running 6.18.44 (the vectors are in the tests).

use crate::policy::{PcpHigh, Policy};

/// Marks of a zone in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Privileged requests only below it.
    pub min: u32,
    /// Background reclaim is woken below it.
    pub low: u32,
    /// Background reclaim stops at it.
    pub high: u32,
    /// The same on a tier that receives promotions.
    pub promo: u32,
}

/// Integer square root.
#[must_use]
pub fn isqrt(value: u64) -> u64 {
    value.isqrt()
}

/// `vm.min_free_kbytes` before anything raises it: 128 to 262144 kB.
#[must_use]
pub fn min_free_kbytes(lowmem_kb: u64) -> u64 {
    isqrt(lowmem_kb * 16).clamp(128, 262_144)
}

/// Marks of a zone that holds `managed` of `lowmem_managed` pages.
///
/// `pages_min` is `min_free_kbytes` in pages. A Movable zone gets a small min of its own.
#[must_use]
pub fn marks(
    pages_min: u64,
    managed: u64,
    lowmem_managed: u64,
    scale_factor: u64,
    movable_zone: bool,
) -> Marks {
    let share = pages_min * managed / lowmem_managed.max(1);
    let min = if movable_zone { (managed / 1024).clamp(32, 128) } else { share };
    let step = (share / 4).max(managed * scale_factor / 10_000);
    let at = |steps: u64| (min + steps * step).min(u64::from(u32::MAX)) as u32;
    Marks { min: at(0), low: at(1), high: at(2), promo: at(3) }
}

/// Pages of a zone that a request for a higher zone may not use: pages of the zones above it up
/// to the one requested, divided by the ratio of this zone (0: no reserve).
#[must_use]
pub fn lowmem_reserve(managed_above: u64, ratio: u32) -> u64 {
    if ratio == 0 { 0 } else { managed_above / u64::from(ratio) }
}

/// Batch of a zone: a quarter of its thousandth part, capped, rounded to 2^n - 1 so that batches
/// do not alias in caches.
#[must_use]
pub fn batch(policy: &Policy, managed: u64) -> u32 {
    if policy.batch_pages != 0 {
        return policy.batch_pages;
    }
    let quarter = ((managed >> 10).min(u64::from(policy.batch_cap_pages)) / 4).max(1) as u32;
    let rounded = quarter + quarter / 2;
    ((1 << rounded.ilog2()) - 1).max(1)
}

/// Lowest and highest limit of a per-CPU cache, pages.
///
/// `low_mark` without boost; `cpus` is the number of online CPUs local to the node (all online
/// ones if it has none), at least 1.
#[must_use]
pub fn pcp_limits(policy: &Policy, managed: u64, low_mark: u32, cpus: u32) -> (u32, u32) {
    let batch = batch(policy, managed);
    let cpus = u64::from(cpus.max(1));
    let at_least = |pages: u64| (pages as u32).max(4 * batch);
    if policy.pcp_high_pages != 0 {
        return (policy.pcp_high_pages, policy.pcp_high_pages);
    }
    let share = managed.checked_div(u64::from(policy.high_fraction));
    if policy.pcp_high == PcpHigh::SixBatches {
        let high = share.map_or(6 * batch, |pages| pages as u32);
        return (high, high);
    }
    if let Some(pages) = share {
        let fixed = at_least(pages / cpus);
        return (fixed, fixed);
    }
    let min = at_least(u64::from(low_mark) / cpus);
    match policy.pcp_high {
        PcpHigh::Auto => (min, at_least(managed / 8 / cpus)),
        _ => (min, min),
    }
}

/// Batch once `percpu_pagelist_fraction` was set before 5.14: a quarter of high, 1 to 96.
#[must_use]
pub fn batch_with_fraction(policy: &Policy, managed: u64) -> u32 {
    match (policy.pcp_high, policy.high_fraction) {
        (PcpHigh::SixBatches, fraction) if fraction != 0 => {
            ((managed / u64::from(fraction) / 4) as u32).clamp(1, 96)
        }
        _ => batch(policy, managed),
    }
}

const fn fls(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Threshold of the ordinary zone counters: how far a CPU's difference may drift.
#[must_use]
pub fn stat_threshold(online_cpus: u32, managed: u64) -> u32 {
    let units = managed >> 15; // 128 MiB
    (2 * fls(u64::from(online_cpus)) * (1 + fls(units))).min(125)
}

/// Below this cheap count a watermark test must sum every CPU's difference; 0 is never.
#[must_use]
pub fn drift_mark(marks: Marks, online_cpus: u32, threshold: u32) -> u32 {
    let drift = online_cpus * threshold;
    if drift > marks.low - marks.min { marks.high + drift } else { 0 }
}

/// Threshold while background reclaim is awake, for zones with a drift mark.
#[must_use]
pub fn pressure_threshold(marks: Marks, online_cpus: u32) -> u32 {
    ((marks.low - marks.min) / online_cpus.max(1)).clamp(1, 125)
}

/// `extfrag_index` in thousandths: -1000 if a block of `order` is free; near 0 memory is
/// lacking, near 1000 it is in pieces. `free_blocks[o]` counts free blocks of each order.
#[must_use]
pub fn extfrag_index(free_blocks: &[u64], order: u8) -> i64 {
    let blocks: u64 = free_blocks.iter().sum();
    if suitable_blocks(free_blocks, order) > 0 {
        return -1000;
    }
    if blocks == 0 {
        return 0;
    }
    let requested = 1u64 << order;
    1000 - ((1000 + free_pages(free_blocks) * 1000 / requested) / blocks) as i64
}

/// `unusable_index` in thousandths: the part of free memory that cannot serve `order`.
#[must_use]
pub fn unusable_index(free_blocks: &[u64], order: u8) -> u64 {
    let free = free_pages(free_blocks);
    if free == 0 {
        return 1000;
    }
    let usable = suitable_blocks(free_blocks, order) << order;
    (free - usable) * 1000 / free
}

/// Free pages behind counts of free blocks.
#[must_use]
pub fn free_pages(free_blocks: &[u64]) -> u64 {
    free_blocks.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
}

fn suitable_blocks(free_blocks: &[u64], order: u8) -> u64 {
    let larger = free_blocks.iter().enumerate().skip(usize::from(order));
    larger.map(|(o, blocks)| blocks << (o - usize::from(order))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Release;

    const MIN_FREE_PAGES: u64 = 67_584 / 4;
    const LOWMEM: u64 = 3840 + 772_917 + 1_966_080;

    #[test]
    fn marks_of_a_running_6_18() {
        let at = |managed, movable| marks(MIN_FREE_PAGES, managed, LOWMEM, 10, movable);
        let quad = |m: Marks| (m.min, m.low, m.high, m.promo);
        assert_eq!(quad(at(3840, false)), (23, 28, 33, 38));
        assert_eq!(quad(at(772_917, false)), (4761, 5951, 7141, 8331));
        assert_eq!(quad(at(1_966_080, false)), (12_111, 15_138, 18_165, 21_192));
        assert_eq!(quad(at(0, true)), (32, 32, 32, 32));
    }

    #[test]
    fn protection_of_a_running_6_18() {
        assert_eq!(lowmem_reserve(772_917, 256), 3019);
        assert_eq!(lowmem_reserve(772_917 + 1_966_080, 256), 10_699);
        assert_eq!(lowmem_reserve(1_966_080, 256), 7680);
    }

    #[test]
    fn batch_and_limits_of_a_running_6_18() {
        let policy = Policy::linux(Release::new(6, 18));
        let at = |managed, low| (batch(&policy, managed), pcp_limits(&policy, managed, low, 2));
        assert_eq!(at(3840, 28), (1, (14, 240)));
        assert_eq!(at(772_917, 5951), (63, (2975, 48_307)));
        assert_eq!(at(1_966_080, 15_138), (63, (7569, 122_880)));
    }

    #[test]
    fn batch_table_of_both_caps() {
        let mib = |megabytes: u64| megabytes * 256;
        for (release, expected) in
            [((4, 18), [1, 3, 7, 15, 31, 31]), ((4, 19), [1, 3, 7, 15, 31, 63])]
        {
            let policy = Policy::linux(Release::new(release.0, release.1));
            let got = [16, 64, 128, 256, 512, 1024].map(|size| batch(&policy, mib(size)));
            assert_eq!(got, expected, "{release:?}");
        }
    }

    #[test]
    fn thresholds_by_cpus_and_size() {
        let at = |cpus, managed| stat_threshold(cpus, managed);
        assert_eq!([at(2, 3840), at(2, 772_917), at(2, 1_966_080)], [4, 24, 28]);
        let gib = 1 << 18;
        assert_eq!([at(112, gib), at(112, 4 * gib), at(112, 16 * gib)], [70, 98, 125]);
        assert_eq!(at(112, 64 * gib), 125);
    }

    #[test]
    fn indices_of_a_running_6_18() {
        let normal = [4959, 3518, 5516, 3033, 2801, 2652, 2014, 1465, 907, 10, 22];
        let unusable: [u64; 11] = core::array::from_fn(|o| unusable_index(&normal, o as u8));
        assert_eq!(unusable, [0, 6, 15, 44, 76, 134, 245, 414, 660, 963, 970]);
        let dma = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3];
        assert_eq!([unusable_index(&dma, 9), unusable_index(&dma, 10)], [66, 200]);
    }

    #[test]
    fn extfrag_of_memory_in_pieces() {
        let only = |order: usize, blocks| {
            let mut counts = [0; 11];
            counts[order] = blocks;
            counts
        };
        assert_eq!(extfrag_index(&only(0, 1000), 9), 998);
        assert_eq!(extfrag_index(&only(0, 100_000), 4), 938);
        assert_eq!(extfrag_index(&only(0, 10), 9), 899);
        assert_eq!(extfrag_index(&only(3, 4000), 9), 985);
        assert_eq!(extfrag_index(&only(9, 1), 4), -1000);
        assert_eq!(extfrag_index(&[0; 11], 0), 0);
    }

    #[test]
    fn the_fraction_of_old_kernels_bounds_the_batch() {
        let mut policy = Policy::linux(Release::new(4, 19));
        policy.high_fraction = 8;
        assert_eq!(pcp_limits(&policy, 1 << 20, 0, 4), (1 << 17, 1 << 17));
        assert_eq!(batch_with_fraction(&policy, 1 << 20), 96);
    }
}
