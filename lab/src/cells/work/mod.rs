//! Workloads, written once: what a CPU does, whatever machine is below it.
//!
//! A [`Stage`] is that machine beside the allocator: time, page records, contents of pages, the
//! list of pages in use, rings between CPUs. [`Modelled`](super::modelled::Modelled) charges for
//! all of it on a modelled machine; `crate::live` does it on this one. A [`Watch`] says when it
//! is enough and counts. The bodies here know neither.

pub mod area;
pub mod bulk;
pub mod free_all;
pub mod mixed;
pub mod netperf;
pub mod page_bench;
pub mod page_fault;
pub mod recording;

use pageyard::Request;

/// What is done to the record of a page, 64 bytes that the kernel keeps of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Reads it.
    Read,
    /// Writes it with plain stores.
    Write,
    /// A locked instruction on it, such as dropping a reference.
    Locked,
}

/// The machine that a CPU's part of a workload runs on.
pub trait Stage {
    /// A block of pages in use. Whoever has it owns it; on a real machine, dropping it frees it.
    type Page;
    /// A file of which a process maps a private copy; none if it maps fresh memory.
    type File;
    /// A queue from one CPU to another, see [`Stage::send`].
    type Ring;

    /// Takes a block. If there is none the workload ends here, which is its result.
    fn take(&self, request: &Request) -> Self::Page;
    /// Takes up to so many single pages in one call, at least one; or ends as [`Stage::take`].
    fn take_many(&self, request: &Request, wanted: usize, pages: &mut Vec<Self::Page>);
    /// Takes a block, if there is one.
    fn try_take(&self, request: &Request) -> Option<Self::Page>;
    /// Gives a block back.
    fn free(&self, page: Self::Page);

    /// Number of a block's first page.
    fn frame(page: &Self::Page) -> u64;
    /// A block has `1 << order` pages.
    fn order(page: &Self::Page) -> u8;
    /// Uses the record of a block's first page.
    fn record(&self, page: &Self::Page, how: Record);
    /// Uses the records of all its pages, one after another.
    fn records(&self, page: &Self::Page, how: Record);
    /// The record of a block is used a little later: whoever keeps it may bring it near. No part of
    /// the workload, so that it costs no time where time is modelled.
    fn soon(&self, _: &Self::Page) {}

    /// Fills a block just taken, whole: a page with the file's page `index`, or all with zeroes.
    fn fill(&self, page: &mut Self::Page, file: &Self::File, index: usize);

    /// Puts pages on the list of pages in use of this CPU's node (LRU), under one hold of its lock;
    /// of larger blocks the first.
    fn list(&self, pages: &[Self::Page]);
    /// Drops a reference of each page and takes them off that list, under one hold of its lock.
    fn unlist(&self, pages: &[Self::Page]);

    /// Puts a block into a ring; it comes back if the ring is full.
    ///
    /// The ring is an array of slots with a lock at each end, as the kernel's `ptr_ring`: an empty
    /// slot tells that there is nothing, so that the ends share no counter.
    fn send(&self, ring: &Self::Ring, page: Self::Page) -> Option<Self::Page>;
    /// Takes the next block out of a ring.
    fn receive(&self, ring: &Self::Ring) -> Option<Self::Page>;
    /// A moment's wait for another CPU, before looking again.
    fn pause(&self);

    /// Executes instructions of kernel code that is not run itself.
    fn execute(&self, instructions: u64);
    /// Lets time pass that is no instruction's, picoseconds: a think time.
    fn spend(&self, ps: u64);
    /// Lets every CPU that is behind catch up: others may have changed what is only read next.
    fn sync(&self);
    /// Time of this CPU, picoseconds.
    fn now_ps(&self) -> u64;
}

/// When a workload is over, and what it has done.
pub trait Watch {
    /// True once everything was measured: the workload ends.
    fn is_over(&self) -> bool;
    /// So many units of the workload's score were done.
    fn did(&self, units: u64);
    /// A part of the workload took so long for so many pages.
    fn spent(&self, part: usize, ps: u64, pages: u64);
    /// Something else happened so often; what, is for the workload to number.
    fn noted(&self, _what: usize, _times: u64) {}
    /// A block was taken, by the number of its first page; told by workloads that ask how many
    /// different ones go round.
    fn took(&self, _frame: u64) {}
}
