//! The workloads that cells can run: an adapter each.

use super::cell::{CellError, Ready};
use super::workload::{Adapter, IN_PAIRS};

mod bulk;
mod free_all;
mod mixed;
mod netperf;
mod page_bench;
mod page_fault1;
mod stretches;
pub mod trace;

/// Every workload, in the order in which they are listed.
pub const ALL: &[&Adapter] = &[
    &page_fault1::ADAPTER,
    &page_fault1::OF_FILE,
    &page_bench::ONE,
    &page_bench::ALL,
    &page_bench::BULK,
    &page_bench::ACROSS,
    &bulk::ADAPTER,
    &free_all::ADAPTER,
    &mixed::ADAPTER,
    &netperf::UDP,
    &netperf::TCP,
    &netperf::SCTP,
    &trace::ADAPTER,
];

/// Why the machine of a cell could not be built.
fn unbuilt(ready: &Ready, error: &pageyard::GeometryError) -> CellError {
    CellError::Build {
        machine: ready.cell.machine.clone(),
        policy: ready.cell.policy.clone(),
        message: error.to_string(),
    }
}

/// Pairs of CPUs of a cell of which one sends and the other receives.
fn pairs(ready: &Ready) -> Result<usize, CellError> {
    if ready.machine().cpus() < 2 || !ready.cell.cpus.is_multiple_of(2) {
        return Err(CellError::Ended {
            machine: ready.cell.machine.clone(),
            policy: ready.cell.policy.clone(),
            cpus: ready.cell.cpus,
            message: IN_PAIRS.to_string(),
        });
    }
    Ok(ready.cell.cpus / 2)
}
