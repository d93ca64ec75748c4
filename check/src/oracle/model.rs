//! Who holds which pages, and what every counter must say: sums over plain maps, nothing cached.

use std::collections::{BTreeMap, BTreeSet};

use pageyard::policy::{HighAtomicDiscount, NumaStat};
use pageyard::{
    Allocator, CpuId, EVENT_ITEMS, MigrateType, NodeId, PageKind, Pfn, Platform, Policy, Request,
    Scope, ZoneId, ZoneItem,
};

use crate::layout::Layout;

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its order.
    pub order: u8,
    /// The type it was asked for.
    pub mobility: MigrateType,
}

/// What the allocator must agree with.
pub struct Model {
    layout: Layout,
    policy: Policy,
    /// Blocks in use by their first page.
    pub held: BTreeMap<u64, Block>,
    /// Pageblocks out of service, by their first page.
    pub isolated: BTreeSet<u64>,
    /// Whether blocks of a type that does not merge ever were in a zone: see `walk.rs`.
    pub has_scars: Vec<bool>,
    /// Expected event counters of each zone, in the order of [`EVENT_ITEMS`].
    counts: Vec<[u64; 8]>,
    /// Nodes by the order in which each node asks them.
    node_order: Vec<Vec<usize>>,
}

impl Model {
    /// A model of an allocator from which nothing was taken yet.
    #[must_use]
    pub fn new(layout: &Layout, policy: Policy) -> Model {
        Model {
            layout: layout.clone(),
            policy,
            held: BTreeMap::new(),
            isolated: BTreeSet::new(),
            has_scars: vec![false; layout.zones.len()],
            counts: vec![[0; 8]; layout.zones.len()],
            node_order: node_orders(layout),
        }
    }

    /// The machine.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// True if a page frame is memory, not a hole.
    #[must_use]
    pub fn is_memory(&self, pfn: u64) -> bool {
        let mut memory = self.layout.memory.iter();
        memory.any(|span| (span.start..span.start + span.pages).contains(&pfn))
    }

    /// The zone of a page frame.
    ///
    /// # Panics
    /// It is in none.
    #[must_use]
    pub fn zone_of(&self, pfn: u64) -> ZoneId {
        let holds = |zone: &pageyard::ZoneDesc| {
            (zone.start.0..zone.start.0 + zone.spanned_pages).contains(&pfn)
        };
        let at = self.layout.zones.iter().position(holds);
        ZoneId(at.unwrap_or_else(|| panic!("page {pfn} is in no zone")) as u8)
    }

    /// Zones that may serve a request on `cpu`, whatever is left in them, best first.
    #[must_use]
    pub fn eligible(&self, request: &Request, cpu: CpuId) -> Vec<ZoneId> {
        let zones = self.zonelist(request, cpu);
        let in_scope = |zone: &ZoneId| match request.scope {
            Scope::Only(only) => *zone == only,
            Scope::AllNodes | Scope::ThisNode => true,
        };
        zones.into_iter().filter(in_scope).collect()
    }

    fn node(&self, request: &Request, cpu: CpuId) -> NodeId {
        let here = self.layout.cpu_nodes[usize::from(cpu.0)];
        request.node.unwrap_or(here)
    }

    /// Populated zones up to the highest, by node order and from the highest down.
    fn zonelist(&self, request: &Request, cpu: CpuId) -> Vec<ZoneId> {
        let node = self.node(request, cpu);
        let mut list = Vec::new();
        for &near in &self.node_order[usize::from(node.0)] {
            if request.scope == Scope::ThisNode && near != usize::from(node.0) {
                continue;
            }
            let mut zones: Vec<usize> = (0..self.layout.zones.len())
                .filter(|&at| {
                    let zone = &self.layout.zones[at];
                    usize::from(zone.node.0) == near
                        && zone.kind <= request.highest
                        && zone.managed_pages > 0
                })
                .collect();
            zones.sort_by_key(|&at| std::cmp::Reverse(self.layout.zones[at].kind));
            list.extend(zones.into_iter().map(|at| ZoneId(at as u8)));
        }
        list
    }

    /// Records blocks that a request on `cpu` was given.
    ///
    /// # Panics
    /// A block is not what was asked for, or not free.
    pub fn take<P: Platform>(
        &mut self,
        allocator: &Allocator<P>,
        request: &Request,
        cpu: CpuId,
        pfn: Pfn,
    ) {
        let (order, mobility) = (request.order, request.mobility);
        let (start, end) = (pfn.0, pfn.0 + (1 << order));
        assert_eq!(start % (1 << order), 0, "block {start} is not aligned to order {order}");
        for page in start..end {
            assert!(self.is_memory(page), "page {page} is a hole");
        }
        if let Some((before, block)) = self.held.range(..end).next_back() {
            let block_end = before + (1 << block.order);
            assert!(block_end <= start, "pages {start}..{end} overlap {before}..{block_end}");
        }
        let zone = self.zone_of(start);
        assert_eq!(zone, self.zone_of(end - 1), "block {start} leaves its zone");
        let eligible = self.eligible(request, cpu);
        assert!(eligible.contains(&zone), "{zone:?} may not serve {request:?}");
        let state = allocator.inspect(pfn).expect("in a zone");
        let seen = (state.kind, state.order, state.migratetype);
        assert_eq!(seen, (PageKind::Allocated, order, mobility), "record of page {start}");
        self.held.insert(start, Block { order, mobility });
        self.count_taken(request, cpu, zone);
    }

