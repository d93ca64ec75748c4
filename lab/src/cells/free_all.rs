//! Parallel free of a large area: every CPU holds its part of a huge mapping and unmaps it, all at
//! once (RFC v4 of 2018 against contention on the zone lock: 512 GiB, four sockets).
//!
//! Pages were faulted in by all CPUs at once, a batch at a time. The area is a sixteenth of the
//! published one: what a CPU waits for is the same lock after a tenth of a second as after two.
//! CPUs begin at any step of unmapping a group, as they are after a while.

use std::rc::Rc;

use pageyard::{GeometryError, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::dice::Dice;
use super::lru::Lru;
use super::modelled::Modelled;
use super::work::page_fault::Rest;
use super::work::{Stage, free_all as body};
use super::yard::{Measured, Yard};

/// Pages of the whole area: 32 GiB, a sixteenth of the 512 GiB published.
pub const PAGES: u64 = 8 << 20;
/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that free.
    pub cpus: usize,
    /// Pages of the area, shared out equally.
    pub pages: u64,
    /// Time of unmapping a page outside of what is modelled, picoseconds.
    pub think_ps: u64,
    /// Holds of zone locks by every CPU before measuring, and while measuring.
    pub holds: (u32, u32),
    /// Seed of what each has unmapped of its first group.
    pub seed: u64,
}

/// Runs one cell. The unit of work is a page freed. It ends when a CPU has freed all of its part,
/// if every CPU was not measured before: [`Measured::holds_least`] says so.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Measured, GeometryError> {
    let sockets = machine.topology.sockets as usize;
    let share = (config.pages / config.cpus.max(1) as u64) as usize;
    let marks = machine.node_memory_bytes[0] / 4096 / 200;
    let reach = config.cpus.div_ceil(sockets) as u64 * (share as u64 + 8192) + marks + 65536;
    let yard = Rc::new(Yard::new(machine, policy, reach)?);
    let lrus = Lru::of_nodes(&yard.world, sockets, yard.records(), super::lru::KERNEL);
    let stage = Modelled { yard: Rc::clone(&yard), lrus: Rc::new(lrus) };
    let held = body::fault_in(&stage, |cpu| yard.world.set_up_as(cpu), config.cpus, share);
    yard.control.arm(config.cpus, config.holds.0, config.holds.1);
    let think_ps = config.think_ps;
    // All at the first step of a group, they would want the LRU lock together.
    let mut dice = Dice(config.seed);
    let jobs = held.into_iter().enumerate().map(|(cpu, pages)| {
        let stage = stage.clone();
        let rest = Rest::at_some_time(pages.len(), &mut dice);
        yard.world.set_up_as(cpu);
        stage.unlist(&pages[..rest.unlisted]);
        let job: Job = Box::new(move || {
            let control = &*stage.yard.control;
            body::unmap_all(&stage, control, pages, rest, think_ps);
            control.finish();
        });
        job
    });
    let jobs = jobs.collect();
    yard.world.run(jobs);
    Ok(yard.control.measured().expect("each CPU ends it when it has no more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::preset;
    use pageyard_sim::stats::LockAt;

    fn cell(cpus: usize, pages: u64) -> Measured {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find("linux-4.18").expect("a preset");
        let config = Config { cpus, pages, think_ps: 0, holds: (3, 10), seed: 1 };
        run(&machine, policy, &config).expect("a machine")
    }

    #[test]
    fn the_same_cell_gives_the_same_outcome() {
        let outcome = cell(4, 16384);
        assert_eq!((outcome.holds_wanted, outcome.holds_least >= 10), (10, true));
        assert_eq!(outcome, cell(4, 16384));
    }

    #[test]
    fn who_frees_together_waits() {
        let wait = |cpus| {
            let measured = cell(cpus, 4096 * cpus as u64);
            measured.share(measured.stats.lock(|at| !matches!(at, LockAt::Pcp(_))).wait_ps)
        };
        assert_eq!(wait(1), 0);
        assert!(wait(8) > wait(2), "{} and {} thousandths", wait(2), wait(8));
    }

    #[test]
    fn an_area_that_is_too_small_says_how_little_was_seen() {
        let measured = cell(4, 512);
        assert!(measured.holds_least < measured.holds_wanted, "{}", measured.holds_least);
        assert!(measured.work > 0 && measured.elapsed_ps > 0);
    }
}
