//! A geometry that owns its arrays, and how an allocator is built over it.

use pageyard::{
    Allocator, CpuId, Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Platform, Policy, Tuning,
    ZoneDesc, ZoneId, ZoneKind, preset, watermark::Marks,
};

/// A span of page frames that is handed to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// First page frame.
    pub start: u64,
    /// Number of page frames.
    pub pages: u64,
}

/// A machine as the allocator is told of it. Zones are sorted by start.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Largest order, at most 10.
    pub max_order: u8,
    /// Order of a pageblock, at most `max_order`.
    pub pageblock_order: u8,
    /// Node of each CPU.
    pub cpu_nodes: Vec<NodeId>,
    /// Nodes by number.
    pub nodes: Vec<NodeDesc>,
    /// Zones by start.
    pub zones: Vec<ZoneDesc>,
    /// What of the zones is memory; the rest is holes.
    pub memory: Vec<Memory>,
    /// Sysctls.
    pub tuning: Tuning,
}

impl Layout {
    /// One node, one Normal zone from page frame 0 without holes.
    #[must_use]
    pub fn flat(pages: u64, max_order: u8, pageblock_order: u8, cpus: usize) -> Layout {
        Layout {
            max_order,
            pageblock_order,
            cpu_nodes: vec![NodeId(0); cpus],
            nodes: vec![node(cpus as u16, 0, 1)],
            zones: vec![zone(0, ZoneKind::Normal, 0, pages)],
            memory: vec![Memory { start: 0, pages }],
            tuning: Tuning::default(),
        }
    }

    /// `nodes` nodes in a row, each with one Normal zone of `pages` and one CPU; neighbours are
    /// nearer than others.
    #[must_use]
    pub fn row(nodes: usize, pages: u64, max_order: u8, pageblock_order: u8) -> Layout {
        let starts = (0..nodes as u64).map(|at| at * pages);
        Layout {
            max_order,
            pageblock_order,
            cpu_nodes: (0..nodes as u8).map(NodeId).collect(),
            nodes: (0..nodes).map(|at| node(1, at, nodes)).collect(),
            zones: starts
                .clone()
                .zip(0..)
                .map(|(start, at)| zone(at, ZoneKind::Normal, start, pages))
                .collect(),
            memory: starts.map(|start| Memory { start, pages }).collect(),
            tuning: Tuning::default(),
        }
    }

    /// The same as the allocator takes it.
    #[must_use]
    pub fn geometry(&self) -> Geometry<'_> {
        Geometry {
            max_order: self.max_order,
            pageblock_order: self.pageblock_order,
            cpu_nodes: &self.cpu_nodes,
            nodes: &self.nodes,
            zones: &self.zones,
            tuning: self.tuning,
        }
    }

    /// An allocator that holds no memory yet.
    ///
    /// # Panics
    /// The layout or the policy contradicts itself.
    pub fn build<P: Platform>(&self, platform: P, policy: Policy) -> Allocator<P> {
        match Allocator::new(platform, &self.geometry(), policy) {
            Ok(allocator) => allocator,
            Err(error) => panic!("{error}: {self:?}"),
        }
    }

    /// An allocator that holds all of its memory.
    pub fn build_full<P: Platform>(&self, platform: P, policy: Policy) -> Allocator<P> {
        let allocator = self.build(platform, policy);
        for memory in &self.memory {
            allocator.add_memory(Pfn(memory.start), memory.pages);
        }
        allocator
    }

    /// Every zone by number.
    pub fn zone_ids(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (0..self.zones.len() as u8).map(ZoneId)
    }

    /// Every CPU by number.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpu_nodes.len() as u16).map(CpuId)
    }
}

/// Takes the marks away and makes every counter exact, so that a zone of a few pages can be used
/// to its last one and every change is seen at once.
pub fn make_exact<P: Platform>(allocator: &Allocator<P>) {
    for zone in (0..allocator.zone_count_total() as u8).map(ZoneId) {
        allocator.set_marks(zone, Marks::default());
        allocator.set_counter_threshold(zone, 0, 0);
    }
}

/// Sets the limits of every per-CPU cache, pages.
pub fn set_caches<P: Platform>(allocator: &Allocator<P>, cpus: usize, limits: [u32; 3]) {
    let [batch, high_min, high_max] = limits;
    for zone in (0..allocator.zone_count_total() as u8).map(ZoneId) {
        for cpu in (0..cpus as u16).map(CpuId) {
            allocator.set_pcp_limits(zone, cpu, batch, high_min, high_max);
        }
    }
}

/// Node `at` of `nodes` in a row, with `cpus` CPUs. Distances: 10, then 20 and 1 more a step.
fn node(cpus: u16, at: usize, nodes: usize) -> NodeDesc {
    let mut distance = [0; NODES_MAX];
    for (to, distance) in distance.iter_mut().take(nodes).enumerate() {
        *distance = match at.abs_diff(to) as u8 {
            0 => 10,
            steps => 19 + steps,
        };
    }
    NodeDesc { distance, cpus }
}

fn zone(node: u8, kind: ZoneKind, start: u64, pages: u64) -> ZoneDesc {
    ZoneDesc {
        node: NodeId(node),
        kind,
        start: Pfn(start),
        spanned_pages: pages,
        managed_pages: pages,
    }
}

/// A policy as the command line names it: `NAME` or `NAME:key=value,key=value`.
///
/// # Panics
/// It names no policy, or one that contradicts itself.
#[must_use]
pub fn policy(text: &str) -> Policy {
    let (name, changes) = text.split_once(':').unwrap_or((text, ""));
    let Some(mut policy) = preset::find(name) else { panic!("no preset is called {name:?}") };
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let set = change.split_once('=').map(|(key, value)| policy.set(key, value));
        assert_eq!(set, Some(Ok(())), "{change:?} in {text:?}");
    }
    assert_eq!(policy.check(), Ok(()), "{text:?}");
    policy
}