    fn count_taken(&mut self, request: &Request, cpu: CpuId, zone: ZoneId) {
        self.count(zone, 6, 1 << request.order);
        if self.policy.numa_stat == NumaStat::Off {
            return;
        }
        let node_of = |zone: ZoneId| self.layout.zones[usize::from(zone.0)].node;
        let preferred = self.zonelist(request, cpu)[0];
        let (node, wanted) = (node_of(zone), node_of(preferred));
        let here = self.layout.cpu_nodes[usize::from(cpu.0)];
        if node == wanted {
            self.count(zone, 0, 1);
        } else {
            self.count(zone, 1, 1);
            self.count(preferred, 2, 1);
        }
        if request.interleave && node == self.node(request, cpu) {
            self.count(zone, 3, 1);
        }
        self.count(zone, if node == here { 4 } else { 5 }, 1);
    }

    fn count(&mut self, zone: ZoneId, item: usize, by: u64) {
        self.counts[usize::from(zone.0)][item] += by;
    }

    /// Records that a block is about to be freed; returns its order.
    ///
    /// # Panics
    /// It is not held.
    pub fn give(&mut self, pfn: u64) -> u8 {
        let block = self.held.remove(&pfn).expect("only held blocks are freed");
        let zone = self.zone_of(pfn);
        self.count(zone, 7, 1 << block.order);
        block.order
    }

    /// The held block that a number picks.
    #[must_use]
    pub fn pick(&self, number: u64) -> Option<u64> {
        let span = self.layout.zones.last()?;
        let end = span.start.0 + span.spanned_pages;
        let at = number % end.max(1);
        let next = self.held.range(at..).next();
        next.or_else(|| self.held.iter().next()).map(|(pfn, _)| *pfn)
    }

    /// Records a block that was taken by somebody whose request was not watched.
    pub fn hold(&mut self, pfn: Pfn, request: &Request) {
        let block = Block { order: request.order, mobility: request.mobility };
        self.held.insert(pfn.0, block);
    }

    /// Pages of a zone that are in use.
    #[must_use]
    pub fn pages_in_use(&self, zone: ZoneId) -> u64 {
        let span = self.layout.zones[usize::from(zone.0)];
        let held = self.held.range(span.start.0..span.start.0 + span.spanned_pages);
        held.map(|(_, block)| 1u64 << block.order).sum()
    }

    /// Pages of memory in a zone.
    #[must_use]
    pub fn memory_pages(&self, zone: ZoneId) -> u64 {
        let span = self.layout.zones[usize::from(zone.0)];
        let end = span.start.0 + span.spanned_pages;
        let part = |memory: &crate::layout::Memory| {
            let until = (memory.start + memory.pages).min(end);
            until.saturating_sub(memory.start.max(span.start.0))
        };
        self.layout.memory.iter().map(part).sum()
    }

    /// Compares sums and counters of every zone with the model, no CPU being at work.
    ///
    /// # Panics
    /// They differ.
    pub fn compare<P: Platform>(&self, allocator: &Allocator<P>) {
        self.compare_pages(allocator);
        for zone in self.layout.zone_ids() {
            for (item, expected) in EVENT_ITEMS.into_iter().zip(self.counts[usize::from(zone.0)]) {
                assert_eq!(allocator.event_count(zone, item), expected, "{zone:?}: {item:?}");
            }
        }
    }

    /// Compares the sums of pages and the counters of free ones.
    ///
    /// # Panics
    /// They differ.
    pub fn compare_pages<P: Platform>(&self, allocator: &Allocator<P>) {
        for zone in self.layout.zone_ids() {
            let free = FreePages::of(allocator, &self.layout, zone);
            let count = |item| allocator.zone_count(zone, item);
            assert_eq!(count(ZoneItem::FreePages), free.in_service, "{zone:?}: free pages");
            assert_eq!(count(ZoneItem::FreeCma), free.cma, "{zone:?}: free CMA pages");
            let in_blocks = count(ZoneItem::FreePagesBlocks);
            assert_eq!(in_blocks, free.in_pageblocks, "{zone:?}: free pages in pageblocks");
            let cached = |cpu| u64::from(allocator.pcp_pages(zone, cpu));
            let cached: u64 = self.layout.cpus().map(cached).sum();
            let free_pages = (free.in_service + free.isolated) as u64;
            let found = free_pages + cached + self.pages_in_use(zone);
            assert_eq!(
                found,
                self.memory_pages(zone),
                "{zone:?}: {free_pages} free + {cached} cached + in use = all"
            );
        }
    }

