//! The page cache of a process' file, as far as copying from it costs: contents and page records.
//!
//! A write to a private mapping of a file takes a page of its own and copies the file's page into
//! it (`do_cow_fault`, mm/memory.c). On the way the file's page is looked up and referenced,
//! locked, unlocked and dropped again, a locked instruction on its record each time.

use pageyard::Request;
use pageyard_sim::memory::Use;

use super::page_fault1::{CLEAR_BYTES, PAGES, Touch};
use super::yard::Yard;

/// Order of the blocks that the file lies in: read ahead into fresh memory, its pages mostly follow
/// each other.
pub const BLOCK_ORDER: u8 = 9;
/// Instructions of looking up a page of a file beside those on its record: `filemap_fault` and a
/// radix tree of three levels (32768 pages of 64 slots), `do_cow_fault` around them. Counted by eye
/// in the source of 4.18: an estimate.
pub const LOOKUP_INSTRUCTIONS: u64 = 300;

/// First page records of the blocks of a file, in its order.
#[derive(Clone, Debug, Default)]
pub struct FilePages {
    blocks: Vec<(usize, u8)>,
}

impl FilePages {
    /// A file of the process' size for each, in the page cache of its node; none if pages are
    /// cleared. Processes read by turns.
    #[must_use]
    pub fn of_processes(yard: &Yard, cpus: usize, touch: Touch) -> Vec<FilePages> {
        let mut files = vec![FilePages::default(); cpus];
        if touch == Touch::Clear {
            return files;
        }
        for _ in 0..PAGES >> BLOCK_ORDER {
            for (cpu, file) in files.iter_mut().enumerate() {
                yard.world.set_up_as(cpu);
                let pfn = yard.take(&Request::user(BLOCK_ORDER));
                file.blocks.push((yard.record(pfn), yard.node_of(pfn)));
            }
        }
        files
    }

    /// Reads the file's page, wherever it is; nothing if there is no file.
    pub fn copy_from(&self, yard: &Yard, index: usize) {
        let Some(&(first, node)) = self.blocks.get(index >> BLOCK_ORDER) else {
            return;
        };
        let page = first + index % (1 << BLOCK_ORDER);
        let (world, line) = (&yard.world, yard.world.layout.page(page));
        world.execute(LOOKUP_INSTRUCTIONS);
        // A reference, the page's lock; after the copy, both back.
        world.locked(line);
        world.locked(line);
        world.private(page as u64, node, Use::Read, CLEAR_BYTES);
        world.locked(line);
        world.locked(line);
    }
}
