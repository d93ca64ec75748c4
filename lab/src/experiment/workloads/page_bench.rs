//! page_bench01 and page_bench03 in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, OwnFigure, Parameter, Unit};
use super::unbuilt;
use crate::cells::page_bench::{Config, run as run_cell};

/// Think time where nothing says more: 300 instructions at 2 a cycle and 2.8 GHz, of the order of
/// what the kernel does for a page beside the body of the allocator.
const THINK_PS: u64 = 54_000;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "warm",
        about: "iterations of each CPU before measuring",
        default: 1000,
        quick: 300,
        range: 1..=10_000_000,
    },
    Parameter {
        name: "rounds",
        about: "iterations of each CPU that are measured",
        default: 4000,
        quick: 1500,
        range: 1..=10_000_000,
    },
];

const FIGURES: &[OwnFigure] = &[
    OwnFigure {
        name: "cycles-per-page",
        about: "cycles of the nominal clock that a CPU spends on a page",
        unit: Unit::Cycles,
    },
    OwnFigure {
        name: "spills-per-1000-pages",
        about: "overflows of counters into shared words",
        unit: Unit::Count,
    },
    OwnFigure {
        name: "counter-lines-per-1000-pages",
        about: "lines of counters that came from outside of the core",
        unit: Unit::Count,
    },
];

/// On one CPU.
pub const ONE: Adapter = Adapter {
    name: "page_bench01",
    about: "page_bench01: one CPU takes a page and gives it back, over and over",
    unit: "page",
    cpus: Cpus::One,
    think_ps: THINK_PS,
    argument: None,
    parameters: PARAMETERS,
    figures: FIGURES,
    run,
};

/// On all of them.
pub const ALL: Adapter = Adapter {
    name: "page_bench03",
    about: "page_bench03: every CPU takes a page and gives it back, over and over",
    cpus: Cpus::All,
    ..ONE
};

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let rounds = |name| ready.parameter(name) as u32;
    let config = Config {
        cpus: ready.cell.cpus,
        think: ready.think_instructions(),
        // Counters overflow once in so many pages: CPUs start anywhere between two overflows.
        spread: ready.policy().numa_threshold,
        rounds: (rounds("warm"), rounds("rounds")),
        seed: ready.cell.seed,
    };
    let outcome = run_cell(ready.machine(), ready.policy(), &config)
        .map_err(|error| unbuilt(ready, &error))?;
    let pages = u128::from(outcome.pages.max(1));
    let spills = u128::from(outcome.spills) * 1_000_000 / pages;
    let mut result = CellResult::of(&outcome.stats, outcome.elapsed_ps, outcome.cpus);
    result.score_per_s = outcome.per_second();
    result.set("cycles-per-page", outcome.millicycles);
    result.set("spills-per-1000-pages", spills as u64);
    result.set("counter-lines-per-1000-pages", outcome.counter_lines());
    Ok(result)
}
