//! Pages that can be written: the allocator over a region of real memory, for Rust embedders.
//!
//! A [`Block`] owns its pages and gives them back when dropped, so that safe code can neither
//! free twice nor write what it freed. Whoever needs bare page frames builds
//! [`pageyard::Allocator`] over [`Plain`] and a [`Region`] by hand.

use std::ptr::NonNull;

use pageyard::{
    AllocError, Allocator, CpuId, Geometry, GeometryError, NODES_MAX, NodeDesc, NodeId, Pfn,
    Policy, Request, Tuning, ZoneDesc, ZoneId, ZoneItem, ZoneKind,
};

use crate::counters::Notes;
use crate::memory::{Region, RegionError};
use crate::plain::{Plain, configured_cpus};

/// The first frame of every host allocator: 4 GiB, where the Normal zone of x86-64 begins.
const FIRST: Pfn = Pfn(1 << 20);

/// Pages of one bulk allocation at the most.
const BULK_PAGES: usize = 128;

/// Why there is no [`HostAllocator`].
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No memory to manage.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The core refused the geometry or the policy.
    #[error("cannot build a page allocator: {0}")]
    Geometry(#[from] GeometryError),
}

/// The part of a machine's memory that an allocator has.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Pages that it hands out.
    pub pages: u64,
    /// Pages of the whole machine: marks and the limits of per-CPU caches follow from them. Never
    /// fewer than `pages`.
    pub machine_pages: u64,
    /// What an administrator could set.
    pub tuning: Tuning,
}

/// A page allocator over one node of real memory.
///
/// ```
/// use pageyard::{Request, preset};
/// use pageyard_host::HostAllocator;
///
/// let policy = preset::find("linux-6.18").expect("a known release");
/// let host = HostAllocator::new(1 << 14, policy)?; // 64 MiB
/// let mut block = host.alloc(&Request::user(3))?;
/// block.bytes_mut().fill(7);
/// assert_eq!(block.bytes().len(), 8 * 4096);
/// host.free(block);
/// host.drain_all();
/// assert_eq!(host.free_pages(), 1 << 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HostAllocator<N: Notes = ()> {
    allocator: Allocator<Plain<N>>,
    region: Region,
    cpus: u16,
}

impl HostAllocator {
    /// An allocator over `pages` pages of 4 KiB, for the CPUs of this system, that tells nobody
    /// what happens.
    ///
    /// # Errors
    /// See [`HostError`].
    ///
    /// # Panics
    /// The system has no memory to map for the page records, 16 bytes a page.
    pub fn new(pages: u64, policy: Policy) -> Result<HostAllocator, HostError> {
        HostAllocator::over(Plain::new(), pages, configured_cpus(), policy)
    }
}

impl<N: Notes> HostAllocator<N> {
    /// An allocator over `pages` pages of 4 KiB for `cpus` CPUs of a machine set up by hand.
    ///
    /// # Errors
    /// See [`HostError`].
    ///
    /// # Panics
    /// The system has no memory to map for the page records, 16 bytes a page.
    pub fn over(
        plain: Plain<N>,
        pages: u64,
        cpus: u16,
        policy: Policy,
    ) -> Result<HostAllocator<N>, HostError> {
        let tuning = Tuning::default();
        HostAllocator::part_of(plain, Share { pages, machine_pages: pages, tuning }, cpus, policy)
    }

