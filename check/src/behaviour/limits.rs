//! Which zone may serve whom: marks, boosts, reserves, zonelists.

use pageyard::watermark::Marks;
use pageyard::{AllocError, Allocator, CpuId, NodeId, Pfn, Platform, Request, Scope, ZoneId};

use super::script::Yard;
use crate::layout::{Layout, make_exact, policy, set_caches};
use crate::machine::Machine;

pub(super) const ZONE: ZoneId = ZoneId(0);
pub(super) const CPU: CpuId = CpuId(0);

/// Allocates until it fails; returns what was given and why it ended.
pub(super) fn exhaust<P: Platform>(
    allocator: &Allocator<P>,
    request: &Request,
) -> (Vec<Pfn>, AllocError) {
    let mut pages = Vec::new();
    loop {
        match allocator.alloc(request) {
            Ok(pfn) => pages.push(pfn),
            Err(error) => return (pages, error),
        }
    }
}

pub(super) fn marks(min: u32, low: u32, high: u32) -> Marks {
    Marks { min, low, high, promo: high }
}

/// A layout with memory, exact counters, no marks and no caches.
pub(super) fn plain<M: Machine>(layout: &Layout, text: &str) -> Allocator<M::Platform> {
    let allocator = layout.build_full(M::platform(), policy(text));
    make_exact(&allocator);
    set_caches(&allocator, layout.cpu_nodes.len(), [1, 0, 0]);
    allocator
}

/// A zone with enough pages but no block of the order is passed over.
pub fn pages_without_blocks_do_not_serve_an_order<M: Machine>() {
    for era in super::buddy::ERAS {
        let allocator = Yard::of(era).build::<M>("blocks MMMM | M0: 1 3 5 7 9 11");
        let error = M::on(&allocator, CPU, || allocator.alloc(&Request::user(1)));
        assert_eq!(error, Err(AllocError::NoMemory), "{era}");
    }
}

/// Since 5.0 mixing types raises the marks by a pageblock, until reclaim settles it; a request
/// of high priority for one page is held against the plain mark.
pub fn mixing_types_boosts_the_marks<M: Machine>() {
    for (era, boost) in [("linux-4.20", 0), ("linux-5.17", 16), ("linux-6.18", 16)] {
        let allocator = Yard::of(era).build::<M>("blocks MMMM | M2: 0 4");
        allocator.set_marks(ZONE, marks(2, 2, 2));
        M::on(&allocator, CPU, || {
            assert!(allocator.alloc(&Request::kernel(0)).is_ok(), "{era}");
            assert_eq!(allocator.boost(ZONE), boost, "{era}");
            let ordinary = allocator.alloc(&Request::kernel(0));
            assert_eq!(ordinary.is_ok(), boost == 0, "{era}");
            assert!(allocator.alloc(&Request::atomic(0)).is_ok(), "{era}");
            allocator.settle_boost(ZONE, boost);
            assert_eq!(allocator.boost(ZONE), 0, "{era}");
            assert!(allocator.alloc(&Request::kernel(0)).is_ok(), "{era}");
        });
    }
}

/// Taking a whole pageblock mixes nothing and boosts nothing.
pub fn whole_pageblocks_boost_nothing<M: Machine>() {
    let allocator = Yard::of("linux-6.18").build::<M>("blocks MMMM | M4: 0");
    allocator.set_marks(ZONE, marks(2, 2, 2));
    M::on(&allocator, CPU, || {
        assert_eq!(allocator.alloc(&Request::kernel(0)), Ok(Pfn(0)));
    });
    assert_eq!(allocator.boost(ZONE), 0);
}

/// Nodes are asked by distance, those with equal distance by load; a request bound to its node
/// leaves it for none, one bound to a zone stays there.
pub fn nodes_are_asked_nearest_first<M: Machine>() {
    let layout = Layout::row(4, 16, 3, 3);
    for era in super::buddy::ERAS {
        let nodes = |scope, count: usize| {
            let allocator = plain::<M>(&layout, era);
            let request = Request { node: Some(NodeId(1)), scope, ..Request::user(3) };
            let (pages, _) = M::on(&allocator, CPU, || exhaust(&allocator, &request));
            assert_eq!(pages.len(), count, "{era}");
            let mut nodes: Vec<u64> = pages.iter().map(|pfn| pfn.0 / 16).collect();
            nodes.dedup();
            nodes
        };
        assert_eq!(nodes(Scope::AllNodes, 8), [1, 2, 0, 3], "{era}");
        assert_eq!(nodes(Scope::ThisNode, 2), [1], "{era}");
        assert_eq!(nodes(Scope::Only(ZoneId(3)), 2), [3], "{era}");
    }
}
