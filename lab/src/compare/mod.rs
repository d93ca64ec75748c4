//! Two policies over recordings of real kernels: what changes, for whom, and why.
//!
//! In reading order: [`run`] takes the recordings through it, [`fair`] gives both policies the
//! same start, [`measure`] replays one policy and gathers its figures, [`metrics`] names the
//! figures and says which way is better, [`reason`] finds the counters behind a change,
//! [`report`] and [`json`] show all of it, [`fail_if`] judges it. [`machines`] does the same over
//! modelled machines.

pub mod agree;
pub mod fail_if;
pub mod fair;
pub mod json;
pub mod machines;
pub mod measure;
pub mod metrics;
pub mod reason;
pub mod report;
pub mod result;
pub mod run;
pub mod traces;

#[cfg(test)]
mod tests;
