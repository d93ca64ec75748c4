//! will-it-scale's page_fault1, one process a CPU: map 128 MiB, touch every page, unmap.
//!
//! A fault takes a page, clears it and lets it wait for the LRU list; unmapping takes the pages off
//! their page table, off the list and frees them, in groups of one `mmu_gather` page (510).
//! Processes begin at random points of that cycle, so that some are mapping while others unmap.

use std::rc::Rc;

use pageyard::{GeometryError, Pfn, Policy, Request};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::file::FilePages;
use super::lru::{Lru, PAGEVEC, RELEASE_BATCH};
use super::yard::{Measured, Yard};

/// Pages of a process: 128 MiB (will-it-scale, tests/page_fault1.c).
pub const PAGES: usize = 32768;
/// Pages of one group of an unmap: pointers that fit a page beside its header (asm-generic/tlb.h).
const GATHER: usize = 510;
/// Instructions of unmapping a page beside its page record.
pub const ZAP_INSTRUCTIONS: u64 = 120;
/// Bytes that clearing a page moves an instruction (`rep stosb`, in units of the core's width).
pub const CLEAR_BYTES: u64 = 32;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that run a process.
    pub cpus: usize,
    /// Time of a fault outside of the allocator, the LRU list and clearing, picoseconds.
    pub think_ps: u64,
    /// Thousandths of processes that are unmapping at first.
    pub unmapping: u64,
    /// Holds of zone locks by every CPU before measuring, and while measuring.
    pub holds: (u32, u32),
    /// Seed of the starting points.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The measured stretch; the unit of work is a fault.
    pub measured: Measured,
    /// Thousandths of processes unmapping that the measured speeds would lead to.
    pub unmapping: u64,
}

/// What a fault does with its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Clears it: anonymous memory.
    Clear,
    /// Copies a page of a file into it: a private mapping that is written to.
    CopyOfFile,
}

struct Process {
    yard: Rc<Yard>,
    /// Where the file lies that is copied from; empty if pages are cleared.
    file: FilePages,
    lrus: Rc<Vec<Lru>>,
    cpu: usize,
    config: Config,
    pages: Vec<Pfn>,
    waiting: Vec<usize>,
    times: Rc<std::cell::RefCell<[(u64, u64); 2]>>,
}

impl Process {
    fn lru(&self) -> &Lru {
        &self.lrus[usize::from(self.yard.cpu_nodes[self.cpu].0)]
    }

    fn fault(&mut self) {
        let world = &self.yard.world;
        world.spend(self.config.think_ps);
        let pfn = self.yard.allocator.alloc(&Request::user(0)).expect("memory was sized for this");
        let page = self.yard.record(pfn);
        self.file.copy_from(&self.yard, self.pages.len());
        world.contents(page as u64, self.yard.node_of(pfn), CLEAR_BYTES);
        world.write(world.layout.page(page));
        self.pages.push(pfn);
        self.waiting.push(page);
        if self.waiting.len() == PAGEVEC {
            let waiting = std::mem::take(&mut self.waiting);
            self.lru().add(&waiting);
        }
        self.yard.control.score();
    }

    /// Unmaps the group of pages that were mapped first.
    fn unmap(&mut self, group: &[Pfn]) {
        let world = &self.yard.world;
        let records: Vec<usize> = group.iter().map(|&pfn| self.yard.record(pfn)).collect();
        for &page in &records {
            world.execute(ZAP_INSTRUCTIONS);
            world.locked(world.layout.page(page));
        }
        for pages in records.chunks(RELEASE_BATCH) {
            self.lru().release(pages);
        }
        for &pfn in group {
            self.yard.allocator.free(pfn, 0);
        }
    }

    fn note(&self, what: usize, from: u64, pages: usize) {
        let times = &mut self.times.borrow_mut()[what];
        times.0 += self.yard.world.now() - from;
        times.1 += pages as u64;
    }

