//! `pageyard compare`: whom does a policy help, whom does it hurt, and why?

mod machines;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageyard_lab::compare::fail_if::{FailIf, Judgement};
use pageyard_lab::compare::machines::judge::{self, Matrix};
use pageyard_lab::compare::machines::{kept, text};
use pageyard_lab::compare::result::Comparison;
use pageyard_lab::compare::run::Question;
use pageyard_lab::compare::{json, metrics, report, run as over, traces};
use pageyard_lab::html::compare as html;

use super::whole;
use machines::{MachineArgs, Named};

/// Options of `pageyard compare`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Policy in force: NAME, NAME:key=value,… or a TOML file (see `pageyard policies list`); or a
    /// file that --save wrote
    base: String,

    /// Policy proposed, or a file that --save wrote; none if results are only to be saved
    #[arg(required_unless_present = "save")]
    head: Option<String>,

    /// Recording, file or folder; repeat for several [default: those that come with Pageyard]
    #[arg(short, long = "trace", value_name = "PATH")]
    traces: Vec<PathBuf>,

    /// Release of the recorded kernel, for recordings that do not say it
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,

    /// Print JSON: every figure, the policies by key, the twin's agreement row by row
    #[arg(long)]
    json: bool,

    /// Write a report to look at: one file, nothing loaded, for screen, phone and print
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Exit with 1 if a change goes beyond this, as 'zone_locks>5%'; may be repeated
    #[arg(long, value_name = "METRIC>N%")]
    fail_if: Vec<String>,

    /// Hold --fail-if against each recording too, not only against all together
    #[arg(long, requires = "fail_if")]
    per_trace: bool,

    #[command(flatten)]
    on: MachineArgs,
}

