//! A cell: one workload on so many CPUs of one modelled machine under one policy.
//!
//! The only place where experiments touch workloads: [`run`]. A cell is deterministic and runs on
//! one thread, so its result depends on what [`Ready::key`] lists and on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use pageyard::Policy;
use pageyard::keys::KEYS;
use pageyard_sim::directory::CORES_MAX;
use pageyard_sim::machine::{Machine, MachineError, Published};

use super::outcome::CellResult;
pub use super::workload::{Workload, nearest};
use crate::named::{NamedPolicy, PolicyError};

/// Version of the model: the hash of the sources of allocator, machine and workloads.
pub const MODEL: &str = env!("PAGEYARD_MODEL");

/// What to run, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// A bundled machine, or the path of a machine file.
    pub machine: String,
    /// The workload.
    pub workload: Workload,
    /// What stood behind its colon; empty for most.
    pub argument: String,
    /// Its parameters; what is left out is as the workload says.
    pub parameters: BTreeMap<String, u64>,
    /// The policy as on the command line: `NAME:key=value,…`.
    pub policy: String,
    /// CPUs that run it; 0 is what the workload runs on by default.
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
    /// A workload that takes no argument was given one.
    #[error("workload {name} takes nothing behind a colon")]
    NoArgument {
        /// The workload.
        name: String,
    },
    /// A workload was not given its argument.
    #[error("workload {name} needs {what}: write {name}:{what}")]
    Argument {
        /// The workload.
        name: String,
        /// What it needs.
        what: &'static str,
    },
    /// What was given to a workload is of no use.
    #[error("workload {name}:{argument}: {message}")]
    Refused {
        /// The workload.
        name: &'static str,
        /// What was given.
        argument: String,
        /// Why it is of no use.
        message: String,
    },
    /// No such parameter.
    #[error(
        "workload {workload} has no parameter '{name}'{}; there are: {known}",
        nearest.as_ref().map_or(String::new(), |nearest| format!("; nearest: {nearest}"))
    )]
    Parameter {
        /// The workload.
        workload: &'static str,
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// A parameter is out of its range.
    #[error(
        "workload {workload}: {name} = {value}: must be from {} to {}",
        range.start(), range.end()
    )]
    Range {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
        /// As given.
        value: u64,
        /// What it may be.
        range: RangeInclusive<u64>,
    },
    /// More cores than can be modelled.
    #[error(
        "{machine}: topology.cores_per_socket: {cores} cores in all, of which at most {} can be \
         modelled",
        CORES_MAX
    )]
    Cores {
        /// The machine.
        machine: String,
        /// Its cores.
        cores: u64,
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
    /// What was asked for; `cpus` is no longer 0, and all parameters are there.
    pub cell: Cell,
    /// Parameters that somebody gave.
    given: BTreeSet<String>,
    /// What of the workload's argument the result depends on.
    identity: String,
    machine: Arc<Machine>,
    policy: Policy,
}

impl Ready {
    /// Looks up the names of a cell.
    ///
    /// # Errors
    /// See [`CellError`].
    pub fn of(cell: &Cell) -> Result<Ready, CellError> {
        let machine = Machine::named(&cell.machine)?;
        let policy = NamedPolicy::parse(&cell.policy)?.policy;
        let cores = u64::from(machine.topology.sockets * machine.topology.cores_per_socket);
        if cores > CORES_MAX as u64 {
            return Err(CellError::Cores { machine: machine.name.clone(), cores });
        }
        let has = machine.cpus();
        let mut cell = cell.clone();
        let given = cell.parameters.keys().cloned().collect();
        cell.parameters = cell.workload.fill(&cell.parameters, cell.quick)?;
        let argument = cell.workload.argument.map(|argument| (argument.look)(&cell.argument));
        let argument = argument.transpose().map_err(|message| {
            let (name, argument) = (cell.workload.name, cell.argument.clone());
            CellError::Refused { name, argument, message }
        })?;
        if cell.cpus == 0 {
            let of_workload = || cell.workload.cpus.of(&machine);
            cell.cpus = argument.as_ref().map_or_else(of_workload, |argument| argument.cpus);
        }
        if cell.cpus > has as usize {
            return Err(CellError::Cpus { machine: cell.machine, has, wanted: cell.cpus });
        }
        if let Some(one) = argument.as_ref().map(|argument| argument.cpus.max(1))
            && !cell.cpus.is_multiple_of(one)
        {
            let message = format!("takes {one} CPUs, or a multiple of that, not {}", cell.cpus);
            let (name, argument) = (cell.workload.name, cell.argument);
            return Err(CellError::Refused { name, argument, message });
        }
        let identity = argument.map_or_else(String::new, |argument| argument.identity);
        let machine = Arc::new(machine.with_at_work(cell.cpus));
        Ok(Ready { cell, given, identity, machine, policy })
    }

