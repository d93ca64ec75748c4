//! The form of an experiment's file: how a published table maps to cells.
//!
//! docs/REPRODUCE.md tells what every field means. `load` reads and checks; nothing here runs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::sound;
use super::workload::{OwnFigure, Unit, Workload, nearest};

/// `experiments/NAME.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The published table.
    pub table: Spanned<String>,
    /// File of the published table, for tables that do not come with Pageyard.
    pub published: Option<Spanned<String>>,
    /// The workload of all cells.
    pub workload: Spanned<String>,
    /// The policy that variants change.
    pub policy: Spanned<String>,
    /// Time of a unit of work outside of what is modelled, unless it is fitted, ns; as the workload
    /// says without it.
    #[serde(default, deserialize_with = "sound::think_ns")]
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

impl Spec {
    /// Lets every path of a machine, policy or recording that is not absolute begin at `folder`.
    pub fn begin_paths_at(&mut self, folder: &Path) {
        let groups = self.group.iter_mut();
        let machines = groups.map(|group| &mut group.machine);
        let machines = machines.chain(self.column.iter_mut().filter_map(|c| c.machine.as_mut()));
        machines.for_each(|machine| begin_at(machine, "", folder));
        let policies = self.variant.iter_mut().filter_map(|variant| variant.policy.as_mut());
        policies.chain([&mut self.policy]).for_each(|policy| begin_at(policy, "", folder));
        let of_groups = self.group.iter_mut().filter_map(|group| group.workload.as_mut());
        let of_variants = self.variant.iter_mut().filter_map(|variant| variant.workload.as_mut());
        let workloads = of_groups.chain(of_variants).chain([&mut self.workload]);
        workloads.for_each(|workload| begin_at(workload, "trace:", folder));
    }
}

/// What stands behind `prefix`, if it is a path, begins at `folder`. Names have no slash and no
/// ending; a recording may be a folder of any name, so behind a prefix everything is a path.
fn begin_at(name: &mut Spanned<String>, prefix: &str, folder: &Path) {
    let Some(path) = name.get_ref().strip_prefix(prefix) else { return };
    let is_path = !prefix.is_empty() || path.contains('/') || path.contains(".toml");
    if is_path && !path.is_empty() {
        *name.get_mut() = format!("{prefix}{}", folder.join(path).display());
    }
}

/// The one number that is fitted: think time, on the score of one variant or on another time of
/// its unit of work, each group for itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The variant.
    pub variant: Spanned<String>,
    /// The published column that it is fitted on; that of the score without it. If it is all
    /// waiting for locks, it is fitted on what it leaves of the time that the score tells.
    pub column: Option<Spanned<String>>,
}

/// A machine with its CPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// A bundled machine or a machine file.
    pub machine: Spanned<String>,
    /// CPUs that run the workload; as the workload says without it.
    #[serde(default)]
    pub cpus: usize,
    /// Another workload than the table's.
    pub workload: Option<Spanned<String>>,
    /// Parameters of the workload.
    pub params: Option<Spanned<BTreeMap<String, u64>>>,
    /// Published row, in tables with a row a machine.
    pub row: Option<Spanned<String>>,
}

/// A policy of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name; in tables with a row a policy, the name of the row.
    pub name: Spanned<String>,
    /// Published row, if it is called otherwise.
    pub row: Option<Spanned<String>>,
    /// Another base policy.
    pub policy: Option<Spanned<String>>,
    /// Another workload than the group's.
    pub workload: Option<Spanned<String>>,
    /// Parameters of the workload, beside those of the group.
    pub params: Option<Spanned<BTreeMap<String, u64>>>,
    /// CPUs that run the workload; as the group says without it.
    #[serde(default)]
    pub cpus: usize,
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
    #[serde(default, deserialize_with = "sound::tolerance")]
    pub within: Option<f64>,
    /// Whether the sign has to be right as well, however small the error.
    #[serde(default)]
    pub same_sign: bool,
    /// What the reader should know of the column, such as that it runs at another size.
    pub note: Option<String>,
}

