//! A slow and obvious model beside the allocator, compared after every operation.
//!
//! Start at `campaign.rs` (many runs, each from a seed) and `run.rs` (one run). `draw.rs` draws
//! machines and policies, `op.rs` operations; `model.rs` knows who holds what and what every
//! counter must say; `walk.rs` goes over all lists and finds each page in exactly one place;
//! `reach.rs` notes what a campaign came by, so that a generator that misses a path is noticed.

pub mod campaign;
pub mod draw;
pub mod model;
pub mod op;
pub mod reach;
pub mod run;
pub mod walk;
