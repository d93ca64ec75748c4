//! Small faults beside huge ones: one half of the CPUs runs page_fault1, the other half the same
//! with `MADV_HUGEPAGE`, in memory that was once handed out page by page (RFC v4 of 2018).
//!
//! A huge fault takes a block of order 9, clears it all and counts as its 512 pages, as
//! will-it-scale counts touches. If there is none, the whole 2 MiB are faulted in page by page, as
//! the kernel does once a page table is there. Before the processes begin, all memory is taken
//! page by page by all CPUs in turn and given back. The first half of the CPUs has the small
//! faults: with two threads a core, each core has one process of each kind.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{CpuId, GeometryError, Pfn, Policy, Request, Scope};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::lru::{Lru, PAGEVEC, RELEASE_BATCH};
use super::page_fault1::{CLEAR_BYTES, PAGES, ZAP_INSTRUCTIONS};
use super::work::page_fault::BATCH;
use super::yard::{Measured, Yard};

/// Order of a huge page.
pub const HUGE_ORDER: u8 = 9;
/// Its pages.
const HUGE_PAGES: usize = 1 << HUGE_ORDER;
/// Pages that a CPU takes before it is another one's turn, at set-up: a refill.
const TURN: usize = 63;
/// Memory of a node, in what its processes hold at the most.
const ROOM: u64 = 2;

/// The two kinds of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Small,
    Huge,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs in all; the first half has small faults.
    pub cpus: usize,
    /// Time of a fault outside of the allocator, the LRU list and clearing, picoseconds.
    pub think_ps: u64,
    /// Thousandths of small and of huge processes that are unmapping at first.
    pub unmapping: [u64; 2],
    /// Holds of zone locks by every CPU before measuring, and while measuring.
    pub holds: (u32, u32),
    /// Seed of the starting points.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The measured stretch; the unit of work is a page touched.
    pub measured: Measured,
    /// Pages touched by small and by huge processes.
    pub touched: [u64; 2],
    /// Huge pages that were had, and that were not.
    pub huge: [u64; 2],
    /// Thousandths of processes unmapping that the measured speeds would lead to.
    pub unmapping: [u64; 2],
}

/// Counted by all processes.
#[derive(Default)]
struct Tally {
    /// While measuring.
    touched: [Cell<u64>; 2],
    huge: [Cell<u64>; 2],
    /// Time and pages, mapping and unmapping, by kind; all the time.
    times: RefCell<[[(u64, u64); 2]; 2]>,
}

impl Tally {
    fn speed(&self, kind: Kind, what: usize, ps: u64, pages: usize) {
        let time = &mut self.times.borrow_mut()[kind as usize][what];
        time.0 += ps;
        time.1 += pages as u64;
    }

    /// Thousandths of the processes of a kind that unmap, if they go on as they did.
    fn unmapping(&self, kind: Kind, supposed: u64) -> u64 {
        let [(map_ps, mapped), (unmap_ps, unmapped)] = self.times.borrow()[kind as usize];
        let (map, unmap) = (map_ps / mapped.max(1), unmap_ps / unmapped.max(1));
        if mapped == 0 || unmapped == 0 {
            return supposed;
        }
        unmap * 1000 / (map + unmap).max(1)
    }
}

struct Process {
    yard: Rc<Yard>,
    lrus: Rc<Vec<Lru>>,
    tally: Rc<Tally>,
    cpu: usize,
    kind: Kind,
    think_ps: u64,
    /// Blocks with their orders, in the order in which they were faulted in.
    held: Vec<(Pfn, u8)>,
    pages: usize,
    waiting: Vec<usize>,
}

impl Process {
    fn lru(&self) -> &Lru {
        &self.lrus[usize::from(self.yard.cpu_nodes[self.cpu].0)]
    }

    fn count(&self, counter: &Cell<u64>, by: u64) {
        if self.yard.control.is_measuring() {
            counter.set(counter.get() + by);
        }
    }

    /// One fault; returns pages that were mapped.
    fn fault(&mut self) -> usize {
        self.yard.world.spend(self.think_ps);
        let huge = self.kind == Kind::Huge && self.pages.is_multiple_of(HUGE_PAGES);
        let pages = if huge && self.fault_huge() { HUGE_PAGES } else { self.fault_small() };
        self.pages += pages;
        self.count(&self.tally.touched[self.kind as usize], pages as u64);
        (0..pages).for_each(|_| self.yard.control.score());
        pages
    }

    fn fault_small(&mut self) -> usize {
        let world = &self.yard.world;
        let pfn = self.yard.take(&Request::user(0));
        let page = self.yard.record(pfn);
        world.contents(page as u64, self.yard.node_of(pfn), CLEAR_BYTES);
        world.write(world.layout.page(page));
        self.held.push((pfn, 0));
        self.waiting.push(page);
        if self.waiting.len() == PAGEVEC {
            let waiting = std::mem::take(&mut self.waiting);
            self.lru().add(&waiting);
        }
        1
    }

