//! Machines for the allocator: virtual CPUs one after the other, and real memory and threads.
//!
//! [`seq`] runs any number of virtual CPUs in one thread, for replay and tests. [`plain`] is the
//! machine we run on, over tables of `words` in mapped memory and the queue spin locks of
//! [`lock`]; [`memory`] gives page frames an address, and [`HostAllocator`] puts both together.
//! [`pin`] keeps threads on CPUs, and a [`BlockRing`] brings blocks from one to another. Several
//! hold a [`SharedBlock`]; [`Parts`] of a block are given back one by one.

mod allocator;
mod counters;
pub mod lock;
mod map;
pub mod memory;
mod parts;
pub mod pin;
pub mod plain;
mod ring;
pub mod seq;
mod shared;
mod words;

pub use allocator::{Block, HostAllocator, HostError, Share};
pub use counters::{Counters, Counts, Notes};
pub use memory::{PAGE_BYTES, Region, RegionError};
pub use parts::Parts;
pub use plain::Plain;
pub use ring::BlockRing;
pub use shared::SharedBlock;
pub use words::Words;
