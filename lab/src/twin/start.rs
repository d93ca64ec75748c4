//! The state at the first event: free blocks, per-CPU lists, pages in use, limits.

use std::collections::BTreeMap;

use pageyard::policy::PcpHigh;
use pageyard::sizing::PcpSize;
use pageyard::{Allocator, CpuId, MigrateType, Pfn, Platform, ZoneId};
use pageyard_trace::recording::Recording;

use super::free_map::FreePlace;
use super::history::{FirstList, History, ListKey};
use super::placing::Slots;
use super::replay::Assumptions;
use super::world::{PAGEBLOCK_ORDER, World};

/// How the state at the first event was found.
#[derive(Clone, Debug, Default)]
pub struct StartReport {
    /// Where the positions of free blocks come from.
    pub free_map: &'static str,
    /// Caches: what zoneinfo printed, and what the events show.
    pub caches: Vec<CacheStart>,
    /// Free pages that found no room of their own.
    pub unplaced_pages: u64,
    /// What had to be assumed or inferred, with the evidence.
    pub remarks: Vec<String>,
}

/// One per-CPU cache at the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStart {
    /// CPU.
    pub cpu: u16,
    /// Zone.
    pub zone: usize,
    /// Pages that zoneinfo printed.
    pub printed: u32,
    /// Pages that the events show it held.
    pub seen: u32,
    /// Pages that the twin starts with.
    pub used: u32,
    /// Limit it starts with.
    pub high: u32,
    /// Doublings of its refills that it starts with.
    pub alloc_factor: u32,
}

/// A block of a per-CPU list to be seeded: its recorded frame, if it has one.
struct Seed {
    cpu: u16,
    zone: usize,
    order: u8,
    migratetype: u8,
    pfn: Option<u64>,
}

/// Sets up `allocator` as the recorded machine was at the first event. `assumptions`
/// hold what is added to printed counts and limits.
pub fn build<P: Platform>(
    allocator: &Allocator<P>,
    recording: &Recording,
    world: &World,
    history: &History,
    assumptions: &Assumptions,
) -> StartReport {
    let mut report = StartReport::default();
    world.apply_limits(allocator, world.cpus() as u32);
    for (&(_, block), &t) in &history.first_block_types {
        allocator.seed_pageblock_type(Pfn(block << PAGEBLOCK_ORDER), MigrateType::of(u32::from(t)));
    }
    let seeds = cache_seeds(world, history, &assumptions.offsets, &mut report);
    let mut named: Vec<u64> = Vec::new();
    for &(pfn, order, _) in &history.in_use {
        named.extend(pfn..pfn + (1 << order));
    }
    for seed in &seeds {
        if let Some(pfn) = seed.pfn {
            named.extend(pfn..pfn + (1 << seed.order));
        }
    }
    named.sort_unstable();
    named.dedup();
    for &(pfn, order, t) in &history.in_use {
        if is_whole(world, pfn, order) {
            allocator.seed_allocated(Pfn(pfn), order, MigrateType::of(u32::from(t)));
        }
    }
    let before = recording.before.as_ref();
    let mut from_flags = 0;
    for zone in 0..world.zones.len() {
        let mut slots = Slots::default();
        let desc = &world.zones[zone];
        slots.add_range(desc.start, desc.start + desc.spanned, &named);
        let place = FreePlace { world, history, zone, named: &named };
        let placed = place.fill(allocator, before, &mut slots);
        report.unplaced_pages += placed.unplaced_pages;
        from_flags += usize::from(placed.from_flags);
        place_caches(allocator, world, zone, &seeds, &mut slots);
    }
    report.free_map = match from_flags {
        0 => "buddyinfo and pagetypeinfo: counts are right, positions invented",
        _ => "kpageflags: positions as recorded, types by pagetypeinfo and by what was seen",
    };
    set_states(allocator, world, history, assumptions, &mut report);
    report
}

fn is_whole(world: &World, pfn: u64, order: u8) -> bool {
    pfn & ((1 << order) - 1) == 0
        && world.zone_of(pfn).is_some_and(|zone| world.zones[zone].holds(pfn + (1 << order) - 1))
}

/// What each per-CPU list is seeded with: pages that were seen to come out of it, and as many
/// more as zoneinfo counts, on lists that were never seen to run empty.
fn cache_seeds(
    world: &World,
    history: &History,
    offsets: &BTreeMap<(u16, usize), i64>,
    report: &mut StartReport,
) -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (zone, desc) in world.zones.iter().enumerate() {
        for cpu in 0..world.cpus() as u16 {
            let lists: Vec<(&ListKey, &FirstList)> =
                history.lists.iter().filter(|(key, _)| (key.0, key.1) == (cpu, zone)).collect();
            let pages = |(key, list): &(&ListKey, &FirstList)| {
                ((list.from_head.len() + list.from_tail.len()) as u32) << key.2
            };
            let seen: u32 = lists.iter().map(pages).sum();
            let set = desc.pagesets.get(usize::from(cpu));
            let printed = set.map_or(0, |set| set.count.max(0));
            let shift = offsets.get(&(cpu, zone)).copied().unwrap_or(0);
            let rest = ((printed + shift).max(0) as u32).saturating_sub(seen);
            let (fills, unplaced) = fill_open_lists(&lists, rest);
            seed_lists((cpu, zone), &lists, &fills, &mut seeds);
            if printed > 0 || seen > 0 {
                let (printed, used) = (printed as u32, seen + rest - unplaced);
                let (high, alloc_factor) = (0, 0);
                let start = CacheStart { cpu, zone, printed, seen, used, high, alloc_factor };
                report.caches.push(start);
            }
        }
    }
    seeds
}

