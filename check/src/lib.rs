//! Pageyard check.