fn after_help() -> String {
    let mut text = String::from(
        "Each recording is replayed twice under both policies, from caches cut to the policy's \
         own\nlimits; the second pass is counted. Workloads run on modelled machines under both. \
         With\n--trace only recordings are compared, with --machines or --workloads only \
         machines.\nSee docs/COMPARE.md.\n\nMetrics of recordings:\n",
    );
    for metric in metrics::all(1) {
        if !metric.name.contains("_node") && !metric.name.contains("_o") {
            text.push_str(&format!("  {:<18} {}\n", metric.name, metric.about));
        }
    }
    text.push_str(
        "  numa_hit_nodeN     blocks served by node N as wanted\n  \
         numa_miss_nodeN    blocks served by node N though wanted elsewhere\n  \
         unusable_o0 … o10  part of free memory that cannot serve the order, at the end\n  \
         extfrag_o0 … o10   external fragmentation index; -1: a block is free\n\n\
         Metrics of modelled machines:\n",
    );
    for (name, about) in judge::METRICS {
        text.push_str(&format!("  {name:<18} {about}\n"));
    }
    text.push_str(
        "\nExamples:\n  \
         pageyard compare linux-5.17 linux-5.18\n  \
         pageyard compare linux-6.18 linux-6.18:batch_pages=31 --trace my-recording\n  \
         pageyard compare linux-4.18 linux-4.18:batch_pages=63 --machines skl-2s,skl-4s,bdw-4s\n  \
         pageyard compare linux-6.18 --save before.json    # then change the core, build, and\n  \
         pageyard compare before.json linux-6.18 --fail-if 'score<-10%'\n  \
         pageyard compare linux-6.18 mine.toml --fail-if 'zone_locks>5%' --fail-if \
         'abs(pcp_hit_pct)>1%'",
    );
    text
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let base = Named::parse(&args.base)?;
    let Some(name) = &args.head else {
        return only_save(&args.base, &base, args.on);
    };
    let head = Named::parse(name)?;
    let bounds: Vec<FailIf> =
        args.fail_if.iter().map(|text| FailIf::parse(text)).collect::<Result<_, _>>()?;
    let kept = base.is_kept() || head.is_kept();
    if kept && !args.traces.is_empty() {
        bail!("a file of results is of modelled machines: it has no part in --trace");
    }
    let on_recordings = !kept && (!args.traces.is_empty() || !args.on.given());
    let on_machines = kept || args.on.given() || args.traces.is_empty();
    let (base_policy, head_policy) = (base.policy().clone(), head.policy().clone());
    let question = Question { base: base_policy, head: head_policy, kernel: args.kernel };
    let comparison = recordings(question, on_recordings, &args.traces)?;
    let matrix = match on_machines {
        false => None,
        true => {
            let save = args.on.save.clone();
            match machines::sides(args.on, &[(&args.base, &base), (name, &head)])?.as_deref() {
                Some([base, head]) => {
                    if let Some(path) = save {
                        whole::write(&path, &kept::write(head)?)?;
                    }
                    Some(Matrix::of(base, head))
                }
                _ => return Ok(ExitCode::FAILURE),
            }
        }
    };
    let judgements: Vec<Judgement> = bounds
        .iter()
        .map(|bound| {
            let mut judgement = bound.judge(&comparison, args.per_trace);
            if let Some(matrix) = &matrix {
                bound.judge_places(matrix, &mut judgement);
            }
            judgement
        })
        .collect();
    if let Some(path) = &args.html {
        let recordings = on_recordings.then_some(&comparison);
        let question = &comparison.question;
        let report = html::Report { question, recordings, machines: matrix.as_ref() };
        whole::write(path, &html::write(&report))?;
    }
    let text = match (args.json, on_recordings) {
        (true, _) => json::write(&comparison, matrix.as_ref(), &judgements)?,
        (_, true) => report::write(&comparison),
        (_, false) => report::head(&comparison),
    };
    print(&text)?;
    if let Some(matrix) = matrix.as_ref().filter(|_| !args.json) {
        print(&if on_recordings { "\n".to_string() } else { String::new() })?;
        print(&text::write(matrix))?;
    }
    let violated = tell(&judgements);
    failed(&comparison, matrix.as_ref())?;
    Ok(if violated { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Results of one policy for another build: nothing is compared.
fn only_save(name: &str, named: &Named, on: MachineArgs) -> anyhow::Result<ExitCode> {
    if named.is_kept() {
        bail!("{name} is a file of results already; name a policy to save results of");
    }
    let path = on.save.clone().unwrap_or_default();
    let Some(sides) = machines::sides(on, &[(name, named)])? else {
        return Ok(ExitCode::FAILURE);
    };
    for side in &sides {
        whole::write(&path, &kept::write(side)?)?;
        let (cells, seeds) = (side.ran.len(), side.seeds);
        print(&format!(
            "{name}: {cells} cells of {seeds} seeds are in {path}\ncompare with another build: \
             pageyard compare {path} {name}\n",
            path = path.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replays recordings, or none.
fn recordings(question: Question, wanted: bool, named: &[PathBuf]) -> anyhow::Result<Comparison> {
    if !wanted {
        return Ok(Comparison::of(question, &[], Vec::new()));
    }
    let paths = traces::find(named)?;
    let bar = bar(paths.len());
    let shown = Mutex::new(bar.clone());
    let results = over::over(&paths, &question, &|done| {
        if let Ok(bar) = shown.lock() {
            bar.set_position(done as u64);
        }
    });
    bar.finish_and_clear();
    Ok(Comparison::of(question, &paths, results))
}

/// Says what could not be compared, if anything.
fn failed(comparison: &Comparison, matrix: Option<&Matrix>) -> anyhow::Result<()> {
    for (_, error) in &comparison.failures {
        eprintln!("pageyard: {error}");
    }
    let places = matrix.map_or(&[][..], |matrix| &matrix.failures);
    for (place, why) in places {
        eprintln!("pageyard: {} {}: {why}", place.machine, place.workload);
    }
    let (recordings, all) = (comparison.failures.len(), comparison.cases.len());
    match (recordings, places.len()) {
        (0, 0) => Ok(()),
        (0, cells) => bail!("{cells} cells could not be compared"),
        (count, 0) => bail!("{count} of {} recordings could not be compared", all + count),
        (count, cells) => {
            bail!("{count} recordings and {cells} cells could not be compared")
        }
    }
}

/// A line on a terminal, none elsewhere.
fn bar(recordings: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("replaying recordings {bar:30} {pos} of {len}");
    let bar = ProgressBar::with_draw_target(Some(recordings as u64), ProgressDrawTarget::stderr());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.tick();
    bar
}

/// A figure as long as it has to be.
fn figure(value: Option<f64>) -> String {
    match value.unwrap_or(0.0) {
        value if value.fract() == 0.0 || value.abs() >= 1000.0 => format!("{value:.0}"),
        value => format!("{value:.3}"),
    }
}

/// Says which bounds were broken; true if any was.
fn tell(judgements: &[Judgement]) -> bool {
    for judgement in judgements {
        if judgement.judged == 0 {
            eprintln!(
                "pageyard: --fail-if '{}': not judged, the metric has no value here",
                judgement.expression
            );
        }
        for violation in &judgement.violations {
            let change = &violation.change;
            let pct = match change.pct() {
                Some(pct) if pct.is_finite() => format!("{pct:+.2} %"),
                _ => "from 0".to_string(),
            };
            eprintln!(
                "pageyard: --fail-if '{}': {} changed by {pct} over {} ({} to {})",
                judgement.expression,
                change.metric,
                violation.place,
                figure(change.base),
                figure(change.head),
            );
        }
    }
    judgements.iter().any(|judgement| !judgement.violations.is_empty())
}

/// Writes to standard output; a reader that has gone away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}
