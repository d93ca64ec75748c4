//! Background work that the embedder drives: the periodic tick of a CPU, and drains.

use crate::allocator::Allocator;
use crate::event::DrainCause;
use crate::pcp::{DRAIN_ASKED, EXPIRE};
use crate::platform::{Ordering, Owned, Platform, Shared, Site};
use crate::policy::PcpLock;
use crate::types::{CpuId, ZoneId};

/// Quiet ticks after which a cache of a remote node gives back a batch.
const EXPIRE_TICKS: u32 = 3;

impl<P: Platform> Allocator<P> {
    /// The once-a-second work of a CPU (`vm.stat_interval`): obeys drains asked for by others,
    /// folds counters, lowers limits, ages caches of remote nodes.
    ///
    /// Call it on the CPU that owns the caches.
    pub fn tick(&self, cpu: CpuId) {
        for zone in self.shape.zone_ids() {
            self.tick_zone(zone, cpu);
        }
    }

    /// The same for the caches of one zone.
    pub fn tick_zone(&self, zone: ZoneId, cpu: CpuId) {
        let record = self.pcp_record(zone, cpu);
        // Relaxed: the owner drains now or at its next tick; both are fine.
        if self.pcp_shared.peek(record, DRAIN_ASKED) != 0 {
            self.pcp_shared.store(record, DRAIN_ASKED, 0, Ordering::Relaxed);
            self.drain_zone_cpu(zone, cpu);
        }
        let changed = self.fold_zone_counts(zone, cpu);
        self.decay(zone, cpu);
        self.expire(zone, cpu, changed);
    }

    /// Lowers the limit of a cache and frees what is above it, chunk by chunk.
    fn decay(&self, zone: ZoneId, cpu: CpuId) {
        let mut left = self.with_pcp(zone, cpu, Site::PcpDrain, |cache| {
            let mut size = self.pcp_size(cache);
            let pages = size.decay(&self.policy);
            self.set_pcp_size(cache, &size);
            pages
        });
        while left > 0 {
            let freed = self.drain_some(zone, cpu, left, DrainCause::Decay);
            if freed == 0 {
                break;
            }
            left = left.saturating_sub(freed);
        }
    }

    /// Caches of a remote node that stay quiet for three ticks give back a batch.
    fn expire(&self, zone: ZoneId, cpu: CpuId, changed: bool) {
        let remote = self.zone(zone).node != self.node_of(cpu);
        self.with_pcp(zone, cpu, Site::PcpDrain, |cache| {
            let mut expire = self.pcps.get(cache.record, EXPIRE);
            if changed {
                expire = EXPIRE_TICKS;
            }
            let held = self.pcp_count(cache.record) > 0;
            if !remote {
                expire = 0;
            } else if expire > 0 && held {
                expire -= 1;
                if expire == 0 {
                    let batch = self.pcp_size(cache).batch;
                    self.bulk_free(cache, batch, 0, DrainCause::Expire);
                }
            }
            self.pcps.set(cache.record, EXPIRE, expire);
        });
    }

    /// One chunk of a drain: one hold of the zone lock.
    fn drain_some(&self, zone: ZoneId, cpu: CpuId, pages: u32, cause: DrainCause) -> u32 {
        self.with_pcp(zone, cpu, Site::PcpDrain, |cache| {
            let chunk = self.chunk_pages(cache, self.policy.drain_chunk);
            self.bulk_free(cache, pages.min(chunk), 0, cause)
        })
    }

    /// Empties the cache of a CPU for one zone.
    pub fn drain_zone_cpu(&self, zone: ZoneId, cpu: CpuId) {
        // A racing owner may put pages back as fast as we take them: drain what is there now.
        let mut left = self.pcp_count(self.pcp_record(zone, cpu));
        while left > 0 {
            let freed = self.drain_some(zone, cpu, left, DrainCause::Asked);
            if freed == 0 {
                break;
            }
            left = left.saturating_sub(freed);
        }
    }

    /// Gives back up to `pages` pages of a CPU's cache for one zone.
    pub fn trim_zone_cpu(&self, zone: ZoneId, cpu: CpuId, pages: u32) {
        let mut left = pages;
        while left > 0 {
            match self.drain_some(zone, cpu, left, DrainCause::Asked) {
                0 => break,
                freed => left = left.saturating_sub(freed),
            }
        }
    }

    /// Empties all caches of a CPU.
    pub fn drain_cpu(&self, cpu: CpuId) {
        for zone in self.shape.zone_ids() {
            self.drain_zone_cpu(zone, cpu);
        }
    }

    /// Empties the caches of every CPU. Where the policy has no pcp spin lock (up to 5.19) only
    /// the caller's own are emptied now; the others' owners are asked to at their next tick.
    pub fn drain_all(&self) {
        let here = self.platform.cpu();
        for cpu in (0..self.shape.cpus as u16).map(CpuId) {
            for zone in self.shape.zone_ids() {
                let record = self.pcp_record(zone, cpu);
                if self.pcp_count(record) == 0 {
                    continue;
                }
                if self.policy.pcp_lock == PcpLock::Spin || cpu == here {
                    self.drain_zone_cpu(zone, cpu);
                } else {
                    // Relaxed: a request, not a hand-over.
                    self.pcp_shared.store(record, DRAIN_ASKED, 1, Ordering::Relaxed);
                }
            }
        }
    }
}
