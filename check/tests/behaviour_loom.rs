//! The tests of behaviour under loom: owned words are tracked everywhere, and every interleaving
//! within the bound is tried where CPUs work together.

pageyard_check::behaviours!(pageyard_check::loom_platform::EveryOrder);
