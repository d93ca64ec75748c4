//! `pageyard trace`: look into a recording, convert it, cut a piece out of it.

mod convert;
mod info;

use std::process::ExitCode;

/// Options of `pageyard trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Say what a recording holds and whether it can be trusted (exit code 1: it cannot).
    Info(info::Args),
    /// Write a recording as ftrace text or trace.dat (trace-cmd and KernelShark open it).
    Convert(convert::ConvertArgs),
    /// Write a piece of a recording: a stretch of time, some CPUs, some events.
    Cut(convert::CutArgs),
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Info(args) => info::run(&args),
        Action::Convert(args) => convert::convert(&args),
        Action::Cut(args) => convert::cut(&args),
    }
}

/// Writes to standard output; a reader that has gone away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}
