//! A cell: one workload on so many CPUs of one modelled machine under one policy.
//!
//! The only place where experiments touch workloads: [`run`]. A cell is deterministic and runs on
//! one thread, so its result depends on what [`Ready::key`] lists and on nothing else.

use std::sync::Arc;

use pageyard::Policy;
use pageyard::keys::KEYS;
use pageyard_sim::machine::{Machine, MachineError, Published};

use super::outcome::CellResult;
use crate::cells::page_fault1;
use crate::named::{NamedPolicy, PolicyError};

/// Version of the model: the hash of the sources of allocator, machine and workloads.
pub const MODEL: &str = env!("PAGEYARD_MODEL");
/// Thousandths of processes that unmap, as the first pass of a cell supposes.
const UNMAPPING_FIRST: u64 = 300;
/// Holds of zone locks a CPU in the first pass: to warm up, to measure.
const HOLDS_FIRST: (u32, u32) = (5, 10);
/// The same in the second pass, on several CPUs.
const HOLDS: (u32, u32) = (10, 30);
/// The same for `--quick`.
const HOLDS_QUICK: (u32, u32) = (5, 12);
/// Pages that pass a zone lock while one process maps and unmaps everything, and some.
const CYCLE_PAGES: u32 = 70_000;

/// A workload that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// will-it-scale page_fault1, one process a CPU.
    PageFault1,
}

impl Workload {
    /// Every workload with its name.
    pub const ALL: [(Workload, &'static str); 1] = [(Workload::PageFault1, "page_fault1")];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Workload::ALL.iter().find(|(which, _)| *which == self).map_or("", |(_, name)| name)
    }

    /// The workload of a name.
    ///
    /// # Errors
    /// There is none: with the nearest name.
    pub fn named(name: &str) -> Result<Workload, CellError> {
        let found = Workload::ALL.iter().find(|(_, known)| *known == name);
        let names = Workload::ALL.iter().map(|(_, name)| *name);
        found.map(|(which, _)| *which).ok_or_else(|| CellError::Workload {
            name: name.to_string(),
            nearest: nearest(name, names.clone()),
            known: names.collect::<Vec<_>>().join(", "),
        })
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

/// What to run, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// A bundled machine, or the path of a machine file.
    pub machine: String,
    /// The workload.
    pub workload: Workload,
    /// The policy as on the command line: `NAME:key=value,…`.
    pub policy: String,
    /// CPUs that run it; 0 is all that the machine has.
    pub cpus: usize,
    /// Time of a unit of work outside of what is modelled, picoseconds.
    pub think_ps: u64,
    /// Seed of the starting points.
    pub seed: u64,
    /// Whether a shorter stretch is measured.
    pub quick: bool,
}

/// Why a cell has no result.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// No such machine, or its file is wrong.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No such policy, or it contradicts itself.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No such workload.
    #[error(
        "unknown workload '{name}'{}; there are: {known}",
        nearest.as_ref().map_or(String::new(), |nearest| format!("; nearest: {nearest}"))
    )]
    Workload {
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// More CPUs than there are.
    #[error("{machine} has {has} CPUs, not {wanted}; take 1 to {has}")]
    Cpus {
        /// The machine.
        machine: String,
        /// CPUs it has.
        has: u32,
        /// CPUs asked for.
        wanted: usize,
    },
    /// The machine cannot be built.
    #[error("{machine} under {policy}: {message}")]
    Build {
        /// The machine.
        machine: String,
        /// The policy.
        policy: String,
        /// Why not.
        message: String,
    },
    /// The workload came to an end of its own, such as by lack of memory.
    #[error("{machine} under {policy}, {cpus} CPUs: the simulated run ended early: {message}")]
    Ended {
        /// The machine.
        machine: String,
        /// The policy.
        policy: String,
        /// CPUs that ran.
        cpus: usize,
        /// What it said.
        message: String,
    },
}

/// A cell whose names were looked up.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What was asked for; `cpus` is no longer 0.
    pub cell: Cell,
    machine: Arc<Machine>,
    policy: Policy,
}