/// The slope of a column over variants whose names are numbers, by least squares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slope {
    /// Heading of the column.
    pub column: Spanned<String>,
    /// What results call the slope.
    pub name: String,
    /// Figure of the cell. Slopes of times are in ns.
    pub is: Figure,
    /// The variants.
    pub variants: Vec<Spanned<String>>,
    /// Largest error that counts as reproduced, per cent.
    #[serde(default, deserialize_with = "sound::tolerance")]
    pub within: Option<f64>,
    /// Where the straight line through the variants reaches the figure of another variant: where a
    /// rise begins.
    pub knee: Option<Knee>,
}

/// The point at which a slope begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knee {
    /// What results call it.
    pub name: String,
    /// The variant whose figure the line starts from.
    pub from: Spanned<String>,
    /// Largest difference that counts as reproduced, in what variants are named by.
    #[serde(default, deserialize_with = "sound::tolerance")]
    pub within: Option<f64>,
}

/// A figure of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Units of work a second.
    Score,
    /// Change of the score from another variant, per cent.
    ScoreChangePct,
    /// Waiting for zone locks, per cent of all CPUs' time.
    ZoneWaitPct,
    /// Of it, by allocations.
    ZoneAllocWaitPct,
    /// Of it, by frees.
    ZoneFreeWaitPct,
    /// Waiting for LRU locks, likewise.
    LruWaitPct,
    /// Zone and LRU locks.
    LockWaitPct,
    /// Mean hold of a zone lock by allocations, µs.
    AllocHoldUs,
    /// The same by frees, µs.
    FreeHoldUs,
    /// A figure of the workload's own.
    Own(&'static OwnFigure),
    /// Change of such a figure from another variant, per cent: `NAME-change-pct`.
    OwnChangePct(&'static OwnFigure),
}

/// Figures that every workload has.
const COMMON: [(&str, Figure); 9] = [
    ("score", Figure::Score),
    ("score-change-pct", Figure::ScoreChangePct),
    ("zone-wait-pct", Figure::ZoneWaitPct),
    ("zone-alloc-wait-pct", Figure::ZoneAllocWaitPct),
    ("zone-free-wait-pct", Figure::ZoneFreeWaitPct),
    ("lru-wait-pct", Figure::LruWaitPct),
    ("lock-wait-pct", Figure::LockWaitPct),
    ("alloc-hold-us", Figure::AllocHoldUs),
    ("free-hold-us", Figure::FreeHoldUs),
];

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Figure, D::Error> {
        let name = String::deserialize(from)?;
        Figure::named(&name).ok_or_else(|| {
            let own = Workload::all().flat_map(|workload| workload.figures());
            let known: Vec<&str> =
                COMMON.iter().map(|(name, _)| *name).chain(own.map(|own| own.name)).collect();
            let hint = nearest(&name, known.iter().copied());
            let hint = hint.map_or(String::new(), |hint| format!("; nearest: {hint}"));
            serde::de::Error::custom(format!("unknown figure `{name}`{hint}"))
        })
    }
}

impl Figure {
    fn named(name: &str) -> Option<Figure> {
        let common = COMMON.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
        let own = |name| {
            let mut all = Workload::all().flat_map(|workload| workload.figures());
            all.find(|own| own.name == name)
        };
        let change = || own(name.strip_suffix("-change-pct")?).map(Figure::OwnChangePct);
        common.or_else(|| own(name).map(Figure::Own)).or_else(change)
    }

    /// Whether errors are differences in points and not parts of the published figure.
    #[must_use]
    pub fn is_pct(self) -> bool {
        match self {
            Figure::Score | Figure::AllocHoldUs | Figure::FreeHoldUs => false,
            Figure::Own(own) => own.unit == Unit::Pct,
            _ => true,
        }
    }

    /// Whether it is the change from another variant.
    #[must_use]
    pub fn is_change(self) -> bool {
        matches!(self, Figure::ScoreChangePct | Figure::OwnChangePct(_))
    }

    /// The workload's own figure that it is about.
    #[must_use]
    pub fn own(self) -> Option<&'static OwnFigure> {
        match self {
            Figure::Own(own) | Figure::OwnChangePct(own) => Some(own),
            _ => None,
        }
    }
}
