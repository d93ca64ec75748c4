//! Cells: one workload on one modelled machine under one policy.
//!
//! [`yard`] builds the machine with its allocator, [`lru`] is what the kernel does with a page
//! beside allocating it, [`page_fault1`] is a workload.

pub mod lru;
pub mod page_fault1;
pub mod yard;
