//! Which cells: machines by workloads, each with every seed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::cell::{Cell, CellError, Ready, Workload};

/// Machines if none are named: a desktop, a server of two sockets and one of four.
pub const MACHINES: [&str; 3] = ["cfl-desktop", "skl-2s", "skl-4s"];
/// Workloads if none are named.
pub const WORKLOADS: [&str; 1] = ["page_fault1"];
/// Seeds if nobody says: the fewest with a spread worth the name.
pub const SEEDS: u64 = 3;

/// One machine under one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The machine, as named.
    pub machine: String,
    /// The workload, with its argument.
    pub workload: String,
    /// Parameters that somebody gave.
    pub parameters: BTreeMap<String, u64>,
    /// CPUs that run it; 0 is what the workload runs on by default.
    pub cpus: usize,
    /// Think time, picoseconds.
    pub think_ps: u64,
    /// Whether a shorter stretch is measured.
    pub quick: bool,
    /// Memory of each node, MiB; as the machine has if it is not given.
    #[serde(default)]
    pub memory_mib: Option<u64>,
}

/// What all cells have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// CPUs that run a workload; 0 is what the workload runs on by default.
    pub cpus: usize,
    /// Think time, picoseconds; as the workload says if it is not given.
    pub think_ps: Option<u64>,
    /// Memory of each node, MiB; as the machine has if it is not given.
    pub memory_mib: Option<u64>,
    /// Whether a shorter stretch is measured.
    pub quick: bool,
}

impl Place {
    /// The cell of a policy and a seed.
    ///
    /// # Errors
    /// A name is unknown, or they do not go together.
    pub fn ready(&self, policy: &str, seed: u64) -> Result<Ready, CellError> {
        let (workload, argument) = Workload::parse(&self.workload)?;
        let ready = Ready::of(&Cell {
            machine: self.machine.clone(),
            workload,
            argument,
            parameters: self.parameters.clone(),
            policy: policy.to_string(),
            cpus: self.cpus,
            think_ps: self.think_ps,
            seed,
            quick: self.quick,
        })?;
        Ok(ready.with_memory(self.memory_mib))
    }
}

/// Every machine under every workload.
///
/// # Errors
/// A workload is unknown.
pub fn places(
    machines: &[String],
    workloads: &[String],
    how: How,
) -> Result<Vec<Place>, CellError> {
    let mut places = Vec::new();
    for machine in machines {
        for text in workloads {
            let (workload, _) = Workload::parse(text)?;
            places.push(Place {
                machine: machine.clone(),
                workload: text.clone(),
                parameters: BTreeMap::new(),
                cpus: how.cpus,
                think_ps: how.think_ps.unwrap_or(workload.think_ps),
                quick: how.quick,
                memory_mib: how.memory_mib,
            });
        }
    }
    Ok(places)
}
