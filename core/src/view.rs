//! Looking in from outside: free lists, caches and pageblocks, and the seeding of a state that
//! was read off another machine.

use crate::allocator::Allocator;
use crate::buddy::End;
use crate::event::PageKind;
use crate::geometry::PCP_LISTS;
use crate::pcp::Cache;
use crate::platform::{Platform, Site};
use crate::sizing::PcpSize;
use crate::types::{CpuId, MigrateType, Pfn, ZoneId};

/// A per-CPU cache as it is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcpView {
    /// Limits, state and count.
    pub size: PcpSize,
    /// Blocks on each list.
    pub blocks: [u32; PCP_LISTS],
}

impl<P: Platform> Allocator<P> {
    /// Blocks on a free list. Exact once the CPUs are at rest.
    #[must_use]
    pub fn free_blocks(&self, zone: ZoneId, order: u8, migratetype: MigrateType) -> u64 {
        u64::from(self.free_blocks_hint(zone, order, migratetype))
    }

    /// The zone that holds a page.
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<ZoneId> {
        self.shape.zone_of(pfn.0)
    }

    /// Type of the pageblock that holds a page; `None` outside every zone.
    #[must_use]
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let zone = self.shape.zone_of(pfn.0)?;
        Some(self.block_type(self.zone(zone), pfn.0))
    }

    /// Visits the blocks of a free list from head to tail under the zone lock.
    pub fn visit_free(
        &self,
        zone: ZoneId,
        order: u8,
        migratetype: MigrateType,
        mut visit: impl FnMut(Pfn),
    ) {
        let span = *self.zone(zone);
        self.with_zone(zone, self.platform.cpu(), Site::ZoneAdmin, |held| {
            let mut at = self.first_free(held, order, migratetype);
            while let Some(page) = at {
                visit(Pfn(span.pfn(page)));
                at = self.next_free(page);
            }
        });
    }

    /// Visits the blocks of a list of a per-CPU cache from head to tail under its lock.
    pub fn visit_pcp(&self, zone: ZoneId, cpu: CpuId, list: u8, mut visit: impl FnMut(Pfn)) {
        let span = *self.zone(zone);
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            self.walk_list(cache, list, |page| visit(Pfn(span.pfn(page))));
        });
    }

    /// Head of a list of a per-CPU cache: the block that an allocation would take.
    #[must_use]
    pub fn pcp_head(&self, zone: ZoneId, cpu: CpuId, list: u8) -> Option<Pfn> {
        let span = *self.zone(zone);
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            self.first_cached(cache, list).map(|page| Pfn(span.pfn(page)))
        })
    }

    /// The list of a per-CPU cache that blocks of an order and type wait on; `None` is not
    /// cached under this policy.
    #[must_use]
    pub fn list_of(&self, order: u8, migratetype: MigrateType) -> Option<u8> {
        self.pcp_list(order, migratetype)
    }

    /// A per-CPU cache: limits, state, and blocks on each list.
    #[must_use]
    pub fn pcp(&self, zone: ZoneId, cpu: CpuId) -> PcpView {
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            let mut blocks = [0; PCP_LISTS];
            for (list, blocks) in blocks.iter_mut().enumerate() {
                self.walk_list(cache, list as u8, |_| *blocks += 1);
            }
            PcpView { size: self.pcp_size(cache), blocks }
        })
    }

    /// Current limit of a per-CPU cache, pages.
    #[must_use]
    pub fn pcp_limit(&self, zone: ZoneId, cpu: CpuId) -> u32 {
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| self.pcp_size(cache).high)
    }

    /// Pages in a per-CPU cache. Racy: a hint.
    #[must_use]
    pub fn pcp_pages(&self, zone: ZoneId, cpu: CpuId) -> u32 {
        self.pcp_count(self.pcp_record(zone, cpu))
    }

    /// Seeds a free block as it is, without merging: set-up from a map of another machine. Its
    /// pages must not have been added before. The block joins the tail of its list.
    ///
    /// # Panics
    /// The block leaves its zone or is not aligned.
    pub fn seed_free(&self, pfn: Pfn, order: u8, migratetype: MigrateType) {
        let zone = self.seed_zone(pfn, order);
        let page = self.zone(zone).page(pfn.0);
        self.with_zone(zone, self.platform.cpu(), Site::ZoneAdmin, |held| {
            self.account(held, 1 << order, migratetype);
            self.set_state(page, PageKind::Free, order, migratetype, held.cpu);
            self.link_block(held, page, order, migratetype, End::Tail);
        });
    }

    /// Seeds a block that is in use: set-up from a map of another machine.
    ///
    /// # Panics
    /// The block leaves its zone or is not aligned.
    pub fn seed_allocated(&self, pfn: Pfn, order: u8, migratetype: MigrateType) {
        let zone = self.seed_zone(pfn, order);
        let page = self.zone(zone).page(pfn.0);
        let cpu = self.platform.cpu();
        self.set_state(page, PageKind::Allocated, order, migratetype, cpu);
    }

    /// Seeds a block into a per-CPU cache, at the tail of its list.
    ///
    /// # Panics
    /// The block leaves its zone, is not aligned, or its order is not cached.
    pub fn seed_pcp(&self, cpu: CpuId, pfn: Pfn, order: u8, migratetype: MigrateType) {
        let zone = self.seed_zone(pfn, order);
        let page = self.zone(zone).page(pfn.0);
        let list = self.pcp_list(order, migratetype).expect("the order is cached");
        self.with_pcp(zone, cpu, Site::PcpAdmin, |cache| {
            self.pcp_put_last(cache, page, order, migratetype, list);
        });
    }

    /// Seeds the type of a pageblock without touching its pages.
    pub fn seed_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) {
        if let Some(zone) = self.shape.zone_of(pfn.0) {
            let span = *self.zone(zone);
            self.with_zone(zone, self.platform.cpu(), Site::ZoneAdmin, |_| {
                self.set_block_type(&span, pfn.0, migratetype);
            });
        }
    }

    fn seed_zone(&self, pfn: Pfn, order: u8) -> ZoneId {
        let zone = self.shape.zone_of(pfn.0).expect("the block lies in a zone");
        assert!(self.zone(zone).holds_block(pfn.0, order), "the block lies in one zone");
        assert_eq!(pfn.0 & ((1 << order) - 1), 0, "the block is aligned");
        zone
    }

    fn walk_list(&self, cache: Cache, list: u8, mut visit: impl FnMut(usize)) {
        let mut at = self.first_cached(cache, list);
        while let Some(page) = at {
            visit(page);
            at = self.next_free(page);
        }
    }
}