impl Ready {
    /// Looks up the names of a cell.
    ///
    /// # Errors
    /// See [`CellError`].
    pub fn of(cell: &Cell) -> Result<Ready, CellError> {
        let machine = Arc::new(Machine::named(&cell.machine)?);
        let policy = NamedPolicy::parse(&cell.policy)?.policy;
        let has = machine.cpus();
        let mut cell = cell.clone();
        if cell.cpus == 0 {
            cell.cpus = has as usize;
        }
        if cell.cpus > has as usize {
            return Err(CellError::Cpus { machine: cell.machine, has, wanted: cell.cpus });
        }
        Ok(Ready { cell, machine, policy })
    }

    /// Name of the machine, as its file says.
    #[must_use]
    pub fn machine_name(&self) -> &str {
        &self.machine.name
    }

    /// Everything that the result depends on, as text: equal keys have equal results. Neither the
    /// name of the policy nor comments and sources of the machine file are in it.
    #[must_use]
    pub fn key(&self) -> String {
        let cell = &self.cell;
        let mut machine = (*self.machine).clone();
        // For comparison only: the model may not read them.
        machine.published = Published::default();
        let policy: Vec<String> =
            KEYS.iter().map(|key| format!("{}={}", key.name, (key.get)(&self.policy))).collect();
        format!(
            "pageyard {} model {MODEL}\n{} cpus={} think_ps={} seed={} quick={}\n{}\n{machine:?}\n",
            env!("CARGO_PKG_VERSION"),
            cell.workload.name(),
            cell.cpus,
            cell.think_ps,
            cell.seed,
            cell.quick,
            policy.join(","),
        )
    }

    /// How long it takes, in no unit: for running the longest first.
    #[must_use]
    pub fn cost(&self) -> usize {
        if self.cell.quick { self.cell.cpus } else { self.cell.cpus * 2 }
    }

    fn failed(&self, message: String) -> CellError {
        let (machine, policy) = (self.cell.machine.clone(), self.cell.policy.clone());
        CellError::Build { machine, policy, message }
    }

    /// Pages of a batch, for how many holds a cycle takes: as set, or as computed of a large zone
    /// (zone_batchsize: half as much again as a quarter of the cap, rounded down to 2^n - 1).
    fn batch_pages(&self) -> u32 {
        let of_zone = || {
            let quarter = (self.policy.batch_cap_pages / 4).max(1);
            1 << (quarter + quarter / 2).ilog2()
        };
        if self.policy.batch_pages > 0 { self.policy.batch_pages } else { of_zone() }
    }
}

/// Runs a cell. The machine is run twice: once to learn how many processes are unmapping at any
/// time, and once, begun in that state, to measure.
///
/// # Errors
/// The policy and the machine do not go together.
pub fn run(ready: &Ready) -> Result<CellResult, CellError> {
    match ready.cell.workload {
        Workload::PageFault1 => page_fault1(ready),
    }
}

fn page_fault1(ready: &Ready) -> Result<CellResult, CellError> {
    let cell = &ready.cell;
    let pass = |unmapping, holds| {
        let (cpus, think_ps, seed) = (cell.cpus, cell.think_ps, cell.seed);
        let config = page_fault1::Config { cpus, think_ps, unmapping, holds, seed };
        page_fault1::run(&ready.machine, ready.policy, &config)
            .map_err(|error| ready.failed(error.to_string()))
    };
    // One CPU alone has to be seen mapping and unmapping; of many, some do this and some that.
    if cell.cpus == 1 {
        let cycle = (CYCLE_PAGES / ready.batch_pages()).max(2);
        return Ok(CellResult::of(&pass(UNMAPPING_FIRST, (cycle, cycle))?));
    }
    let first = pass(UNMAPPING_FIRST, HOLDS_FIRST)?;
    let holds = if cell.quick { HOLDS_QUICK } else { HOLDS };
    Ok(CellResult::of(&pass(first.unmapping, holds)?))
}
