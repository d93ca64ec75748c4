//! `pageyard trace`.

use std::process::ExitCode;

/// Options of `pageyard trace`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
