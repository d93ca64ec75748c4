//! The `trace.dat` file format of trace-cmd.

pub mod pages;
pub mod write;
