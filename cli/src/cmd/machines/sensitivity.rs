//! `pageyard machines sensitivity`: what each uncertain figure of a machine does to a result.

use std::process::ExitCode;

use pageyard_lab::experiment::cell::{Cell, Workload};
use pageyard_lab::experiment::outcome::CellResult;
use pageyard_lab::experiment::pool::Stop;
use pageyard_lab::experiment::sensitivity::{self, End, Sensitivity, SensitivityError};
use serde_json::{Value, json};

use super::super::cells::CellArgs;
use super::super::policies::layout::emit;

/// Options of `pageyard machines sensitivity`.
#[derive(clap::Args)]
pub struct Args {
    /// Machine
    #[arg(value_name = "NAME|FILE")]
    machine: String,

    /// Workload (see `pageyard simulate --help`)
    #[arg(short, long, default_value = "page_fault1")]
    workload: String,

    /// Policy: NAME, NAME:key=value,… or a TOML file
    #[arg(short, long)]
    policy: String,

    /// CPUs that run the workload [default: as the workload says, mostly all]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,

    /// Time of a unit of work outside of what is modelled, ns [default: as the workload says]
    #[arg(long, value_name = "NS")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think_ns: Option<u64>,

    /// Measure shorter stretches
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    cells: CellArgs,
}

/// Runs the verb.
pub fn run(args: Args, as_json: bool) -> anyhow::Result<ExitCode> {
    let (workload, argument) = Workload::parse(&args.workload)?;
    let cell = Cell {
        machine: args.machine,
        workload,
        argument,
        parameters: Default::default(),
        policy: args.policy,
        cpus: args.cpus.map_or(0, usize::from),
        think_ps: args.think_ns.map_or(workload.think_ps, |ns| ns * 1000),
        seed: 1,
        quick: args.quick,
    };
    let (found, _) = args.cells.pool(|pool| sensitivity::run(pool, &cell).map_err(Box::new))?;
    let found = match found {
        Ok(found) => found,
        Err(error) if matches!(*error, SensitivityError::Stop(Stop::Interrupted)) => {
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err((*error).into()),
    };
    let page = match as_json {
        true => serde_json::to_string_pretty(&json(&found))? + "\n",
        false => text(&cell, &found),
    };
    emit(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Change of the score in tenths of a per cent, rounded towards 0.
fn change(base: &CellResult, result: &CellResult) -> i64 {
    let (base, now) = (i128::from(base.score_per_s.max(1)), i128::from(result.score_per_s));
    ((now - base) * 1000 / base) as i64
}

fn signed(tenths: i64) -> String {
    let sign = if tenths < 0 { '-' } else { '+' };
    format!("{sign}{}.{} %", tenths.abs() / 10, tenths.abs() % 10)
}

fn waits(result: &CellResult) -> (u64, u64) {
    ((result.zone_wait_thousandths() + 5) / 10, (result.lru.wait_thousandths + 5) / 10)
}

fn text(cell: &Cell, found: &Sensitivity) -> String {
    let (zone, lru) = waits(&found.base);
    let mut text = format!(
        "{} on {}, {}: {} {}s a second, waiting {zone} % zone, {lru} % LRU\n\n\
         {:<38}{:>7}  {:<26}{}\n",
        cell.workload.name,
        cell.machine,
        cell.policy,
        found.base.score_per_s,
        cell.workload.unit,
        "each figure at the ends of its range",
        "value",
        "low: score, zone LRU %",
        "high",
    );
    for row in &found.rows {
        let ends = [&row.low, &row.high].map(|end| told(&found.base, end.as_ref()));
        // The longest end is `105.3: contradicts others`: 25 characters.
        let line = format!("{:<38}{:>7}  {:<26}{}", row.figure, row.value, ends[0], ends[1]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn told(base: &CellResult, end: Option<&End>) -> String {
    match end.map(|end| (&end.value, &end.result)) {
        None => "-".to_string(),
        Some((value, Err(_))) => format!("{value}: contradicts others"),
        Some((value, Ok(result))) => {
            let (zone, lru) = waits(result);
            format!("{value}: {}, {zone} {lru}", signed(change(base, result)))
        }
    }
}

fn json(found: &Sensitivity) -> Value {
    let end = |end: &Option<End>| {
        end.as_ref().map(|end| match &end.result {
            Ok(result) => json!({
                "value": end.value,
                "score_change_pct": change(&found.base, result) as f64 / 10.0,
                "result": result,
            }),
            Err(why) => json!({ "value": end.value, "refused": why }),
        })
    };
    let rows = found.rows.iter().map(|row| {
        json!({
            "figure": row.figure, "value": row.value, "low": end(&row.low), "high": end(&row.high),
        })
    });
    json!({ "base": found.base, "figures": rows.collect::<Vec<_>>() })
}