    fn run(mut self, mut is_unmapping: bool) {
        let control = Rc::clone(&self.yard.control);
        while !control.is_over() {
            if !is_unmapping {
                let (from, mapped) = (self.yard.world.now(), self.pages.len());
                while self.pages.len() < PAGES && !control.is_over() {
                    self.fault();
                }
                self.note(0, from, self.pages.len() - mapped);
                let waiting = std::mem::take(&mut self.waiting);
                self.lru().add(&waiting);
            }
            is_unmapping = false;
            let pages = std::mem::take(&mut self.pages);
            let mut groups = pages.chunks(GATHER);
            while !control.is_over() {
                let Some(group) = groups.next() else { break };
                let from = self.yard.world.now();
                self.unmap(group);
                self.note(1, from, group.len());
            }
        }
    }
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Gives every process the pages it has at its starting point, a batch at a time, as processes that
/// fault at once get them.
fn start(yard: &Yard, lrus: &[Lru], config: &Config) -> Vec<(Vec<Pfn>, bool)> {
    let mut seed = config.seed;
    let mut wanted = Vec::new();
    for _ in 0..config.cpus {
        let is_unmapping = next(&mut seed) % 1000 < config.unmapping;
        wanted.push(((next(&mut seed) % PAGES as u64) as usize, is_unmapping));
    }
    let mut held: Vec<Vec<Pfn>> = vec![Vec::new(); config.cpus];
    let turn = 63;
    loop {
        let mut order: Vec<usize> =
            (0..config.cpus).filter(|&cpu| held[cpu].len() < wanted[cpu].0).collect();
        if order.is_empty() {
            break;
        }
        for at in (1..order.len()).rev() {
            order.swap(at, (next(&mut seed) % (at as u64 + 1)) as usize);
        }
        for cpu in order {
            yard.world.set_up_as(cpu);
            let left = wanted[cpu].0 - held[cpu].len();
            let mut pages = Vec::with_capacity(turn);
            for _ in 0..left.min(turn) {
                let pfn =
                    yard.allocator.alloc(&Request::user(0)).expect("memory was sized for this");
                pages.push(yard.record(pfn));
                held[cpu].push(pfn);
            }
            lrus[usize::from(yard.cpu_nodes[cpu].0)].add(&pages);
        }
    }
    held.into_iter().zip(wanted).map(|(pages, (_, is_unmapping))| (pages, is_unmapping)).collect()
}

/// Pages that the processes of a node reach at the most, with room for marks and caches.
fn reach(machine: &Machine, config: &Config, cpu_nodes: usize, touch: Touch) -> u64 {
    let pages = if touch == Touch::Clear { PAGES } else { 2 * PAGES };
    let per_node = config.cpus.div_ceil(cpu_nodes.max(1)) as u64;
    let marks = machine.node_memory_bytes[0] / 4096 / 200;
    per_node * (pages as u64 + 8192) + marks + 65536
}

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    run_touching(machine, policy, config, Touch::Clear)
}

/// Runs one cell whose faults do with their pages as told.
///
/// # Errors
/// See [`run`].
pub fn run_touching(
    machine: &Machine,
    policy: Policy,
    config: &Config,
    touch: Touch,
) -> Result<Outcome, GeometryError> {
    let sockets = machine.topology.sockets as usize;
    let yard = Rc::new(Yard::new(machine, policy, reach(machine, config, sockets, touch))?);
    let lrus = Rc::new(Lru::of_nodes(&yard.world, sockets, yard.records()));
    let files = FilePages::of_processes(&yard, config.cpus, touch);
    let started = start(&yard, &lrus, config);
    let times = Rc::new(std::cell::RefCell::new([(0, 0); 2]));
    yard.control.arm(config.cpus, config.holds.0, config.holds.1);
    let mut jobs: Vec<Job> = Vec::new();
    for (cpu, ((pages, is_unmapping), file)) in started.into_iter().zip(files).enumerate() {
        let process = Process {
            file,
            yard: Rc::clone(&yard),
            lrus: Rc::clone(&lrus),
            cpu,
            config: *config,
            pages,
            waiting: Vec::new(),
            times: Rc::clone(&times),
        };
        jobs.push(Box::new(move || process.run(is_unmapping)));
    }
    yard.world.run(jobs);
    let measured = yard.control.measured().expect("it ran until it was measured");
    let [(map_ps, mapped), (unmap_ps, unmapped)] = *times.borrow();
    let (map, unmap) = (map_ps / mapped.max(1), unmap_ps / unmapped.max(1));
    let unmapping = if mapped == 0 || unmapped == 0 {
        config.unmapping
    } else {
        unmap * 1000 / (map + unmap).max(1)
    };
    Ok(Outcome { measured, unmapping })
}
