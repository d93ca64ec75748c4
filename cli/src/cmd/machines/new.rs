//! `pageyard machines new`: measures this host and writes its machine file.

mod file;
mod host;
mod measure;
mod run;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use pageyard_sim::machine::load;

use super::emit;
use host::Host;
use measure::Effort;

/// Options of `pageyard machines new`.
#[derive(clap::Args)]
pub struct Args {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What results call the machine: small letters, digits, dashes
    #[arg(long, default_value = "host")]
    name: String,
    /// Few runs over little memory, within a second or two: rough figures
    #[arg(long)]
    quick: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.output {
        anyhow::ensure!(!path.is_dir(), "{}: is a folder; -o takes a file", path.display());
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    anyhow::ensure!(
        !args.name.is_empty() && args.name.chars().all(plain),
        "--name {}: a name has small letters, digits and dashes",
        args.name
    );
    if cfg!(debug_assertions) {
        eprintln!("pageyard: built without optimisation: rates will be too low; use --release");
    }
    let host = Host::read(Path::new("/"))?;
    let figures = run::measure(&host, &effort(&host, args.quick), &progress)?;
    let text = file::write(&args.name, &host, &figures);
    let shown =
        args.output.as_ref().map_or("the new file".into(), |path| path.display().to_string());
    load::parse(&text, &shown).context(
        "what was measured contradicts itself; run it again while the host has nothing else to do",
    )?;
    match &args.output {
        Some(path) => save(path, &text)?,
        None => emit(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A chase for memory goes over twice the last level, if a quarter of a node's memory allows.
fn effort(host: &Host, quick: bool) -> Effort {
    let last = host.caches[2].or(host.caches[1]).map_or(32 << 10, |cache| cache.kib) << 10;
    let smallest = host.memory_mib.iter().min().copied().unwrap_or(64) << 20;
    let bytes = (2 * last).max(64 << 20).min(smallest / 4).min(4 << 30) as usize;
    match quick {
        true => Effort {
            samples: 3,
            bytes_max: bytes.min(8 << 20),
            loads: 20_000,
            stream: Duration::from_millis(20),
        },
        false => Effort {
            samples: 11,
            bytes_max: bytes,
            loads: 400_000,
            stream: Duration::from_millis(500),
        },
    }
}

fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("measuring {what}");
    }
}

/// The file appears whole under its name, or not at all.
fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let cannot = || format!("{}: cannot be written", path.display());
    let mut temporary = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    temporary.write_all(text.as_bytes()).with_context(cannot)?;
    temporary.persist(path).map_err(|error| error.error).with_context(cannot)?;
    Ok(())
}
