//! Pageyard's own chores: `cargo xtask tidy | golden | soak | ci`.
//!
//! Exit code 0: fine. 1: a check gave a negative verdict. 2: the command could not do its work.

mod ci;
mod golden;
mod process;
mod soak;
mod tidy;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Pageyard source tree")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the rules of docs/STYLE.md that a machine can count
    Tidy,
    /// Count instructions, branches and atomics of one allocation and free; compare with the table
    Golden(golden::Args),
    /// Run the long versions of the random and exhaustive tests
    Soak(soak::Args),
    /// Everything a change must pass: fmt, clippy, tidy, tests, no_std build, docs
    Ci(ci::Args),
}

/// How a chore that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Tidy => tidy::run(&tree::root()),
        Chore::Golden(args) => golden::run(&args),
        Chore::Soak(args) => soak::run(&args),
        Chore::Ci(args) => ci::run(&args),
    };
    match outcome {
        Ok(Verdict::Pass) => ExitCode::SUCCESS,
        Ok(Verdict::Fail) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
