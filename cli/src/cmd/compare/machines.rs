//! The part of `pageyard compare` that runs on modelled machines, and its files of results.

use std::path::{Path, PathBuf};

use anyhow::bail;
use pageyard_lab::compare::machines::ask::{self, How, Place};
use pageyard_lab::compare::machines::kept;
use pageyard_lab::compare::machines::run::{self, Planned, Side};
use pageyard_lab::experiment::pool::Stop;
use pageyard_lab::named::NamedPolicy;

use crate::cmd::cells::CellArgs;

/// Which machines, which workloads, how long.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// Modelled machines, separated by commas [default: cfl-desktop,skl-2s,skl-4s]
    #[arg(short, long, value_name = "NAME|FILE", value_delimiter = ',')]
    machines: Vec<String>,

    /// Workloads on them, separated by commas (see `pageyard simulate --help`) [default:
    /// page_fault1]
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    workloads: Vec<String>,

    /// CPUs that run a workload [default: as the workload says]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,

    /// Time of a unit of work outside of what is modelled, ns [default: as the workload says]
    #[arg(long, value_name = "NS")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think_ns: Option<u64>,

    /// Memory of each node, MiB [default: as the machine has]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory_mib: Option<u64>,

    /// Seeds of each cell: their spread says what is noise [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,

    /// Measure long stretches, as `reproduce` does without --quick
    #[arg(long)]
    full: bool,

    /// Keep the results of HEAD, or of BASE if there is no HEAD, for another build to compare with
    #[arg(long, value_name = "FILE.json")]
    pub save: Option<PathBuf>,

    #[command(flatten)]
    cells: CellArgs,
}

impl MachineArgs {
    /// Whether anything here was asked for.
    pub fn given(&self) -> bool {
        self.chosen() || self.save.is_some()
    }

    /// Whether cells were chosen, which files of results do for themselves.
    fn chosen(&self) -> bool {
        let which = !self.machines.is_empty() || !self.workloads.is_empty() || self.full;
        let how = self.cpus.is_some() || self.think_ns.is_some() || self.memory_mib.is_some();
        which || how || self.seeds.is_some()
    }

    fn places(&self) -> anyhow::Result<Vec<Place>> {
        let or = |given: &[String], default: &[&str]| match given {
            [] => default.iter().map(ToString::to_string).collect(),
            given => given.to_vec(),
        };
        let machines: Vec<String> = or(&self.machines, &ask::MACHINES);
        let workloads: Vec<String> = or(&self.workloads, &ask::WORKLOADS);
        let how = How {
            cpus: self.cpus.map_or(0, usize::from),
            think_ps: self.think_ns.map(|ns| ns * 1000),
            memory_mib: self.memory_mib,
            quick: !self.full,
        };
        Ok(ask::places(&machines, &workloads, how)?)
    }
}

/// BASE or HEAD as the user named it.
pub enum Named {
    /// A policy, to be run by this build.
    Policy(Box<NamedPolicy>),
    /// Results of some build, and their policy.
    Kept(Box<Side>, Box<NamedPolicy>),
}

impl Named {
    /// Looks a name up: `*.json` is a file of results, all else a policy.
    pub fn parse(name: &str) -> anyhow::Result<Named> {
        if !kept::is_file(name) {
            return Ok(Named::Policy(Box::new(NamedPolicy::parse(name)?)));
        }
        let side = kept::read(Path::new(name))?;
        // By its keys: a file that it was named by may say something else by now.
        let mut policy = NamedPolicy::parse(&side.policy)?;
        policy.name = format!("{name}: {}", side.policy);
        Ok(Named::Kept(Box::new(side), Box::new(policy)))
    }

    /// Whether it is a file of results.
    pub fn is_kept(&self) -> bool {
        matches!(self, Named::Kept(..))
    }

    /// The policy.
    pub fn policy(&self) -> &NamedPolicy {
        match self {
            Named::Policy(policy) | Named::Kept(_, policy) => policy,
        }
    }
}

/// Runs what is not in files; `None` if the user ended it.
pub fn sides(args: MachineArgs, names: &[(&str, &Named)]) -> anyhow::Result<Option<Vec<Side>>> {
    let kept = names.iter().find_map(|(_, named)| match named {
        Named::Kept(side, _) => Some(side),
        Named::Policy(_) => None,
    });
    if kept.is_some() && args.chosen() {
        bail!(
            "a file of results says which cells are compared: leave out --machines, --workloads, \
             --cpus, --think-ns, --memory-mib, --seeds and --full"
        );
    }
    let (places, seeds) = match kept {
        Some(side) => (side.ran.iter().map(|ran| ran.place.clone()).collect(), side.seeds),
        None => (args.places()?, args.seeds.unwrap_or(ask::SEEDS)),
    };
    let mut planned = Vec::new();
    for (name, named) in names {
        if !named.is_kept() {
            planned.push(Planned::of(name, &places, seeds)?);
        }
    }
    let mut ran = match planned.is_empty() {
        true => Vec::new(),
        false => match args.cells.pool(|pool| run::sides(pool, &planned))?.0 {
            Ok(sides) => sides,
            Err(Stop::Interrupted) => return Ok(None),
            Err(Stop::Cell(error)) => return Err(error.into()),
        },
    }
    .into_iter();
    let all = names.iter().map(|(_, named)| match named {
        Named::Kept(side, _) => Some((**side).clone()),
        Named::Policy(_) => ran.next(),
    });
    Ok(all.collect())
}
