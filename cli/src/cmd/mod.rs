//! One file a verb. Each holds `Args` (what clap parses) and `run` (exit code 0, or 1 for a
//! negative verdict; an error is a user's mistake and becomes exit code 2).

pub mod compare;
pub mod policies;
pub mod record;
pub mod trace;
