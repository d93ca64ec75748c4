//! `pageyard simulate`: one workload on one modelled machine under one policy, and why it is so
//! fast and no faster.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pageyard_lab::experiment::cell::{Cell, Ready, Workload};
use pageyard_lab::experiment::outcome::{CellResult, LockFigures};
use pageyard_lab::experiment::pool::Stop;
use pageyard_lab::experiment::spec::THINK_NS;
use serde_json::json;

use super::policies::layout::emit;
use super::reproduce::CellArgs;

/// Options of `pageyard simulate`.
#[derive(clap::Args)]
#[command(after_help = "\
Times are of the modelled machine. Waiting is in per cent of all CPUs' time.

Examples:
  pageyard simulate --machine skl-4s --policy linux-4.18
  pageyard simulate --machine icx-2s --policy linux-6.18:batch_pages=31 --cpus 32 --json")]
pub struct Args {
    /// Machine: NAME or a TOML file (see `pageyard machines list`)
    #[arg(short, long, value_name = "NAME|FILE")]
    machine: String,

    /// Workload: page_fault1
    #[arg(short, long, default_value = "page_fault1")]
    workload: String,

    /// Policy: NAME, NAME:key=value,… or a TOML file (see `pageyard policies list`)
    #[arg(short, long)]
    policy: String,

    /// CPUs that run the workload [default: all]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,

    /// Time of a unit of work outside of what is modelled, ns
    #[arg(long, value_name = "NS", default_value_t = THINK_NS)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think_ns: u64,

    /// Seed of the processes' starting points
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Measure a shorter stretch
    #[arg(long)]
    quick: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cells: CellArgs,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ready = Ready::of(&Cell {
        machine: args.machine,
        workload: Workload::named(&args.workload)?,
        policy: args.policy,
        cpus: args.cpus.map_or(0, usize::from),
        think_ps: args.think_ns * 1000,
        seed: args.seed,
        quick: args.quick,
    })?;
    let (results, _) = args.cells.pool(|pool| pool.run(std::slice::from_ref(&ready)))?;
    let result = match results {
        Ok(mut results) => results.swap_remove(0),
        Err(Stop::Interrupted) => return Ok(ExitCode::FAILURE),
        Err(stop) => return Err(stop.into()),
    };
    emit(&if args.json { as_json(&ready, &result)? } else { as_text(&ready, &result) })?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(ready: &Ready, result: &CellResult) -> anyhow::Result<String> {
    let cell = &ready.cell;
    let value = json!({
        "machine": ready.machine_name(),
        "workload": cell.workload.name(),
        "policy": cell.policy,
        "cpus": cell.cpus,
        "think_ps": cell.think_ps,
        "seed": cell.seed,
        "quick": cell.quick,
        "result": result,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Thousandths as per cent.
fn pct(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Picoseconds as nanoseconds, rounded.
fn ns(ps: u64) -> String {
    format!("{} ns", (ps + 500) / 1000)
}

fn as_text(ready: &Ready, result: &CellResult) -> String {
    let cell = &ready.cell;
    let mut text = format!(
        "simulated: {} on {}, {} CPU{}, {}\nthink time {}, seed {}; {} us of virtual time\n\n",
        cell.workload.name(),
        ready.machine_name(),
        cell.cpus,
        if cell.cpus == 1 { "" } else { "s" },
        cell.policy,
        ns(cell.think_ps),
        cell.seed,
        result.simulated_ps / 1_000_000,
    );
    let cpu_ps = u128::from(cell.cpus as u64) * 1_000_000_000_000;
    let each = cpu_ps / u128::from(result.score_per_s.max(1));
    text.push_str(&format!(
        "score      {} a second, {} each a CPU\nunmapping  {} of the processes at any time\n\n",
        result.score_per_s,
        ns(each as u64),
        pct(result.unmapping_thousandths),
    ));
    text.push_str(&locks(result));
    text.push('\n');
    text.push_str(&lines(result));
    text
}

fn locks(result: &CellResult) -> String {
    let mut text = format!(
        "{:<18}{:>10}{:>10}{:>10}{:>12}{:>12}\n",
        "locks", "taken", "waited", "wait", "mean hold", "max hold"
    );
    for lock in [&result.zone_alloc, &result.zone_free, &result.lru] {
        text.push_str(&lock_line("", lock));
    }
    text.push_str("by call site\n");
    let sites = result.locks.iter().filter(|lock| lock.at != result.lru.at);
    sites.for_each(|lock| text.push_str(&lock_line("  ", lock)));
    text
}

fn lock_line(indent: &str, lock: &LockFigures) -> String {
    let name = format!("{indent}{}", lock.at);
    let (wait, mean) = (pct(lock.wait_thousandths), ns(lock.hold_mean_ps));
    let (taken, waited, max) = (lock.taken, lock.waited, ns(lock.hold_max_ps));
    format!("{name:<18}{taken:>10}{waited:>10}{wait:>10}{mean:>12}{max:>12}\n")
}

/// Lines by structure, a unit of work each, by where they were found.
fn lines(result: &CellResult) -> String {
    let sources = ["L1", "L2", "Llc", "Dram", "FarDram", "Core", "FarCore"];
    let heads = ["L1", "L2", "LLC", "memory", "far mem", "core", "far core"];
    let mut rows: BTreeMap<&str, [u64; 7]> = BTreeMap::new();
    for line in &result.lines {
        let row = rows.entry(&line.structure).or_default();
        if let Some(at) = sources.iter().position(|source| *source == line.source) {
            row[at] += line.count;
        }
    }
    let mut text = format!("{:<18}", "lines found in");
    heads.iter().for_each(|head| text.push_str(&format!("{head:>11}")));
    text.push('\n');
    for (structure, counts) in rows {
        text.push_str(&format!("{structure:<18}"));
        counts.iter().for_each(|count| text.push_str(&format!("{count:>11}")));
        text.push('\n');
    }
    text
}
