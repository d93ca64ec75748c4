//! Free blocks at the first event: from kpageflags where they were recorded, else from counts.
//!
//! kpageflags shows which page frames were free, so blocks lie where they lay; their types follow
//! from what was seen of their pageblocks, else from the counts of pagetypeinfo. Without it only
//! the counts are known, and positions are invented (`placing.rs`).

use std::collections::BTreeMap;

use pageyard::{Allocator, MigrateType, Pfn, Platform};
use pageyard_trace::snapshot::{KPageFlags, Snapshot};

use super::history::History;
use super::placing::Slots;
use super::world::{MAX_ORDER, PAGEBLOCK_ORDER, World, type_of};

/// Free blocks of a zone by order and type.
type FreeCounts = BTreeMap<(u8, u8), u64>;

/// A zone whose free blocks are to be placed.
pub(super) struct FreePlace<'a> {
    pub world: &'a World,
    pub history: &'a History,
    pub zone: usize,
    /// Page frames that the recording names: in use or in a cache at the first event. Sorted.
    pub named: &'a [u64],
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    /// Free pages that found no room.
    pub unplaced_pages: u64,
    /// Positions are the recorded ones.
    pub from_flags: bool,
}

impl FreePlace<'_> {
    /// Seeds the free blocks of the zone. Takes the room they need out of `slots`.
    pub fn fill<P: Platform>(
        &self,
        allocator: &Allocator<P>,
        before: Option<&Snapshot>,
        slots: &mut Slots,
    ) -> Placed {
        let Some(before) = before else {
            return Placed::default();
        };
        let counts = free_counts(before, self.world, self.zone);
        match &before.kpageflags {
            Some(flags) if flags.pages() > self.world.zones[self.zone].start => {
                self.by_flags(allocator, flags, counts, slots)
            }
            _ => self.by_counts(allocator, &counts, slots),
        }
    }

    /// Blocks where kpageflags shows free pages, less the pages that the events show in use.
    fn by_flags<P: Platform>(
        &self,
        allocator: &Allocator<P>,
        flags: &KPageFlags,
        mut counts: FreeCounts,
        slots: &mut Slots,
    ) -> Placed {
        let desc = &self.world.zones[self.zone];
        *slots = Slots::default();
        let mut types: BTreeMap<u64, MigrateType> = BTreeMap::new();
        let mut occupied: Vec<(u64, u64)> = Vec::new();
        for block in flags.blocks(desc.start..desc.start + desc.spanned, MAX_ORDER) {
            let end = block.pfn + (1 << block.order);
            occupied.push((block.pfn, end));
            for (pfn, order) in self.clear_parts(block.pfn, block.order) {
                let number = pfn >> PAGEBLOCK_ORDER;
                let t = *types
                    .entry(number)
                    .or_insert_with(|| self.choose_type(number, order, &counts));
                if let Some(left) = counts.get_mut(&(order, t as u8)) {
                    *left = left.saturating_sub(1);
                }
                self.seed(allocator, pfn, order, t);
            }
        }
        // Pages of caches that no event names go where nothing is known to be.
        let mut from = desc.start;
        for (start, end) in occupied {
            slots.add_range(from, start.max(from), self.named);
            from = end;
        }
        slots.add_range(from, desc.start + desc.spanned, self.named);
        Placed { unplaced_pages: 0, from_flags: true }
    }

    /// The parts of a free block that hold no named page.
    fn clear_parts(&self, pfn: u64, order: u8) -> Vec<(u64, u8)> {
        let end = pfn + (1 << order);
        let first = self.named.partition_point(|&named| named < pfn);
        if self.named.get(first).is_none_or(|&named| named >= end) {
            return vec![(pfn, order)];
        }
        if order == 0 {
            return Vec::new();
        }
        let half = order - 1;
        let mut parts = self.clear_parts(pfn, half);
        parts.extend(self.clear_parts(pfn + (1 << half), half));
        parts
    }

    /// Type of a pageblock: as seen, else the one of which most blocks of this order are left.
    fn choose_type(&self, block: u64, order: u8, counts: &FreeCounts) -> MigrateType {
        if let Some(&t) = self.history.first_block_types.get(&(self.zone, block)) {
            return MigrateType::of(u32::from(t));
        }
        let left = |t: MigrateType| counts.get(&(order, t as u8)).copied().unwrap_or(0);
        let likely = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];
        likely.into_iter().rev().max_by_key(|&t| left(t)).unwrap_or(MigrateType::Movable)
    }

    fn seed<P: Platform>(&self, allocator: &Allocator<P>, pfn: u64, order: u8, t: MigrateType) {
        let last = (pfn + (1 << order) - 1) >> PAGEBLOCK_ORDER;
        for block in (pfn >> PAGEBLOCK_ORDER)..=last {
            let whole = order >= PAGEBLOCK_ORDER;
            if whole || !self.history.first_block_types.contains_key(&(self.zone, block)) {
                allocator.seed_pageblock_type(Pfn(block << PAGEBLOCK_ORDER), t);
            }
        }
        allocator.seed_free(Pfn(pfn), order, t);
    }

    /// Blocks by their counts, largest first; pageblocks that hold smaller ones take their type.
    fn by_counts<P: Platform>(
        &self,
        allocator: &Allocator<P>,
        counts: &FreeCounts,
        slots: &mut Slots,
    ) -> Placed {
        let mut placed = Placed::default();
        let mut rooms: BTreeMap<u8, Slots> = BTreeMap::new();
        for order in (0..=MAX_ORDER).rev() {
            for t in MigrateType::ALL {
                let count = counts.get(&(order, t as u8)).copied().unwrap_or(0);
                for _ in 0..count {
                    let pfn = match order >= PAGEBLOCK_ORDER {
                        true => slots.take(order, true).or_else(|| slots.take(order, false)),
                        false => take_in_block(slots, rooms.entry(t as u8).or_default(), order),
                    };
                    match pfn {
                        Some(pfn) => self.seed(allocator, pfn, order, t),
                        None => placed.unplaced_pages += 1 << order,
                    }
                }
            }
        }
        // What was opened for a type and not used is room for cached pages.
        for room in rooms.into_values() {
            slots.absorb(room);
        }
        placed
    }
}

