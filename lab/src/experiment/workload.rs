//! What a workload tells of itself: its name, its parameters, its figures, and how a cell runs it.
//!
//! A new workload is a cell (`crate::cells`), an [`Adapter`] beside the others, and a line in
//! `workloads::ALL`. Command line, experiments, store and reports know no more of it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pageyard_sim::machine::Machine;

use super::cell::{CellError, Ready};
use super::outcome::CellResult;
use super::workloads::ALL;

/// Why an odd number of CPUs is refused where one of two sends and the other receives.
pub const IN_PAIRS: &str = "every sender needs a receiver: give an even number of CPUs";

/// CPUs that run a workload unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// All that the machine has.
    All,
    /// The first.
    One,
    /// The first two.
    Two,
    /// A thread of every core, on machines with two threads a core.
    Half,
    /// A thread of every core of the first node.
    CoresOfNode,
}

impl Cpus {
    /// How many these are.
    #[must_use]
    pub fn of(self, machine: &Machine) -> usize {
        match self {
            Cpus::All => machine.cpus() as usize,
            Cpus::One => 1,
            Cpus::Two => 2,
            Cpus::Half => (machine.cpus() as usize / 4).max(1) * 2,
            Cpus::CoresOfNode => machine.topology.cores_per_socket as usize,
        }
    }
}

/// A whole number that a workload asks for.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name, as in `--param NAME=NUMBER` and in experiments.
    pub name: &'static str,
    /// What it is, with its unit.
    pub about: &'static str,
    /// What it is if nobody says.
    pub default: u64,
    /// The same for `--quick`.
    pub quick: u64,
    /// What it may be.
    pub range: RangeInclusive<u64>,
}

/// What a figure of a workload is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Cycles of the nominal clock, that of the time stamp counter.
    Cycles,
    /// Per cent of something.
    Pct,
    /// A number of things.
    Count,
}

impl Unit {
    /// What stands behind a figure, with the blank before it.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Ns => " ns",
            Unit::Cycles => " cycles",
            Unit::Pct => " %",
            Unit::Count => "",
        }
    }
}

/// A figure that only this workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFigure {
    /// Its name, as in `is = "NAME"` of experiments.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What it is counted in. Results keep thousandths of it.
    pub unit: Unit,
}

/// What stands behind the colon of `NAME:ARGUMENT`, for workloads that take something more.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// What it is, such as `FILE`.
    pub what: &'static str,
    /// Looks at it. Fails, with the reason, if there is nothing of this name or it is of no use.
    pub look: fn(&str) -> Result<Given, String>,
}

/// What a cell knows of its workload's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// What of it results depend on, such as a hash of the file: part of the key they are stored
    /// under.
    pub identity: String,
    /// CPUs that it takes: others make no sense, but multiples do, as copies side by side.
    pub cpus: usize,
}

/// A workload as cells see it.
#[derive(Debug)]
pub struct Adapter {
    /// Its name on the command line and in experiments.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What the score counts, one of them.
    pub unit: &'static str,
    /// CPUs that run it unless told otherwise.
    pub cpus: Cpus,
    /// Think time unless told otherwise, picoseconds.
    pub think_ps: u64,
    /// What stands behind a colon, if anything has to.
    pub argument: Option<Argument>,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Its own figures.
    pub figures: &'static [OwnFigure],
    /// Runs a cell.
    pub run: fn(&Ready) -> Result<CellResult, CellError>,
}

