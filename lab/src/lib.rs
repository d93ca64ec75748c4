//! Pageyard lab.

pub mod named;
pub mod procfs;
pub mod twin;
