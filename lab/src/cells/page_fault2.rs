//! will-it-scale's page_fault2, one process a CPU: map 128 MiB of a file of its own privately,
//! write to every page, unmap.
//!
//! As page_fault1, but a fault copies a page of the file instead of clearing its own. The file is
//! in the page cache from the beginning.

use pageyard::{GeometryError, Policy};
use pageyard_sim::machine::Machine;

use super::page_fault1::{Config, Outcome, Touch, run_touching};

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    run_touching(machine, policy, config, Touch::CopyOfFile)
}

#[cfg(test)]
mod tests {
    use super::super::page_fault1;
    use super::super::points::Around;
    use super::*;
    use pageyard::preset;

    type Cell = fn(&Machine, Policy, &Config) -> Result<Outcome, GeometryError>;

    fn cell(run: Cell, cpus: usize) -> Outcome {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find("linux-4.18").expect("a preset");
        let config = Config {
            cpus,
            think_ps: 1_000_000,
            unmapping: 300,
            around: Around { middle: 0, spread: 1000 },
            see_both: true,
            holds: (3, 10),
            pages: 32768,
            seed: 1,
            lru_kernel: 418,
        };
        run(&machine, policy, &config).expect("a machine")
    }

    #[test]
    fn the_same_cell_gives_the_same_outcome() {
        assert_eq!(cell(run, 4), cell(run, 4));
    }

    #[test]
    fn copying_costs_more_than_clearing_and_touches_the_page_of_the_file_too() {
        let (clears, copies) = (cell(page_fault1::run, 2), cell(run, 2));
        let each = |outcome: &Outcome| outcome.measured.elapsed_ps / outcome.measured.work.max(1);
        assert!(each(&copies) > each(&clears) + 100_000, "{} {}", each(&copies), each(&clears));
        let lines = |outcome: &Outcome| {
            let uses: u64 = outcome.measured.stats.contents.values().sum();
            (uses + outcome.measured.work / 2) / outcome.measured.work.max(1)
        };
        assert_eq!((lines(&clears), lines(&copies)), (64, 128));
    }
}
