//! What Pageyard is held against: the same allocator under tests of behaviour, an oracle, and
//! model checkers.
//!
//! Start with `behaviour/` (what it must do, written once and run on every machine of
//! `machine.rs`), written with the help of `layout.rs` (small machines) and `text.rs` (states as
//! lines). `loom_platform.rs` tries every interleaving of small cases, `shuttle_platform.rs`
//! random ones of large cases. docs/TRUST.md says what is checked by what, and what is not.

pub mod behaviour;
pub mod layout;
pub mod loom_platform;
pub mod machine;
pub mod oracle;
pub mod settings;
pub mod shuttle_platform;
pub mod text;
