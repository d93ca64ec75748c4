//! Modelled machines: the allocator's [`Platform`](pageyard::platform::Platform) in virtual time.
//!
//! [`machine`] reads what a machine is from its file.

pub mod machine;
