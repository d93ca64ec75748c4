//! Jesper Dangaard Brouer's page_bench01, 03, 04 and 05 (prototype-kernel, kernel/mm/bench) on a
//! modelled machine: one CPU, or all of them, take pages and give them back, over and over.
//!
//! One at a time (01 and 03), everything stays in the per-CPU cache: no zone lock is ever taken.
//! What is left to wait for are the counters of NUMA placement, whose differences overflow into
//! words that all CPUs share. In bulk (04) the cache runs dry and over. Across CPUs (05) every page
//! goes through the zone: one CPU takes it, another one frees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{Event, GeometryError, Policy};
use pageyard_sim::layout::Structure;
use pageyard_sim::machine::Machine;
use pageyard_sim::memory::Source;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::Job;

use super::dice::Dice;
use super::modelled::{Modelled, Ring};
use super::work::Watch;
use super::work::page_bench::{self as body, Bulk, GIVING, TAKING};
use super::yard::Yard;

/// Pages of each node that records exist for: far more than the caches of its CPUs hold.
const REACH: u64 = 1 << 17;

/// What a CPU does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a page and gives it back: 01 on one CPU, 03 on all.
    Singly,
    /// Takes many and gives them back: 04.
    Bulk(Bulk),
    /// Even CPUs take pages, which the next CPU gives back: 05, through a ring of so many slots,
    /// half of them filled at first.
    Across {
        /// Slots of each ring.
        slots: usize,
    },
}

