//! The tests of behaviour on virtual CPUs, one after the other.

pageyard_check::behaviours!(pageyard_check::machine::OneByOne);
