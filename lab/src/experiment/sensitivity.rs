//! How far a result depends on figures that nobody knows exactly: each to both ends of its range.

use pageyard_sim::machine::figure::Decimal;
use pageyard_sim::machine::{self, MachineError};

use super::cell::{Cell, CellError, Ready};
use super::outcome::CellResult;
use super::pool::{Pool, Stop};

/// A figure of a machine and what its ends do.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its path in the machine file.
    pub figure: String,
    /// What the model uses, in the unit of its name.
    pub value: String,
    /// At the low end: the end, and what comes out; `None` if it is the value itself.
    pub low: Option<End>,
    /// At the high end.
    pub high: Option<End>,
}

/// An end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The figure there.
    pub value: String,
    /// What comes out, or why the machine contradicts itself with it.
    pub result: Result<CellResult, String>,
}

/// What comes out as the machine file has it, and with each figure at its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// As it is.
    pub base: CellResult,
    /// Figures that have a range, in the order of the file.
    pub rows: Vec<Row>,
}

/// The clock of the time stamp counter counts, and changes nothing.
const NO_COST: &str = "core.tsc_mhz";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SensitivityError {
    /// No such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No such cell.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Interrupted, or a cell has no result.
    #[error(transparent)]
    Stop(#[from] Stop),
}

/// Runs a cell with each figure of its machine at both ends of its range.
///
/// # Errors
/// See [`SensitivityError`].
pub fn run(pool: &Pool<'_>, cell: &Cell) -> Result<Sensitivity, SensitivityError> {
    let spec = machine::find(&cell.machine)?;
    let mut cells = vec![Ready::of(cell)?];
    let mut rows = Vec::new();
    for (path, figure) in spec.figures().into_iter().filter(|(path, _)| path != NO_COST) {
        let mut end = |value: Decimal, name: &str| {
            if value == figure.value {
                return None;
            }
            let join = if cell.machine.contains('=') { ',' } else { ':' };
            let machine = format!("{}{join}{path}={name}", cell.machine);
            let at = match Ready::of(&Cell { machine, ..cell.clone() }) {
                Ok(ready) => {
                    cells.push(ready);
                    Ok(cells.len() - 1)
                }
                Err(error) => Err(error.to_string()),
            };
            Some((value.to_string(), at))
        };
        let (low, high) = figure.range();
        let ends = (end(low, "low"), end(high, "high"));
        if ends != (None, None) {
            rows.push((path, figure.value.to_string(), ends));
        }
    }
    let results = pool.run(&cells)?;
    let told = |end: Option<(String, Result<usize, String>)>| {
        end.map(|(value, at)| End { value, result: at.map(|at| results[at].clone()) })
    };
    let rows = rows.into_iter().map(|(figure, value, (low, high))| Row {
        figure,
        value,
        low: told(low),
        high: told(high),
    });
    Ok(Sensitivity { base: results[0].clone(), rows: rows.collect() })
}
