//! Pageyard lab.

pub mod compare;
pub mod named;
pub mod procfs;
pub mod twin;