/// A workload that can be run.
#[derive(Clone, Copy)]
pub struct Workload(&'static Adapter);

impl std::ops::Deref for Workload {
    type Target = Adapter;

    fn deref(&self) -> &Adapter {
        self.0
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Workload {}

impl std::hash::Hash for Workload {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl Workload {
    /// Every workload.
    pub fn all() -> impl Iterator<Item = Workload> + Clone {
        ALL.iter().map(|adapter| Workload(adapter))
    }

    /// Its own figures.
    #[must_use]
    pub fn figures(self) -> &'static [OwnFigure] {
        self.0.figures
    }

    /// The workload of `NAME` or `NAME:ARGUMENT`, and the argument, empty without one.
    ///
    /// # Errors
    /// There is none of this name: with the nearest; or it lacks its argument, or takes none.
    pub fn parse(text: &str) -> Result<(Workload, String), CellError> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        let workload = Workload::named(name)?;
        let name = name.to_string();
        match (workload.argument, argument) {
            (None, Some(_)) => Err(CellError::NoArgument { name }),
            (Some(wanted), None | Some("")) => Err(CellError::Argument { name, what: wanted.what }),
            (_, argument) => Ok((workload, argument.unwrap_or_default().to_string())),
        }
    }

    /// The workload of a name.
    ///
    /// # Errors
    /// There is none: with the nearest name.
    pub fn named(name: &str) -> Result<Workload, CellError> {
        let names = || Workload::all().map(|workload| workload.0.name);
        Workload::all().find(|workload| workload.0.name == name).ok_or_else(|| {
            CellError::Workload {
                name: name.to_string(),
                nearest: nearest(name, names()),
                known: names().collect::<Vec<_>>().join(", "),
            }
        })
    }

    /// All parameters, as given or else as they are by default.
    ///
    /// # Errors
    /// One is unknown or out of its range.
    pub fn fill(
        self,
        given: &BTreeMap<String, u64>,
        quick: bool,
    ) -> Result<BTreeMap<String, u64>, CellError> {
        let mut all = BTreeMap::new();
        for parameter in self.parameters {
            let default = if quick { parameter.quick } else { parameter.default };
            all.insert(parameter.name.to_string(), default);
        }
        for (name, &value) in given {
            let known = || self.parameters.iter().map(|parameter| parameter.name);
            let Some(parameter) = self.parameters.iter().find(|p| p.name == name) else {
                return Err(CellError::Parameter {
                    workload: self.name,
                    name: name.clone(),
                    nearest: nearest(name, known()),
                    known: match known().next() {
                        Some(_) => known().collect::<Vec<_>>().join(", "),
                        None => "none".to_string(),
                    },
                });
            };
            if !parameter.range.contains(&value) {
                let (name, range) = (parameter.name, parameter.range.clone());
                return Err(CellError::Range { workload: self.name, name, value, range });
            }
            all.insert(name.clone(), value);
        }
        Ok(all)
    }
}

/// The name most like this one, if any is like it.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // A name this long is no misprint, and comparing costs the product of the lengths.
    if name.len() > 100 {
        return None;
    }
    let scored = known.map(|known| (strsim::damerau_levenshtein(name, known), known));
    let near = scored.filter(|(distance, known)| distance * 3 <= known.len().max(name.len()));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known.to_string())
}

/// The name most like this one as it stands in an error, `; nearest: NAME`; empty if none is.
#[must_use]
pub fn nearest_hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |nearest| format!("; nearest: {nearest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workloads_parameters_and_figures_are_unique_and_defaults_in_range() {
        let mut names: Vec<&str> = Workload::all().map(|workload| workload.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for workload in Workload::all() {
            for parameter in workload.parameters {
                assert!(parameter.range.contains(&parameter.default), "{}", parameter.name);
                assert!(parameter.range.contains(&parameter.quick), "{}", parameter.name);
                let same = workload.parameters.iter().filter(|p| p.name == parameter.name);
                assert_eq!(same.count(), 1);
            }
            for figure in workload.figures {
                let other =
                    Workload::all().flat_map(|w| w.0.figures).find(|f| f.name == figure.name);
                assert_eq!(other.map(|other| other.unit), Some(figure.unit), "{}", figure.name);
            }
        }
    }

    #[test]
    fn parameters_that_are_unknown_or_out_of_range_are_refused() {
        let bulk = Workload::named("bulk").unwrap();
        let fill =
            |name: &str, value| bulk.fill(&BTreeMap::from([(name.to_string(), value)]), false);
        assert_eq!(fill("pages", 77).unwrap()["pages"], 77);
        let error = fill("page", 77).unwrap_err().to_string();
        assert!(error.contains("nearest: pages"), "{error}");
        let error = fill("pages", 0).unwrap_err().to_string();
        assert!(error.contains("bulk: pages = 0: must be from 1 to"), "{error}");
    }

    #[test]
    fn an_argument_is_refused_where_none_is_taken() {
        let error = Workload::parse("bulk:x").unwrap_err().to_string();
        assert!(error.contains("bulk takes nothing behind a colon"), "{error}");
    }
}
