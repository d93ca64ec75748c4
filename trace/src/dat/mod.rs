//! The `trace.dat` file format of trace-cmd.

pub(crate) mod feed;
pub(crate) mod file;
mod options;
pub mod pages;
mod ring;
mod scan;
mod sections;
pub mod write;

pub(crate) use scan::{Data, Scan};
