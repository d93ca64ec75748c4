//! How many pages a CPU keeps, takes and gives back.
//!
//! Pure arithmetic: no locks, no machine. `pcp.rs` calls it with the pcp lock held and acts on
//! the verdict; nothing else resizes a cache. Rules: free rules of 4.14 to 6.19 as the policy
//! switches name them; checked against the batch sizes of recorded kernels.

use crate::policy::{AllocScale, FreeHigh, FreeHighLimit, FreeHighRun, FreeScale, PcpHigh, Policy};
use crate::types::COSTLY_ORDER;

/// Limits and state of one per-CPU cache. Owned by its pcp lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcpSize {
    /// Pages held now, over all lists.
    pub count: u32,
    /// Unit of refills and bulk frees, pages.
    pub batch: u32,
    /// Current limit, pages; 0 until first used under [`PcpHigh::Auto`].
    pub high: u32,
    /// Lowest limit.
    pub high_min: u32,
    /// Highest limit.
    pub high_max: u32,
    /// Doublings of the refill size ([`AllocScale::Factor`]).
    pub alloc_factor: u32,
    /// Doublings of the bulk free ([`FreeScale::Factor`]) or pages freed in a row
    /// ([`FreeScale::Count`]).
    pub free_run: u32,
    /// The last free was of order 1 to 3.
    pub freed_high_order: bool,
    /// The CPU's slice of the last-level cache is so small that a batch must be exceeded before
    /// a run of high-order frees empties the cache (`FREE_HIGH_BATCH`).
    pub free_high_batch: bool,
}

/// What the zone is going through, as its flags say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Background reclaim of the node runs.
    pub reclaim_active: bool,
    /// A page hunt found the zone below its high mark.
    pub below_high: bool,
}

/// What a free decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeVerdict {
    /// Keep the page.
    Keep,
    /// Give this many pages back.
    Drain {
        /// Pages, at least 1.
        pages: u32,
        /// Because of a run of high-order frees.
        free_high: bool,
    },
}

impl FreeVerdict {
    fn drain(pages: u32, free_high: bool) -> FreeVerdict {
        match pages {
            0 => FreeVerdict::Keep,
            pages => FreeVerdict::Drain { pages, free_high },
        }
    }
}

/// `min` wins over `max` nowhere: a range whose ends cross yields `max`, as Linux' clamp does.
fn clamp(value: u32, min: u32, max: u32) -> u32 {
    value.max(min).min(max)
}

fn is_high_order(order: u8) -> bool {
    (1..=COSTLY_ORDER).contains(&order)
}

impl PcpSize {
    /// An allocation served from the cache ends a run of frees.
    pub fn on_alloc(&mut self) {
        self.free_run >>= 1;
    }

    /// Blocks of `order` that a refill asks of the zone, at least 1.
    pub fn refill_blocks(&mut self, policy: &Policy, order: u8, pressure: Pressure) -> u32 {
        let base = self.batch;
        if policy.pcp_high == PcpHigh::Auto {
            self.high = clamp(self.high, self.high_min, self.high_max);
        }
        let mut batch = base;
        if policy.alloc_scale == AllocScale::Factor {
            if self.high < base {
                return 1;
            }
            if order == 0 {
                batch = base << self.alloc_factor;
            }
            if self.high_min != self.high_max && !pressure.below_high {
                self.high = (self.high + batch).min(self.high_max);
            }
            if order == 0 {
                let room = self.high.saturating_sub(self.count + base).max(base);
                if batch <= room && self.alloc_factor < policy.scale_max {
                    self.alloc_factor += 1;
                }
                batch = batch.min(room);
            }
        }
        match batch > 1 && order > 0 {
            true => (batch >> order).max(2),
            false => batch.max(1),
        }
    }

    /// Decides after a block of `order` was put on a list; `count` includes it already.
    #[inline]
    pub fn on_free(&mut self, policy: &Policy, order: u8, pressure: Pressure) -> FreeVerdict {
        if policy.alloc_scale == AllocScale::Factor {
            self.alloc_factor >>= 1;
        }
        match policy.free_scale {
            FreeScale::None if self.count >= self.high => {
                FreeVerdict::Drain { pages: self.batch.min(self.count), free_high: false }
            }
            FreeScale::None => FreeVerdict::Keep,
            FreeScale::Factor => self.on_free_factor(policy, order, pressure),
            FreeScale::Count => self.on_free_count(policy, order, pressure),
        }
    }

