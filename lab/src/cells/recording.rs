//! A recording as a workload: each recorded CPU's requests, a virtual CPU's work.
//!
//! What a CPU does is in [`work::recording`](super::work::recording). Several copies can run side
//! by side on different CPUs, none of which share pages; they begin at random moments.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{Event, GeometryError, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::Job;

use super::dice::Dice;
use super::modelled::{Modelled, Shelf};
use super::program::Program;
use super::work::recording::{ALLOC, FREE, Recall, run as run_cpu, set_up};
use super::work::{Stage, Watch};
use super::yard::Yard;

/// Copies begin within this part of the recorded time: in step, they would meet at every lock.
const SPREAD: u64 = 20;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Copies that run side by side.
    pub copies: usize,
    /// Seed of the moments at which they begin.
    pub seed: u64,
}

/// Why it cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such machine can be built.
    #[error(transparent)]
    Build(#[from] GeometryError),
    /// The recording has more CPUs than there are.
    #[error("{copies} x {recorded} recorded CPUs need more CPUs than the {has} of this machine")]
    Cpus {
        /// Copies asked for.
        copies: usize,
        /// CPUs that the recording shows at work.
        recorded: usize,
        /// CPUs of the machine.
        has: usize,
    },
    /// Nothing is in it.
    #[error("the recording holds no page that was allocated or freed")]
    Empty,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Time in the allocator, picoseconds, all together.
    pub spent_ps: u64,
}

impl Calls {
    /// Mean time of a call, picoseconds; 0 without any.
    #[must_use]
    pub fn mean_ps(&self) -> u64 {
        self.spent_ps / self.calls.max(1)
    }
}

/// How the allocator served them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Refills of per-CPU lists, and blocks that they took.
    pub refills: (u64, u64),
    /// Drains of per-CPU lists, and pages that they gave back.
    pub drains: (u64, u64),
    /// Allocations and frees that went past the per-CPU lists.
    pub direct: (u64, u64),
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// CPUs that ran, all copies together.
    pub cpus: usize,
    /// The recorded length, picoseconds.
    pub recorded_ps: u64,
    /// Length of a copy, mean and longest, picoseconds.
    pub elapsed_ps: (u64, u64),
    /// From the first copy's beginning to the last one's end, picoseconds.
    pub total_ps: u64,
    /// Allocations.
    pub allocs: Calls,
    /// Frees.
    pub frees: Calls,
    /// Allocations that found no memory; their frees are left out.
    pub failed: u64,
    /// Frees that had to wait for the allocation on another CPU, and for how long together.
    pub waits: Calls,
    /// Refills and drains.
    pub served: Served,
    /// What the machine counted.
    pub stats: Stats,
}

#[derive(Debug, Default)]
struct Tally {
    allocs: Calls,
    frees: Calls,
    waits: Calls,
    failed: u64,
    served: Served,
}

impl Tally {
    fn on_event(&mut self, event: Event) {
        let served = &mut self.served;
        match event {
            Event::Refill { got_blocks, .. } => {
                served.refills.0 += 1;
                served.refills.1 += u64::from(got_blocks);
            }
            Event::Drain { pages, .. } => {
                served.drains.0 += 1;
                served.drains.1 += u64::from(pages);
            }
            Event::Direct { .. } => served.direct.0 += 1,
            Event::DirectFree { .. } => served.direct.1 += 1,
            _ => {}
        }
    }
}

/// Counts what its CPUs do.
struct Meter(Rc<RefCell<Tally>>);

impl Watch for Meter {
    /// It runs to its end.
    fn is_over(&self) -> bool {
        false
    }

    fn did(&self, _: u64) {}

    fn spent(&self, part: usize, ps: u64, calls: u64) {
        let tally = &mut *self.0.borrow_mut();
        let of = match part {
            ALLOC => &mut tally.allocs,
            FREE => &mut tally.frees,
            _ => &mut tally.waits,
        };
        of.calls += calls;
        of.spent_ps += ps;
    }

    fn noted(&self, _: usize, failed: u64) {
        self.0.borrow_mut().failed += failed;
    }
}

/// A copy at work.
struct Copy {
    stage: Modelled,
    program: Rc<Program>,
    shelf: Shelf,
    meter: Meter,
    from_ps: u64,
    end_ps: Cell<u64>,
}

