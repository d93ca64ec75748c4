//! `pageyard simulate --machine host`: the same workload on this machine's threads and memory. It
//! is a measurement of this host, and no model has a part in it.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use pageyard_lab::cells::page_fault1::PAGES;
use pageyard_lab::experiment::cell::{Cell, Ready, Workload};
use pageyard_lab::experiment::outcome::CellResult;
use pageyard_lab::live::{self, LiveError, Plan, Round};
use pageyard_lab::named::NamedPolicy;
use serde_json::{Value, json};

use super::super::policies::layout::emit;
use super::Args;

mod text;

/// The name of this machine.
pub const NAME: &str = "host";
/// Processes of each policy, and with `--quick`.
const ROUNDS: u16 = 5;
const ROUNDS_QUICK: u16 = 3;
/// Milliseconds that a process warms up and measures, and with `--quick`.
const TIMES_MS: (u64, u64) = (300, 700);
const TIMES_QUICK_MS: (u64, u64) = (50, 150);

/// One policy on this host, and beside it on a modelled machine.
struct Measured {
    policy: String,
    rounds: Vec<Round>,
    beside: Option<CellResult>,
}

/// What was asked for.
struct Asked {
    plan: Plan,
    times_ms: (u64, u64),
    rounds: u16,
    /// CPUs that this process may use.
    has: usize,
}

impl Asked {
    /// The workload with its argument.
    fn workload_name(&self) -> String {
        super::workload_name(self.plan.workload, &self.plan.argument)
    }
}

/// Runs the verb on this host.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let asked = asked(&args)?;
    asked.plan.check()?;
    if args.one_round {
        let round = match asked.plan.round() {
            Ok(round) => json!({ "round": round }),
            Err(end @ LiveError::OutOfMemory { .. }) => json!({ "ended": end.to_string() }),
            Err(error) => return Err(error.into()),
        };
        emit(&(serde_json::to_string(&round)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        eprintln!("pageyard: built without optimisation: figures will be too low; use --release");
    }
    let ready = beside(&args, &asked)?;
    let mut measured: Vec<Measured> = Vec::new();
    for policy in &args.policies {
        let (policy, rounds) = (policy.clone(), Vec::new());
        measured.push(Measured { policy, rounds, beside: None });
    }
    // A process each, and all policies in turn: what else the host does falls on all alike.
    for _ in 0..asked.rounds {
        for one in &mut measured {
            match round(&args, &one.policy)? {
                Ok(round) => one.rounds.push(round),
                Err(end) => {
                    let end = end.replace("; ", ";\n");
                    emit(&format!("measured on this host, {}: {end}\n", one.policy))?;
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    }
    if !ready.is_empty() {
        let (results, _) = args.cells.pool(|pool| pool.run(&ready))?;
        for ((one, ready), result) in measured.iter_mut().zip(&ready).zip(results?) {
            one.beside = Some(ready.measured(result)?);
        }
    }
    emit(&match args.json {
        true => as_json(&asked, &measured, args.beside.as_deref())?,
        false => text::page(&asked, &measured, args.beside.as_deref()),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn asked(args: &Args) -> anyhow::Result<Asked> {
    let (workload, argument) = Workload::parse(&args.workload)?;
    let recorded_cpus = match workload.argument {
        Some(wanted) => {
            (wanted.look)(&argument)
                .map_err(|message| anyhow!("workload {}:{argument}: {message}", workload.name))?
                .cpus
        }
        None => 0,
    };
    let given: BTreeMap<String, u64> = args.parameters.iter().cloned().collect();
    let has = live::cpus()?.len();
    let mut policies = Vec::new();
    for policy in &args.policies {
        policies.push(NamedPolicy::parse(policy)?.policy);
    }
    let Some(&policy) = policies.first() else { bail!("--policy is missing") };
    let times_ms = if args.quick { TIMES_QUICK_MS } else { TIMES_MS };
    let plan = Plan {
        workload,
        argument,
        recorded_cpus,
        parameters: live::fill(workload, &given, args.quick, args.memory_mib)?,
        policy,
        cpus: args
            .cpus
            .map_or_else(|| live::default_cpus(workload, recorded_cpus, has), usize::from),
        think_ps: args.think_ns.map_or(workload.think_ps, |ns| ns * 1000),
        seed: args.seed,
        memory_mib: args.memory_mib,
        process_pages: PAGES,
        times: (Duration::from_millis(times_ms.0), Duration::from_millis(times_ms.1)),
    };
    let default = if args.quick { ROUNDS_QUICK } else { ROUNDS };
    Ok(Asked { plan, times_ms, rounds: args.rounds.unwrap_or(default), has })
}

/// The same cells on the modelled machine to be set beside.
fn beside(args: &Args, asked: &Asked) -> anyhow::Result<Vec<Ready>> {
    let Some(machine) = &args.beside else { return Ok(Vec::new()) };
    let mut cells = Vec::new();
    for policy in &args.policies {
        let ready = Ready::of(&Cell {
            machine: machine.clone(),
            workload: asked.plan.workload,
            argument: asked.plan.argument.clone(),
            parameters: asked.plan.parameters.clone(),
            policy: policy.clone(),
            cpus: asked.plan.cpus,
            think_ps: asked.plan.think_ps,
            seed: args.seed,
            quick: args.quick,
        })?;
        cells.push(ready.with_memory(args.memory_mib));
    }
    Ok(cells)
}

/// A round in a process of its own, or how it ended.
fn round(args: &Args, policy: &str) -> anyhow::Result<Result<Round, String>> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let mut command = Command::new(program);
    command.args(["simulate", "--one-round", "--machine", NAME, "--policy", policy]);
    command.args(["--workload", &args.workload]);
    for (name, value) in &args.parameters {
        command.args(["--param", &format!("{name}={value}")]);
    }
    let numbers = [
        ("--cpus", args.cpus.map(u64::from)),
        ("--memory-mib", args.memory_mib),
        ("--think-ns", args.think_ns),
        ("--seed", Some(args.seed)),
    ];
    for (name, value) in numbers {
        command.args(value.map(|value| format!("{name}={value}")));
    }
    command.args(args.quick.then_some("--quick"));
    let output = command.output().context("cannot run this program again for a round")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().trim_start_matches("pageyard: "));
    }
    let mut value: Value =
        serde_json::from_slice(&output.stdout).context("a round told no result; run it again")?;
    match value["ended"].as_str() {
        Some(end) => Ok(Err(end.to_string())),
        None => Ok(Ok(serde_json::from_value(value["round"].take())?)),
    }
}

fn as_json(asked: &Asked, measured: &[Measured], beside: Option<&str>) -> anyhow::Result<String> {
    let plan = &asked.plan;
    let one = |one: &Measured| {
        json!({
            "policy": one.policy,
            "score_per_s": text::of(&one.rounds, |round| round.score_per_s),
            "rounds": one.rounds,
            "beside": one.beside,
        })
    };
    let value = json!({
        "is": "a measurement of this host, not a model",
        "workload": asked.workload_name(),
        "parameters": plan.parameters,
        "cpus": plan.cpus,
        "cpus_of_host": asked.has,
        "think_ps": plan.think_ps,
        "memory_mib": plan.memory_mib,
        "warm_ms": asked.times_ms.0,
        "measured_ms": asked.times_ms.1,
        "beside": beside,
        "policies": measured.iter().map(one).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
