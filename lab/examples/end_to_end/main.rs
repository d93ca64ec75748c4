//! How long `pageyard replay` takes from file to verdict, and in how much memory:
//!
//! `cargo run --release -p pageyard-lab --example end_to_end -- [TRACE] [--repeat-to BYTES]`
//!
//! TRACE is a recording's folder (default: a bundled one). With `--repeat-to` its events are
//! first written out again and again, as text of that size, to a temporary folder; that long
//! recording is then replayed. Times are those of this thread on a CPU, so that other work on the
//! machine matters little.

mod repeat;

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pageyard_lab::named::NamedPolicy;
use pageyard_lab::twin::history::Historian;
use pageyard_lab::twin::infer::Twin;
use pageyard_lab::twin::replay::Placement;
use pageyard_lab::twin::world::World;
use pageyard_lab::twin::{outcome, report};
use pageyard_trace::recording::Recording;

const USAGE: &str = "usage: end_to_end [TRACE] [--repeat-to BYTES]";

/// One step's name, CPU seconds, and events and bytes of text it went through.
struct Step {
    name: &'static str,
    seconds: f64,
    events: u64,
    bytes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/exit-6.18-2cpu");
    let mut trace = bundled;
    let mut repeat_to = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--repeat-to" => repeat_to = Some(args.next().ok_or(USAGE)?.parse::<u64>()?),
            _ if arg.starts_with('-') => return Err(USAGE.into()),
            _ => trace = PathBuf::from(arg),
        }
    }
    let folder = tempfile::tempdir()?;
    let short = Recording::open(&trace)?;
    let recording = match repeat_to {
        None => short,
        Some(bytes) => {
            let (written, rounds) = repeat::repeat(&short, folder.path(), bytes)?;
            println!("{written} bytes of text, {rounds} times the events of {}", short.name());
            Recording::open(folder.path())?
        }
    };
    let fresh = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let (steps, events) = measure(recording)?;
    print(&steps, events);
    let since = if fresh { "of the replay" } else { "of the process" };
    println!("peak memory {since}: {} MiB", peak_kib()? >> 10);
    Ok(())
}

/// Goes the way of `pageyard replay`, step by step.
fn measure(recording: Recording) -> Result<(Vec<Step>, u64), Box<dyn Error>> {
    let kernel = recording.kernel().ok_or("the recording does not name its kernel")?;
    let own = NamedPolicy::for_kernel(kernel)?;
    let mut steps = Vec::new();
    let (events, bytes) = timed(&mut steps, "read the events", || read(&recording))?;
    timed(&mut steps, "read, and first reading", || first_reading(&recording, &own))?;
    let twin = timed(&mut steps, "the twin: readings and inference", || {
        Ok(Twin::of(recording, own.policy)?)
    })?;
    timed(&mut steps, "read and replay, recorded placement", || {
        twin.replay(own.policy, Placement::Recorded)?;
        Ok(())
    })?;
    timed(&mut steps, "read and replay, own placement", || {
        twin.replay(own.policy, Placement::Own)?;
        Ok(())
    })?;
    timed(&mut steps, "the report", || {
        report::report(&twin, &own.name)?;
        Ok(())
    })?;
    timed(&mut steps, "the outcome of one policy", || {
        outcome::of(&twin, &own.name, own.policy)?;
        Ok(())
    })?;
    for step in &mut steps {
        (step.events, step.bytes) = (events, bytes);
    }
    Ok((steps, events))
}

fn timed<R>(
    steps: &mut Vec<Step>,
    name: &'static str,
    f: impl FnOnce() -> Result<R, Box<dyn Error>>,
) -> Result<R, Box<dyn Error>> {
    let wall = Instant::now();
    let before = on_cpu_seconds();
    let result = f()?;
    let seconds = match (before, on_cpu_seconds()) {
        (Some(before), Some(after)) => after - before,
        _ => wall.elapsed().as_secs_f64(),
    };
    let (events, bytes) = (0, 0);
    steps.push(Step { name, seconds, events, bytes });
    Ok(result)
}

/// Reads every event; returns their number and the bytes of the file.
fn read(recording: &Recording) -> Result<(u64, u64), Box<dyn Error>> {
    let mut reader = recording.events()?;
    let mut block = Vec::new();
    while reader.read_block(&mut block)? {}
    Ok((reader.events_read(), std::fs::metadata(recording.trace_path())?.len()))
}

fn first_reading(recording: &Recording, own: &NamedPolicy) -> Result<(), Box<dyn Error>> {
    let world = World::of(recording)?;
    let mut historian = Historian::new(&world, &own.policy, None);
    let mut reader = recording.events()?;
    let mut block = Vec::new();
    while reader.read_block(&mut block)? {
        historian.on_block(&block, |pid| reader.comm(pid));
    }
    black_box(historian.finish());
    Ok(())
}

fn print(steps: &[Step], events: u64) {
    println!("{events} events");
    println!("{:<38} {:>8} {:>12} {:>8}", "step", "CPU s", "events/s", "MB/s");
    for step in steps {
        let per_second = step.events as f64 / step.seconds;
        let mb_per_second = step.bytes as f64 / step.seconds / 1e6;
        let (name, seconds) = (step.name, step.seconds);
        println!("{name:<38} {seconds:>8.3} {per_second:>12.0} {mb_per_second:>8.0}");
    }
}

/// Time of this thread on a CPU, where the kernel keeps it.
fn on_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// Largest resident memory of this process, KiB.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("/proc/self/status has no VmHWM")?.parse()?)
}
