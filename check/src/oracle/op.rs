//! Operations as plain values, drawn without looking at the allocator, so that a failing list of
//! them can be cut shorter and run again.

use fastrand::Rng;
use pageyard::{CpuId, MigrateType, NodeId, Request, Scope, ZoneId, ZoneKind};

use super::draw;
use crate::layout::Layout;

/// What is done. Numbers named `pick` choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Asks for a block.
    Alloc(Request),
    /// Asks for single pages.
    Bulk(Request, usize),
    /// Frees a block in use.
    Free {
        /// Which one.
        pick: u64,
    },
    /// The periodic work of the CPU.
    Tick,
    /// Empties the caches of a CPU.
    DrainCpu(CpuId),
    /// Empties those of all CPUs.
    DrainAll,
    /// Gives back some pages of a cache.
    Trim(ZoneId, CpuId, u32),
    /// Background reclaim begins or ends.
    Reclaim(ZoneId, bool),
    /// Background reclaim settles the boost.
    Settle(ZoneId),
    /// Takes a pageblock out of service.
    Isolate {
        /// Which one.
        pick: u64,
    },
    /// Puts one back.
    Restore {
        /// Which one.
        pick: u64,
    },
    /// Changes the limits of a cache.
    Limit(ZoneId, CpuId, [u32; 3]),
    /// Switches the caches of a zone off.
    Disable(ZoneId),
}

/// An action on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Where.
    pub cpu: CpuId,
    /// This many of its entries to a cache find it busy.
    pub busy: u32,
    /// What.
    pub action: Action,
}

const KINDS: usize = 13;
const ALLOC: usize = 0;
const FREE: usize = 2;
/// Operations after which allocations and frees get new weights: memory fills and empties.
const PHASE: usize = 400;

/// Draws `count` operations. How often each kind comes is drawn first: a mixture in which every
/// kind is equally likely hardly ever lets one state last.
pub fn list(rng: &mut Rng, layout: &Layout, count: usize) -> Vec<Op> {
    let mut weights = [0u32; KINDS];
    for weight in &mut weights {
        *weight = if rng.u32(..4) == 0 { 0 } else { 1 << rng.u32(..5) };
    }
    let busy_of_100 = if rng.bool() { 0 } else { rng.u32(..50) };
    let orders = Orders::draw(rng, layout);
    let mut ops = Vec::with_capacity(count);
    for at in 0..count {
        if at % PHASE == 0 {
            weights[ALLOC] = 20 << rng.u32(..6);
            weights[FREE] = 20 << rng.u32(..6);
        }
        let kind = pick_kind(rng, &weights);
        let busy = u32::from(rng.u32(..100) < busy_of_100);
        ops.push(Op {
            cpu: draw::cpu(rng, layout),
            busy,
            action: action(rng, layout, &orders, kind),
        });
    }
    ops
}

fn pick_kind(rng: &mut Rng, weights: &[u32; KINDS]) -> usize {
    let mut at = rng.u32(..weights.iter().sum::<u32>());
    for (kind, &weight) in weights.iter().enumerate() {
        if at < weight {
            return kind;
        }
        at -= weight;
    }
    unreachable!("a number below the sum falls on a kind")
}

fn action(rng: &mut Rng, layout: &Layout, orders: &Orders, kind: usize) -> Action {
    let zone = |rng: &mut Rng| ZoneId(rng.u8(..layout.zones.len() as u8));
    match kind {
        ALLOC => Action::Alloc(request(rng, layout, orders)),
        1 => {
            let request = Request { order: 0, ..request(rng, layout, orders) };
            Action::Bulk(request, rng.usize(..40))
        }
        FREE => Action::Free { pick: rng.u64(..1 << 20) },
        3 => Action::Tick,
        4 => Action::DrainCpu(draw::cpu(rng, layout)),
        5 => Action::DrainAll,
        6 => Action::Trim(zone(rng), draw::cpu(rng, layout), rng.u32(..40)),
        7 => Action::Reclaim(zone(rng), rng.bool()),
        8 => Action::Settle(zone(rng)),
        9 => Action::Isolate { pick: rng.u64(..1 << 20) },
        10 => Action::Restore { pick: rng.u64(..1 << 20) },
        11 => Action::Limit(zone(rng), draw::cpu(rng, layout), draw::cache_limits(rng)),
        _ => Action::Disable(zone(rng)),
    }
}

/// Which orders a run asks for: all alike, or mostly small ones.
struct Orders {
    max: u8,
    are_small: bool,
}

impl Orders {
    fn draw(rng: &mut Rng, layout: &Layout) -> Orders {
        Orders { max: rng.u8(..=layout.max_order), are_small: rng.bool() }
    }

    fn pick(&self, rng: &mut Rng) -> u8 {
        if self.are_small && rng.u32(..4) > 0 {
            return 0;
        }
        rng.u8(..=self.max)
    }
}

fn request(rng: &mut Rng, layout: &Layout, orders: &Orders) -> Request {
    let nodes = layout.nodes.len() as u8;
    let seldom = |rng: &mut Rng| rng.u32(..8) == 0;
    Request {
        order: orders.pick(rng),
        mobility: [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable]
            [rng.usize(..3)],
        highest: ZoneKind::ALL[rng.usize(..4)],
        node: rng.bool().then(|| NodeId(rng.u8(..nodes))),
        scope: match rng.u32(..10) {
            0 => Scope::ThisNode,
            1 => Scope::Only(ZoneId(rng.u8(..layout.zones.len() as u8))),
            _ => Scope::AllNodes,
        },
        may_wait: rng.u32(..4) > 0,
        may_wake: rng.u32(..4) > 0,
        high_priority: seldom(rng),
        non_block: seldom(rng),
        oom_victim: seldom(rng),
        no_marks: rng.u32(..4) == 0,
        no_retry: seldom(rng),
        retry_may_fail: seldom(rng),
        interleave: seldom(rng),
    }
}
