//! One node on its own, with CPUs that take turns at no cost: memory is brought into a state there
//! before a modelled machine is laid out with it.

use pageyard::{
    Allocator, Geometry, GeometryError, NODES_MAX, NodeDesc, NodeId, Pfn, Policy, Tuning, ZoneDesc,
    ZoneKind,
};
use pageyard_host::seq::Seq;

/// What the node is like.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// CPUs that take turns.
    pub cpus: usize,
    /// CPUs that the node is said to have: limits of caches come from them.
    pub node_cpus: usize,
    /// First page.
    pub start: Pfn,
    /// Pages that are there to be taken.
    pub span: u64,
    /// Memory that the node is said to have, pages: marks and limits come from it.
    pub managed_pages: u64,
    /// What an administrator may set.
    pub tuning: Tuning,
}

impl Alone {
    /// An allocator for it, with all of the memory free.
    ///
    /// # Errors
    /// The policy contradicts itself.
    pub fn allocator(self, policy: Policy) -> Result<Allocator<Seq<()>>, GeometryError> {
        let zone = ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: self.start,
            spanned_pages: self.span,
            managed_pages: self.managed_pages,
        };
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &vec![NodeId(0); self.cpus],
            nodes: &[NodeDesc { distance: [10; NODES_MAX], cpus: self.node_cpus as u16 }],
            zones: &[zone],
            tuning: self.tuning,
        };
        let allocator = Allocator::new(Seq::new(()), &geometry, policy)?;
        allocator.add_memory(self.start, self.span);
        Ok(allocator)
    }
}
