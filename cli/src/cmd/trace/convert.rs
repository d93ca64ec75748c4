//! `pageyard trace convert` and `cut`: a recording written anew, whole or a piece of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use pageyard_trace::convert::{self, Filter, Summary, Target};
use pageyard_trace::interrupt::Interrupt;
use pageyard_trace::reader::EventReader;
use pageyard_trace::recording::Recording;

use super::info::Meter;

/// Options of `pageyard trace convert`.
#[derive(clap::Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    files: Files,
}

/// Options of `pageyard trace cut`.
#[derive(clap::Args)]
pub struct CutArgs {
    #[command(flatten)]
    files: Files,
    /// First time kept: seconds of the recording's clock, or `+S` seconds after its first event.
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    from: Option<String>,
    /// First time no longer kept: seconds of the clock, or `+S` after the first event.
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    to: Option<String>,
    /// Keep only these CPUs (numbers, separated by commas).
    #[arg(long, value_delimiter = ',', value_name = "N")]
    cpu: Vec<u16>,
    /// Keep only events of these names (separated by commas), as mm_page_alloc.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    events: Vec<String>,
}

#[derive(clap::Args)]
struct Files {
    /// A trace (ftrace text, trace.dat, perf.data; also .zst, .gz, .xz) or a recording's folder.
    input: PathBuf,
    /// What to write: NAME.dat is trace.dat, any other name ftrace text; .zst and .gz pack it.
    output: PathBuf,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// How hard to pack with zstd.
    #[arg(long, value_name = "1-19", default_value_t = 6,
          value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
}

/// Runs `convert`.
pub fn convert(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    write(&args.files, |_| Ok(Filter::default()))
}

/// Runs `cut`.
pub fn cut(args: &CutArgs) -> anyhow::Result<ExitCode> {
    write(&args.files, |recording| {
        let mut first_ns = None;
        let mut time = |text: &Option<String>| -> anyhow::Result<Option<u64>> {
            let Some(text) = text else { return Ok(None) };
            let (after_first, digits) = match text.strip_prefix('+') {
                Some(digits) => (true, digits),
                None => (false, text.as_str()),
            };
            let nanos = nanos(digits)
                .with_context(|| format!("`{text}`: not a time in seconds, as 6573.95 or +0.5"))?;
            if after_first && first_ns.is_none() {
                first_ns = Some(first_time(recording)?);
            }
            let base = if after_first { first_ns.unwrap_or(0) } else { 0 };
            Ok(Some(base.saturating_add(nanos)))
        };
        let (from_ns, to_ns) = (time(&args.from)?, time(&args.to)?);
        if let (Some(from), Some(to)) = (from_ns, to_ns)
            && from >= to
        {
            bail!("--from is not before --to: nothing would be kept");
        }
        let (cpus, events) = (args.cpu.clone(), args.events.clone());
        Ok(Filter { from_ns, to_ns, cpus, events })
    })
}

fn first_time(recording: &Recording) -> anyhow::Result<u64> {
    let mut block = Vec::new();
    recording.events()?.read_block(&mut block)?;
    Ok(block.first().map_or(0, |event| event.time_ns))
}

/// Seconds with up to nine decimals, exactly.
fn nanos(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn write(
    files: &Files,
    filter: impl FnOnce(&Recording) -> anyhow::Result<Filter>,
) -> anyhow::Result<ExitCode> {
    let out: &Path = &files.output;
    let Some(target) = Target::of(out, files.level) else {
        bail!(
            "{}: this kind is read, not written: name it .dat, .txt, .txt.zst or .txt.gz",
            out.display()
        );
    };
    if out.is_dir() {
        bail!("{}: is a folder: name the file to write", out.display());
    }
    if out.exists() && !files.force {
        bail!("{}: exists already: choose another name, or --force", out.display());
    }
    let recording = Recording::open(&files.input)?;
    let filter = filter(&recording)?;
    let mut meter = Meter::new("writing");
    let interrupt = Interrupt::catch()?;
    let go_on = |reader: &EventReader| {
        meter.show(reader);
        !interrupt.came()
    };
    let summary = convert::write(&recording, out, target, &filter, go_on);
    meter.clear();
    let summary = summary?;
    tell(&summary, out);
    if summary.written == 0 {
        eprintln!("pageyard: no event was kept");
    }
    Ok(if summary.damage > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn tell(summary: &Summary, out: &Path) {
    eprintln!("{}: {} of {} events", out.display(), summary.written, summary.read);
    if summary.left_out > 0 {
        eprintln!("left out: {} events that Pageyard does not interpret", summary.left_out);
    }
    if summary.lost > 0 {
        eprintln!("lost by the tracer, and marked so: {} events", summary.lost);
    }
    if let Some(fault) = &summary.first_fault {
        eprintln!("not readable: {} places, the first: {fault}", summary.damage);
    }
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn seconds_are_read_exactly() {
        assert_eq!(nanos("6573.955203"), Some(6_573_955_203_000));
        assert_eq!(nanos(".5"), Some(500_000_000));
        assert_eq!(nanos("0.000000001"), Some(1));
        assert_eq!(nanos("1.0000000001"), None);
        assert_eq!(nanos("-1"), None);
        assert_eq!(nanos("99999999999999"), None);
    }
}
