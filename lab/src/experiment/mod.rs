//! Published tables, reproduced on modelled machines: what came out beside what was printed.
//!
//! In reading order: [`spec`] is the form of an experiment's file, `form` reads one and tells the
//! places of mistakes, `sound` says which there can be, [`published`] is the table it is about,
//! [`load`] looks up what both name. [`catalogue`] lists the experiments that come with Pageyard,
//! [`own`] reads those of the user. [`workload`] is what workloads tell of themselves, [`cell`]
//! runs one cell, [`outcome`] is its result, [`store`] keeps it, [`pool`] runs many. [`target`] is
//! what the one number may be fitted on that a baseline row gives, [`fit`] finds it; [`evaluate`]
//! puts figures beside each other, [`text`] prints them.

pub mod catalogue;
pub mod cell;
pub mod evaluate;
pub mod fit;
mod form;
pub mod load;
pub mod outcome;
pub mod own;
pub mod pool;
pub mod published;
pub mod sensitivity;
mod sound;
pub mod spec;
pub mod store;
pub mod target;
pub mod text;
pub mod workload;
pub(crate) mod workloads;