impl Copy {
    fn run(&self, cpu: usize) {
        self.stage.spend(self.from_ps);
        run_cpu(&self.stage, &self.meter, &self.program, cpu, &self.shelf);
        self.end_ps.set(self.end_ps.get().max(self.stage.now_ps()));
    }
}

/// Pages of each node that the copies may reach: all of them may end up on one.
fn reach(machine: &Machine, program: &Program, cpus: usize, copies: usize) -> u64 {
    let memory = machine.node_memory_bytes.iter().copied().max().unwrap_or(0) / 4096;
    let marks = memory / 200;
    let held = program.peak_pages.saturating_mul(copies as u64);
    let wanted = held + held / 4 + cpus as u64 * 8192 + marks + 65536;
    wanted.min(memory)
}

/// Runs one cell. A machine too small for the recording gives failed allocations, not an error.
///
/// # Errors
/// The policy contradicts itself, the machine cannot be built or has too few CPUs.
pub fn run(
    machine: &Machine,
    policy: Policy,
    program: &Rc<Program>,
    config: &Config,
) -> Result<Outcome, RunError> {
    let (recorded, copies) = (program.cpus.len(), config.copies.max(1));
    if recorded == 0 {
        return Err(RunError::Empty);
    }
    let cpus = recorded.saturating_mul(copies);
    let has = machine.cpus() as usize;
    if cpus > has {
        return Err(RunError::Cpus { copies, recorded, has });
    }
    let yard = Rc::new(Yard::new(machine, policy, reach(machine, program, cpus, copies))?);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let copies = begin(&yard, program, config, &tally);
    let listener = Rc::clone(&tally);
    yard.allocator
        .platform()
        .listen(Box::new(move |_, event| listener.borrow_mut().on_event(event)));
    let jobs = (0..cpus).map(|cpu| {
        let copy = Rc::clone(&copies[cpu / recorded]);
        let job: Job = Box::new(move || copy.run(cpu % recorded));
        job
    });
    yard.world.run(jobs.collect());
    yard.allocator.platform().listen(Box::new(|_, _| {}));
    let lengths = copies.iter().map(|copy| copy.end_ps.get() - copy.from_ps);
    let (sum, longest) = lengths.fold((0, 0), |(sum, most), ps: u64| (sum + ps, most.max(ps)));
    let first = copies.iter().map(|copy| copy.from_ps).min().unwrap_or(0);
    let last = copies.iter().map(|copy| copy.end_ps.get()).max().unwrap_or(0);
    let Tally { allocs, frees, waits, failed, served } = std::mem::take(&mut *tally.borrow_mut());
    Ok(Outcome {
        cpus,
        recorded_ps: program.recorded_ns.saturating_mul(1000),
        elapsed_ps: (sum / copies.len() as u64, longest),
        total_ps: last - first,
        allocs,
        frees,
        failed,
        waits,
        served,
        stats: yard.world.stats(),
    })
}

/// When each copy begins, picoseconds: the first at once, the others within a part of the recorded
/// time.
pub(crate) fn beginnings(program: &Program, config: &Config) -> Vec<u64> {
    let mut dice = Dice(config.seed);
    let span = (program.recorded_ns / SPREAD).saturating_mul(1000);
    let from_ps = |at| if at == 0 { 0 } else { dice.below(span + 1) };
    (0..config.copies.max(1)).map(from_ps).collect()
}

/// Every copy with what it holds at first, taken at no cost.
fn begin(
    yard: &Rc<Yard>,
    program: &Rc<Program>,
    config: &Config,
    tally: &Rc<RefCell<Tally>>,
) -> Vec<Rc<Copy>> {
    let copy = |(at, from_ps): (usize, u64)| {
        let stage = Modelled::new(yard);
        let shelf = stage.shelf(program.blocks as usize);
        let set_up_as = |cpu| yard.world.set_up_as(at * program.cpus.len() + cpu);
        tally.borrow_mut().failed += set_up(&stage, set_up_as, program, &shelf);
        let (program, meter) = (Rc::clone(program), Meter(Rc::clone(tally)));
        Rc::new(Copy { stage, program, shelf, meter, from_ps, end_ps: Cell::new(from_ps) })
    };
    beginnings(program, config).into_iter().enumerate().map(copy).collect()
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
