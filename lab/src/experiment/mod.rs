//! Published tables, reproduced on modelled machines: what came out beside what was printed.
//!
//! In reading order: [`spec`] is the form of an experiment's file, [`published`] the table it is
//! about, [`load`] checks both, [`catalogue`] lists those that come with Pageyard. [`workload`] is
//! what workloads tell of themselves, [`cell`] runs one cell, [`outcome`] is its result, [`store`]
//! keeps it, [`pool`] runs many. [`fit`] finds the one number that a baseline row may give;
//! [`evaluate`] puts figures beside each other, [`text`] prints them.

pub mod catalogue;
pub mod cell;
pub mod evaluate;
pub mod fit;
pub mod load;
pub mod outcome;
pub mod pool;
pub mod published;
pub mod sensitivity;
pub mod spec;
pub mod store;
pub mod text;
pub mod workload;
mod workloads;
