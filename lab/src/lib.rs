//! Pageyard lab.

pub mod named;
