//! Small faults beside huge ones in a cell: run twice, as page_fault1.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, OwnFigure, Unit};
use super::unbuilt;
use crate::cells::mixed::{Config, run as run_cell};
use crate::cells::page_fault1::PAGES;

/// Think time where nothing says more: that of page_fault1.
const THINK_PS: u64 = 1_000_000;
/// Thousandths of small and huge processes that unmap, as the first pass of a cell supposes. With
/// `--quick` it is the only pass.
const UNMAPPING_FIRST: [u64; 2] = [400, 50];
/// Holds of zone locks a CPU in the first pass: to warm up, to measure.
const HOLDS_FIRST: (u32, u32) = (2, 4);
/// The same in the second pass.
const HOLDS: (u32, u32) = (5, 20);
/// The same for `--quick`.
const HOLDS_QUICK: (u32, u32) = (2, 5);

const fn figure(name: &'static str, about: &'static str, unit: Unit) -> OwnFigure {
    OwnFigure { name, about, unit }
}

/// The adapter.
pub const ADAPTER: Adapter = Adapter {
    name: "mixed",
    about: "half of the CPUs page_fault1, half of them the same with huge pages",
    unit: "page",
    cpus: Cpus::All,
    think_ps: THINK_PS,
    argument: None,
    parameters: &[],
    figures: &[
        figure("small-per-s", "pages touched a second by small faults", Unit::Count),
        figure("huge-per-s", "pages touched a second by those with huge pages", Unit::Count),
        figure("huge-had", "huge faults that had a block", Unit::Count),
        figure("huge-missed", "huge faults that found none", Unit::Count),
    ],
    run,
};

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let cell = &ready.cell;
    let pass = |unmapping, holds: (u32, u32)| {
        let (cpus, think_ps, seed) = (cell.cpus, cell.think_ps, cell.seed);
        // Far more than so many holds take, unless caches hold everything: a whole cycle.
        let pages = (PAGES as u64).max(4 * u64::from(holds.1) * u64::from(ready.batch_pages()));
        let config = Config { cpus, think_ps, unmapping, holds, pages, seed };
        let outcome = run_cell(ready.machine(), ready.policy(), &config);
        outcome.map_err(|error| unbuilt(ready, &error))
    };
    let outcome = if cell.quick {
        pass(UNMAPPING_FIRST, HOLDS_QUICK)?
    } else {
        pass(pass(UNMAPPING_FIRST, HOLDS_FIRST)?.unmapping, HOLDS)?
    };
    let mut result = CellResult::of_measured(&outcome.measured);
    let elapsed = u128::from(outcome.measured.elapsed_ps.max(1));
    for (name, touched) in ["small-per-s", "huge-per-s"].into_iter().zip(outcome.touched) {
        let per_second = u128::from(touched) * 1_000_000_000_000 / elapsed;
        result.set(name, per_second as u64 * 1000);
    }
    for (name, count) in ["huge-had", "huge-missed"].into_iter().zip(outcome.huge) {
        result.set(name, count * 1000);
    }
    Ok(result)
}
