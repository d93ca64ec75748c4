//! The tests of behaviour on real memory and threads.

pageyard_check::behaviours!(pageyard_check::machine::Threads);
