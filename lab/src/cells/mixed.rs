//! Small faults beside huge ones: one half of the CPUs runs page_fault1, the other half the same
//! with `MADV_HUGEPAGE`, in memory that was once handed out page by page (RFC v4 of 2018).
//!
//! What a process does is in [`work::mixed`](super::work::mixed). Before the processes begin, all
//! memory is taken page by page by all CPUs in turn and given back. The first half of the CPUs has
//! the small faults: with two threads a core, each core has one process of each kind.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{GeometryError, Policy, Request};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::dice::Dice;
use super::file::FilePages;
use super::lru::Lru;
use super::modelled::{Held, Modelled};
use super::page_fault1::PAGES;
use super::pieces;
use super::work::area::Area;
use super::work::mixed::{HUGE_PAGES, Kind, Process, TURN, huge_page};
use super::work::{Stage, Watch};
use super::yard::{Measured, Yard};

/// Memory of a node, in what its processes hold at the most.
pub(crate) const ROOM: u64 = 2;

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
    /// Pages touched by a CPU that end either, if its caches hold everything.
    pub pages: u64,
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
    fn speed(&self, kind: Kind, part: usize, ps: u64, pages: u64) {
        let time = &mut self.times.borrow_mut()[kind as usize][part];
        time.0 += ps;
        time.1 += pages;
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

/// Counts what a process does.
struct Meter {
    yard: Rc<Yard>,
    tally: Rc<Tally>,
    kind: Kind,
}

impl Meter {
    fn count(&self, counter: &Cell<u64>, by: u64) {
        if self.yard.control.is_measuring() {
            counter.set(counter.get() + by);
        }
    }
}

impl Watch for Meter {
    fn is_over(&self) -> bool {
        self.yard.control.is_over()
    }

    fn did(&self, pages: u64) {
        self.count(&self.tally.touched[self.kind as usize], pages);
        self.yard.control.did(pages);
    }

    fn spent(&self, part: usize, ps: u64, pages: u64) {
        self.tally.speed(self.kind, part, ps, pages);
    }

    fn noted(&self, what: usize, times: u64) {
        self.count(&self.tally.huge[what], times);
    }
}

/// A process' blocks at its starting point, and whether it is unmapping.
type Start = (Vec<Held>, bool);

/// Gives every process what it has at its starting point, a batch or a huge page at a time.
fn start(stage: &Modelled, config: &Config) -> Vec<Start> {
    let mut dice = Dice(config.seed);
    let mut wanted = Vec::new();
    let kind_of = |cpu: usize| Kind::of(cpu, config.cpus);
    for cpu in 0..config.cpus {
        let is_unmapping = dice.below(1000) < config.unmapping[kind_of(cpu) as usize];
        wanted.push((dice.below(PAGES as u64) as usize, is_unmapping));
    }
    let mut held: Vec<Vec<Held>> = vec![Vec::new(); config.cpus];
    let mut pages = vec![0usize; config.cpus];
    let mut open: Vec<usize> = (0..config.cpus).collect();
    while !open.is_empty() {
        open.retain(|&cpu| {
            stage.yard.world.set_up_as(cpu);
            let mut new = Vec::new();
            let fresh = pages[cpu].is_multiple_of(HUGE_PAGES);
            let huge = kind_of(cpu) == Kind::Huge && fresh;
            match huge.then(|| stage.try_take(&huge_page())).flatten() {
                Some(page) => new.push(page),
                None => {
                    // Never beyond the next 2 MiB.
                    let turn = TURN.min(HUGE_PAGES - pages[cpu] % HUGE_PAGES);
                    new.extend((0..turn).map(|_| stage.take(&Request::user(0))));
                }
            }
            pages[cpu] += pages_of(&new);
            stage.list(&new);
            held[cpu].extend(new);
            pages[cpu] < wanted[cpu].0
        });
    }
    held.into_iter().zip(wanted).map(|(held, (_, is_unmapping))| (held, is_unmapping)).collect()
}

fn pages_of(blocks: &[Held]) -> usize {
    blocks.iter().map(|block| 1 << block.order).sum()
}

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let sockets = machine.topology.sockets as usize;
    let marks = machine.node_memory_bytes[0] / 4096 / 200;
    let reach = ROOM * config.cpus.div_ceil(sockets) as u64 * PAGES as u64 + marks + 65536;
    let yard = Rc::new(pieces::lay(machine, policy, reach)?);
    let lrus = Rc::new(Lru::of_nodes(&yard.world, sockets, yard.records(), super::lru::KERNEL));
    let stage = Modelled { yard: Rc::clone(&yard), lrus };
    let started = start(&stage, config);
    let tally = Rc::new(Tally::default());
    yard.control.arm(config.cpus, config.holds.0, config.holds.1);
    yard.control.bound(config.pages);
    let mut jobs: Vec<Job> = Vec::new();
    for (cpu, (held, is_unmapping)) in started.into_iter().enumerate() {
        let (stage, think_ps, kind) = (stage.clone(), config.think_ps, Kind::of(cpu, config.cpus));
        let meter = Meter { yard: Rc::clone(&yard), tally: Rc::clone(&tally), kind };
        jobs.push(Box::new(move || {
            let (stage, file) = (&stage, &FilePages::default());
            let area = Area { stage, file, size: PAGES, think_ps, held, waiting: 0 };
            Process { area, kind }.run(&meter, is_unmapping);
        }));
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
        let config = Config { cpus: 4, think_ps, unmapping, holds, pages: u64::MAX, seed: 1 };
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
