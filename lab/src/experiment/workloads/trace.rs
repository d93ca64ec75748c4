//! A recording in a cell. CPUs beyond the recorded ones run copies of it.

use std::path::Path;
use std::rc::Rc;

use pageyard_trace::recording::Recording;

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Argument, Cpus, Given, OwnFigure, Unit};
use super::unbuilt;
use crate::cells::program::Program;
use crate::cells::recording::{Config, Outcome, RunError, run as run_cell};

macro_rules! figures {
    ($($name:literal $unit:ident $about:literal;)*) => {
        &[$(OwnFigure { name: $name, about: $about, unit: Unit::$unit }),*]
    };
}

/// The adapter.
pub const ADAPTER: Adapter = Adapter {
    name: "trace",
    about: "a recording, with its think times; with more CPUs than it has, copies side by side",
    unit: "call",
    cpus: Cpus::All,
    think_ps: 0,
    argument: Some(Argument { what: "RECORDING", look }),
    parameters: &[],
    figures: figures! {
        "recorded-ns" Ns "length of the recording";
        "length-ns" Ns "length of a copy, mean";
        "longer-pct" Pct "how much longer than recorded, mean";
        "alloc-call-ns" Ns "time of an allocation";
        "free-call-ns" Ns "time of a free";
        "allocs" Count "allocations";
        "frees" Count "frees";
        "failed" Count "allocations that found no memory";
        "refills" Count "refills of per-CPU lists";
        "refilled-blocks" Count "blocks that they took";
        "drains" Count "drains of per-CPU lists";
        "drained-pages" Count "pages that they gave back";
        "past-lists" Count "allocations and frees past the per-CPU lists";
        "awaited" Count "frees that waited for the allocation on another CPU";
        "awaited-ns" Ns "how long, on average";
        "in-use-first" Count "blocks that were in use before the first event";
        "unseen" Count "allocations and frees that left no event, supposed";
        "impossible" Count "events left out as impossible";
        "damage" Count "unreadable places of the file, passed over";
    },
    run,
};

/// Reads a recording that has something to run.
///
/// # Errors
/// There is none, or nothing is in it: the reason.
pub fn read(path: &str) -> Result<Program, String> {
    let recording = Recording::open(Path::new(path)).map_err(|error| error.to_string())?;
    let program = Program::read(&recording).map_err(|error| error.to_string())?;
    match program.cpus.is_empty() {
        true => Err(RunError::Empty.to_string()),
        false => Ok(program),
    }
}

fn look(path: &str) -> Result<Given, String> {
    let program = read(path)?;
    Ok(Given { identity: program.identity(), cpus: program.cpus.len() })
}

fn run(ready: &Ready) -> Result<CellResult, CellError> {
    let cell = &ready.cell;
    let refused = |message: String| {
        let (name, argument) = (cell.workload.name, cell.argument.clone());
        CellError::Refused { name, argument, message }
    };
    if cell.think_ps != 0 {
        return Err(refused("think times are the recorded ones, none can be given".to_string()));
    }
    let program = Rc::new(read(&cell.argument).map_err(refused)?);
    let config = Config { copies: cell.cpus / program.cpus.len(), seed: cell.seed };
    let outcome = run_cell(ready.machine(), ready.policy(), &program, &config);
    let outcome = outcome.map_err(|error| match error {
        RunError::Build(error) => unbuilt(ready, &error),
        error => refused(error.to_string()),
    })?;
    Ok(result_of(&program, &outcome))
}

fn result_of(program: &Program, outcome: &Outcome) -> CellResult {
    let mut result = CellResult::of(&outcome.stats, outcome.total_ps, outcome.cpus);
    let calls = u128::from(outcome.allocs.calls + outcome.frees.calls);
    result.score_per_s = (calls * 1_000_000_000_000 / u128::from(outcome.total_ps.max(1))) as u64;
    let recorded = outcome.recorded_ps;
    let longer = u128::from(outcome.elapsed_ps.0.saturating_sub(recorded)) * 100_000;
    let supposed = program.supposed;
    for (name, thousandths) in [
        ("recorded-ns", recorded),
        ("length-ns", outcome.elapsed_ps.0),
        ("longer-pct", (longer / u128::from(recorded.max(1))) as u64),
        ("alloc-call-ns", outcome.allocs.mean_ps()),
        ("free-call-ns", outcome.frees.mean_ps()),
        ("awaited-ns", outcome.waits.mean_ps()),
    ] {
        result.set(name, thousandths);
    }
    for (name, count) in [
        ("allocs", outcome.allocs.calls),
        ("frees", outcome.frees.calls),
        ("failed", outcome.failed),
        ("refills", outcome.served.refills.0),
        ("refilled-blocks", outcome.served.refills.1),
        ("drains", outcome.served.drains.0),
        ("drained-pages", outcome.served.drains.1),
        ("past-lists", outcome.served.direct.0 + outcome.served.direct.1),
        ("awaited", outcome.waits.calls),
        ("in-use-first", supposed.in_use),
        ("unseen", supposed.allocs_unseen + supposed.frees_unseen),
        ("impossible", supposed.impossible),
        ("damage", program.damage),
    ] {
        result.set(name, count.saturating_mul(1000));
    }
    result
}
