//! `pageyard machines`: which servers and desktops are modelled, every figure of one, what the
//! model measures on it; and a file for the host we run on.

mod check;
mod new;
mod sensitivity;
mod show;

use std::process::ExitCode;

use pageyard_sim::directory::CORES_MAX;
use pageyard_sim::machine::{self, Machine, MachineError};
use serde_json::{Value, json};

use super::policies::layout::emit;

/// Options of `pageyard machines`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// A machine is named, or is the path of a file.
#[derive(clap::Subcommand)]
#[command(after_help = "\
A machine is NAME or the path of a TOML file; docs/MACHINES.md tells what every
field means and how to write one for your own server.")]
enum What {
    /// Every bundled machine: sockets, cores, clock, caches, memory
    List,
    /// Every figure of a machine: value, range, where it is from
    #[command(after_help = "\
Examples:
  pageyard machines show skl-4s
  pageyard machines show my-server.toml --json")]
    Show {
        /// Machine
        #[arg(value_name = "NAME|FILE")]
        machine: String,
    },
    /// What the model's own ping-pong, latencies and bandwidths are, beside the published ones
    #[command(after_help = "\
Runs micro-benchmarks on the model and compares them with what others measured on
the machine, and with the machine file's own figures; more than 10 % off is a miss.

Examples:
  pageyard machines check
  pageyard machines check skl-2s icx-2s --strict
  pageyard machines check my-server.toml --json")]
    Check {
        /// Machines [default: every bundled one]
        #[arg(value_name = "NAME|FILE")]
        machines: Vec<String>,
        /// Exit with 1 if there is a miss
        #[arg(long)]
        strict: bool,
    },
    /// What comes out with each uncertain figure at the ends of its range
    #[command(after_help = "\
Every figure of a machine file has a range. This runs one workload as the file has
them, and again with each figure at its low and its high end: which figures matter.

Examples:
  pageyard machines sensitivity skl-4s --policy linux-4.18 --quick
  pageyard machines sensitivity icx-5320 --workload bulk --policy linux-6.0 --json")]
    Sensitivity(sensitivity::Args),
    /// Measure this host and write its machine file
    #[command(after_help = "\
Measures for about half a minute; other work on the host widens the ranges. What
cannot be measured is written as an estimate with a wide range.

Examples:
  pageyard machine new -o my-server.toml --name my-server
  pageyard machines show my-server.toml")]
    New(new::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match (args.what, args.json) {
        (What::Check { machines, strict }, json) => return checked(&machines, strict, json),
        (What::New(_), true) => anyhow::bail!(
            "a machine file is TOML; for JSON, write it with -o FILE and show FILE with --json"
        ),
        (What::New(args), false) => return new::run(&args),
        (What::Sensitivity(args), json) => return sensitivity::run(args, json),
        (What::List, false) => list()?,
        (What::List, true) => pretty(&list_json()?)?,
        (What::Show { machine }, json) => {
            let spec = machine::find(&machine)?;
            if json { pretty(&show::json(&spec))? } else { show::text(&spec) }
        }
    };
    emit(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Exit code 1 if asked to be strict and something is outside.
fn checked(names: &[String], strict: bool, json: bool) -> anyhow::Result<ExitCode> {
    let machines = match names {
        [] => bundled()?,
        names => names.iter().map(|name| Machine::named(name)).collect::<Result<_, _>>()?,
    };
    for machine in &machines {
        let cores = machine.topology.cores() as usize;
        anyhow::ensure!(
            cores <= CORES_MAX,
            "{}: {cores} cores; the model holds at most {CORES_MAX}",
            machine.name
        );
    }
    let all = check::check_all(&machines);
    emit(&if json { pretty(&check::json(&all))? } else { check::text(&all) })?;
    Ok(if strict && !check::is_within(&all) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn bundled() -> Result<Vec<Machine>, MachineError> {
    machine::names().into_iter().map(Machine::named).collect()
}

/// The list as text: sockets × cores × threads, and caches of a core, a core and a socket.
fn list() -> Result<String, MachineError> {
    let mut rows = vec![
        ["name", "what", "s × c × t", "CPUs", "GHz", "L1d L2 LLC", "memory"].map(String::from),
    ];
    rows.extend(bundled()?.iter().map(row));
    let mut text = String::new();
    for [name, title, shape, cpus, clock, caches, memory] in rows {
        let line = format!(
            "{name:<12} {title:<38} {shape:<10} {cpus:>4} {clock:>4}  {caches:<14} {memory:>8}"
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

fn row(machine: &Machine) -> [String; 7] {
    let topology = machine.topology;
    let (sockets, cores) = (topology.sockets, topology.cores_per_socket);
    let caches = [machine.l1d, machine.l2, machine.llc].map(|cache| short(cache.bytes));
    let memory: u64 = machine.node_memory_bytes.iter().sum();
    // Whole hundreds of MHz, rounded.
    let tenths = (machine.clock_khz + 50_000) / 100_000;
    [
        machine.name.clone(),
        machine.title.clone(),
        format!("{sockets} × {cores} × {}", topology.threads_per_core),
        machine.cpus().to_string(),
        format!("{}.{}", tenths / 10, tenths % 10),
        caches.join(" "),
        format!("{} GiB", memory >> 30),
    ]
}

/// Bytes in K or M, with at most two decimals.
fn short(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 20 { (1 << 10, "K") } else { (1 << 20, "M") };
    let hundredths = (bytes * 100 + unit / 2) / unit;
    let decimals = format!("{:02}", hundredths % 100);
    let decimals = decimals.trim_end_matches('0');
    let dot = if decimals.is_empty() { "" } else { "." };
    format!("{}{dot}{decimals}{name}", hundredths / 100)
}

fn list_json() -> Result<Value, MachineError> {
    let machines = bundled()?.into_iter().map(|machine| {
        json!({
            "name": machine.name,
            "title": machine.title,
            "sockets": machine.topology.sockets,
            "cores_per_socket": machine.topology.cores_per_socket,
            "threads_per_core": machine.topology.threads_per_core,
            "cpus": machine.cpus(),
            "clock_khz": machine.clock_khz,
            "l1d_bytes": machine.l1d.bytes,
            "l2_bytes": machine.l2.bytes,
            "llc_bytes": machine.llc.bytes,
            "node_memory_bytes": machine.node_memory_bytes,
        })
    });
    Ok(json!(machines.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(short(32 << 10), "32K");
        assert_eq!(short(1280 << 10), "1.25M");
        assert_eq!(short(39_424 << 10), "38.5M");
        assert_eq!(short(8 << 20), "8M");
    }
}
