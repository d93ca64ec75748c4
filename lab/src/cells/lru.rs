//! The list of pages in use of each node, as far as it costs: lines and the lock.
//!
//! A page that was faulted in waits with others (a pagevec of 15; include/linux/pagevec.h, up to
//! 6.8) and is then put on the list of its node under one lock. A page that is freed is taken off
//! under the lock, up to 32 at a hold (`SWAP_CLUSTER_MAX`, `release_pages`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::platform::{Field, TableId};
use pageyard_sim::lock::WorkLock;
use pageyard_sim::memory::Line;
use pageyard_sim::world::{INSTRUCTIONS_PER_ACCESS, World};

/// Pages that wait to be put on the list.
pub const PAGEVEC: usize = 15;
/// Pages taken off at one hold.
pub const RELEASE_BATCH: usize = 32;
/// Instructions for a page under the lock, to put it on the list and to take it off. Counted as
/// those under the zone lock are (`pageyard_sim::instructions`): 371 and 351 in 5.10, 331 and 310
/// in 6.1. 106 of those of 5.10 count the list's size in the memory cgroup too, as kernels do from
/// 5.2 on (1a61ab8038e7); before, two plain counters do, about 28. 11 and 8 are return thunks,
/// which no kernel had before July 2022. What stands behind our own accesses, eight and six, is
/// taken off.
const ADD_INSTRUCTIONS: u64 = 371 - 106 + 28 - 11 - 8 * INSTRUCTIONS_PER_ACCESS;
const RELEASE_INSTRUCTIONS: u64 = 351 - 106 + 28 - 8 - 6 * INSTRUCTIONS_PER_ACCESS;
/// Pages by which a CPU's count of a list differs before it is added to the counters of node, zone
/// and machine: what `calculate_normal_threshold` gives on all machines of some dozen CPUs and GiB.
const THRESHOLD: i32 = 125;

/// Lines of a node: the lock; the heads of the lists and, behind them, how often pages of each kind
/// were seen (`reclaim_stat`); their sizes (`lru_zone_size[]`); the node's counters.
const NODE_LINES: u64 = 8;
const LOCK: u64 = 0;
const HEADS: u64 = 2;
const SEEN: u64 = 3;
const SIZES: u64 = 4;
const COUNTERS: u64 = 6;

/// Links of one page: record + 1 of its neighbours, 0 at the ends.
type Links = (u32, u32);

/// The list of one node.
pub struct Lru {
    world: Rc<World>,
    lock: WorkLock,
    lines: Lines,
    first: Cell<u32>,
    links: Rc<RefCell<Vec<Links>>>,
    /// By how much each CPU's count of the list differs.
    differs: RefCell<Vec<i32>>,
    /// Locked instructions for a page that is put on the list.
    locked: u32,
    /// For each page, what puts it on the list is called through a retpoline.
    retpolines: bool,
}

/// Lines that are used under the lock.
struct Lines {
    heads: Line,
    seen: Line,
    sizes: Line,
    /// Counters of the node and of all nodes, of the zone and of all zones: an overflow adds to
    /// each. Those of zones are on the lines of the free pages.
    counters: [Line; 4],
}

impl Lines {
    fn of(world: &World, node: usize, nodes: usize) -> Lines {
        let layout = &world.layout;
        let line = |at| layout.extra(NODE_LINES * node as u64 + at);
        let free = (TableId::StatTotals, Field(0));
        let zones = layout.machine_counter(free.0, free.1).expect("the machine counts free pages");
        let counters = [
            line(COUNTERS),
            layout.extra(NODE_LINES * nodes as u64),
            layout.line(free.0, node, free.1),
            zones,
        ];
        Lines { heads: line(HEADS), seen: line(SEEN), sizes: line(SIZES), counters }
    }
}

/// Which kernel's list, in hundreds: 416 is 4.16. Before 4.17 one locked instruction sets the flag
/// of a page that is put on the list; from 4.17 on its flag of being unevictable is tested and
/// cleared before, and a barrier follows (9c4e6b1a7027).
pub const KERNEL: u64 = 418;
/// The first kernel with retpolines (76b043848fd2): `pagevec_lru_move_fn` calls what it does with
/// each page through a pointer, under the lock, up to 5.10.
const RETPOLINES: u64 = 415;