impl Kind {
    /// What a workload of a name does, with its parameters; singly, whatever is no other's name.
    #[must_use]
    pub fn of(workload: &str, parameter: impl Fn(&str) -> u64) -> Kind {
        match workload {
            "page_bench04" => Kind::Bulk(Bulk {
                pages: parameter("pages") as usize,
                one_call: parameter("call") == 1,
            }),
            "page_bench05" => Kind::Across { slots: parameter("ring") as usize },
            _ => Kind::Singly,
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What a CPU does.
    pub kind: Kind,
    /// CPUs that take part.
    pub cpus: usize,
    /// Instructions of taking a page and giving it back, beside those of the allocator's body.
    pub think: u64,
    /// Iterations that a CPU makes at the most before time begins, drawn at random, so that CPUs
    /// differ in how near an overflow they are.
    pub spread: u32,
    /// Iterations of each CPU at least before measuring, and while measuring. Across CPUs, those of
    /// each receiver.
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
    /// Time of taking a page and of giving it back, picoseconds, where they are told apart.
    pub parts_ps: [u64; 2],
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
    /// CPUs whose rounds are counted: all, or all receivers.
    counted: usize,
    rounds: (u32, u32),
    ready: Cell<usize>,
    from_ps: Cell<u64>,
    pages: Cell<u64>,
    spills: Cell<u64>,
    /// Time and pages of each part, while measuring.
    parts: [Cell<(u64, u64)>; 2],
    result: RefCell<Option<Outcome>>,
    tsc_khz: u64,
}

impl Meter {
    fn is_measuring(&self) -> bool {
        self.from_ps.get() != 0
    }

    fn is_over(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// One CPU has done the rounds of the stretch.
    fn arrive(&self) {
        self.ready.set(self.ready.get() + 1);
        if self.ready.get() < self.counted {
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
        let millicycles = cpu_ps * u128::from(self.tsc_khz) / 1_000_000 / u128::from(pages.max(1));
        *self.result.borrow_mut() = Some(Outcome {
            cpus: self.cpus,
            elapsed_ps,
            pages,
            millicycles: millicycles as u64,
            spills: self.spills.get(),
            parts_ps: [TAKING, GIVING].map(|part| {
                let (ps, pages) = self.parts[part].get();
                ps / pages.max(1)
            }),
            stats: world.stats(),
        });
    }
}

/// A CPU that goes round.
struct Runner {
    meter: Rc<Meter>,
    rounds: Cell<u32>,
    was_measuring: Cell<bool>,
}

impl Runner {
    fn new(meter: &Rc<Meter>) -> Runner {
        let meter = Rc::clone(meter);
        Runner { meter, rounds: Cell::new(0), was_measuring: Cell::new(false) }
    }
}

impl Watch for Runner {
    fn is_over(&self) -> bool {
        self.meter.is_over()
    }

    fn did(&self, pages: u64) {
        let meter = &self.meter;
        if meter.is_measuring() && !self.was_measuring.get() {
            self.rounds.set(0);
            self.was_measuring.set(true);
        }
        self.rounds.set(self.rounds.get() + 1);
        meter.pages.set(meter.pages.get() + pages);
        let goal = if self.was_measuring.get() { meter.rounds.1 } else { meter.rounds.0 };
        if self.rounds.get() == goal {
            meter.arrive();
        }
    }

    fn spent(&self, part: usize, ps: u64, pages: u64) {
        if self.meter.is_measuring() && !self.is_over() {
            let (spent, counted) = self.meter.parts[part].get();
            self.meter.parts[part].set((spent + ps, counted + pages));
        }
    }
}

/// The threshold of [`pageyard::policy::NumaStat::Threshold`] with which counters overflow as often
/// as ordinary ones with `threshold`: those go on from minus half of it.
#[must_use]
pub const fn overstepped(threshold: u32) -> u32 {
    threshold + threshold / 2
}

/// Pages of each node that records exist for.
fn reach(machine: &Machine, config: &Config) -> u64 {
    let Kind::Across { slots } = config.kind else { return REACH };
    let sockets = machine.topology.sockets as usize;
    let marks = machine.node_memory_bytes.iter().max().copied().unwrap_or(0) / 4096 / 200;
    // On its way is what a ring holds, beside what the caches do.
    let ways = config.cpus.div_ceil(2).div_ceil(sockets) as u64 + 1;
    REACH + marks + ways * (slots as u64 + 8192)
}

/// The CPUs' work.
fn jobs(meter: &Rc<Meter>, config: &Config) -> Vec<Job> {
    let Config { kind, think, .. } = *config;
    let stage = Modelled::new(&meter.yard);
    let mut rings: Vec<Rc<Ring>> = Vec::new();
    if let Kind::Across { slots } = kind {
        for pair in 0..config.cpus / 2 {
            let ring = Ring::new(pair as u64 * Ring::lines(slots), slots);
            meter.yard.world.set_up_as(2 * pair);
            body::prefill(&stage, &ring, slots / 2);
            rings.push(Rc::new(ring));
        }
    }
    let job = |cpu: usize| {
        let (stage, runner) = (stage.clone(), Runner::new(meter));
        let ring = rings.get(cpu / 2).cloned();
        let job: Job = Box::new(move || match (kind, ring) {
            (Kind::Bulk(bulk), _) => body::in_bulk(&stage, &runner, think, bulk),
            (Kind::Across { .. }, Some(ring)) if cpu.is_multiple_of(2) => {
                body::send_all(&stage, &runner, think, &*ring);
            }
            (Kind::Across { .. }, Some(ring)) => body::receive_all(&stage, &runner, think, &*ring),
            (Kind::Singly | Kind::Across { .. }, _) => body::singly(&stage, &runner, think),
        });
        job
    };
    (0..config.cpus).map(job).collect()
}

/// Runs one cell. Across CPUs their number is even.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let is_across = matches!(config.kind, Kind::Across { .. });
    assert!(!is_across || config.cpus.is_multiple_of(2), "a CPU takes, another one gives back");
    let lines = match config.kind {
        Kind::Across { slots } => (config.cpus / 2) as u64 * Ring::lines(slots),
        _ => 0,
    };
    let yard = Rc::new(Yard::with_lines(machine, policy, reach(machine, config), lines)?);
    let meter = Rc::new(Meter {
        yard: Rc::clone(&yard),
        cpus: config.cpus,
        counted: if is_across { config.cpus / 2 } else { config.cpus },
        rounds: (config.rounds.0.max(1), config.rounds.1.max(1)),
        ready: Cell::new(0),
        from_ps: Cell::new(0),
        pages: Cell::new(0),
        spills: Cell::new(0),
        parts: Default::default(),
        result: RefCell::new(None),
        tsc_khz: machine.tsc_khz,
    });
    let stage = Modelled::new(&yard);
    let mut dice = Dice(config.seed);
    for cpu in 0..config.cpus {
        yard.world.set_up_as(cpu);
        for _ in 0..=dice.below(u64::from(config.spread) + 1) {
            body::iterate(&stage, 0);
        }
    }
    let listener = Rc::clone(&meter);
    yard.allocator.platform().listen(Box::new(move |_, event| {
        if matches!(event, Event::CounterSpill { .. }) {
            listener.spills.set(listener.spills.get() + 1);
        }
    }));
    yard.world.run(jobs(&meter, config));
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
    use pageyard_sim::stats::LockAt;

    fn cell(cpus: usize, threshold: u32) -> Outcome {
        let machine = Machine::named("bdw-2s").expect("a machine that comes along");
        let mut policy = preset::find("linux-4.14").expect("a preset");
        policy.numa_threshold = threshold;
        let kind = Kind::Singly;
        let (spread, rounds) = (threshold, (50, 200));
        let config = Config { kind, cpus, think: 100, spread, rounds, seed: 1 };
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
        let (kind, rounds) = (Kind::Singly, (50, 200));
        let config = Config { kind, cpus: 1, think: 100, spread: 0, rounds, seed: 1 };
        let on = run(&machine, policy, &config).expect("a machine");
        policy.numa_stat = NumaStat::Off;
        let off = run(&machine, policy, &config).expect("a machine");
        assert!(off.millicycles < on.millicycles);
        assert_eq!((off.spills, off.counter_lines()), (0, 0));
        assert!(cell(88, 65533).millicycles > on.millicycles, "siblings share a core");
    }
    fn other(cpus: usize, kind: Kind) -> Outcome {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find("linux-6.6").expect("a preset");
        let pages = if let Kind::Bulk(bulk) = kind { bulk.pages as u32 } else { 1 };
        let rounds = (2000u32.div_ceil(pages), 6000u32.div_ceil(pages));
        let config = Config { kind, cpus, think: 100, spread: 0, rounds, seed: 1 };
        run(&machine, policy, &config).expect("a machine")
    }

    fn zone_locks(outcome: &Outcome) -> u64 {
        outcome.stats.lock(|at| matches!(at, LockAt::Zone(_))).taken
    }

    #[test]
    fn one_call_for_many_pages_costs_less_than_many_calls() {
        let bulk = |pages, one_call| other(1, Kind::Bulk(Bulk { pages, one_call }));
        let (one, many, loops) = (bulk(1, true), bulk(32, true), bulk(32, false));
        assert!(many.parts_ps[TAKING] * 2 < one.parts_ps[TAKING], "{:?}", many.parts_ps);
        assert!(many.parts_ps[TAKING] * 2 < loops.parts_ps[TAKING], "{:?}", loops.parts_ps);
        assert_eq!(many.pages % 32, 0);
        assert_eq!(zone_locks(&many), 0, "it stays in its cache");
        assert!(zone_locks(&bulk(20_000, true)) > 0, "more than a cache holds");
        assert_eq!(many, bulk(32, true));
    }

    #[test]
    fn pages_given_back_elsewhere_go_through_the_zone() {
        let across = |cpus| other(cpus, Kind::Across { slots: 8192 });
        let (two, eight) = (across(2), across(8));
        let alone = other(1, Kind::Bulk(Bulk { pages: 1, one_call: false }));
        assert!(zone_locks(&two) > 0, "each page taken here is another's to give back");
        assert!(two.parts_ps[TAKING] > alone.parts_ps[TAKING], "{:?}", two.parts_ps);
        assert!(eight.parts_ps[TAKING] > two.parts_ps[TAKING], "{:?}", eight.parts_ps);
        assert_eq!(two, across(2));
    }
}
