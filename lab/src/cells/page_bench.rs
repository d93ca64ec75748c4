//! Jesper Dangaard Brouer's page_bench01 and page_bench03 (prototype-kernel, kernel/mm/bench): one
//! CPU, or all of them, take a page and give it back, over and over.
//!
//! Everything stays in the per-CPU cache: no zone lock is ever taken. What is left to wait for are
//! the counters of NUMA placement, whose differences overflow into words that all CPUs share.
//! page_bench04 (bulk) and 05 (across CPUs) are not offered: no published table uses them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{Event, GeometryError, Policy, Request};
use pageyard_sim::layout::Structure;
use pageyard_sim::machine::Machine;
use pageyard_sim::memory::Source;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::Job;

use super::yard::Yard;

/// Pages of each node that records exist for: far more than the caches of its CPUs hold.
const REACH: u64 = 1 << 17;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that take part: 1 is page_bench01, all of them page_bench03.
    pub cpus: usize,
    /// Instructions of an iteration beside those of the allocator's body.
    pub think: u64,
    /// Iterations that a CPU makes at the most before time begins, drawn at random, so that CPUs
    /// differ in how near an overflow they are.
    pub spread: u32,
    /// Iterations of each CPU at least before measuring, and while measuring.
    pub rounds: (u32, u32),
    /// Seed of the starting points.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// CPUs that took part.
    pub cpus: usize,
    /// Length of what was measured, picoseconds.
    pub elapsed_ps: u64,
    /// Pages taken and given back meanwhile, by all CPUs.
    pub pages: u64,
    /// Thousandths of a cycle of the nominal clock that a CPU spent on a page.
    pub millicycles: u64,
    /// Overflows of counters.
    pub spills: u64,
    /// What the machine counted.
    pub stats: Stats,
}

impl Outcome {
    /// Pages a second of all CPUs together.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        (u128::from(self.pages) * 1_000_000_000_000 / u128::from(self.elapsed_ps.max(1))) as u64
    }

    /// Lines of counters that came from outside of the core, in a million pages.
    #[must_use]
    pub fn counter_lines(&self) -> u64 {
        let far = |(&(structure, source), count): (&(Structure, Source), &u64)| {
            let is_far = structure == Structure::Counters && source > Source::L2;
            is_far.then_some(*count)
        };
        let lines: u64 = self.stats.lines.iter().filter_map(far).sum();
        lines * 1_000_000 / self.pages.max(1)
    }
}

/// When to measure: once every CPU has warmed up, until every CPU has done its rounds since.
struct Meter {
    yard: Rc<Yard>,
    cpus: usize,
    rounds: (u32, u32),
    ready: Cell<usize>,
    from_ps: Cell<u64>,
    pages: Cell<u64>,
    spills: Cell<u64>,
    result: RefCell<Option<Outcome>>,
}

impl Meter {
    fn is_measuring(&self) -> bool {
        self.from_ps.get() != 0
    }

