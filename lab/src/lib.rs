//! Pageyard lab.
