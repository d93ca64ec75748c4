//! Blocks that compaction takes out of the buddy lists, without an event, before it frees them.

use pageyard::{
    AllocError, EVENT_ITEMS, MigrateType, NodeId, Pfn, Request, Scope, ZoneId, ZoneKind,
};

use super::Replay;

impl Replay<'_> {
    /// Takes a block past the caches for a recorded page that lies in the kernel's buddy lists and
    /// is freed next.
    pub(super) fn take_from_zone(&mut self, page: usize, order: u8) {
        let zone = self.zone_of_record(page);
        let taken = self.uncounted(zone, |replay| replay.take_block(zone, order));
        if let Ok(twin) = taken {
            let record = self.world.page(twin.0).expect("the twin allocates in its zones");
            self.was[record] = 0;
            self.names[page] = record as u32 + 1;
            self.oddities.taken_blocks += 1;
        }
    }

    /// A block straight from the buddy lists of a zone.
    pub(super) fn take_block(&self, zone: usize, order: u8) -> Result<Pfn, AllocError> {
        let request = Request {
            mobility: MigrateType::Movable,
            highest: ZoneKind::Movable,
            no_marks: true,
            may_wait: false,
            scope: Scope::Only(ZoneId(zone as u8)),
            // Else the counters of the running CPU's node move as well.
            node: Some(NodeId(self.world.zones[zone].node)),
            ..Request::kernel(order)
        };
        self.allocator.platform().fail_next_pcp_try();
        let taken = self.allocator.alloc(&request);
        self.allocator.platform().forget_failures();
        taken
    }

    /// Does what the kernel neither counts nor shows: no counter of the zone keeps it, nor does
    /// the ledger.
    pub(super) fn uncounted<T>(&mut self, zone: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        let id = ZoneId(zone as u8);
        let before = self.counters(id);
        let result = f(self);
        let mut forgotten = std::mem::take(&mut self.recent);
        self.allocator.platform().listener(|tally| tally.take_recent(&mut forgotten));
        self.recent = forgotten;
        let after = self.counters(id);
        for (at, count) in self.taken[zone].iter_mut().enumerate() {
            *count += after[at] - before[at];
        }
        result
    }

    /// Event counters of a zone, without what the kernel does not count.
    pub(super) fn counters(&self, zone: ZoneId) -> [u64; 8] {
        let taken = self.taken[usize::from(zone.0)];
        let counts = EVENT_ITEMS.map(|item| self.allocator.event_count(zone, item));
        std::array::from_fn(|at| counts[at] - taken[at])
    }
}

#[cfg(test)]
mod tests {
    use pageyard::{MigrateType, Pfn, ZoneId};
    use pageyard_trace::recording::Recording;

    use crate::named::NamedPolicy;
    use crate::twin::history::Historian;
    use crate::twin::replay::{Assumptions, Placement, Replay};
    use crate::twin::testing::{drain, event, free};
    use crate::twin::world::{PAGEBLOCK_ORDER, World};

    /// A twin of a bundled machine (its events are not read), with `events` as its history.
    fn with_replay(events: &[pageyard_trace::event::Event], check: impl FnOnce(Replay<'_>)) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
        let recording = Recording::open(path.join("pressure-6.1-4cpu-2node")).expect("bundled");
        let world = World::of(&recording).expect("zoneinfo");
        let policy = NamedPolicy::for_kernel("6.1.0").expect("a preset").policy;
        let mut historian = Historian::new(&world, &policy, None);
        historian.on_block(events, |_| None);
        let history = historian.finish();
        let placement = Placement::Recorded;
        let assumptions = Assumptions::default();
        check(Replay::new(&recording, &world, &history, policy, placement, &assumptions));
    }

    #[test]
    fn a_page_that_compaction_took_is_freed_and_nothing_counts_the_take() {
        let pfn = 0x8000;
        let events = [event(1, (0, drain(pfn))), event(2, (0, free(pfn, 0)))];
        with_replay(&events, |mut replay| {
            let zone = replay.world.zone_of(pfn).expect("in a zone");
            let before = replay.counters(ZoneId(zone as u8));
            events.iter().for_each(|event| replay.on_event(event));
            assert_eq!((replay.oddities.taken_blocks, replay.oddities.unknown_frees), (1, 0));
            let after = replay.counters(ZoneId(zone as u8));
            let moved: u64 = after.iter().sum::<u64>() - before.iter().sum::<u64>();
            assert_eq!(moved, 1, "the free alone");
            let account = replay.ledger.account(0, zone);
            assert_eq!((account.direct_allocs, account.refills.len()), (0, 0));
        });
    }

    #[test]
    fn a_pageblock_is_made_whole_by_moving_what_is_in_use() {
        with_replay(&[], |mut replay| {
            let zone = 1;
            let mut blocks = Vec::new();
            while let Ok(block) = replay.take_block(zone, PAGEBLOCK_ORDER) {
                blocks.push(block.0);
            }
            let half = 1 << (PAGEBLOCK_ORDER - 1);
            let t = MigrateType::Movable;
            for &block in &blocks[..2] {
                for part in [block, block + half] {
                    replay.allocator.seed_allocated(Pfn(part), PAGEBLOCK_ORDER - 1, t);
                }
                replay.allocator.free(Pfn(block), PAGEBLOCK_ORDER - 1);
            }
            // Of one block the used half is known by a recorded page; of the other it is not.
            let (used, recorded) = (blocks[0] + half, 0);
            let record = replay.world.page(used).expect("in a zone");
            replay.names[recorded] = record as u32 + 1;
            assert!(replay.take_block(zone, PAGEBLOCK_ORDER).is_err());
            assert!(replay.compact(zone));
            let moved = replay.names[recorded] as usize - 1;
            assert_ne!(replay.pfn_of(moved) >> PAGEBLOCK_ORDER, used >> PAGEBLOCK_ORDER);
            assert_eq!(replay.take_block(zone, PAGEBLOCK_ORDER), Ok(Pfn(blocks[0])));
            assert!(!replay.compact(zone), "of no other block every page in use is known");
        });
    }
}
