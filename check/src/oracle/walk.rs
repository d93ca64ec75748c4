//! Over all lists: every page is in exactly one place, and what could merge has merged.

use std::collections::BTreeMap;

use pageyard::policy::Merge;
use pageyard::{Allocator, MigrateType, PageKind, Pfn, Platform, ZoneId};

use super::model::Model;

/// Free blocks by their first page: order and type of the list.
type FreeBlocks = BTreeMap<u64, (u8, MigrateType)>;

/// Walks every list of every zone, no CPU being at work.
///
/// # Panics
/// A page is nowhere, in two places, or somewhere it may not be; a count disagrees with its list;
/// buddies that may merge did not.
pub fn everything<P: Platform>(model: &Model, allocator: &Allocator<P>) {
    let mut places = Places::default();
    for (&pfn, block) in &model.held {
        places.put(pfn, block.order, "in use");
        let state = allocator.inspect(Pfn(pfn)).expect("in a zone");
        let seen = (state.kind, state.order, state.migratetype);
        let expected = (PageKind::Allocated, block.order, block.mobility);
        assert_eq!(seen, expected, "record of page {pfn}, which is in use");
    }
    for zone in model.layout().zone_ids() {
        let free = free_lists(model, allocator, zone, &mut places);
        types_agree(model, allocator, zone, &free);
        buddies_merged(model, allocator, zone, &free);
        caches(model, allocator, zone, &mut places);
    }
    let memory = model.layout().memory.iter();
    let pages = memory.flat_map(|memory| memory.start..memory.start + memory.pages);
    let missing: Vec<u64> = pages.filter(|pfn| !places.0.contains_key(pfn)).collect();
    assert!(missing.is_empty(), "pages on no list and held by nobody: {missing:?}");
}

/// Each page and where it was found.
#[derive(Default)]
struct Places(BTreeMap<u64, &'static str>);

impl Places {
    fn put(&mut self, pfn: u64, order: u8, place: &'static str) {
        assert_eq!(pfn % (1 << order), 0, "block {pfn} of order {order}, {place}");
        for page in pfn..pfn + (1 << order) {
            if let Some(other) = self.0.insert(page, place) {
                panic!("page {page} is {place} and {other}");
            }
        }
    }
}

fn free_lists<P: Platform>(
    model: &Model,
    allocator: &Allocator<P>,
    zone: ZoneId,
    places: &mut Places,
) -> FreeBlocks {
    let mut free = FreeBlocks::new();
    for t in MigrateType::ALL {
        for order in 0..=model.layout().max_order {
            let mut blocks = 0;
            allocator.visit_free(zone, order, t, |pfn| {
                blocks += 1;
                places.put(pfn.0, order, "free");
                free.insert(pfn.0, (order, t));
                let last = pfn.0 + (1 << order) - 1;
                assert_eq!(model.zone_of(last), zone, "free block {} leaves its zone", pfn.0);
                for page in pfn.0..=last {
                    assert!(model.is_memory(page), "page {page} is a hole and free");
                }
            });
            let counted = allocator.free_blocks(zone, order, t);
            assert_eq!(blocks, counted, "{zone:?}: free list {t:?} of order {order}");
        }
    }
    free
}

/// Where the policy demands it, a free block is on the list of its pageblock's type.
fn types_agree<P: Platform>(
    model: &Model,
    allocator: &Allocator<P>,
    zone: ZoneId,
    free: &FreeBlocks,
) {
    if !model.policy().has_hygiene() {
        return;
    }
    let step = 1 << model.layout().pageblock_order;
    for (&pfn, &(order, t)) in free {
        for page in (pfn..pfn + (1 << order)).step_by(step) {
            let block_type = allocator.pageblock_type(Pfn(page));
            assert_eq!(
                Some(t),
                block_type,
                "{zone:?}: free block {pfn} of order {order}, pageblock of page {page}"
            );
        }
    }
}

/// Two free buddies of one order would have merged when the later one came free.
///
/// Where types that do not merge come and go (isolation, high-atomic reserves), buddies may become
/// mergeable without being freed, and stay apart until one of them is used: as in the kernel.
/// Lists and types agree from 6.10 on, so that this is then so for whole pageblocks only.
fn buddies_merged<P: Platform>(
    model: &Model,
    allocator: &Allocator<P>,
    zone: ZoneId,
    free: &FreeBlocks,
) {
    let layout = model.layout();
    let has_scars = model.has_scars[usize::from(zone.0)];
    let whole = |order| order >= layout.pageblock_order;
    for (&pfn, &(order, t)) in free {
        if order == layout.max_order {
            continue;
        }
        let Some(&(buddy_order, buddy_t)) = free.get(&(pfn ^ (1 << order))) else {
            continue;
        };
        let excused = has_scars && (whole(order) || !model.policy().has_hygiene());
        // Single pages may stay apart; blocks that were larger when they came free may not.
        let apart = order == 0 && model.policy().merge == Merge::Deferred;
        if buddy_order != order || excused || apart {
            continue;
        }
        let types = [pfn, pfn ^ (1 << order)].map(|pfn| {
            let t = allocator.pageblock_type(Pfn(pfn));
            t.expect("in a zone")
        });
        let may = |a: MigrateType, b: MigrateType| a == b || (a.is_mergeable() && b.is_mergeable());
        let may_merge = may(t, buddy_t) && (!whole(order) || may(types[0], types[1]));
        assert!(!may_merge, "{zone:?}: free buddies at {pfn} of order {order} did not merge");
    }
}

fn caches<P: Platform>(model: &Model, allocator: &Allocator<P>, zone: ZoneId, places: &mut Places) {
    let layout = model.layout();
    for cpu in layout.cpus() {
        let view = allocator.pcp(zone, cpu);
        let mut pages = 0;
        for (list, counted) in (0u8..).zip(view.blocks) {
            let mut blocks = 0;
            allocator.visit_pcp(zone, cpu, list, |pfn| {
                let state = allocator.inspect(pfn).expect("in a zone");
                assert_eq!(state.kind, PageKind::Pcp, "record of cached page {}", pfn.0);
                let expected = allocator.list_of(state.order, state.migratetype);
                assert_eq!(expected, Some(list), "list of cached page {}", pfn.0);
                assert_eq!(model.zone_of(pfn.0), zone, "zone of cached page {}", pfn.0);
                places.put(pfn.0, state.order, "cached");
                pages += 1 << state.order;
                blocks += 1;
            });
            assert_eq!(blocks, counted, "{zone:?} {cpu:?}: list {list}");
        }
        assert_eq!(pages, view.size.count, "{zone:?} {cpu:?}: pages cached");
        assert_eq!(pages, allocator.pcp_pages(zone, cpu), "{zone:?} {cpu:?}");
    }
}
