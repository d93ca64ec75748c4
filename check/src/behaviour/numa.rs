//! Counters: every design answers exactly, whatever CPUs still hold.

use pageyard::{Allocator, CpuId, EventItem, NodeId, Platform, Request, ZoneId};

use crate::layout::{Layout, make_exact, policy};
use crate::machine::Machine;

pub(super) const DESIGNS: [&str; 5] = [
    "linux-4.20:numa_stat=ordinary",
    "linux-4.20:numa_threshold=3",
    "linux-4.20",
    "linux-6.18",
    "linux-6.18:numa_stat=off",
];

fn on_node(node: u8) -> Request {
    Request { node: Some(NodeId(node)), ..Request::user(0) }
}

/// Hit, miss, foreign, interleave, local, other of a zone.
pub(super) fn numa<P: Platform>(allocator: &Allocator<P>, node: u8) -> [u64; 6] {
    [
        EventItem::NumaHit,
        EventItem::NumaMiss,
        EventItem::NumaForeign,
        EventItem::NumaInterleave,
        EventItem::NumaLocal,
        EventItem::NumaOther,
    ]
    .map(|item| allocator.event_count(ZoneId(node), item))
}

pub(super) fn expected(text: &str, counts: [u64; 6]) -> [u64; 6] {
    if text.ends_with("off") { [0; 6] } else { counts }
}

/// Each allocation counts where it landed against where it was wanted and where its CPU is.
pub fn allocations_count_as_hit_miss_foreign_local_other<M: Machine>() {
    for text in DESIGNS {
        let allocator = Layout::row(2, 16, 3, 3).build_full(M::platform(), policy(text));
        make_exact(&allocator);
        M::on(&allocator, CpuId(0), || {
            // 16 at home, then 10 that overflow to the other node.
            for _ in 0..26 {
                allocator.alloc(&Request::user(0)).expect("room");
            }
            // 3 on the other node on purpose, 1 of them placed by interleaving.
            for interleave in [false, false, true] {
                let request = Request { interleave, ..on_node(1) };
                allocator.alloc(&request).expect("room");
            }
        });
        M::on(&allocator, CpuId(1), || {
            allocator.alloc(&Request::user(0)).expect("room");
        });
        assert_eq!(numa(&allocator, 0), expected(text, [16, 0, 10, 0, 16, 0]), "{text}");
        assert_eq!(numa(&allocator, 1), expected(text, [4, 10, 0, 1, 1, 13]), "{text}");
    }
}

/// Bulk requests count each page.
pub fn bulk_requests_count_each_page<M: Machine>() {
    for text in DESIGNS {
        let allocator = Layout::row(2, 16, 3, 3).build_full(M::platform(), policy(text));
        make_exact(&allocator);
        M::on(&allocator, CpuId(1), || {
            let mut pages = [pageyard::Pfn(0); 7];
            assert_eq!(allocator.alloc_bulk(&on_node(0), &mut pages), 7, "{text}");
        });
        assert_eq!(numa(&allocator, 0), expected(text, [7, 0, 0, 0, 0, 7]), "{text}");
        let pages = allocator.event_count(ZoneId(0), EventItem::PagesAllocated);
        assert_eq!(pages, 7, "{text}");
    }
}
