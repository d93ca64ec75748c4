//! The `pageyard` command: one file a verb under `cmd/`.

mod cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A page allocator in the Linux mould, and the yard in which its policies are tried.
#[derive(Parser)]
#[command(name = "pageyard", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say what a policy changes over recordings of real kernels: for whom, and why.
    Compare(cmd::compare::Args),
    /// Look into a recording, convert it, or cut a piece out of it.
    Trace(cmd::trace::Args),
    /// Replay a recording: its kernel's twin, and the same requests under other policies.
    Replay(cmd::replay::Args),
    /// Record the page allocator of the running kernel (root).
    Record(cmd::record::Args),
    /// List, show and compare policies.
    Policies(cmd::policies::Args),
    /// List, show and check modelled machines; measure this host.
    #[command(visible_alias = "machine")]
    Machines(cmd::machines::Args),
    /// Run one workload on a modelled machine: score, waiting, holds, line transfers.
    Simulate(cmd::simulate::Args),
    /// Hold published tables against the same allocator on modelled machines.
    Reproduce(cmd::reproduce::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.verb {
        Verb::Compare(args) => cmd::compare::run(args),
        Verb::Trace(args) => cmd::trace::run(args),
        Verb::Replay(args) => cmd::replay::run(args),
        Verb::Record(args) => cmd::record::run(args),
        Verb::Policies(args) => cmd::policies::run(args),
        Verb::Machines(args) => cmd::machines::run(args),
        Verb::Simulate(args) => cmd::simulate::run(args),
        Verb::Reproduce(args) => cmd::reproduce::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("pageyard: {error:#}");
        ExitCode::from(2)
    })
}
