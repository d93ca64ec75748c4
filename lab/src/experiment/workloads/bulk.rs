//! Bulk of linux-alloc-bench in a cell.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, OwnFigure, Parameter, Unit};
use super::unbuilt;
use crate::cells::bulk::{Config, run as run_cell};

/// The adapter.
pub const ADAPTER: Adapter = Adapter {
    name: "bulk",
    about: "bulk of linux-alloc-bench: cores of one node take many pages, then give them back",
    unit: "page",
    cpus: Cpus::CoresOfNode,
    think_ps: 0,
    argument: None,
    parameters: &[
        Parameter {
            name: "pages",
            about: "pages that each CPU takes",
            default: 32_768,
            quick: 8192,
            range: 1..=1 << 24,
        },
        Parameter {
            name: "rounds",
            about: "rounds of taking and giving back; the last is measured",
            default: 2,
            quick: 2,
            range: 1..=100,
        },
    ],
    figures: &[
        OwnFigure { name: "get-ns", about: "time of taking a page", unit: Unit::Ns },
        OwnFigure { name: "put-ns", about: "time of giving a page back", unit: Unit::Ns },
    ],
    run,
};

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let config = Config {
        cpus: ready.cell.cpus,
        pages: ready.parameter("pages") as usize,
        rounds: ready.parameter("rounds") as u32,
        think: ready.think_instructions(),
    };
    let outcome = run_cell(ready.machine(), ready.policy(), &config)
        .map_err(|error| unbuilt(ready, &error))?;
    let mut stats = outcome.get;
    stats.add(&outcome.put);
    let each_ps = outcome.get_ps + outcome.put_ps;
    let cpus = config.cpus as u64;
    let mut result = CellResult::of(&stats, each_ps * config.pages as u64, config.cpus);
    let score = u128::from(cpus) * 1_000_000_000_000 / u128::from(each_ps.max(1));
    result.score_per_s = score as u64;
    result.set("get-ns", outcome.get_ps);
    result.set("put-ns", outcome.put_ps);
    Ok(result)
}