    /// 5.14 to 6.6: the size of a bulk free doubles with each one in a row.
    fn on_free_factor(&mut self, policy: &Policy, order: u8, pressure: Pressure) -> FreeVerdict {
        let free_high =
            policy.free_high == FreeHigh::All && self.free_run != 0 && is_high_order(order);
        let four_batches = (self.batch << 2).min(self.high);
        let limit = match policy.free_high_limit {
            _ if self.high == 0 => 0,
            FreeHighLimit::Zero if free_high => 0,
            FreeHighLimit::Batch if free_high => self.batch,
            FreeHighLimit::FourBatches if free_high => four_batches,
            _ if pressure.reclaim_active => four_batches,
            _ => self.high,
        };
        if self.count < limit {
            return FreeVerdict::Keep;
        }
        if free_high {
            return FreeVerdict::Drain { pages: self.count, free_high };
        }
        if limit < self.batch {
            return FreeVerdict::Drain { pages: 1, free_high };
        }
        let most = limit - self.batch;
        let scaled = self.batch.checked_shl(self.free_run).unwrap_or(u32::MAX);
        if scaled < most && (!policy.factor_bounded || self.free_run < policy.scale_max) {
            self.free_run += 1;
        }
        FreeVerdict::drain(clamp(scaled, self.batch, most), free_high)
    }

    /// 6.7 on: the size of a bulk free is the number of pages freed in a row.
    fn on_free_count(&mut self, policy: &Policy, order: u8, pressure: Pressure) -> FreeVerdict {
        let capped = self.batch << policy.scale_max;
        let run = match policy.free_high_run {
            FreeHighRun::Batch => self.batch,
            FreeHighRun::BatchAndHalfMin => self.batch + self.high_min / 2,
        };
        let free_high = policy.free_high == FreeHigh::Capped
            && is_high_order(order)
            && self.free_run >= run
            && self.freed_high_order
            && (!self.free_high_batch || self.count >= self.batch);
        self.freed_high_order = is_high_order(order);
        if self.free_run < capped {
            self.free_run += 1 << order;
        }
        let limit = self.limit_by_count(policy, pressure, free_high, capped);
        if self.count < limit {
            return FreeVerdict::Keep;
        }
        let pages = match () {
            () if free_high => self.count.min(capped),
            () if limit < self.batch => 1,
            () => clamp(self.free_run, self.batch, limit - self.batch),
        };
        FreeVerdict::drain(pages, free_high)
    }

    /// The limit this free is held against; moves `high` within its range.
    fn limit_by_count(
        &mut self,
        policy: &Policy,
        pressure: Pressure,
        free_high: bool,
        capped: u32,
    ) -> u32 {
        let high = clamp(self.high, self.high_min, self.high_max);
        if policy.pcp_high == PcpHigh::Auto {
            self.high = high;
        }
        if high == 0 {
            return 0;
        }
        let shrunk = |by: u32| high.saturating_sub(by).max(self.high_min);
        if free_high {
            self.high = shrunk(capped);
            return 0;
        }
        let step = self.free_run.max(self.batch);
        if pressure.reclaim_active {
            self.high = shrunk(step);
            return (self.batch << 2).min(self.high);
        }
        if self.high_min == self.high_max {
            return high;
        }
        if pressure.below_high {
            self.high = shrunk(step);
            return self.count.max(self.high_min);
        }
        let wanted = self.free_run + self.batch;
        if self.count >= high && high < wanted {
            self.high = clamp(wanted, self.high_min, self.high_max);
        }
        high
    }

