//! The twin of a recorded kernel: the same allocator, fed the same requests, held against what
//! the kernel was seen to do.
//!
//! In reading order: [`world`] describes the recorded machine from its snapshots; [`history`]
//! reads the events once and infers what they do not say (where each freed page went, what the
//! per-CPU lists held at first); [`infer`] tries what remains open; [`start`] builds the state at
//! the first event; [`replay`] reads the events a second time and feeds only the requests;
//! [`score`] sets predicted beside observed.

pub mod first_free;
mod free_map;
pub mod freed;
pub mod history;
#[cfg(test)]
mod history_tests;
pub mod infer;
pub mod ledger;
pub mod numa;
pub mod observe;
pub mod outcome;
mod place;
pub mod placing;
mod reasons;
pub mod reclaim;
pub mod replay;
pub mod report;
pub mod runs;
pub mod score;
pub mod settle;
pub mod silent;
pub mod start;
#[cfg(test)]
pub(crate) mod testing;
pub mod ticks;
pub mod unasked;
pub mod world;
