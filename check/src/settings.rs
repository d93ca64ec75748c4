//! What the environment says about the length and the seed of tests.
//!
//! | variable | meaning |
//! |---|---|
//! | `PAGEYARD_SEED` | where everything random begins; 1 if not set |
//! | `PAGEYARD_SOAK_OPS` | operations that the oracle compares in all |
//! | `PAGEYARD_SHUTTLE_ITERS` | schedules of each test under shuttle |
//! | `PAGEYARD_LOOM_PREEMPTIONS` | see [`crate::loom_platform::explore`] |

use std::env;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} must be a whole number, not {text:?}"),
    }
}

/// The seed of this run.
#[must_use]
pub fn seed() -> u64 {
    number("PAGEYARD_SEED").unwrap_or(1)
}

/// Operations for the oracle in all, `default` unless set.
#[must_use]
pub fn operations(default: u64) -> u64 {
    number("PAGEYARD_SOAK_OPS").unwrap_or(default)
}

/// Schedules for a test under shuttle, `default` unless set.
#[must_use]
pub fn schedules(default: usize) -> usize {
    number("PAGEYARD_SHUTTLE_ITERS").map_or(default, |schedules| schedules as usize)
}