    fn is_over(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// One CPU has done the rounds of the stretch.
    fn arrive(&self, tsc_khz: u64) {
        self.ready.set(self.ready.get() + 1);
        if self.ready.get() < self.cpus {
            return;
        }
        let world = &self.yard.world;
        if !self.is_measuring() {
            self.ready.set(0);
            self.pages.set(0);
            self.spills.set(0);
            self.from_ps.set(world.now());
            world.reset_stats();
            return;
        }
        let elapsed_ps = world.now() - self.from_ps.get();
        let pages = self.pages.get();
        let cpu_ps = u128::from(elapsed_ps) * self.cpus as u128;
        let millicycles = cpu_ps * u128::from(tsc_khz) / 1_000_000 / u128::from(pages.max(1));
        *self.result.borrow_mut() = Some(Outcome {
            cpus: self.cpus,
            elapsed_ps,
            pages,
            millicycles: millicycles as u64,
            spills: self.spills.get(),
            stats: world.stats(),
        });
    }

    /// What a CPU runs.
    fn work(&self, think: u64, tsc_khz: u64) {
        let mut rounds = 0;
        let mut was_measuring = false;
        while !self.is_over() {
            iterate(&self.yard, think);
            if self.is_measuring() && !was_measuring {
                (rounds, was_measuring) = (0, true);
            }
            rounds += 1;
            self.pages.set(self.pages.get() + 1);
            let goal = if was_measuring { self.rounds.1 } else { self.rounds.0 };
            if rounds == goal {
                self.arrive(tsc_khz);
            }
        }
    }
}

/// Takes a page and gives it back.
fn iterate(yard: &Yard, think: u64) {
    let world = &yard.world;
    // Others may have written what is only read here: the counters next to the overflowing ones.
    world.sync();
    world.execute(think);
    let pfn = yard.take(&Request::atomic(0));
    let page = world.layout.page(yard.record(pfn));
    world.write(page);
    world.locked(page);
    yard.allocator.free(pfn, 0);
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The threshold of [`pageyard::policy::NumaStat::Threshold`] with which counters overflow as often
/// as ordinary ones with `threshold`: those go on from minus half of it.
#[must_use]
pub const fn overstepped(threshold: u32) -> u32 {
    threshold + threshold / 2
}

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let yard = Rc::new(Yard::new(machine, policy, REACH)?);
    let meter = Rc::new(Meter {
        yard: Rc::clone(&yard),
        cpus: config.cpus,
        rounds: (config.rounds.0.max(1), config.rounds.1.max(1)),
        ready: Cell::new(0),
        from_ps: Cell::new(0),
        pages: Cell::new(0),
        spills: Cell::new(0),
        result: RefCell::new(None),
    });
    let mut seed = config.seed;
    for cpu in 0..config.cpus {
        yard.world.set_up_as(cpu);
        for _ in 0..=next(&mut seed) % (u64::from(config.spread) + 1) {
            iterate(&yard, 0);
        }
    }
    let listener = Rc::clone(&meter);
    yard.allocator.platform().listen(Box::new(move |_, event| {
        if matches!(event, Event::CounterSpill { .. }) {
            listener.spills.set(listener.spills.get() + 1);
        }
    }));
    let (think, tsc_khz) = (config.think, machine.tsc_khz);
    let jobs = (0..config.cpus).map(|_| {
        let meter = Rc::clone(&meter);
        let job: Job = Box::new(move || meter.work(think, tsc_khz));
        job
    });
    yard.world.run(jobs.collect());
    // The listener holds the meter, which holds the machine: let go of one of them.
    yard.allocator.platform().listen(Box::new(|_, _| {}));
    let outcome = meter.result.borrow_mut().take();
    Ok(outcome.expect("it ran until it was measured"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::policy::NumaStat;
    use pageyard::preset;

    fn cell(cpus: usize, threshold: u32) -> Outcome {
        let machine = Machine::named("bdw-2s").expect("a machine that comes along");
        let mut policy = preset::find("linux-4.14").expect("a preset");
        policy.numa_threshold = threshold;
        let config = Config { cpus, think: 100, spread: threshold, rounds: (50, 200), seed: 1 };
        run(&machine, policy, &config).expect("a machine")
    }

    #[test]
    fn the_same_cell_gives_the_same_outcome() {
        assert_eq!(cell(24, 47), cell(24, 47));
    }

    #[test]
    fn counters_overflow_as_often_as_their_threshold_says() {
        let outcome = cell(24, 48);
        // Two counters a page, hit and local, overflow at every 49th.
        let expected = outcome.pages * 2 / 49;
        assert!(outcome.spills.abs_diff(expected) <= 48, "{} of {expected}", outcome.spills);
    }

    #[test]
    fn small_thresholds_cost_and_more_on_more_cpus() {
        let extra = |cpus| cell(cpus, 48).millicycles - cell(cpus, 65533).millicycles;
        let (few, many) = (extra(4), extra(44));
        assert!(many > 4 * few, "{few} and {many} thousandths of a cycle");
        assert!(cell(44, 48).counter_lines() > 10 * cell(44, 4096).counter_lines());
    }

    #[test]
    fn one_cpu_without_counters_is_the_fastest() {
        let machine = Machine::named("bdw-2s").expect("a machine that comes along");
        let mut policy = preset::find("linux-4.15").expect("a preset");
        let config = Config { cpus: 1, think: 100, spread: 0, rounds: (50, 200), seed: 1 };
        let on = run(&machine, policy, &config).expect("a machine");
        policy.numa_stat = NumaStat::Off;
        let off = run(&machine, policy, &config).expect("a machine");
        assert!(off.millicycles < on.millicycles);
        assert_eq!((off.spills, off.counter_lines()), (0, 0));
        assert!(cell(88, 65533).millicycles > on.millicycles, "siblings share a core");
    }
}