impl Lru {
    /// One empty list a node, over so many page records. Nodes have one zone each.
    #[must_use]
    pub fn of_nodes(world: &Rc<World>, nodes: usize, records: usize, kernel: u64) -> Vec<Lru> {
        let links = Rc::new(RefCell::new(vec![(0, 0); records]));
        let of_node = |node: usize| {
            let lock = world.layout.extra(NODE_LINES * node as u64 + LOCK);
            Lru {
                world: Rc::clone(world),
                lock: WorkLock::new(world, lock, "lru"),
                lines: Lines::of(world, node, nodes),
                first: Cell::new(0),
                links: Rc::clone(&links),
                differs: RefCell::new(vec![0; world.costs.cpus()]),
                locked: if kernel < 417 { 1 } else { 3 },
                retpolines: kernel >= RETPOLINES,
            }
        };
        (0..nodes).map(of_node).collect()
    }

    /// A page joins the list or leaves it: its size, and the CPU's counts of node and zone, which
    /// go in step. What a CPU counts is near; what overflows goes to lines that all CPUs use.
    fn count(&self, pages: i32) {
        self.world.write(self.lines.sizes);
        let mut differs = self.differs.borrow_mut();
        let differs = &mut differs[self.world.cpu()];
        *differs += pages;
        if differs.abs() > THRESHOLD {
            *differs = 0;
            for line in self.lines.counters {
                self.world.locked(line);
            }
        }
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
        if self.retpolines {
            self.world.call_through_retpoline();
        }
        self.world.execute(ADD_INSTRUCTIONS);
        for _ in 0..self.locked {
            self.world.locked(self.world.layout.page(page));
        }
        self.world.write(self.lines.seen);
        self.count(1);
        self.world.read(self.lines.heads);
        if let Some(first) = first.checked_sub(1) {
            self.world.write(self.world.layout.page(first as usize));
        }
        self.world.write(self.lines.heads);
    }

    /// Drops the last reference of pages and takes them off. The lock is taken for the first page
    /// and kept: the references of the others are dropped while it is held (`release_pages`).
    pub fn release(&self, pages: &[usize]) {
        let Some(&first) = pages.first() else {
            return;
        };
        self.bring(pages);
        let record = |page: usize| self.world.layout.page(page);
        self.world.locked(record(first));
        self.lock.with_as("lru release", || {
            for (at, &page) in pages.iter().enumerate() {
                if at > 0 {
                    self.world.locked(record(page));
                }
                // Before its reference is dropped a page is asked whether it is part of a larger
                // one. No locked instruction is in between: the load starts as early as the
                // reorder buffer reaches.
                if let Some(&next) = pages.get(at + 1) {
                    self.world.read(record(next));
                }
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
        self.world.execute(RELEASE_INSTRUCTIONS);
        self.count(-1);
        self.world.read(self.world.layout.page(page));
        let neighbour = |name: u32| {
            let page = name.checked_sub(1);
            page.map_or(self.lines.heads, |page| self.world.layout.page(page as usize))
        };
        self.world.write(neighbour(before));
        self.world.write(neighbour(after));
        self.world.write(self.world.layout.page(page));
    }
}

#[cfg(test)]
mod tests {
    use pageyard::preset;
    use pageyard_sim::machine::Machine;

    use super::*;
    use crate::cells::yard::Yard;

    /// Time of putting pages on the list of a kernel, one CPU alone, picoseconds.
    fn add_ps(kernel: u64) -> u64 {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find("linux-4.14").expect("a preset");
        let yard = Yard::new(&machine, policy, 4096).expect("a machine");
        let lru = Lru::of_nodes(&yard.world, 1, yard.records(), kernel).pop().expect("one node");
        let world = Rc::clone(&yard.world);
        let job = move || lru.add(&(0..PAGEVEC).collect::<Vec<usize>>());
        yard.world.run(vec![Box::new(job)]);
        world.time_of(0)
    }

    #[test]
    fn a_kernel_with_retpolines_takes_longer_for_each_page() {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let cycles = |ps: u64| ps * machine.clock_khz / 1_000_000_000;
        let each = cycles(add_ps(RETPOLINES) - add_ps(RETPOLINES - 1)) / PAGEVEC as u64;
        assert!((28..=40).contains(&each), "{each} cycles a page more");
        assert!(add_ps(417) > add_ps(416), "three locked instructions a page, not one");
    }
}
