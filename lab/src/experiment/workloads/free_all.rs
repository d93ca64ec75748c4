//! Parallel free of a large area in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, Parameter};
use super::unbuilt;
use crate::cells::free_all::{Config, PAGES, run as run_cell};

/// Holds of zone locks by every CPU before measuring, and while measuring, at the least and at the
/// most: which lock they wait for settles within as many.
const HOLDS: [(u32, u32); 2] = [(10, 100), (30, 100)];
/// The same for `--quick`.
const HOLDS_QUICK: [(u32, u32); 2] = [(5, 50), (12, 25)];

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
    let cell = &ready.cell;
    let pages = ready.parameter("pages");
    // Of a large batch an area has few: a third of them for each.
    let all = pages / cell.cpus.max(1) as u64 / u64::from(ready.batch_pages().max(1));
    let holds = |(least, most): (u32, u32)| (all / 3).clamp(least.into(), most.into()) as u32;
    let [warm, measure] = if cell.quick { HOLDS_QUICK } else { HOLDS };
    let config = Config {
        cpus: cell.cpus,
        pages,
        think_ps: cell.think_ps,
        holds: (holds(warm), holds(measure)),
        seed: cell.seed,
    };
    let measured = run_cell(ready.machine(), ready.policy(), &config)
        .map_err(|error| unbuilt(ready, &error))?;
    Ok(CellResult::of_measured(&measured))
}
