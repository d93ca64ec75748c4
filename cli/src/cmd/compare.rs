//! `pageyard compare`: whom does a policy help, whom does it hurt, and why?

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageyard_lab::compare::fail_if::{FailIf, Judgement};
use pageyard_lab::compare::result::Comparison;
use pageyard_lab::compare::run::Question;
use pageyard_lab::compare::{json, metrics, report, run as over, traces};
use pageyard_lab::named::NamedPolicy;

/// Options of `pageyard compare`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Policy in force: NAME, NAME:key=value,… or a TOML file (see `pageyard policies list`)
    base: String,

    /// Policy proposed
    head: String,

    /// Recording, file or folder; repeat for several [default: those that come with Pageyard]
    #[arg(short, long = "trace", value_name = "PATH")]
    traces: Vec<PathBuf>,

    /// Release of the recorded kernel, for recordings that do not say it
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,

    /// Print JSON: every figure, the policies by key, the twin's agreement row by row
    #[arg(long)]
    json: bool,

    /// Exit with 1 if a change goes beyond this, as 'zone_locks>5%'; may be repeated
    #[arg(long, value_name = "METRIC>N%")]
    fail_if: Vec<String>,

    /// Hold --fail-if against each recording too, not only against all together
    #[arg(long, requires = "fail_if")]
    per_trace: bool,
}

fn after_help() -> String {
    let mut text = String::from(
        "Each recording is replayed twice under both policies, from caches cut to the policy's \
         own\nlimits; the second pass is counted. See docs/COMPARE.md.\n\nMetrics:\n",
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
         Examples:\n  \
         pageyard compare linux-5.17 linux-5.18\n  \
         pageyard compare linux-6.18 linux-6.18:batch_pages=31 --trace my-recording\n  \
         pageyard compare linux-6.18 mine.toml --fail-if 'zone_locks>5%' --fail-if \
         'abs(pcp_hit_pct)>1%'",
    );
    text
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let question = Question {
        base: NamedPolicy::parse(&args.base)?,
        head: NamedPolicy::parse(&args.head)?,
        kernel: args.kernel,
    };
    let bounds: Vec<FailIf> =
        args.fail_if.iter().map(|text| FailIf::parse(text)).collect::<Result<_, _>>()?;
    let paths = traces::find(&args.traces)?;
    let bar = bar(paths.len());
    let shown = Mutex::new(bar.clone());
    let results = over::over(&paths, &question, &|done| {
        if let Ok(bar) = shown.lock() {
            bar.set_position(done as u64);
        }
    });
    bar.finish_and_clear();
    let comparison = Comparison::of(question, &paths, results);
    let judgements: Vec<Judgement> =
        bounds.iter().map(|bound| bound.judge(&comparison, args.per_trace)).collect();
    match args.json {
        true => print(&json::write(&comparison, &judgements)?)?,
        false => print(&report::write(&comparison))?,
    }
    let violated = tell(&judgements);
    match comparison.failures.len() {
        0 if violated => Ok(ExitCode::FAILURE),
        0 => Ok(ExitCode::SUCCESS),
        count => {
            for (_, error) in &comparison.failures {
                eprintln!("pageyard: {error}");
            }
            bail!("{count} of {} recordings could not be compared", paths.len())
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
                change.base.unwrap_or(0.0),
                change.head.unwrap_or(0.0),
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
