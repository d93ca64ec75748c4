//! Nodes without memory: their CPUs take from the nearest node that has some, as a kernel's do
//! (`cpu_to_mem`, `local_memory_node`). Nothing else of such a node differs.

use pageyard::{
    Geometry, GeometryError, NODES_MAX, NodeDesc, NodeId, Pfn, Tuning, ZoneDesc, ZoneKind,
};
use pageyard_sim::machine::Machine;

/// Pages that the zone of a node without memory spans. None of them exists, but a zone must span
/// some, and so zones are numbered as their nodes are.
pub const ABSENT_PAGES: u64 = 1 << 10;

/// For each node, the one that its CPUs take memory from first: itself, if it has any. Decided by
/// the allocator's own zonelists.
///
/// # Errors
/// No machine like this can be built.
pub fn of(machine: &Machine) -> Result<Vec<NodeId>, GeometryError> {
    let nodes: Vec<NodeDesc> =
        (0..machine.topology.sockets).map(|node| describe(machine, node)).collect();
    let zones: Vec<ZoneDesc> = (0..nodes.len())
        .map(|node| ZoneDesc {
            node: NodeId(node as u8),
            kind: ZoneKind::Normal,
            start: Pfn(node as u64 * ABSENT_PAGES),
            spanned_pages: ABSENT_PAGES,
            managed_pages: machine.node_memory_bytes[node] / 4096,
        })
        .collect();
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &[NodeId(0)],
        nodes: &nodes,
        zones: &zones,
        tuning: Tuning::default(),
    };
    let nearest = (0..nodes.len() as u8).map(|node| geometry.nearest_zone(NodeId(node)));
    // Zones are numbered as nodes. A machine file without any memory is refused, so one is found.
    nearest.map(|zone| Ok(zone?.map_or(NodeId(0), |zone| NodeId(zone.0)))).collect()
}

/// A node with its distances and its number of CPUs.
#[must_use]
pub fn describe(machine: &Machine, node: u32) -> NodeDesc {
    let mut distance = [u8::MAX; NODES_MAX];
    for (other, slot) in distance.iter_mut().enumerate().take(machine.topology.sockets as usize) {
        *slot = u8::try_from(machine.distance(node, other as u32)).unwrap_or(u8::MAX);
    }
    let cpus = (0..machine.cpus()).filter(|&cpu| machine.socket_of(cpu) == node).count() as u16;
    NodeDesc { distance, cpus }
}

#[cfg(test)]
#[path = "homes_tests.rs"]
mod tests;
