//! A recording as a workload: each recorded CPU's requests, a virtual CPU's work.
//!
//! Between two requests a CPU thinks for as long as the recorded one took from event to event. That
//! time holds what the recorded kernel spent in its own allocator, so it is an upper bound of the
//! real think time, and a modelled run is always longer than the recorded. A free waits until its
//! page was allocated, whoever does that; frames have no other order. Several copies can run side
//! by side on different CPUs, none of which share pages; they begin at random moments.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pageyard::{Event, GeometryError, MigrateType, PageKind, Pfn, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::Job;

use super::program::{Program, Step, request_of_held};
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

/// Where a block of the program is.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Not allocated yet.
    Empty,
    /// Allocated at a time.
    Held(Pfn, u64),
    /// There was no memory for it.
    Failed,
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

/// A copy at work.
struct Copy {
    yard: Rc<Yard>,
    program: Rc<Program>,
    slots: RefCell<Vec<Slot>>,
    /// CPUs that wait for a block.
    waiting: RefCell<BTreeMap<u32, Vec<usize>>>,
    tally: Rc<RefCell<Tally>>,
    from_ps: u64,
    end_ps: Cell<u64>,
}

impl Copy {
    /// Takes what is in use at first, at no cost: the CPU at `first` + n is the program's n-th.
    fn set_up(&self, first: usize) {
        for &(block, order, cpu) in &self.program.held {
            self.yard.world.set_up_as(first + usize::from(cpu));
            let taken = self.yard.allocator.alloc(&request_of_held(order));
            let slot = taken.map_or(Slot::Failed, |pfn| Slot::Held(pfn, 0));
            self.tally.borrow_mut().failed += u64::from(taken.is_err());
            self.slots.borrow_mut()[block as usize] = slot;
        }
    }

    fn run(&self, cpu: usize) {
        let world = &self.yard.world;
        world.spend(self.from_ps);
        for &(gap_ns, step) in &self.program.cpus[cpu] {
            world.spend(gap_ns.saturating_mul(1000));
            // Whoever is earlier goes first, also to lines that are only read.
            world.sync();
            match step {
                Step::Alloc { block, request } => {
                    let from = world.now();
                    let taken = self.yard.allocator.alloc(&request);
                    if let Ok(pfn) = taken {
                        world.write(world.layout.page(self.yard.record(pfn)));
                    }
                    let now = world.now();
                    let mut tally = self.tally.borrow_mut();
                    tally.allocs.calls += 1;
                    tally.allocs.spent_ps += now - from;
                    tally.failed += u64::from(taken.is_err());
                    drop(tally);
                    let slot = taken.map_or(Slot::Failed, |pfn| Slot::Held(pfn, now));
                    self.slots.borrow_mut()[block as usize] = slot;
                    let waiting = self.waiting.borrow_mut().remove(&block);
                    waiting.into_iter().flatten().for_each(|cpu| world.wake(cpu, now));
                }
                Step::Free { block, offset, order } => {
                    if let Some(base) = self.await_block(block) {
                        self.free(Pfn(base.0 + u64::from(offset)), order);
                    }
                }
            }
        }
        self.end_ps.set(self.end_ps.get().max(world.now()));
    }

    /// The first page of a block, as soon as it is there; `None` if it never will be.
    fn await_block(&self, block: u32) -> Option<Pfn> {
        let world = &self.yard.world;
        let from = world.now();
        if let Slot::Empty = self.slots.borrow()[block as usize] {
            self.waiting.borrow_mut().entry(block).or_default().push(world.cpu());
        }
        let is_waiting = self.waiting.borrow().contains_key(&block);
        if is_waiting {
            world.park();
        }
        let slot = self.slots.borrow()[block as usize];
        let found = match slot {
            Slot::Held(pfn, at) => {
                world.spend(at.saturating_sub(world.now()));
                Some(pfn)
            }
            Slot::Empty | Slot::Failed => None,
        };
        if is_waiting || world.now() > from {
            let waits = &mut self.tally.borrow_mut().waits;
            waits.calls += 1;
            waits.spent_ps += world.now() - from;
        }
        found
    }

    fn free(&self, pfn: Pfn, order: u8) {
        let world = &self.yard.world;
        // The last reference goes with a locked instruction.
        world.locked(world.layout.page(self.yard.record(pfn)));
        let state = self.yard.allocator.inspect(pfn);
        let is_whole = state.is_some_and(|s| s.kind == PageKind::Allocated && s.order == order);
        if !is_whole {
            // The kernel split the block after it was allocated.
            let t = state.map_or(MigrateType::Movable, |state| state.migratetype);
            self.yard.allocator.seed_allocated(pfn, order, t);
        }
        let from = world.now();
        self.yard.allocator.free(pfn, order);
        let frees = &mut self.tally.borrow_mut().frees;
        frees.calls += 1;
        frees.spent_ps += world.now() - from;
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

/// Every copy with what it holds at first.
fn begin(
    yard: &Rc<Yard>,
    program: &Rc<Program>,
    config: &Config,
    tally: &Rc<RefCell<Tally>>,
) -> Vec<Rc<Copy>> {
    let mut seed = config.seed;
    let span = (program.recorded_ns / SPREAD).saturating_mul(1000);
    let copy = |at: usize| {
        let from_ps = if at == 0 { 0 } else { next(&mut seed) % (span + 1) };
        let copy = Copy {
            yard: Rc::clone(yard),
            program: Rc::clone(program),
            slots: RefCell::new(vec![Slot::Empty; program.blocks as usize]),
            waiting: RefCell::default(),
            tally: Rc::clone(tally),
            from_ps,
            end_ps: Cell::new(from_ps),
        };
        copy.set_up(at * program.cpus.len());
        Rc::new(copy)
    };
    (0..config.copies.max(1)).map(copy).collect()
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
