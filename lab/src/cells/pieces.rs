//! Memory that was taken page by page, by all CPUs in turn, and given back: large blocks are there
//! only where merging made them.
//!
//! It is done for each node on its own, at no cost, with the same allocator under the same policy,
//! and the machine's memory is then laid out with what is free. Nodes that are alike share it.

use pageyard::{CpuId, GeometryError, MigrateType, Pfn, Policy, Tuning, ZoneId};
use pageyard_sim::machine::Machine;

use super::alone::Alone;
use super::work::mixed::break_up;
use super::yard::{Yard, min_free_kbytes};

/// A node on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// CPUs that take from it first.
    cpus: usize,
    /// Pages that a workload reaches.
    span: u64,
    /// All that it has.
    managed_pages: u64,
    /// `vm.min_free_kbytes` of this node's part.
    min_free_kbytes: u64,
}

/// Free blocks: order and first page, counted from the start of the node's memory. Those of one
/// order are in the order of their list.
type Free = Vec<(u8, u64)>;

/// A machine with such memory, of which a workload reaches so many pages of each node.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn lay(machine: &Machine, policy: Policy, reach: u64) -> Result<Yard, GeometryError> {
    let yard = Yard::bare(machine, policy, reach)?;
    let kbytes = min_free_kbytes(&machine.node_memory_bytes);
    let all: u64 = machine.node_memory_bytes.iter().sum();
    let mut made: Option<(Node, Free)> = None;
    for (at, &bytes) in machine.node_memory_bytes.iter().enumerate() {
        if yard.span(at) == 0 {
            continue;
        }
        let node = Node {
            cpus: yard.cpu_nodes.iter().filter(|node| usize::from(node.0) == at).count(),
            span: yard.span(at),
            managed_pages: bytes / 4096,
            min_free_kbytes: (u128::from(kbytes) * u128::from(bytes) / u128::from(all)) as u64,
        };
        let free = match made.take() {
            Some((like, free)) if like == node => free,
            _ => broken_up(policy, node)?,
        };
        for &(order, page) in &free {
            let page = Pfn(yard.first(at).0 + page);
            yard.allocator.seed_free(page, order, MigrateType::Movable);
        }
        made = Some((node, free));
    }
    Ok(yard)
}

fn broken_up(policy: Policy, node: Node) -> Result<Free, GeometryError> {
    let cpus = node.cpus.max(1);
    let start = Pfn(1 << 20);
    let Node { span, managed_pages, min_free_kbytes, .. } = node;
    let tuning = Tuning { min_free_kbytes, ..Tuning::default() };
    let alone = Alone { cpus, node_cpus: cpus, start, span, managed_pages, tuning };
    let allocator = alone.allocator(policy)?;
    let set_up_as = |cpu: usize| allocator.platform().run_on(CpuId(cpu as u16));
    break_up(cpus, set_up_as, |page| allocator.alloc(page).ok(), |page| allocator.free(page, 0));
    for cpu in 0..cpus {
        set_up_as(cpu);
        allocator.drain_cpu(CpuId(cpu as u16));
    }
    let mut free = Free::new();
    for order in 0..=10 {
        allocator.visit_free(ZoneId(0), order, MigrateType::Movable, |page| {
            free.push((order, page.0 - start.0));
        });
    }
    Ok(free)
}
