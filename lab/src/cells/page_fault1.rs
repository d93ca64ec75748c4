//! will-it-scale's page_fault1, one process a CPU: map 128 MiB, touch every page, unmap.
//!
//! A fault takes a page, clears it and lets it wait for the LRU list; unmapping takes the pages off
//! their page table, thousands at a time (`mmu_gather`), before it takes them off the list and
//! frees them. Processes begin all over that cycle (`points.rs`), in memory as it is after minutes.

use std::cell::Cell;
use std::rc::Rc;

use pageyard::{GeometryError, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::begin::{self, Begins, Begun, Steady};
use super::dice::Dice;
use super::file::FilePages;
use super::lru::Lru;
use super::modelled::{Held, Modelled};
use super::points::Around;
use super::work::Watch;
use super::work::area::{Area, MAP, UNMAP};
use super::work::page_fault::{GROUPS, Process};
use super::yard::{Measured, Yard};

/// Pages of a process: 128 MiB (will-it-scale, tests/page_fault1.c).
pub const PAGES: usize = 32768;
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
    /// Thousandths of its time that a process unmaps.
    pub unmapping: u64,
    /// Where the processes of the first node are in their cycles.
    pub around: Around,
    /// Measuring goes on until mapping and unmapping were both seen.
    pub see_both: bool,
    /// Holds of zone locks by every CPU before measuring, and while measuring.
    pub holds: (u32, u32),
    /// Pages that a CPU maps or unmaps until it is warm, and until it was measured, if its cache is
    /// so large that it hardly meets a zone lock.
    pub pages: u64,
    /// Seed of the starting points.
    pub seed: u64,
    /// Whose LRU list it is, see [`KERNEL`](super::lru::KERNEL).
    pub lru_kernel: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The measured stretch; the unit of work is a fault.
    pub measured: Measured,
    /// Time that CPUs spent mapping and unmapping, picoseconds, and how many pages.
    pub spent: [(u64, u64); 2],
}

/// Time that CPUs spent on pages while it was measured.
#[derive(Debug, Default)]
struct Spent {
    ps: Cell<u64>,
    pages: Cell<u64>,
}

impl Spent {
    fn note(&self, yard: &Yard, ps: u64, pages: u64) {
        if yard.control.is_measuring() {
            self.ps.set(self.ps.get() + ps);
            self.pages.set(self.pages.get() + pages);
        }
    }

    fn get(&self) -> (u64, u64) {
        (self.ps.get(), self.pages.get())
    }
}

/// What a page's way through a process takes its CPU.
#[derive(Debug, Default)]
struct Clock {
    map: Spent,
    unmap: Spent,
}

/// What a fault does with its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Clears it: anonymous memory.
    Clear,
    /// Copies a page of a file into it: a private mapping that is written to.
    CopyOfFile,
}

/// Counts faults, and the time of both parts.
struct Meter {
    yard: Rc<Yard>,
    clock: Rc<Clock>,
}

impl Watch for Meter {
    fn is_over(&self) -> bool {
        self.yard.control.is_over()
    }

    fn did(&self, faults: u64) {
        self.yard.control.did(faults);
    }

    fn spent(&self, part: usize, ps: u64, pages: u64) {
        let clock = &self.clock;
        (if part == MAP { &clock.map } else { &clock.unmap }).note(&self.yard, ps, pages);
        match part {
            MAP => self.yard.control.saw(MAP),
            _ => self.yard.control.undid(pages),
        }
    }

    fn noted(&self, what: usize, _times: u64) {
        // Pages are taken off their page table thousands at a time: of fewer, their time is not
        // the time of these pages.
        if what == GROUPS {
            self.yard.control.saw(UNMAP);
        }
    }
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
    // Another stretch of the same seed has the same memory and other points.
    let mut dice = Dice(config.seed ^ (config.around.middle << 32));
    let file_pages = if touch == Touch::Clear { 0 } else { PAGES as u64 };
    let Config { cpus, unmapping, around, seed: sample, .. } = *config;
    let steady = Steady { cpus, unmapping, around, file_pages, sample };
    let Begun { yard, processes, from_nothing } =
        begin::steady(machine, policy, &steady, &mut dice)?;
    let yard = Rc::new(yard);
    let lrus = Rc::new(Lru::of_nodes(&yard.world, sockets, yard.records(), config.lru_kernel));
    begin::list(&yard, &lrus, &processes, &mut dice);
    let files = FilePages::of_processes(&yard, config.cpus, touch);
    let clock = Rc::new(Clock::default());
    yard.control.arm(config.cpus, config.holds.0, config.holds.1);
    yard.control.bound(config.pages);
    if config.see_both {
        yard.control.see_parts(2);
    }
    if from_nothing {
        // Whether it fits shows once every process has mapped everything.
        yard.control.warm_by_work(PAGES as u64);
    }
    let stage = Modelled { yard: Rc::clone(&yard), lrus };
    let mut jobs: Vec<Job> = Vec::new();
    for (process, file) in processes.into_iter().zip(files) {
        let (stage, think_ps) = (stage.clone(), config.think_ps);
        let meter = Meter { yard: Rc::clone(&yard), clock: Rc::clone(&clock) };
        let Begins { held, rest, waiting } = process;
        let held = held.into_iter().map(|pfn| Held { pfn, order: 0 }).collect();
        jobs.push(Box::new(move || {
            let (stage, file) = (&stage, &file);
            let area = Area { stage, file, size: PAGES, think_ps, held, waiting };
            Process { area, rest }.run(&meter);
        }));
    }
    yard.world.run(jobs);
    let measured = yard.control.measured().expect("it ran until it was measured");
    let spent = [clock.map.get(), clock.unmap.get()];
    Ok(Outcome { measured, spent })
}