    fn fault_huge(&mut self) -> bool {
        let world = &self.yard.world;
        let taken = self.yard.allocator.alloc(&huge_page());
        self.count(&self.tally.huge[usize::from(taken.is_err())], 1);
        let Ok(pfn) = taken else {
            return false;
        };
        let (first, node) = (self.yard.record(pfn), self.yard.node_of(pfn));
        // Every page of the block is told that it is a part of one (`prep_compound_page`).
        for page in first..first + HUGE_PAGES {
            world.write(world.layout.page(page));
        }
        for page in first..first + HUGE_PAGES {
            world.sync();
            world.contents(page as u64, node, CLEAR_BYTES);
        }
        self.held.push((pfn, HUGE_ORDER));
        // A huge page takes along what waits (`__lru_cache_add`).
        self.waiting.push(first);
        let waiting = std::mem::take(&mut self.waiting);
        self.lru().add(&waiting);
        true
    }

    /// Unmaps what was mapped first; returns its pages.
    fn unmap(&mut self, group: &[(Pfn, u8)]) -> usize {
        let world = &self.yard.world;
        for &(pfn, _) in group {
            world.execute(ZAP_INSTRUCTIONS);
            world.locked(world.layout.page(self.yard.record(pfn)));
        }
        for same in group.chunk_by(|a, b| a.1 == b.1) {
            let records: Vec<usize> = same.iter().map(|&(pfn, _)| self.yard.record(pfn)).collect();
            // A huge page is taken off alone (`__put_compound_page`).
            let together = if same[0].1 == 0 { RELEASE_BATCH } else { 1 };
            records.chunks(together).for_each(|pages| self.lru().release(pages));
        }
        for &(pfn, order) in group {
            if order > 0 {
                // Its pages are looked at and parted one by one (`free_pages_prepare`).
                let first = self.yard.record(pfn);
                (first..first + (1 << order)).for_each(|page| world.write(world.layout.page(page)));
            }
            self.yard.allocator.free(pfn, order);
        }
        group.iter().map(|&(_, order)| 1 << order).sum()
    }

    fn run(mut self, mut is_unmapping: bool) {
        let control = Rc::clone(&self.yard.control);
        let world = Rc::clone(&self.yard.world);
        while !control.is_over() {
            if !is_unmapping {
                while self.pages < PAGES && !control.is_over() {
                    let from = world.now();
                    let pages = self.fault();
                    self.tally.speed(self.kind, 0, world.now() - from, pages);
                }
                let waiting = std::mem::take(&mut self.waiting);
                self.lru().add(&waiting);
            }
            is_unmapping = false;
            let held = std::mem::take(&mut self.held);
            self.pages = 0;
            let mut groups = held.chunks(BATCH);
            while !control.is_over() {
                let Some(group) = groups.next() else { break };
                let from = world.now();
                let pages = self.unmap(group);
                self.tally.speed(self.kind, 1, world.now() - from, pages);
            }
        }
    }
}

