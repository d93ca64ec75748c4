//! Parallel free of a large area in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, Parameter};
use super::unbuilt;
use crate::cells::free_all::{Config, PAGES, run as run_cell};

/// Holds of zone locks by every CPU before measuring, and while measuring: a tenth of what the area
/// has. Which lock they wait for settles within as many.
const HOLDS: (u32, u32) = (100, 100);
/// The same for `--quick`.
const HOLDS_QUICK: (u32, u32) = (50, 25);

/// The adapter.
pub const ADAPTER: Adapter = Adapter {
    name: "free_all",
    about: "parallel free: every CPU unmaps its part of one large area",
    unit: "page",
    cpus: Cpus::All,
    think_ps: 0,
    argument: None,
    parameters: &[Parameter {
        name: "pages",
        about: "pages of the area, shared out equally",
        default: PAGES,
        quick: PAGES / 4,
        range: 1..=1 << 28,
    }],
    figures: &[],
    run,
};

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let config = Config {
        cpus: ready.cell.cpus,
        pages: ready.parameter("pages"),
        think_ps: ready.cell.think_ps,
        holds: if ready.cell.quick { HOLDS_QUICK } else { HOLDS },
        seed: ready.cell.seed,
    };
    let measured = run_cell(ready.machine(), ready.policy(), &config)
        .map_err(|error| unbuilt(ready, &error))?;
    Ok(CellResult::of_measured(&measured))
}