/// Free blocks of a zone by order and type: pagetypeinfo, completed by buddyinfo where it is
/// missing or prints `>100000`.
fn free_counts(snapshot: &Snapshot, world: &World, zone: usize) -> FreeCounts {
    let desc = &world.zones[zone];
    let (node, name) = (u16::from(desc.node), desc.kind.name());
    let mut counts = FreeCounts::new();
    let buddy = snapshot.buddyinfo.as_ref().and_then(|info| info.row(node, name));
    let types = snapshot.pagetypeinfo.as_ref();
    for order in 0..=MAX_ORDER {
        let total = buddy.and_then(|row| row.blocks.get(usize::from(order)).copied());
        let mut known = 0;
        let mut capped = None;
        for row in types.map(|info| info.free.as_slice()).unwrap_or_default() {
            let Some(t) = type_of(&row.migratetype) else {
                continue;
            };
            let here = row.node == node && row.zone == name;
            let Some(count) = row.blocks.get(usize::from(order)).filter(|_| here) else {
                continue;
            };
            known += count.value;
            counts.insert((order, t as u8), count.value);
            if count.at_least {
                capped = Some(t as u8);
            }
        }
        if let Some(total) = total {
            let t = capped.unwrap_or(MigrateType::Movable as u8);
            let missing = total.saturating_sub(known);
            if types.is_none() || capped.is_some() {
                *counts.entry((order, t)).or_default() += missing;
            }
        }
    }
    counts
}

/// Room for a small block in a pageblock of its type; opens another pageblock when none is left.
fn take_in_block(slots: &mut Slots, room: &mut Slots, order: u8) -> Option<u64> {
    if let Some(pfn) = room.take(order, true) {
        return Some(pfn);
    }
    if let Some(block) = slots.take(PAGEBLOCK_ORDER, true) {
        room.add_range(block, block + (1 << PAGEBLOCK_ORDER), &[]);
        return room.take(order, true);
    }
    room.take(order, false).or_else(|| slots.take(order, false))
}
