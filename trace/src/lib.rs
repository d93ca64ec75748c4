//! Recordings of a kernel's page allocator: read, write, record. Knows no allocator.

pub mod event;
