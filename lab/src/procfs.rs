//! An allocator as a kernel would show it: `/proc` files, `numastat` and the debugfs indices, for
//! the tools that read those of a kernel.

pub mod text;

#[cfg(test)]
mod text_tests;
