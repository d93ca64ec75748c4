//! Reports as one HTML file each: nothing is loaded, nothing is run, and the same input gives the
//! same bytes.
//!
//! In reading order: [`svg`] draws, [`scale`] turns figures into places, [`points`], [`shares`] and
//! [`curves`] are the three kinds of charts, [`page`] is what all pages share, [`prose`] shows a
//! page of the documentation. [`reproduce`] is the report on published tables, [`compare`] the one
//! on two policies.

pub mod compare;
pub mod curves;
pub mod page;
pub mod points;
pub mod prose;
pub mod reproduce;
pub mod scale;
pub mod shares;
pub mod svg;
#[cfg(test)]
mod testing;
