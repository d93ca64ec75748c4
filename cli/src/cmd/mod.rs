//! One file a verb. Each holds `Args` (what clap parses) and `run` (exit code 0, or 1 for a
//! negative verdict; an error is a user's mistake and becomes exit code 2).

mod cells;
pub mod compare;
pub mod machines;
pub mod policies;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod simulate;
pub mod trace;
mod whole;

/// Prints to standard output; a reader that has gone away is no error.
pub fn print_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
