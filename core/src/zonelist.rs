//! In which order the zones of all nodes are asked: nearest node first, highest zone first. Zones
//! without memory are on no list, as none could be served from them.
//!
//! Node order of Linux 4.14 on: itself, then each time the unused node with the least
//! distance, a little further if its number is lower or it has CPUs, ties spread by load.

use crate::geometry::{Geometry, GeometryError, NodeDesc, Shape};
use crate::types::{NODES_MAX, NodeId, ZONES_MAX, ZoneId, ZoneKind};

/// The fallback list of every node.
#[derive(Debug)]
pub(crate) struct Zonelists {
    order: [[ZoneId; ZONES_MAX]; NODES_MAX],
    zones: usize,
}

impl Zonelists {
    pub fn of(shape: &Shape, nodes: &[NodeDesc]) -> Zonelists {
        let mut lists = Zonelists { order: [[ZoneId(0); ZONES_MAX]; NODES_MAX], zones: 0 };
        lists.zones = shape.zone[..shape.zones].iter().filter(|zone| zone.managed > 0).count();
        let has_memory = |node: usize| {
            shape.zone[..shape.zones]
                .iter()
                .any(|zone| usize::from(zone.node.0) == node && zone.managed > 0)
        };
        let mut load = [0u32; NODES_MAX];
        for local in 0..nodes.len() {
            let mut used = [false; NODES_MAX];
            let mut previous = local;
            let mut filled = 0;
            while let Some(node) = nearest(local, nodes, &used, &load, &has_memory) {
                let distance = &nodes[local].distance;
                if distance[node] != distance[previous] {
                    load[node] += 1;
                }
                used[node] = true;
                previous = node;
                filled = push_zones(shape, node, &mut lists.order[local], filled);
            }
        }
        lists
    }

    /// Zones of all nodes for a request that starts on `node`.
    #[inline]
    pub fn of_node(&self, node: NodeId) -> &[ZoneId] {
        &self.order[usize::from(node.0)][..self.zones]
    }
}

impl Geometry<'_> {
    /// The zone that requests of CPUs on a node are served from first: of the node itself or, where
    /// it has no memory, of the nearest that has. `None` if no node has memory.
    ///
    /// # Errors
    /// No allocator can be built over this.
    pub fn nearest_zone(&self, node: NodeId) -> Result<Option<ZoneId>, GeometryError> {
        let shape = Shape::of(self)?;
        let lists = Zonelists::of(&shape, self.nodes);
        Ok(lists.of_node(node).first().copied())
    }
}

fn nearest(
    local: usize,
    nodes: &[NodeDesc],
    used: &[bool; NODES_MAX],
    load: &[u32; NODES_MAX],
    has_memory: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    if !used[local] && has_memory(local) {
        return Some(local);
    }
    let cost = |node: usize| {
        let distance = u32::from(nodes[local].distance[node]);
        let lower = u32::from(node < local);
        let has_cpus = u32::from(nodes[node].cpus > 0);
        (distance + lower + has_cpus) * NODES_MAX as u32 * 64 + load[node]
    };
    (0..nodes.len()).filter(|&node| !used[node] && has_memory(node)).min_by_key(|&n| cost(n))
}

fn push_zones(shape: &Shape, node: usize, into: &mut [ZoneId], mut filled: usize) -> usize {
    for kind in ZoneKind::ALL.iter().rev() {
        for (at, zone) in shape.zone[..shape.zones].iter().enumerate() {
            if usize::from(zone.node.0) == node && zone.kind == *kind && zone.managed > 0 {
                into[filled] = ZoneId(at as u8);
                filled += 1;
            }
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Tuning, ZoneDesc};
    use crate::types::Pfn;

    fn order(distances: &[&[u8]]) -> [[u8; 4]; 4] {
        let mut nodes = [NodeDesc { distance: [0; NODES_MAX], cpus: 2 }; 4];
        let mut zones = [ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned_pages: 1024,
            managed_pages: 1024,
        }; 4];
        for (n, row) in distances.iter().enumerate() {
            nodes[n].distance[..row.len()].copy_from_slice(row);
            zones[n].node = NodeId(n as u8);
            zones[n].start = Pfn(1024 * n as u64);
        }
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &[NodeId(0); 8],
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning::default(),
        };
        let shape = Shape::of(&geometry).expect("a plain machine");
        let lists = Zonelists::of(&shape, &nodes);
        core::array::from_fn(|n| {
            let list = lists.of_node(NodeId(n as u8));
            core::array::from_fn(|i| shape.zone[usize::from(list[i].0)].node.0)
        })
    }

    #[test]
    fn equidistant_nodes_are_spread() {
        let far = 20;
        let near = 10;
        let lists = order(&[
            &[near, far, far, far],
            &[far, near, far, far],
            &[far, far, near, far],
            &[far, far, far, near],
        ]);
        assert_eq!(lists.map(|list| list[0]), [0, 1, 2, 3], "each begins with itself");
        assert_eq!(lists.map(|list| list[1]), [1, 2, 3, 0], "and no two share their second");
    }

    #[test]
    fn zones_without_memory_are_on_no_list() {
        let nodes = [NodeDesc { distance: [10; NODES_MAX], cpus: 1 }; 2];
        let zone = |node, start, managed_pages| ZoneDesc {
            node: NodeId(node),
            kind: ZoneKind::Normal,
            start: Pfn(start),
            spanned_pages: 1024,
            managed_pages,
        };
        let movable = ZoneDesc { kind: ZoneKind::Movable, ..zone(0, 1024, 0) };
        let zones = [zone(0, 0, 1024), movable, zone(1, 2048, 0)];
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &[NodeId(0), NodeId(1)],
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning::default(),
        };
        let shape = Shape::of(&geometry).expect("a plain machine");
        let lists = Zonelists::of(&shape, &nodes);
        assert_eq!(lists.of_node(NodeId(0)), [ZoneId(0)]);
        assert_eq!(lists.of_node(NodeId(1)), [ZoneId(0)]);
        assert_eq!(geometry.nearest_zone(NodeId(1)), Ok(Some(ZoneId(0))));
    }

    #[test]
    fn a_nearer_node_comes_first() {
        let lists =
            order(&[&[10, 31, 21, 31], &[31, 10, 31, 21], &[21, 31, 10, 31], &[31, 21, 31, 10]]);
        assert_eq!(lists.map(|list| list[1]), [2, 3, 0, 1]);
    }
}
