//! The yard in which policies are tried: recordings of real kernels, replayed and compared.
//!
//! Start at [`twin`]: the allocator in the place of a recorded kernel's, held against what that
//! kernel did. [`compare`] takes two policies over recordings, from a fair start. [`named`] turns
//! what a user types into a checked policy. [`procfs`] writes what `/proc` would say. [`html`]
//! makes reports to look at. [`cells`] are workloads on modelled machines, [`live`] the same on
//! this machine; [`experiment`] holds cells against published tables.
//! docs/TWIN.md says what is fitted, what is predicted, and where a twin is wrong.

pub mod cells;
pub mod compare;
pub mod experiment;
mod fnv;
pub mod html;
pub mod live;
pub mod named;
pub mod procfs;
pub mod twin;
