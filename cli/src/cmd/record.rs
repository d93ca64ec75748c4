//! `pageyard record`.

use std::process::ExitCode;

/// Options of `pageyard record`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
