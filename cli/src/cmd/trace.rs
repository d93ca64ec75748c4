//! `pageyard trace`: look into a recording, convert it, cut a piece out of it.

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
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Info(args) => info::run(&args),
    }
}

/// Writes to standard output; a reader that has gone away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}