/// A request for a huge page under `MADV_HUGEPAGE`: it may compact, once.
fn huge_page() -> Request {
    Request { no_retry: true, ..Request::user(HUGE_ORDER) }
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Takes all memory page by page, each CPU in its turn, and gives it back in the same way.
fn break_up(yard: &Yard) {
    let page = Request { scope: Scope::ThisNode, may_wait: false, ..Request::user(0) };
    let cpus = yard.cpu_nodes.len();
    let mut held: Vec<Vec<Pfn>> = vec![Vec::new(); cpus];
    let mut open: Vec<usize> = (0..cpus).collect();
    while !open.is_empty() {
        open.retain(|&cpu| {
            yard.world.set_up_as(cpu);
            let taken = (0..TURN).map_while(|_| yard.allocator.alloc(&page).ok());
            let before = held[cpu].len();
            held[cpu].extend(taken);
            held[cpu].len() > before
        });
    }
    let mut at = 0;
    while held.iter().any(|pages| pages.len() > at) {
        for (cpu, pages) in held.iter().enumerate() {
            yard.world.set_up_as(cpu);
            let group = pages.iter().skip(at).take(BATCH);
            group.for_each(|&pfn| yard.allocator.free(pfn, 0));
        }
        at += BATCH;
    }
    (0..cpus).for_each(|cpu| {
        yard.world.set_up_as(cpu);
        yard.allocator.drain_cpu(CpuId(cpu as u16));
    });
}

/// A process' blocks at its starting point, and whether it is unmapping.
type Start = (Vec<(Pfn, u8)>, bool);

/// Gives every process what it has at its starting point, a batch or a huge page at a time.
fn start(yard: &Yard, lrus: &[Lru], config: &Config) -> Vec<Start> {
    let mut seed = config.seed;
    let mut wanted = Vec::new();
    for cpu in 0..config.cpus {
        let is_unmapping = next(&mut seed) % 1000 < config.unmapping[kind_of(config, cpu) as usize];
        wanted.push(((next(&mut seed) % PAGES as u64) as usize, is_unmapping));
    }
    let mut held: Vec<Vec<(Pfn, u8)>> = vec![Vec::new(); config.cpus];
    let mut pages = vec![0usize; config.cpus];
    let mut open: Vec<usize> = (0..config.cpus).collect();
    while !open.is_empty() {
        open.retain(|&cpu| {
            yard.world.set_up_as(cpu);
            let mut new = Vec::new();
            let fresh = pages[cpu].is_multiple_of(HUGE_PAGES);
            let huge = kind_of(config, cpu) == Kind::Huge && fresh;
            let taken = huge.then(|| yard.allocator.alloc(&huge_page()).ok()).flatten();
            match taken {
                Some(pfn) => new.push((pfn, HUGE_ORDER)),
                None => {
                    // Never beyond the next 2 MiB.
                    let turn = TURN.min(HUGE_PAGES - pages[cpu] % HUGE_PAGES);
                    let page = || yard.take(&Request::user(0));
                    new.extend((0..turn).map(|_| (page(), 0)));
                }
            }
            pages[cpu] += new.iter().map(|&(_, order)| 1 << order).sum::<usize>();
            let records: Vec<usize> = new.iter().map(|&(pfn, _)| yard.record(pfn)).collect();
            lrus[usize::from(yard.cpu_nodes[cpu].0)].add(&records);
            held[cpu].extend(new);
            pages[cpu] < wanted[cpu].0
        });
    }
    held.into_iter().zip(wanted).map(|(held, (_, is_unmapping))| (held, is_unmapping)).collect()
}

fn kind_of(config: &Config, cpu: usize) -> Kind {
    if cpu < config.cpus.div_ceil(2) { Kind::Small } else { Kind::Huge }
}

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let sockets = machine.topology.sockets as usize;
    let marks = machine.node_memory_bytes[0] / 4096 / 200;
    let reach = ROOM * config.cpus.div_ceil(sockets) as u64 * PAGES as u64 + marks + 65536;
    let yard = Rc::new(Yard::new(machine, policy, reach)?);
    let lrus = Rc::new(Lru::of_nodes(&yard.world, sockets, yard.records(), super::lru::KERNEL));
    break_up(&yard);
    let started = start(&yard, &lrus, config);
    let tally = Rc::new(Tally::default());
    yard.control.arm(config.cpus, config.holds.0, config.holds.1);
    let mut jobs: Vec<Job> = Vec::new();
    for (cpu, (held, is_unmapping)) in started.into_iter().enumerate() {
        let process = Process {
            yard: Rc::clone(&yard),
            lrus: Rc::clone(&lrus),
            tally: Rc::clone(&tally),
            cpu,
            kind: kind_of(config, cpu),
            think_ps: config.think_ps,
            pages: held.iter().map(|&(_, order)| 1 << order).sum(),
            held,
            waiting: Vec::new(),
        };
        jobs.push(Box::new(move || process.run(is_unmapping)));
    }
    yard.world.run(jobs);
    let measured = yard.control.measured().expect("it ran until it was measured");
    let get = |counters: &[Cell<u64>; 2]| [counters[0].get(), counters[1].get()];
    let [small, huge] = config.unmapping;
    Ok(Outcome {
        measured,
        touched: get(&tally.touched),
        huge: get(&tally.huge),
        unmapping: [tally.unmapping(Kind::Small, small), tally.unmapping(Kind::Huge, huge)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::platform::Site;
    use pageyard::preset;
    use pageyard_sim::stats::LockAt;

    fn cell(policy: &str) -> Outcome {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find(policy).expect("a preset");
        let (think_ps, unmapping, holds) = (1_000_000, [300, 300], (3, 24));
        let config = Config { cpus: 4, think_ps, unmapping, holds, seed: 1 };
        run(&machine, policy, &config).expect("a machine")
    }

    #[test]
    fn the_same_cell_gives_the_same_outcome() {
        assert_eq!(cell("linux-4.19"), cell("linux-4.19"));
    }

    #[test]
    fn where_pages_merge_at_once_every_huge_fault_finds_a_block() {
        let outcome = cell("linux-4.19");
        assert!(outcome.huge[0] > 0 && outcome.huge[1] == 0, "{:?}", outcome.huge);
        assert!(outcome.touched.iter().all(|&touched| touched > 0));
        assert_eq!(outcome.measured.work, outcome.touched.iter().sum::<u64>());
    }

    #[test]
    fn where_merging_is_put_off_huge_blocks_are_joined_when_they_are_wanted() {
        let outcome = cell("lazy-merge-v4-2");
        let joins = |at: &_| matches!(at, LockAt::Zone(Site::ZoneAdmin));
        assert!(outcome.measured.stats.lock(joins).taken > 0, "{:?}", outcome.huge);
        assert!(outcome.huge[0] > 0, "{:?}", outcome.huge);
    }
}
