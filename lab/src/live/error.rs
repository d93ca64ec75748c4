//! Why nothing was measured on this machine.

use pageyard_host::HostError;

use crate::experiment::cell::CellError;
use crate::experiment::workload::IN_PAIRS;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Parameters that do not fit the workload.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The workload is for modelled machines only.
    #[error("workload {name} does not run on this host; there are: {known}")]
    Workload {
        /// The workload.
        name: &'static str,
        /// All that do.
        known: String,
    },
    /// More CPUs than there are.
    #[error("this host lets this process use {has} CPUs, not {wanted}; take 1 to {has}")]
    Cpus {
        /// CPUs it has.
        has: usize,
        /// CPUs asked for.
        wanted: usize,
    },
    /// A recording of more CPUs than there are.
    #[error(
        "the recording shows {recorded} CPUs at work and this host lets this process use {has}: \
         they cannot share one, as each thinks by counting; take a recording of at most {has}, \
         or a modelled machine (`pageyard machines list`)"
    )]
    RecordedCpus {
        /// CPUs of the recording.
        recorded: usize,
        /// CPUs of the host.
        has: usize,
    },
    /// Neither the CPUs of a recording nor those of copies of it.
    #[error("the recording takes {recorded} CPUs, or a multiple of that, not {wanted}")]
    Copies {
        /// CPUs of the recording.
        recorded: usize,
        /// CPUs asked for.
        wanted: usize,
    },
    /// A parameter that only modelled machines know.
    #[error("workload {workload}: {name} = {value}: is for modelled machines only; leave it out")]
    Parameter {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        name: String,
        /// As given.
        value: u64,
    },
    /// Pairs of CPUs with one left over.
    #[error("workload {name}: {}", IN_PAIRS)]
    Odd {
        /// The workload.
        name: &'static str,
    },
    /// The host has less memory available than the workload takes.
    #[error(
        "workload {name} takes {needs} MiB of this host's memory, of which {has} MiB are \
         available; take fewer CPUs{}",
        if *has_pages { ", or fewer pages (--param pages=NUMBER)" } else { "" }
    )]
    Memory {
        /// The workload.
        name: &'static str,
        /// MiB that it takes.
        needs: u64,
        /// MiB that are available.
        has: u64,
        /// Whether a parameter says how much.
        has_pages: bool,
    },
    /// No memory, or no such allocator.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The system does not tell on which CPUs this may run.
    #[error("cannot ask the system on which CPUs this process may run: {0}")]
    Affinity(std::io::Error),
    /// The workload took more memory than the allocator was given.
    #[error(
        "out of memory: {workload} asked for order {order} and there was none; give more with \
         --memory-mib, or take fewer CPUs"
    )]
    OutOfMemory {
        /// The workload.
        workload: &'static str,
        /// What it asked for.
        order: u8,
    },
    /// Pages that were not free when all was given back: a bug of the allocator or of a body.
    #[error("{lost} of {pages} pages were not free at the end: this is a bug, please report it")]
    Lost {
        /// Pages missing.
        lost: u64,
        /// Pages in all.
        pages: u64,
    },
}
