//! Recordings of a kernel's page allocator: read, write, record. Knows no allocator.
//!
//! Start at [`recording::Recording::open`]; every format ends in [`event::Event`].

pub mod convert;
pub mod dat;
pub mod error;
pub mod event;
mod format;
pub mod fuzz;
pub mod gfp;
pub mod honesty;
pub mod interrupt;
mod perf;
pub mod reader;
pub mod record;
pub mod recording;
pub mod snapshot;
mod source;
pub mod text;
