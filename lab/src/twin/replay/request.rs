//! From a recorded event to a request: flags, and the node that was meant.

use pageyard::{MigrateType, NodeId, Request, Scope, ZoneId, ZoneItem, ZoneKind};
use pageyard_trace::event::{Event, Gfp};

use super::{Asked, Placement, Replay};
use crate::twin::numa::is_user_page;

/// A request as an event of `mm_page_alloc` tells of it, from the node of whoever asks.
pub(crate) fn of_flags(order: u8, migratetype: u8, gfp: Gfp) -> Request {
    let highest = match () {
        () if gfp.contains(Gfp::DMA) => ZoneKind::Dma,
        () if gfp.contains(Gfp::DMA32) => ZoneKind::Dma32,
        () if gfp.contains(Gfp::MOVABLE) && gfp.contains(Gfp::HIGHMEM) => ZoneKind::Movable,
        () => ZoneKind::Normal,
    };
    Request {
        order,
        mobility: MigrateType::of(u32::from(migratetype.min(2))),
        highest,
        may_wait: gfp.contains(Gfp::DIRECT_RECLAIM),
        may_wake: gfp.contains(Gfp::KSWAPD_RECLAIM),
        high_priority: gfp.contains(Gfp::HIGH),
        non_block: !gfp.contains(Gfp::DIRECT_RECLAIM),
        no_retry: gfp.contains(Gfp::NORETRY),
        retry_may_fail: gfp.contains(Gfp::RETRY_MAYFAIL),
        no_marks: gfp.contains(Gfp::MEMALLOC),
        scope: match gfp.contains(Gfp::THISNODE) {
            true => Scope::ThisNode,
            false => Scope::AllNodes,
        },
        ..Request::kernel(order)
    }
}

impl Replay<'_> {
    pub(super) fn request(&self, event: &Event, asked: &Asked, zone: usize) -> Request {
        let mut request = of_flags(asked.order, asked.migratetype, asked.gfp);
        self.prefer(event, zone, &mut request);
        if self.placement == Placement::Recorded {
            request.scope = Scope::Only(ZoneId(zone as u8));
            request.highest = ZoneKind::Movable;
            request.no_marks = true;
            // What the kernel drained while it waited is in the events; the twin does it there.
            request.may_wait = false;
        }
        request
    }

    /// The node that the request was meant for; see `numa.rs`.
    fn prefer(&self, event: &Event, zone: usize, request: &mut Request) {
        if self.world.nodes == 1 {
            return;
        }
        let landed = self.world.zones[zone].node;
        let local = self.world.cpu_nodes[usize::from(event.cpu)];
        let interleaving =
            is_user_page(event) && self.history.interleavers.is_interleaving(event.pid);
        if interleaving {
            request.node = Some(NodeId(landed));
            request.interleave = true;
        } else if landed == local.0
            || self.history.interleavers.takes_local(event.pid, local.0)
            || !self.could_serve(local, request)
        {
            request.node = Some(local);
        } else {
            request.node = Some(NodeId(landed));
        }
    }

    /// Whether a zone of the node surely stands above its low mark for this request. The kernel
    /// reads a counter that every CPU may have moved by its threshold without telling: only what
    /// is above that is sure.
    fn could_serve(&self, node: NodeId, request: &Request) -> bool {
        self.world.zones.iter().enumerate().any(|(at, desc)| {
            let zone = ZoneId(at as u8);
            let drift = self.world.cpus() as i64 * i64::from(self.allocator.stat_threshold(zone));
            let reserve = self.allocator.reserve(zone, request.highest);
            let low = i64::from(desc.marks.low + self.allocator.boost(zone) + reserve);
            desc.node == node.0
                && desc.kind <= request.highest
                && self.allocator.zone_count(zone, ZoneItem::FreePages) > low + drift
        })
    }
}