    /// The periodic tick of 6.7 on: lowers the limit by an eighth and says how many pages are
    /// above it now.
    pub fn decay(&mut self, policy: &Policy) -> u32 {
        if policy.pcp_high != PcpHigh::Auto {
            return 0;
        }
        if self.high > self.high_min {
            let quick = self.count.saturating_sub(self.batch << policy.scale_max);
            self.high = quick.max(self.high - (self.high >> 3)).max(self.high_min);
        }
        self.count.saturating_sub(self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Release;

    fn v6_18() -> (Policy, PcpSize) {
        let size = PcpSize { batch: 63, high_min: 7379, high_max: 112_640, ..PcpSize::default() };
        (Policy::linux(Release::new(6, 18)), size)
    }

    #[test]
    fn a_run_of_faults_refills_by_doubling() {
        let (policy, mut size) = v6_18();
        let refills: [u32; 7] = core::array::from_fn(|_| {
            size.on_alloc();
            size.refill_blocks(&policy, 0, Pressure::default())
        });
        assert_eq!(refills, [63, 126, 252, 504, 1008, 2016, 2016]);
    }

    #[test]
    fn an_exit_drains_2016_pages_at_a_time() {
        let (policy, mut size) = v6_18();
        let mut drains = [0u32; 40];
        let mut n = 0;
        while n < 40 {
            size.count += 1;
            if let FreeVerdict::Drain { pages, free_high } =
                size.on_free(&policy, 0, Pressure::default())
            {
                assert!(!free_high);
                size.count -= pages;
                drains[n] = pages;
                n += 1;
            }
        }
        assert_eq!(drains[39], 63 << 5);
        assert!(drains.iter().all(|&pages| pages <= 63 << 5));
    }

    #[test]
    fn linux_5_13_frees_one_batch_at_six_batches() {
        let policy = Policy::linux(Release::new(5, 13));
        let mut size = PcpSize { count: 377, batch: 63, high: 378, ..PcpSize::default() };
        assert_eq!(size.on_free(&policy, 0, Pressure::default()), FreeVerdict::Keep);
        size.count = 378;
        let verdict = FreeVerdict::Drain { pages: 63, free_high: false };
        assert_eq!(size.on_free(&policy, 0, Pressure::default()), verdict);
    }

    #[test]
    fn free_high_variants_differ_in_what_they_leave() {
        let drain = |limit: FreeHighLimit, count: u32| {
            let policy = Policy { free_high_limit: limit, ..Policy::linux(Release::new(5, 18)) };
            let mut size =
                PcpSize { count, batch: 63, high: 7379, free_run: 1, ..PcpSize::default() };
            size.on_free(&policy, 2, Pressure::default())
        };
        let all = |pages| FreeVerdict::Drain { pages, free_high: true };
        assert_eq!(drain(FreeHighLimit::Zero, 4), all(4));
        assert_eq!(drain(FreeHighLimit::Batch, 62), FreeVerdict::Keep);
        assert_eq!(drain(FreeHighLimit::Batch, 64), all(64));
        assert_eq!(drain(FreeHighLimit::FourBatches, 251), FreeVerdict::Keep);
        assert_eq!(drain(FreeHighLimit::FourBatches, 252), all(252));
    }

    #[test]
    fn stable_6_1_stops_doubling_at_992() {
        let policy = Policy::linux(Release { stable: true, ..Release::new(6, 1) });
        let mut size = PcpSize { batch: 31, high: 2334, free_run: 0, ..PcpSize::default() };
        let mut largest = 0;
        for _ in 0..12 {
            size.count = 2334;
            if let FreeVerdict::Drain { pages, .. } = size.on_free(&policy, 0, Pressure::default())
            {
                largest = largest.max(pages);
            }
        }
        assert_eq!(largest, 31 << 5);
    }

    #[test]
    fn a_disabled_cache_keeps_nothing() {
        let (policy, mut size) = v6_18();
        (size.batch, size.high_min, size.high_max, size.count) = (1, 0, 0, 1);
        let verdict = FreeVerdict::Drain { pages: 1, free_high: false };
        assert_eq!(size.on_free(&policy, 0, Pressure::default()), verdict);
        assert_eq!(size.refill_blocks(&policy, 0, Pressure::default()), 1);
    }

    #[test]
    fn decay_lowers_the_limit_by_an_eighth() {
        let (policy, mut size) = v6_18();
        (size.high, size.count) = (32_196, 29_000);
        assert_eq!(size.decay(&policy), 29_000 - 28_172);
        assert_eq!(size.high, 32_196 - 32_196 / 8);
    }
}
