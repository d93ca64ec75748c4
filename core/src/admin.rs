//! Set-up: limits that follow from the geometry, adding memory, switching caches off.

use crate::allocator::Allocator;
use crate::geometry::Geometry;
use crate::merge::Hint;
use crate::platform::{Platform, Site};
use crate::sizing::PcpSize;
use crate::types::{CpuId, MigrateType, Pfn, ZoneId, ZoneKind};
use crate::watermark;

impl<P: Platform> Allocator<P> {
    /// Marks, reserves, thresholds and per-CPU limits from the sizes of the zones.
    pub(crate) fn set_up_limits(&self, geometry: &Geometry<'_>) {
        let tuning = geometry.tuning;
        let lowmem: u64 = geometry.zones.iter().map(|zone| zone.managed_pages).sum();
        let kbytes = match tuning.min_free_kbytes {
            0 => watermark::min_free_kbytes(lowmem * 4),
            set => set,
        };
        let online = geometry.cpu_nodes.len() as u32;
        for (zone, desc) in self.shape.zone_ids().zip(geometry.zones) {
            let marks = watermark::marks(
                kbytes / 4,
                desc.managed_pages,
                lowmem,
                tuning.watermark_scale_factor,
                desc.kind == ZoneKind::Movable,
            );
            self.set_marks(zone, marks);
            let threshold = watermark::stat_threshold(online, desc.managed_pages);
            let drift_mark = watermark::drift_mark(marks, online, threshold);
            self.set_stat_threshold(zone, threshold, drift_mark);
            for kind in ZoneKind::ALL {
                let reserve = reserve_pages(geometry, zone, kind);
                self.set_protection(zone, kind, reserve);
            }
            let local = u32::from(geometry.nodes[usize::from(desc.node.0)].cpus);
            let cpus = if local == 0 { online } else { local };
            let (high_min, high_max) =
                watermark::pcp_limits(&self.policy, desc.managed_pages, marks.low, cpus);
            let batch = watermark::batch_with_fraction(&self.policy, desc.managed_pages);
            for cpu in 0..self.shape.cpus as u16 {
                self.set_pcp_limits(zone, CpuId(cpu), batch, high_min, high_max);
                let slice = tuning.cache_slice_pages;
                self.set_free_high_batch(zone, CpuId(cpu), slice > 3 * batch);
            }
        }
    }

    /// Sets batch and limits of a cache, pages. Below 6.7 the limit is `high_max`; from then on
    /// it moves between the two. `high < batch` switches the cache off. In a zone whose marks are
    /// a large part of it `high_min` is above `high_max`; the latter then counts, as on Linux.
    pub fn set_pcp_limits(
        &self,
        zone: ZoneId,
        cpu: CpuId,
        batch: u32,
        high_min: u32,
        high_max: u32,
    ) {
        assert!(batch >= 1, "a batch is at least one page");
        let auto = self.policy.pcp_high == crate::policy::PcpHigh::Auto;
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            let size = self.pcp_size(cache);
            let high = if auto { size.high } else { high_max };
            self.set_pcp_size(cache, &PcpSize { batch, high, high_min, high_max, ..size });
        });
    }

    /// Says whether a run of high-order frees must exceed a batch before it empties the cache
    /// (`FREE_HIGH_BATCH`: the CPU's slice of the last-level cache exceeds three batches).
    pub fn set_free_high_batch(&self, zone: ZoneId, cpu: CpuId, on: bool) {
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            let size = self.pcp_size(cache);
            self.set_pcp_size(cache, &PcpSize { free_high_batch: on, ..size });
        });
    }

    /// Sets the moving parts of a cache to what a kernel was seen with: its limit, its factors
    /// and its run of frees. The count stays.
    pub fn set_pcp_state(&self, zone: ZoneId, cpu: CpuId, state: PcpSize) {
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            let now = self.pcp_size(cache);
            self.set_pcp_size(cache, &PcpSize { count: now.count, ..state });
        });
    }

    /// Switches the caches of a zone off and empties them, as memory offlining does.
    pub fn disable_pcp(&self, zone: ZoneId) {
        for cpu in (0..self.shape.cpus as u16).map(CpuId) {
            self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
                let size = self.pcp_size(cache);
                let off = PcpSize { batch: 1, high: 0, high_min: 0, high_max: 0, ..size };
                self.set_pcp_size(cache, &off);
            });
            self.drain_zone_cpu(zone, cpu);
        }
    }

    /// Threshold of the zone counters and the cheap count below which a test sums them.
    pub fn set_counter_threshold(&self, zone: ZoneId, threshold: u32, drift_mark: u32) {
        self.set_stat_threshold(zone, threshold, drift_mark);
    }

    /// Hands a span of page frames to the allocator, in the largest aligned blocks, as boot does.
    /// Set-up, or hot-plug of a span that was never added.
    ///
    /// # Panics
    /// The span leaves the zones of the geometry.
    pub fn add_memory(&self, start: Pfn, pages: u64) {
        let (mut pfn, end) = (start.0, start.0 + pages);
        while pfn < end {
            let zone = self.shape.zone_of(pfn).expect("memory lies in a zone");
            let limit = end.min(self.zone(zone).end);
            let aligned = pfn.trailing_zeros().min(u32::from(self.shape.max_order)) as u8;
            let order = (0..=aligned)
                .rev()
                .find(|order| pfn + (1 << order) <= limit)
                .expect("a single page fits");
            self.add_block(zone, pfn, order);
            pfn += 1 << order;
        }
    }

    fn add_block(&self, zone: ZoneId, pfn: u64, order: u8) {
        let cpu = self.platform.cpu();
        self.with_zone(zone, cpu, Site::ZoneAdmin, |held| {
            let span = *self.zone(zone);
            match order > self.shape.pageblock_order {
                true => self.give_back_split(held, pfn, order, Hint::ToTail),
                false => {
                    self.give_back(held, pfn, order, self.block_type(&span, pfn), Hint::ToTail);
                }
            }
        });
    }

    /// Sets the type of the pageblock that holds a page and moves its free pages along: set-up,
    /// isolation for offlining, and its undoing. A larger free block is cut for it, and grows
    /// together again where types allow.
    ///
    /// # Panics
    /// The page lies in no zone.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) {
        let zone = self.shape.zone_of(pfn.0).expect("the page lies in a zone");
        let span = *self.zone(zone);
        self.with_zone(zone, self.platform.cpu(), Site::ZoneAdmin, |held| {
            self.cut_to_pageblocks(held, pfn.0);
            self.set_block_type(&span, pfn.0, migratetype);
            self.move_free_pages(held, pfn.0, migratetype);
            self.merge_pageblock(held, pfn.0);
        });
    }
}

/// Pages of `zone` that a request whose highest zone is `kind` must leave: the memory of the
/// node's zones above it, up to `kind`, over the ratio of the zone.
fn reserve_pages(geometry: &Geometry<'_>, zone: ZoneId, kind: ZoneKind) -> u32 {
    let this = geometry.zones[usize::from(zone.0)];
    let above: u64 = geometry
        .zones
        .iter()
        .filter(|other| other.node == this.node && other.kind > this.kind && other.kind <= kind)
        .map(|other| other.managed_pages)
        .sum();
    let ratio = geometry.tuning.lowmem_reserve_ratio[this.kind as usize];
    watermark::lowmem_reserve(above, ratio) as u32
}
