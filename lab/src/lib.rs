//! Pageyard lab.

pub mod named;
pub mod procfs;
