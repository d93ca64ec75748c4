//! `pageyard simulate`: one workload on one modelled machine under one policy, and why it is so
//! fast and no faster. [`host`] runs the same workloads on this machine instead.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use pageyard_lab::experiment::cell::{Cell, Ready, Workload};
use pageyard_lab::experiment::outcome::{CONTENT, CellResult, LockFigures};
use pageyard_lab::experiment::pool::Stop;
use pageyard_lab::experiment::workload::Unit;
use serde_json::json;

use super::cells::CellArgs;
use super::policies::layout::emit;

mod host;

/// Options of `pageyard simulate`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Machine: NAME or a TOML file (see `pageyard machines list`); `host` is this one, for real
    #[arg(short, long, value_name = "NAME|FILE|host")]
    machine: String,

    /// Workload (see below)
    #[arg(short, long, default_value = "page_fault1")]
    workload: String,

    /// A parameter of the workload
    #[arg(long = "param", value_name = "NAME=NUMBER", value_parser = parameter)]
    parameters: Vec<(String, u64)>,

    /// Policy: NAME, NAME:key=value,… or a TOML file (see `pageyard policies list`)
    #[arg(short, long = "policy", value_name = "POLICY", required = true)]
    policies: Vec<String>,

    /// CPUs that run the workload [default: as the workload says, mostly all]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,

    /// Memory of each node, MiB [default: as the machine has]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory_mib: Option<u64>,

    /// Time of a unit of work outside of what is modelled, ns [default: as the workload says]
    #[arg(long, value_name = "NS")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think_ns: Option<u64>,

    /// Seed of the processes' starting points
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Measure a shorter stretch
    #[arg(long)]
    quick: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// On `host`: processes that measure, one after another [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// On `host`: print what this modelled machine gives beside it
    #[arg(long, value_name = "NAME|FILE")]
    beside: Option<String>,

    /// On `host`: measure once in this process and tell the result
    #[arg(long, hide = true)]
    one_round: bool,

    #[command(flatten)]
    cells: CellArgs,
}

/// `NAME=NUMBER`.
fn parameter(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=NUMBER")?;
    let value = value.replace('_', "").parse().map_err(|_| format!("'{value}' is no number"))?;
    Ok((name.to_string(), value))
}

