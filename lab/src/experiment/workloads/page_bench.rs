//! page_bench01, 03, 04 and 05 in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, OwnFigure, Parameter, Unit};
use super::{pairs, unbuilt};
use crate::cells::page_bench::{Config, Kind, run as run_cell};

const WARM: Parameter = Parameter {
    name: "warm",
    about: "iterations of each CPU before measuring",
    default: 1000,
    quick: 300,
    range: 1..=10_000_000,
};

const ROUNDS: Parameter = Parameter {
    name: "rounds",
    about: "iterations of each CPU that are measured",
    default: 4000,
    quick: 1500,
    range: 1..=10_000_000,
};

/// Pages beside the small ones of a per-CPU list: some of its fillings at the least.
const WARM_PAGES: Parameter =
    Parameter { about: "pages of each CPU before measuring", default: 4000, quick: 2000, ..WARM };

const ROUNDS_PAGES: Parameter = Parameter {
    about: "pages of each CPU that are measured",
    default: 16_000,
    quick: 6000,
    ..ROUNDS
};

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

/// Taking and giving back told apart.
const HALVES: &[OwnFigure] = &[
    FIGURES[0],
    OwnFigure { name: "get-ns", about: "time of taking a page", unit: Unit::Ns },
    OwnFigure { name: "put-ns", about: "time of giving a page back", unit: Unit::Ns },
];

/// On one CPU.
pub const ONE: Adapter = Adapter {
    name: "page_bench01",
    about: "page_bench01: one CPU takes a page and gives it back, over and over",
    unit: "page",
    cpus: Cpus::One,
    think_ps: 0,
    argument: None,
    parameters: &[WARM, ROUNDS],
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

/// In bulk.
pub const BULK: Adapter = Adapter {
    name: "page_bench04",
    about: "page_bench04: a CPU takes many pages at once and gives them back one by one",
    parameters: &[
        Parameter {
            name: "pages",
            about: "pages that are taken before they are given back",
            default: 64,
            quick: 64,
            range: 1..=32_768,
        },
        Parameter {
            name: "call",
            about: "1: one call takes them (kernels from 5.13 on); 0: a call for each page",
            default: 1,
            quick: 1,
            range: 0..=1,
        },
        WARM_PAGES,
        ROUNDS_PAGES,
    ],
    figures: HALVES,
    ..ONE
};

/// Across CPUs.
pub const ACROSS: Adapter = Adapter {
    name: "page_bench05",
    about: "page_bench05: one CPU takes pages, the next one gives them back; any number of pairs",
    cpus: Cpus::Two,
    parameters: &[
        Parameter {
            name: "ring",
            about: "slots between the two, half of them filled at first",
            default: 64_000,
            quick: 64_000,
            range: 32..=1 << 20,
        },
        WARM_PAGES,
        ROUNDS_PAGES,
    ],
    figures: HALVES,
    ..ONE
};

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let kind = Kind::of(ready.cell.workload.name, |name| ready.parameter(name));
    let pages = match kind {
        Kind::Singly => 1,
        Kind::Bulk(bulk) => bulk.pages as u64,
        Kind::Across { .. } => pairs(ready).map(|_| 1)?,
    };
    let rounds = |name| ready.parameter(name).div_ceil(pages) as u32;
    let config = Config {
        kind,
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
    if kind == Kind::Singly {
        result.set("spills-per-1000-pages", spills as u64);
        result.set("counter-lines-per-1000-pages", outcome.counter_lines());
    } else {
        result.set("get-ns", outcome.parts_ps[0]);
        result.set("put-ns", outcome.parts_ps[1]);
    }
    Ok(result)
}
