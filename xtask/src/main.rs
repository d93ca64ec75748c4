//! Pageyard's own chores.
fn main() {}
