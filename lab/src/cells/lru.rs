//! The list of pages in use of each node, as far as it costs: lines and the lock.
//!
//! A page that was faulted in waits with others (a pagevec of 15; include/linux/pagevec.h, up to
//! 6.8) and is then put on the list of its node under one lock. A page that is freed is taken off
//! under the lock, up to 32 at a hold (`SWAP_CLUSTER_MAX`, `release_pages`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard_sim::lock::WorkLock;
use pageyard_sim::memory::Line;
use pageyard_sim::world::World;

/// Pages that wait to be put on the list.
pub const PAGEVEC: usize = 15;
/// Pages taken off at one hold.
pub const RELEASE_BATCH: usize = 32;
/// Instructions for a page under the lock beside the list's own: whether it is evictable, which
/// list, sizes of node and zone (`__pagevec_lru_add_fn`, `update_lru_size`; 4.17, counted by eye in
/// the source: an estimate).
const INSTRUCTIONS: u64 = 120;

/// Links of one page: record + 1 of its neighbours, 0 at the ends.
type Links = (u32, u32);

/// The list of one node.
pub struct Lru {
    world: Rc<World>,
    lock: WorkLock,
    head_line: Line,
    first: Cell<u32>,
    links: Rc<RefCell<Vec<Links>>>,
    /// Locked instructions for a page that is put on the list.
    locked: u32,
}

/// Which kernel's list, in hundreds: 416 is 4.16. Before 4.17 one locked instruction sets the flag
/// of a page that is put on the list; from 4.17 on its flag of being unevictable is tested and
/// cleared before, and a barrier follows (9c4e6b1a7027).
pub const KERNEL: u64 = 418;

impl Lru {
    /// One empty list a node, over so many page records.
    #[must_use]
    pub fn of_nodes(world: &Rc<World>, nodes: usize, records: usize, kernel: u64) -> Vec<Lru> {
        let links = Rc::new(RefCell::new(vec![(0, 0); records]));
        let of_node = |node: usize| {
            let line = |at| world.layout.extra(4 * node as u64 + at);
            Lru {
                world: Rc::clone(world),
                lock: WorkLock::new(world, line(0), "lru"),
                head_line: line(2),
                first: Cell::new(0),
                links: Rc::clone(&links),
                locked: if kernel < 417 { 1 } else { 3 },
            }
        };
        (0..nodes).map(of_node).collect()
    }

    /// Puts pages at the head.
    pub fn add(&self, pages: &[usize]) {
        self.lock.with_as("lru add", || pages.iter().for_each(|&page| self.link(page)));
    }

    fn link(&self, page: usize) {
        let name = page as u32 + 1;
        let first = self.first.replace(name);
        {
            let mut links = self.links.borrow_mut();
            links[page] = (0, first);
            if let Some(first) = first.checked_sub(1) {
                links[first as usize].0 = name;
            }
        }
        self.world.execute(INSTRUCTIONS);
        for _ in 0..self.locked {
            self.world.locked(self.world.layout.page(page));
        }
        self.world.read(self.head_line);
        if let Some(first) = first.checked_sub(1) {
            self.world.write(self.world.layout.page(first as usize));
        }
        self.world.write(self.head_line);
    }

    /// Drops the last reference of pages and takes them off. The lock is taken for the first page
    /// and kept: the references of the others are dropped while it is held (`release_pages`).
    pub fn release(&self, pages: &[usize]) {
        let Some((&first, others)) = pages.split_first() else {
            return;
        };
        self.bring(pages);
        self.world.locked(self.world.layout.page(first));
        self.lock.with_as("lru release", || {
            self.unlink(first);
            for &page in others {
                self.world.locked(self.world.layout.page(page));
                self.unlink(page);
            }
        });
    }

    /// Brings what unlinking pages will use near on the host: neighbours lie anywhere.
    fn bring(&self, pages: &[usize]) {
        let links = self.links.borrow();
        for &page in pages {
            let neighbours = [links[page].0, links[page].1].map(|name| name.checked_sub(1));
            let all = neighbours.into_iter().flatten().map(|name| name as usize).chain([page]);
            all.for_each(|page| self.world.bring(self.world.layout.page(page)));
        }
    }

    fn unlink(&self, page: usize) {
        let (before, after) = {
            let mut links = self.links.borrow_mut();
            let (before, after) = links[page];
            match before.checked_sub(1) {
                Some(before) => links[before as usize].1 = after,
                None => self.first.set(after),
            }
            if let Some(after) = after.checked_sub(1) {
                links[after as usize].0 = before;
            }
            (before, after)
        };
        self.world.execute(INSTRUCTIONS);
        self.world.read(self.world.layout.page(page));
        let neighbour = |name: u32| {
            let page = name.checked_sub(1);
            page.map_or(self.head_line, |page| self.world.layout.page(page as usize))
        };
        self.world.write(neighbour(before));
        self.world.write(neighbour(after));
        self.world.write(self.world.layout.page(page));
    }
}
