//! Recordings of a kernel's page allocator: read, write, record. Knows no allocator.
//!
//! Start at [`recording::Recording::open`]; every format ends in [`event::Event`].
//!
//! Reading: `source` unpacks and tells formats apart, [`reader`] makes one pass over the events
//! of any of them, [`text`], [`dat`] and `perf` each know one, `format` reads the kernel's own
//! description of its events, [`snapshot`] what `/proc` and `/sys` say, [`gfp`] flags by name.
//! Judging: [`honesty`]. Writing: [`convert`]. Recording a live kernel: [`record`]. [`fuzz`] holds
//! every reader to its promise that no input makes it panic.

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
