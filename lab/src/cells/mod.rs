//! Cells: one workload on one modelled machine under one policy.
//!
//! [`yard`] builds the machine with its allocator, [`homes`] says where CPUs of nodes without
//! memory take theirs, [`lru`] is what the kernel does with a page beside allocating it. What CPUs
//! do is in [`work`], written once for modelled machines, by way of [`modelled`], and for real
//! ones. [`page_fault1`], whose processes begin at [`points`] of their cycle, [`page_fault2`],
//! which copies pages of a [`mod@file`], [`page_bench`], [`bulk`], [`free_all`] and [`netperf`] are
//! workloads; [`mixed`] sets small faults beside huge ones; [`recording`] runs what a [`program`]
//! says was recorded.

mod ager;
mod alone;
pub mod begin;
pub mod bulk;
pub mod dice;
pub mod file;
pub mod free_all;
pub mod homes;
pub mod lru;
pub mod meets;
pub mod mixed;
pub mod modelled;
pub mod netperf;
mod pace;
pub mod page_bench;
pub mod page_fault1;
pub mod page_fault2;
pub mod pieces;
pub mod points;
pub mod program;
pub mod recording;
pub mod steady;
pub mod work;
pub mod yard;
