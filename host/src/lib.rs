//! Machines for the allocator: virtual CPUs one after the other, and real memory and threads.
//!
//! [`seq`] runs any number of virtual CPUs in one thread, for replay and tests.

pub mod seq;
