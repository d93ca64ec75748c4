//! Bulk of linux-alloc-bench (luhsra; LLFree, USENIX ATC 2023): a thread on each of some cores of
//! one node takes a large number of pages, all wait for each other, and each gives back its own.
//!
//! The benchmark repeats this; so do we, and measure the last round: the free lists are then in the
//! order that frees leave behind. Time is counted as there, a CPU at a time, and averaged.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{GeometryError, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::Job;

use super::modelled::{Held, Modelled};
use super::work::bulk as body;
use super::yard::Yard;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Cores of node 0 that take part.
    pub cpus: usize,
    /// Pages that each takes. The benchmark takes half the memory it was told of by the most cores.
    pub pages: usize,
    /// Rounds; the last one is measured.
    pub rounds: u32,
    /// Instructions of one call beside those of the allocator's body.
    pub think: u64,
}

/// What came out. Times are picoseconds a page, averaged over CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of taking one.
    pub get_ps: u64,
    /// Of giving one back.
    pub put_ps: u64,
    /// What the machine counted while taking.
    pub get: Stats,
    /// What it counted while giving back.
    pub put: Stats,
}

/// One half of a round on all CPUs: they begin together, and each takes its own time.
struct Half {
    yard: Rc<Yard>,
    /// Time of all CPUs together.
    spent_ps: Cell<u64>,
    /// When the last one ended.
    end_ps: Cell<u64>,
}

impl Half {
    fn new(yard: &Rc<Yard>) -> Rc<Half> {
        Rc::new(Half { yard: Rc::clone(yard), spent_ps: Cell::new(0), end_ps: Cell::new(0) })
    }

    /// Runs `work` on each CPU from one moment on.
    fn run(self: &Rc<Half>, cpus: usize, from_ps: u64, work: impl Fn(usize) + Clone + 'static) {
        let jobs = (0..cpus).map(|cpu| {
            let (half, work) = (Rc::clone(self), work.clone());
            let job: Job = Box::new(move || {
                let world = &half.yard.world;
                world.spend(from_ps.saturating_sub(world.now()));
                let from = world.now();
                work(cpu);
                half.spent_ps.set(half.spent_ps.get() + world.now() - from);
                half.end_ps.set(half.end_ps.get().max(world.now()));
            });
            job
        });
        self.yard.world.run(jobs.collect());
    }
}

/// Pages that records exist for on a node.
fn reach(machine: &Machine, config: &Config) -> u64 {
    let marks = machine.node_memory_bytes[0] / 4096 / 200;
    config.cpus as u64 * (config.pages as u64 + 8192) + marks + 65536
}

/// Runs one cell. CPUs beyond those of node 0 take from node 0 too, as the benchmark does.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let yard = Rc::new(Yard::new(machine, policy, reach(machine, config))?);
    let stage = Modelled::new(&yard);
    let held: Rc<RefCell<Vec<Vec<Held>>>> = Rc::new(RefCell::new(vec![Vec::new(); config.cpus]));
    let Config { cpus, pages, think, .. } = *config;
    let mut now = 0;
    let mut outcome = None;
    for _ in 0..config.rounds.max(1) {
        yard.world.reset_stats();
        let get = Half::new(&yard);
        let (to, at) = (Rc::clone(&held), stage.clone());
        get.run(cpus, now, move |cpu| {
            let taken = body::get(&at, think, pages);
            to.borrow_mut()[cpu] = taken;
        });
        let got = yard.world.stats();
        yard.world.reset_stats();
        let put = Half::new(&yard);
        let (from, at) = (Rc::clone(&held), stage.clone());
        put.run(cpus, get.end_ps.get(), move |cpu| {
            let mine = std::mem::take(&mut from.borrow_mut()[cpu]);
            body::put(&at, think, mine);
        });
        now = put.end_ps.get();
        let calls = (cpus * pages).max(1) as u64;
        outcome = Some(Outcome {
            get_ps: get.spent_ps.get() / calls,
            put_ps: put.spent_ps.get() / calls,
            get: got,
            put: yard.world.stats(),
        });
    }
    Ok(outcome.expect("at least one round"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::preset;
    use pageyard_sim::stats::LockAt;

    fn cell(cpus: usize) -> Outcome {
        let machine = Machine::named("icx-5320").expect("a machine that comes along");
        let policy = preset::find("linux-6.0").expect("a preset");
        let config = Config { cpus, pages: 8192, rounds: 2, think: 0 };
        run(&machine, policy, &config).expect("a machine")
    }

    #[test]
    fn the_same_cell_gives_the_same_outcome() {
        assert_eq!(cell(2), cell(2));
    }

    #[test]
    fn cores_queue_at_the_zone_lock_of_their_node() {
        let (one, six) = (cell(1), cell(6));
        assert!(six.get_ps > 2 * one.get_ps, "{} and {} ps", one.get_ps, six.get_ps);
        assert!(six.put_ps > one.put_ps, "{} and {} ps", one.put_ps, six.put_ps);
        let waited = |stats: &Stats| stats.lock(|at| matches!(at, LockAt::Zone(_))).wait_ps;
        assert_eq!(waited(&one.get) + waited(&one.put), 0);
        assert!(waited(&six.get) / (6 * 8192) > six.get_ps / 3, "waiting is what it spends");
    }
}
