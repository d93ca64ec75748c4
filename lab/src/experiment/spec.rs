//! The form of an experiment's file: how a published table maps to cells.
//!
//! docs/REPRODUCE.md tells what every field means. `load` reads and checks; nothing here runs.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

/// `experiments/NAME.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The published table.
    pub table: Spanned<String>,
    /// The workload of all cells.
    pub workload: Spanned<String>,
    /// The policy that variants change.
    pub policy: Spanned<String>,
    /// Time of a unit of work outside of what is modelled, unless it is fitted, ns; as the workload
    /// says without it.
    pub think_ns: Option<u64>,
    /// What should come out, and why.
    pub expect: String,
    /// What the reader should know: what the mapping supposes.
    pub note: Option<String>,
    /// What is fitted; nothing without it.
    pub fit: Option<Fit>,
    /// A machine each.
    pub group: Vec<Group>,
    /// A policy each.
    pub variant: Vec<Variant>,
    /// Published columns, each with the figure of a cell that is held against it.
    #[serde(default)]
    pub column: Vec<Column>,
    /// Slopes over variants.
    #[serde(default)]
    pub slope: Vec<Slope>,
}

/// The one number that is fitted: think time, on the score of one variant, each group for itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The variant.
    pub variant: Spanned<String>,
}

/// A machine with its CPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// A bundled machine.
    pub machine: Spanned<String>,
    /// CPUs that run the workload; all without it.
    #[serde(default)]
    pub cpus: usize,
    /// Published row, in tables with a row a machine.
    pub row: Option<Spanned<String>>,
}

/// A policy of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name; in tables with a row a policy, the name of the row.
    pub name: Spanned<String>,
    /// Another base policy.
    pub policy: Option<Spanned<String>>,
    /// Keys that differ from the base policy.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// The variant that changes are counted from.
    pub against: Option<Spanned<String>>,
    /// Whether `--quick` runs it.
    #[serde(default = "yes")]
    pub quick: bool,
}

fn yes() -> bool {
    true
}

/// A published column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its heading.
    pub column: Spanned<String>,
    /// Figure of the cell.
    pub is: Figure,
    /// The machine it is of, in tables with a column a machine.
    pub machine: Option<Spanned<String>>,
    /// The variant it is of, in tables with a row a machine.
    pub variant: Option<Spanned<String>>,
    /// Largest error that counts as reproduced: points where the figure is in per cent, else per
    /// cent of the published figure. Without it the figure is shown and not judged.
    pub within: Option<f64>,
    /// Whether the sign has to be right as well, however small the error.
    #[serde(default)]
    pub same_sign: bool,
}

/// The slope of a column over variants whose names are numbers, by least squares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slope {
    /// Heading of the column.
    pub column: Spanned<String>,
    /// What results call the slope.
    pub name: String,
    /// Figure of the cell; in µs, so that the slope is in ns.
    pub is: Figure,
    /// The variants.
    pub variants: Vec<Spanned<String>>,
    /// Largest error that counts as reproduced, per cent.
    pub within: Option<f64>,
}

/// A figure of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Units of work a second.
    Score,
    /// Change of the score from another variant, per cent.
    ScoreChangePct,
    /// Waiting for zone locks, per cent of all CPUs' time.
    ZoneWaitPct,
    /// Waiting for LRU locks, likewise.
    LruWaitPct,
    /// Both.
    LockWaitPct,
    /// Mean hold of a zone lock by allocations, µs.
    AllocHoldUs,
    /// The same by frees, µs.
    FreeHoldUs,
}

impl Figure {
    /// Whether errors are differences in points and not parts of the published figure.
    #[must_use]
    pub fn is_pct(self) -> bool {
        use Figure::{LockWaitPct, LruWaitPct, ScoreChangePct, ZoneWaitPct};
        matches!(self, ScoreChangePct | ZoneWaitPct | LruWaitPct | LockWaitPct)
    }
}