/// What stands below the options: workloads with their parameters, and examples.
fn after_help() -> String {
    let mut text = "\
Times are of the modelled machine. Waiting is in per cent of all CPUs' time. On `host` the workload
runs on this machine's threads and memory, which is no model: several -p take turns there.

Workloads:
"
    .to_string();
    for workload in Workload::all() {
        let argument = workload.argument.map_or(String::new(), |a| format!(":{}", a.what));
        let name = format!("{}{argument}", workload.name);
        text.push_str(&format!("  {name:<14} {}\n", workload.about));
        for parameter in workload.parameters {
            let (name, about, default) = (parameter.name, parameter.about, parameter.default);
            text.push_str(&format!("                 {name}: {about} [default: {default}]\n"));
        }
    }
    text.push_str(
        "
Examples:
  pageyard simulate --machine skl-4s --policy linux-4.18
  pageyard simulate --machine icx-2s --policy linux-6.18:batch_pages=31 --cpus 32 --json
  pageyard simulate --machine icx-5320 --policy linux-6.0 --workload bulk --param pages=8192
  pageyard simulate --machine skl-2s --policy linux-6.18 --workload trace:FOLDER --cpus 8
  pageyard simulate --machine host --policy linux-5.17 --policy linux-5.18 --cpus 2
  pageyard simulate --machine host --policy linux-6.18 --workload trace:FOLDER",
    );
    text
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.machine == host::NAME {
        return host::run(args);
    }
    let policy = of_modelled(&args)?;
    let (workload, argument) = Workload::parse(&args.workload)?;
    let ready = Ready::of(&Cell {
        machine: args.machine,
        workload,
        argument,
        parameters: args.parameters.into_iter().collect(),
        policy,
        cpus: args.cpus.map_or(0, usize::from),
        think_ps: args.think_ns.map_or(workload.think_ps, |ns| ns * 1000),
        seed: args.seed,
        quick: args.quick,
    })?;
    let ready = ready.with_memory(args.memory_mib);
    let (results, _) = args.cells.pool(|pool| pool.run(std::slice::from_ref(&ready)))?;
    let result = match results {
        Ok(mut results) => results.swap_remove(0),
        Err(Stop::Interrupted) => return Ok(ExitCode::FAILURE),
        Err(stop) => return Err(stop.into()),
    };
    emit(&if args.json { as_json(&ready, &result)? } else { as_text(&ready, &result) })?;
    Ok(if result.out_of_memory.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The policy for a modelled machine, where what is for this one makes no sense.
fn of_modelled(args: &Args) -> anyhow::Result<String> {
    let only = [("--rounds", args.rounds.is_some()), ("--beside", args.beside.is_some())];
    if let Some((name, _)) = only.iter().find(|(_, is_given)| *is_given) {
        bail!("{name} is for --machine host; a modelled machine gives the same result every time");
    }
    match &args.policies[..] {
        [policy] => Ok(policy.clone()),
        _ => bail!(
            "--policy: a modelled machine takes one at a time; `pageyard compare BASE HEAD \
             --machines {}` sets two side by side",
            args.machine
        ),
    }
}

fn as_json(ready: &Ready, result: &CellResult) -> anyhow::Result<String> {
    let cell = &ready.cell;
    let value = json!({
        "machine": ready.machine_name(),
        "workload": workload_name(cell.workload, &cell.argument),
        "parameters": cell.parameters,
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

/// The workload with its argument.
fn workload_name(workload: Workload, argument: &str) -> String {
    let colon = if argument.is_empty() { "" } else { ":" };
    format!("{}{colon}{argument}", workload.name)
}

fn as_text(ready: &Ready, result: &CellResult) -> String {
    let cell = &ready.cell;
    let mut text = format!(
        "simulated: {} on {}, {} CPU{}, {}\nthink time {}, seed {}{}; {} us of virtual time\n\n",
        workload_name(cell.workload, &cell.argument),
        ready.machine_name(),
        cell.cpus,
        if cell.cpus == 1 { "" } else { "s" },
        cell.policy,
        ns(cell.think_ps),
        cell.seed,
        cell.parameters.iter().map(|(name, n)| format!(", {name}={n}")).collect::<String>(),
        result.simulated_ps / 1_000_000,
    );
    if let Some(end) = &result.out_of_memory {
        let (head, nodes) = (end.to_string(), end.nodes.len());
        let (head, rest) = head.split_once(": ").unwrap_or((&head, ""));
        text.push_str(&format!("{head}\n  {}\n", rest.replace("; ", "\n  ")));
        text.push_str(&format!("nothing was measured; {nodes} node(s) as they were then\n"));
        return text;
    }
    text.push_str(&figures(cell, result));
    text.push_str(&seen(result));
    text.push('\n');
    text.push_str(&locks(result));
    text.push('\n');
    text.push_str(&lines(result));
    text.push_str(&reuse(result));
    text
}

/// Whether every CPU met zone locks often enough for waits and holds to say something.
fn seen(result: &CellResult) -> String {
    let Some(wanted) = result.holds_wanted.filter(|wanted| result.holds_least < *wanted) else {
        return String::new();
    };
    let waited = result.zone_alloc.waited + result.zone_free.waited;
    let least = result.holds_least;
    let mut text = format!(
        "ended by work done: the CPU with the fewest held a zone lock {least} times, not {wanted}\n"
    );
    if waited == 0 {
        text.push_str("no contention: the caches of CPUs hold what the workload takes and gives\n");
    }
    text
}

/// The score, and what figures the workload has beside it.
fn figures(cell: &Cell, result: &CellResult) -> String {
    let cpu_ps = u128::from(cell.cpus as u64) * 1_000_000_000_000;
    let each = (cpu_ps / u128::from(result.score_per_s.max(1))) as u64;
    let (score, unit) = (result.score_per_s, cell.workload.unit);
    let mut text = format!("score      {score} {unit}s a second, {} each a CPU\n", ns(each));
    if cell.workload.name.starts_with("page_fault") {
        let unmapping = pct(result.unmapping_thousandths);
        text.push_str(&format!("unmapping  {unmapping} of the processes at any time\n"));
    }
    for figure in cell.workload.figures {
        if let Some(&value) = result.own.get(figure.name) {
            let (name, about) = (figure.name, figure.about);
            let value = figure_text(figure.unit, value);
            text.push_str(&format!("{name:<28} {value:>14}  {about}\n"));
        }
    }
    text
}

/// A figure of the workload's own, from thousandths of its unit.
fn figure_text(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Count => format!("{}", value / 1000),
        _ => format!("{}.{}{}", value / 1000, value % 1000 / 100, unit.suffix()),
    }
}

fn locks(result: &CellResult) -> String {
    let mut text = format!(
        "{:<18}{:>10}{:>10}{:>10}{:>12}{:>12}\n",
        "locks", "taken", "waited", "wait", "mean hold", "max hold"
    );
    let groups = [&result.zone_alloc, &result.zone_free, &result.lru];
    if result.locks.is_empty() {
        text.push_str("none was taken\n");
        return text;
    }
    groups
        .iter()
        .filter(|lock| lock.taken > 0)
        .for_each(|lock| text.push_str(&lock_line("", lock)));
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

/// Where the contents of pages were found: what it is worth to get a page just used.
fn reuse(result: &CellResult) -> String {
    let content = result.lines.iter().filter(|line| line.structure == CONTENT);
    let all: u64 = content.clone().map(|line| line.count).sum();
    if all == 0 {
        return String::new();
    }
    let share = |wanted: &[&str]| {
        let found = content.clone().filter(|line| wanted.contains(&line.source.as_str()));
        pct(found.map(|line| line.count).sum::<u64>() * 1000 / all)
    };
    format!(
        "\nlines of page contents: {} in the core's caches, {} in the last level,\n{} in another \
         core or socket, {} in memory\n",
        share(&["L1", "L2"]),
        share(&["Llc"]),
        share(&["Core", "FarCore"]),
        share(&["Dram", "FarDram"]),
    )
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
