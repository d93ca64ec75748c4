//! Modelled machines: the allocator's [`Platform`](pageyard::platform::Platform) in virtual time.
//!
//! [`machine`] reads what a machine is from its file.

pub mod bandwidth;
pub mod contents;
pub mod costs;
pub mod directory;
mod flow;
mod guess;
pub mod instructions;
mod last_level;
pub mod layout;
pub mod lock;
pub mod machine;
pub mod memory;
pub mod platform;
pub mod probe;
pub mod stats;
pub mod streamer;
pub mod tables;
pub mod tags;
mod ticket;
pub mod turns;
pub mod window;
pub mod world;