    /// The same over a share of a machine.
    ///
    /// # Errors
    /// See [`HostError`].
    ///
    /// # Panics
    /// As [`HostAllocator::over`].
    pub fn part_of(
        plain: Plain<N>,
        share: Share,
        cpus: u16,
        policy: Policy,
    ) -> Result<HostAllocator<N>, HostError> {
        let Share { pages, machine_pages, tuning } = share;
        let region = Region::map(FIRST, pages)?;
        let nodes = [NodeDesc { distance: [10; NODES_MAX], cpus }];
        let zones = [ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: FIRST,
            spanned_pages: pages,
            managed_pages: machine_pages.max(pages),
        }];
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &vec![NodeId(0); usize::from(cpus)],
            nodes: &nodes,
            zones: &zones,
            tuning,
        };
        let allocator = Allocator::new(plain, &geometry, policy)?;
        allocator.add_memory(FIRST, pages);
        Ok(HostAllocator { allocator, region, cpus })
    }

    /// Allocates a block. Its bytes are what the last owner left, zero at first.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    pub fn alloc(&self, request: &Request) -> Result<Block<'_, N>, AllocError> {
        let pfn = self.allocator.alloc(request)?;
        Ok(Block { host: self, pfn, order: request.order })
    }

    /// Takes up to `wanted` single pages in one entry to the cache, as [`Allocator::alloc_bulk`];
    /// returns how many were added to `blocks`.
    pub fn alloc_bulk<'a>(
        &'a self,
        request: &Request,
        wanted: usize,
        blocks: &mut Vec<Block<'a, N>>,
    ) -> usize {
        let mut pfns = [Pfn(0); BULK_PAGES];
        let slots = &mut pfns[..wanted.min(BULK_PAGES)];
        let taken = self.allocator.alloc_bulk(request, slots);
        blocks.extend(pfns[..taken].iter().map(|&pfn| Block { host: self, pfn, order: 0 }));
        taken
    }

    /// Has the system back all pages with memory now, so that no first touch is measured.
    pub fn populate(&mut self) {
        self.region.populate();
    }

    /// Gives a block back, as dropping it does.
    ///
    /// # Panics
    /// The block belongs to another allocator, or somebody freed its frame by hand.
    pub fn free(&self, block: Block<'_, N>) {
        assert!(
            std::ptr::eq(self, block.host),
            "a block is freed by an allocator that does not own it"
        );
        drop(block);
    }

    /// Empties the per-CPU caches; see [`Allocator::drain_all`] for who waits for whom.
    pub fn drain_all(&self) {
        self.allocator.drain_all();
    }

    /// Empties every per-CPU cache by working as each CPU in turn, and returns the pages that are
    /// free then: all of them, if no block is alive and no other thread allocates.
    ///
    /// Up to 5.19 the owner of a cache is only asked to empty it, and obeys at its next tick.
    pub fn settle(&self) -> u64 {
        self.drain_all();
        for cpu in (0..self.cpus).map(CpuId) {
            crate::plain::as_thread_cpu(cpu, || self.allocator.tick(cpu));
        }
        self.free_pages()
    }

    /// Pages on the free lists: those in per-CPU caches are not among them.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.allocator.zone_count(ZoneId(0), ZoneItem::FreePages).max(0) as u64
    }

    /// The memory.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The machine: events, contention.
    #[must_use]
    pub fn platform(&self) -> &Plain<N> {
        self.allocator.platform()
    }

    /// The allocator of page frames below, for what this crate makes of blocks.
    pub(crate) fn allocator(&self) -> &Allocator<Plain<N>> {
        &self.allocator
    }

    /// The allocator of page frames below.
    ///
    /// # Safety
    /// What lies in a [`Block`] is lent memory. The caller frees and seeds no frame of a block
    /// that is alive, and adds no memory.
    #[must_use]
    pub unsafe fn frames(&self) -> &Allocator<Plain<N>> {
        &self.allocator
    }
}

/// Pages in use: one block, owned. Dropping it gives it back.
pub struct Block<'a, N: Notes = ()> {
    host: &'a HostAllocator<N>,
    pfn: Pfn,
    order: u8,
}

impl<'a, N: Notes> Block<'a, N> {
    /// The block that [`Block::into_raw`] gave up, once.
    pub(crate) fn of_raw(host: &'a HostAllocator<N>, pfn: Pfn, order: u8) -> Block<'a, N> {
        Block { host, pfn, order }
    }

    /// The allocator that it is of.
    pub(crate) fn host(&self) -> &'a HostAllocator<N> {
        self.host
    }

    /// Whether it is a block of this allocator.
    pub(crate) fn is_of(&self, host: &HostAllocator<N>) -> bool {
        std::ptr::eq(self.host, host)
    }

    /// Gives up the block without freeing it; [`Block::of_raw`] owns it again.
    pub(crate) fn into_raw(self) -> (Pfn, u8) {
        let raw = (self.pfn, self.order);
        std::mem::forget(self);
        raw
    }

    /// The first frame.
    #[must_use]
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// The block has `1 << order` pages.
    #[must_use]
    pub fn order(&self) -> u8 {
        self.order
    }

    /// Where its memory is.
    pub(crate) fn memory(&self) -> NonNull<[u8]> {
        let bytes = self.host.region.bytes(self.pfn, self.order);
        bytes.expect("frames of the allocator lie in its region")
    }

    /// Its memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the allocator hands a frame out once until it is freed, and only we free it;
        // the region outlives `host`. Mapped memory is zeroed, so initialised.
        unsafe { self.memory().as_ref() }
    }

    /// Its memory, to write.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes us the only one.
        unsafe { self.memory().as_mut() }
    }
}

impl<N: Notes> Drop for Block<'_, N> {
    fn drop(&mut self) {
        self.host.allocator.free(self.pfn, self.order);
    }
}

impl<N: Notes> std::fmt::Debug for Block<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("pfn", &self.pfn)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
