//! Who holds each page: reading and writing page records, and finding misuse by them.
//!
//! The state of a page is a shared word, written with a plain store by whoever has the page at
//! the moment (never read-modify-write: the hit path cannot afford it). It exists to find misuse
//! and to tell movable pages from others; no list depends on it.

use crate::allocator::Allocator;
use crate::event::{Bug, PageKind, PageState};
use crate::geometry::Zone;
use crate::platform::{Field, Ordering, Owned, Platform, Shared};
use crate::types::{CpuId, MigrateType, Pfn, ZoneId};

/// Third word of a page record: set while the page is the first of a free block. Owned by the
/// zone lock, also while a merge reads its buddy's.
const HEAD: Field = Field(2);
const HEAD_BIT: u32 = 1 << 31;
/// The one word of a page state.
const STATE: Field = Field(0);
/// The one word of a pageblock: its type. Written under the zone lock, peeked at by frees.
const BLOCK_TYPE: Field = Field(0);

impl<P: Platform> Allocator<P> {
    /// The free block that begins at a page: order and the type of its list. Zone lock held.
    pub(crate) fn free_head(&self, page: usize) -> Option<(u8, MigrateType)> {
        let word = self.pages.get(page, HEAD);
        (word & HEAD_BIT != 0).then(|| ((word & 15) as u8, MigrateType::of(word >> 4 & 7)))
    }

    /// Marks the beginning of a free block. Zone lock held.
    pub(crate) fn set_free_head(&self, page: usize, order: u8, migratetype: MigrateType) {
        let word = HEAD_BIT | u32::from(order) | (migratetype as u32) << 4;
        self.pages.set(page, HEAD, word);
    }

    /// The page begins no free block any more. Zone lock held.
    pub(crate) fn clear_free_head(&self, page: usize) {
        self.pages.set(page, HEAD, 0);
    }

    pub(crate) fn state(&self, page: usize) -> PageState {
        // Relaxed: a diagnosis. Where two CPUs race on it, the lists are checked on removal.
        PageState::unpack(self.states.peek(page, STATE))
    }

    pub(crate) fn set_state(
        &self,
        page: usize,
        kind: PageKind,
        order: u8,
        migratetype: MigrateType,
        last_cpu: CpuId,
    ) {
        let word = PageState { kind, order, migratetype, last_cpu }.pack();
        // Relaxed: handing the page over orders it, through a lock or by the embedder.
        self.states.store(page, STATE, word, Ordering::Relaxed);
    }

    /// The type of the pageblock that holds a page. Racy without the zone lock, harmless: a
    /// free then lands on the list of the type the block had a moment ago, as on Linux.
    pub(crate) fn block_type(&self, zone: &Zone, pfn: u64) -> MigrateType {
        MigrateType::of(self.blocks.peek(self.shape.block(zone, pfn), BLOCK_TYPE))
    }

    /// Retypes the pageblock that holds a page. Zone lock held.
    pub(crate) fn set_block_type(&self, zone: &Zone, pfn: u64, migratetype: MigrateType) {
        let block = self.shape.block(zone, pfn);
        // Relaxed: readers without the zone lock take it as a hint.
        self.blocks.store(block, BLOCK_TYPE, migratetype as u32, Ordering::Relaxed);
    }

    /// What a page is at the moment. Racy unless its holder asks.
    #[must_use]
    pub fn inspect(&self, pfn: Pfn) -> Option<PageState> {
        let zone = self.shape.zone_of(pfn.0)?;
        Some(self.state(self.zone(zone).page(pfn.0)))
    }

    /// Finds the zone of a block that is about to be freed.
    ///
    /// # Errors
    /// The misuse, if it is one; nothing was changed.
    pub fn check_free(&self, pfn: Pfn, order: u8) -> Result<ZoneId, Bug> {
        if order > self.shape.max_order {
            return Err(Bug::OrderTooLarge { order });
        }
        let aligned = pfn.0 & ((1 << order) - 1) == 0;
        let zone = self.shape.zone_of(pfn.0).filter(|_| aligned);
        let zone = zone.ok_or(Bug::ForeignPage { pfn, order })?;
        let state = self.state(self.zone(zone).page(pfn.0));
        match state.kind {
            PageKind::Allocated if state.order == order => Ok(zone),
            PageKind::Allocated => Err(Bug::WrongOrder { pfn, order, state }),
            PageKind::Untouched => Err(Bug::NeverAllocated { pfn, order }),
            PageKind::Pcp | PageKind::Free => Err(Bug::DoubleFree { pfn, order, state }),
        }
    }

    /// A page comes off a list: its record must agree, or two CPUs freed it at once. Asserted
    /// on every removal, so that a page on two lists is never handed out.
    pub(crate) fn expect_kind(&self, zone: &Zone, page: usize, kind: PageKind) -> PageState {
        let state = self.state(page);
        if state.kind != kind {
            self.platform.bug(Bug::ListMismatch { pfn: Pfn(zone.pfn(page)), state });
        }
        state
    }
}
