//! Two policies, or two builds, over modelled machines: whom a change helps and hurts, and why.
//!
//! In reading order: [`ask`] says which cells, [`run`] runs them, [`kept`] keeps them in a file for
//! another build, [`judge`] holds two sides against each other with the seeds' spread as measure,
//! [`why`] finds where the time went, [`text`] prints it.

pub mod ask;
pub mod judge;
pub mod kept;
pub mod run;
pub mod text;
pub mod why;

#[cfg(test)]
pub(crate) mod tests;