    /// The same cell measured for longer or, with `quick`, shorter. Parameters that were not given
    /// by hand follow.
    #[must_use]
    pub fn quick(mut self, quick: bool) -> Ready {
        for parameter in self.cell.workload.parameters {
            if !self.given.contains(parameter.name) {
                let value = if quick { parameter.quick } else { parameter.default };
                self.cell.parameters.insert(parameter.name.to_string(), value);
            }
        }
        self.cell.quick = quick;
        self
    }

    /// The same cell on a machine whose nodes have so much memory each, MiB, or `None` as much as
    /// the machine has; nodes without memory stay so.
    #[must_use]
    pub fn with_memory(mut self, mib: Option<u64>) -> Ready {
        let Some(mib) = mib else { return self };
        let nodes = &mut Arc::make_mut(&mut self.machine).node_memory_bytes;
        nodes.iter_mut().filter(|bytes| **bytes > 0).for_each(|bytes| *bytes = mib << 20);
        self
    }

    /// The result of this cell, or why it has no figures.
    ///
    /// # Errors
    /// The workload took more memory than there is.
    pub fn measured(&self, result: CellResult) -> Result<CellResult, CellError> {
        match result.out_of_memory {
            None => Ok(result),
            Some(end) => Err(CellError::Ended {
                machine: self.cell.machine.clone(),
                policy: self.cell.policy.clone(),
                cpus: self.cell.cpus,
                message: end.to_string(),
            }),
        }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// A parameter of the workload.
    ///
    /// # Panics
    /// The workload has none of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> u64 {
        self.cell.parameters[name]
    }

    /// Think time as instructions, for workloads that are kernel code from end to end: as many as
    /// a CPU alone executes in that time when it waits for nothing. They take longer while the
    /// sibling thread works.
    #[must_use]
    pub fn think_instructions(&self) -> u64 {
        let fs = pageyard_sim::costs::Costs::of(&self.machine).window.instruction_fs;
        let (think_fs, fs) = (u128::from(self.cell.think_ps) * 1000, u128::from(fs.max(1)));
        ((think_fs + fs / 2) / fs) as u64
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
        let parameters: String =
            cell.parameters.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        format!(
            "pageyard {} model {MODEL}\n{}{}{} cpus={} think_ps={} seed={} quick={}\n{}\n\
             {machine:?}\n",
            env!("CARGO_PKG_VERSION"),
            cell.workload.name,
            if self.identity.is_empty() { String::new() } else { format!(":{}", self.identity) },
            parameters,
            cell.cpus,
            cell.think_ps,
            cell.seed,
            cell.quick,
            policy.join(","),
        )
    }

    /// How long it takes, in no unit: for running the longest first. Cells of page_fault1 on 192
    /// CPUs took 9.5, 14.5 and 25 s with batches of 31, 63 and 119.
    #[must_use]
    pub fn cost(&self) -> usize {
        let quick = self.cell.cpus * (30 + self.batch_pages() as usize);
        if self.cell.quick { quick } else { quick * 2 }
    }

    /// Pages of a batch, for how many holds a cycle takes: as set, or as computed of a large zone
    /// (zone_batchsize: half as much again as a quarter of the cap, rounded down to 2^n - 1).
    #[must_use]
    pub fn batch_pages(&self) -> u32 {
        let of_zone = || {
            let quarter = (self.policy.batch_cap_pages / 4).max(1);
            1 << (quarter + quarter / 2).ilog2()
        };
        if self.policy.batch_pages > 0 { self.policy.batch_pages } else { of_zone() }
    }
}

/// For people: where, what, how many, under which policy.
impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cell { workload, argument, cpus, policy, .. } = &self.cell;
        let (colon, s) =
            (if argument.is_empty() { "" } else { ":" }, if *cpus == 1 { "" } else { "s" });
        let (machine, name) = (&self.machine.name, workload.name);
        write!(f, "{machine} {name}{colon}{argument}, {cpus} CPU{s}, {policy}")
    }
}

/// Runs a cell.
///
/// # Errors
/// The policy and the machine do not go together, or the workload ended early.
pub fn run(ready: &Ready) -> Result<CellResult, CellError> {
    (ready.cell.workload.run)(ready)
}