/// Seeds of one cache, list by list: what came out of its head, what no event shows, what came
/// out of its tail.
fn seed_lists(
    (cpu, zone): (u16, usize),
    lists: &[(&ListKey, &FirstList)],
    fills: &BTreeMap<(u8, u8), u32>,
    seeds: &mut Vec<Seed>,
) {
    let mut slots: BTreeMap<(u8, u8), Option<&FirstList>> = BTreeMap::new();
    slots.extend(fills.keys().map(|&slot| (slot, None)));
    slots.extend(lists.iter().map(|(key, list)| ((key.2, key.3), Some(*list))));
    for ((order, migratetype), list) in slots {
        let seed = |pfn| Seed { cpu, zone, order, migratetype, pfn };
        let fill = fills.get(&(order, migratetype)).copied().unwrap_or(0);
        let named = |pfns: &[u64]| pfns.iter().map(|&pfn| seed(Some(pfn))).collect::<Vec<_>>();
        seeds.extend(list.map(|list| named(&list.from_head)).unwrap_or_default());
        seeds.extend((0..fill).map(|_| seed(None)));
        seeds.extend(list.map(|list| named(&list.from_tail)).unwrap_or_default().into_iter().rev());
    }
}

/// Lists by how likely they hold what is left: single movable pages, other single pages, then
/// the blocks that network buffers leave behind.
const LIKELY: [(u8, u8); 12] = [
    (0, 1),
    (0, 0),
    (0, 2),
    (3, 0),
    (2, 0),
    (1, 0),
    (3, 1),
    (2, 1),
    (1, 1),
    (3, 2),
    (2, 2),
    (1, 2),
];

/// Spreads pages that no event shows over the lists that were never seen to run empty. Returns
/// blocks by order and type, and the pages for which no list is left.
fn fill_open_lists(lists: &[(&ListKey, &FirstList)], pages: u32) -> (BTreeMap<(u8, u8), u32>, u32) {
    let ran_empty =
        |slot: (u8, u8)| lists.iter().any(|(key, first)| (key.2, key.3) == slot && first.ran_empty);
    let mut fills = BTreeMap::new();
    let mut left = pages;
    for slot in LIKELY.into_iter().filter(|&slot| !ran_empty(slot)) {
        let blocks = left >> slot.0;
        if blocks > 0 {
            fills.insert(slot, blocks);
            left -= blocks << slot.0;
        }
    }
    (fills, left)
}

fn place_caches<P: Platform>(
    allocator: &Allocator<P>,
    world: &World,
    zone: usize,
    seeds: &[Seed],
    slots: &mut Slots,
) {
    for seed in seeds.iter().filter(|seed| seed.zone == zone) {
        let t = MigrateType::of(u32::from(seed.migratetype));
        let pfn = match seed.pfn {
            Some(pfn) => Some(pfn).filter(|&pfn| is_whole(world, pfn, seed.order)),
            None => slots.take(seed.order, false),
        };
        let Some(pfn) = pfn.map(Pfn) else { continue };
        if allocator.list_of(seed.order, t).is_some() {
            allocator.seed_pcp(CpuId(seed.cpu), pfn, seed.order, t);
        } else {
            // The policy has no list for this order: the block lies in the zone.
            allocator.seed_allocated(pfn, seed.order, t);
            allocator.free(pfn, seed.order);
        }
    }
}

fn set_states<P: Platform>(
    allocator: &Allocator<P>,
    world: &World,
    history: &History,
    assumptions: &Assumptions,
    report: &mut StartReport,
) {
    for cache in &mut report.caches {
        let desc = &world.zones[cache.zone];
        let set = &desc.pagesets[usize::from(cache.cpu)];
        let zone = ZoneId(cache.zone as u8);
        let cpu = CpuId(cache.cpu);
        let now = allocator.pcp(zone, cpu).size;
        let shift = assumptions.high_offsets.get(&(cache.cpu, cache.zone)).copied().unwrap_or(0);
        let auto = allocator.policy().pcp_high == PcpHigh::Auto;
        cache.high = if auto { u32::try_from(set.high + shift).unwrap_or(0) } else { now.high };
        cache.alloc_factor = first_alloc_factor(history, cache.cpu, cache.zone, now.batch);
        let free_run = history.first_free_runs.get(&(cache.cpu, cache.zone));
        let free_run = free_run.copied().unwrap_or(now.free_run);
        let (high, alloc_factor) = (cache.high, cache.alloc_factor);
        let state = PcpSize { high, alloc_factor, free_run, ..now };
        allocator.set_pcp_state(zone, cpu, state);
    }
}

/// Doublings at the first event: those of the first refill, if fewer frees came before it than
/// would have undone them (each free halves the factor).
fn first_alloc_factor(history: &History, cpu: u16, zone: usize, batch: u32) -> u32 {
    let Some(first) = history.first_refills.get(&(cpu, zone)) else {
        return 0;
    };
    if first.blocks <= batch || batch == 0 || !(first.blocks / batch).is_power_of_two() {
        return 0;
    }
    let factor = (first.blocks / batch).ilog2();
    let at_first = factor << first.frees_before.min(5);
    if at_first <= 5 { at_first } else { 0 }
}
