//! `pageyard replay TRACE`: the twin of a recorded kernel, and the same requests under other
//! policies.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pageyard_lab::named::NamedPolicy;
use pageyard_lab::procfs;
use pageyard_lab::twin::infer::Twin;
use pageyard_lab::twin::outcome::{self, Outcome};
use pageyard_lab::twin::replay::Placement;
use pageyard_lab::twin::report::{self, TwinReport};
use pageyard_trace::recording::Recording;
use serde::Serialize;

/// Options of `pageyard replay`.
#[derive(clap::Args)]
pub struct Args {
    /// A recording: a file, or a folder with a trace and its snapshots.
    trace: PathBuf,
    /// Replay under this policy as well: NAME, NAME:key=value,… or a TOML file. May be repeated.
    #[arg(long = "policy", short = 'p', value_name = "POLICY")]
    policies: Vec<String>,
    /// Take this policy for the recorded kernel's own, instead of its release's preset.
    #[arg(long, value_name = "POLICY")]
    kernel_policy: Option<String>,
    /// Write what /proc would say after the replay under the kernel's own policy.
    #[arg(long, value_name = "DIR")]
    proc: Option<PathBuf>,
    /// Whose choice of pages the files of --proc show.
    #[arg(long, value_enum, default_value = "recorded")]
    placement: WhosePlacement,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print every row, also those that were not exercised or only to be looked at.
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum WhosePlacement {
    /// Zone and list type of each page as recorded.
    Recorded,
    /// The twin's own choice.
    Own,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a TwinReport,
    policies: &'a [Outcome],
    proc_fields: Option<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&args.trace)?;
    let own = own_policy(&recording, args.kernel_policy.as_deref())?;
    let others: Vec<NamedPolicy> =
        args.policies.iter().map(|text| NamedPolicy::parse(text)).collect::<Result<_, _>>()?;
    let twin = Twin::of(recording, own.policy)?;
    let report = report::report(&twin, &own.name)?;
    let mut outcomes = vec![outcome::of(&twin, &own.name, own.policy)?];
    for other in &others {
        outcomes.push(outcome::of(&twin, &other.name, other.policy)?);
    }
    let proc_fields = match &args.proc {
        Some(out) => Some(write_proc(&twin, args.placement, out)?),
        None => None,
    };
    if args.json {
        let printed = Printed { report: &report, policies: &outcomes, proc_fields };
        super::print_line(&serde_json::to_string_pretty(&printed)?);
    } else {
        super::print_line(text::twin(&report, args.all).trim_end());
        super::print_line(&format!("\n{}", text::outcomes(&outcomes).trim_end()));
        if let Some(fields) = proc_fields {
            super::print_line(&format!("\n{}", fields.trim_end()));
        }
    }
    for remark in others.iter().chain([&own]).filter_map(|policy| policy.remark.as_deref()) {
        eprintln!("pageyard: {remark}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The preset of the recorded release, unless the user names another.
fn own_policy(recording: &Recording, given: Option<&str>) -> anyhow::Result<NamedPolicy> {
    if let Some(text) = given {
        return Ok(NamedPolicy::parse(text)?);
    }
    let kernel = recording.kernel().with_context(|| {
        format!(
            "{}: the recording does not say which kernel it is of; name one with --kernel-policy",
            recording.path().display()
        )
    })?;
    Ok(NamedPolicy::for_kernel(kernel)?)
}

fn write_proc(
    twin: &Twin,
    placement: WhosePlacement,
    out: &std::path::Path,
) -> anyhow::Result<String> {
    let placement = match placement {
        WhosePlacement::Recorded => Placement::Recorded,
        WhosePlacement::Own => Placement::Own,
    };
    let replay = twin.replay(twin.policy, placement)?;
    let template = twin.recording.before.as_ref().context("the recording has no snapshots")?;
    let report = twin.world.with_geometry(|geometry| {
        procfs::write_proc(replay.allocator(), geometry, template, out)
    })?;
    Ok(report.to_string())
}