    /// A request was refused: nothing that could have served it may be left.
    ///
    /// `is_exact` says that cheap counters are exact, so that the watermark test is predictable.
    ///
    /// # Panics
    /// Something is left.
    pub fn refused<P: Platform>(
        &self,
        allocator: &Allocator<P>,
        request: &Request,
        cpu: CpuId,
        is_exact: bool,
    ) {
        for zone in self.eligible(request, cpu) {
            let usable = MigrateType::ALL.into_iter().filter(|&t| {
                t.is_mergeable()
                    || (t == MigrateType::Cma && request.mobility == MigrateType::Movable)
            });
            let has_block = usable
                .flat_map(|t| (request.order..=self.layout.max_order).map(move |order| (order, t)));
            let has_block =
                { has_block }.any(|(order, t)| allocator.free_blocks(zone, order, t) > 0);
            let passes =
                request.no_marks || (is_exact && self.is_above_min(allocator, zone, request));
            assert!(!(has_block && passes), "{zone:?} could serve {request:?}");
        }
    }

    /// The watermark test at the min mark, as the kernel's documentation words it. False where
    /// it cannot be told from outside.
    fn is_above_min<P: Platform>(
        &self,
        allocator: &Allocator<P>,
        zone: ZoneId,
        request: &Request,
    ) -> bool {
        let by_reserved = self.policy.highatomic_discount == HighAtomicDiscount::Reserved;
        if by_reserved && self.has_scars[usize::from(zone.0)] {
            return false;
        }
        let pages = |t| {
            let orders = 0..=self.layout.max_order;
            let pages = orders.map(|order| allocator.free_blocks(zone, order, t) << order);
            pages.sum::<u64>() as i64
        };
        let free = FreePages::of(allocator, &self.layout, zone);
        let mut usable = free.in_service - ((1 << request.order) - 1);
        if !(request.high_priority || request.non_block || request.oom_victim) {
            usable -= pages(MigrateType::HighAtomic);
        }
        if request.mobility != MigrateType::Movable {
            usable -= free.cma;
        }
        let mut mark = i64::from(allocator.marks(zone).min) + i64::from(allocator.boost(zone));
        if request.high_priority {
            mark -= mark / 2;
            if request.non_block {
                mark -= mark / 4;
            }
        }
        if request.oom_victim {
            mark -= mark / 2;
        }
        usable > mark + i64::from(allocator.reserve(zone, request.highest))
    }
}

/// Free pages of a zone by what the counts of its free lists say.
struct FreePages {
    in_service: i64,
    isolated: i64,
    cma: i64,
    in_pageblocks: i64,
}

impl FreePages {
    fn of<P: Platform>(allocator: &Allocator<P>, layout: &Layout, zone: ZoneId) -> FreePages {
        let mut free = FreePages { in_service: 0, isolated: 0, cma: 0, in_pageblocks: 0 };
        for t in MigrateType::ALL {
            for order in 0..=layout.max_order {
                let pages = (allocator.free_blocks(zone, order, t) << order) as i64;
                if t == MigrateType::Isolate {
                    free.isolated += pages;
                    continue;
                }
                free.in_service += pages;
                if t == MigrateType::Cma {
                    free.cma += pages;
                }
                if order >= layout.pageblock_order {
                    free.in_pageblocks += pages;
                }
            }
        }
        free
    }
}

/// For each node, the nodes with memory as it asks them: itself, then each time the nearest that
/// is left, a little further if its number is lower or it has CPUs, ties by how often it was
/// chosen as the first of a new distance.
fn node_orders(layout: &Layout) -> Vec<Vec<usize>> {
    let nodes = layout.nodes.len();
    let has_memory = |node: usize| {
        let mut zones = layout.zones.iter();
        zones.any(|zone| usize::from(zone.node.0) == node && zone.managed_pages > 0)
    };
    let mut load = vec![0; nodes];
    let mut orders = Vec::new();
    for local in 0..nodes {
        let distance = &layout.nodes[local].distance;
        let mut left: Vec<usize> = (0..nodes).filter(|&node| has_memory(node)).collect();
        let mut order = Vec::new();
        let mut last = local;
        while !left.is_empty() {
            let cost = |node: usize| {
                let far = u32::from(distance[node]) + u32::from(node < local);
                (node != local, far + u32::from(layout.nodes[node].cpus > 0), load[node])
            };
            let next = left.iter().copied().min_by_key(|&node| cost(node)).unwrap_or(local);
            if distance[next] != distance[last] {
                load[next] += 1;
            }
            left.retain(|&node| node != next);
            order.push(next);
            last = next;
        }
        orders.push(order);
    }
    orders
}
