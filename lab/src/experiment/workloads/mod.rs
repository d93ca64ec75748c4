//! The workloads that cells can run: an adapter each.

use super::cell::{CellError, Ready};
use super::workload::Adapter;

mod bulk;
mod free_all;
mod in_step;
mod mixed;
mod netperf;
mod page_bench;
mod page_fault1;
mod trace;

/// Every workload, in the order in which they are listed.
pub const ALL: &[&Adapter] = &[
    &page_fault1::ADAPTER,
    &page_fault1::OF_FILE,
    &page_bench::ONE,
    &page_bench::ALL,
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
