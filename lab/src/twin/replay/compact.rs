//! Compaction for a block that the kernel's compaction made.
//!
//! Where the kernel handed over a pageblock that its own frees had just made whole, the twin's
//! frees lie elsewhere and make none. Then the twin does what the kernel did: of the movable
//! pageblocks it takes the emptiest of which it knows every page in use, and moves those out.

use std::collections::BTreeMap;

use pageyard::{AllocError, MigrateType, Pfn, Request, ZoneId};

use super::{IS_FREE, Placement, Replay};
use crate::twin::world::PAGEBLOCK_ORDER;

/// What is known of a pageblock.
#[derive(Debug, Default)]
struct Block {
    free_pages: u64,
    /// Recorded pages whose twins lie in it: index in `names`, page frame and order of the twin.
    used: Vec<(usize, u64, u8)>,
}

impl Block {
    fn is_known(&self) -> bool {
        let used: u64 = self.used.iter().map(|&(.., order)| 1 << order).sum();
        self.free_pages + used == 1 << PAGEBLOCK_ORDER
    }
}

impl Replay<'_> {
    /// Serves a request; `direct` is past the caches. A pageblock that the kernel had past them
    /// is made where the zone has none.
    pub(super) fn serve(
        &mut self,
        request: &Request,
        zone: usize,
        direct: bool,
    ) -> Result<Pfn, AllocError> {
        let try_once = |replay: &Self| {
            if direct {
                replay.allocator.platform().fail_next_pcp_try();
            }
            let result = replay.allocator.alloc(request);
            replay.allocator.platform().forget_failures();
            result
        };
        let result = try_once(self);
        let whole = request.order == PAGEBLOCK_ORDER && direct;
        if result.is_ok() || !whole || self.placement == Placement::Own || !self.compact(zone) {
            return result;
        }
        self.oddities.compactions += 1;
        try_once(self)
    }

    /// Makes a whole pageblock free in a zone; false if none can be.
    pub(super) fn compact(&mut self, zone: usize) -> bool {
        let mut blocks = self.blocks_of(zone);
        blocks.retain(|&number, block| {
            let t = self.allocator.pageblock_type(Pfn(number << PAGEBLOCK_ORDER));
            t == Some(MigrateType::Movable) && block.is_known()
        });
        let best = blocks
            .into_iter()
            .max_by_key(|(number, block)| (block.free_pages, std::cmp::Reverse(*number)));
        let Some((number, block)) = best else {
            return false;
        };
        self.uncounted(zone, |replay| replay.empty(zone, number, &block))
    }

    /// Free and used pages of each pageblock of a zone.
    fn blocks_of(&self, zone: usize) -> BTreeMap<u64, Block> {
        let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
        for order in 0..PAGEBLOCK_ORDER {
            for t in MigrateType::ALL {
                self.allocator.visit_free(ZoneId(zone as u8), order, t, |pfn| {
                    blocks.entry(pfn.0 >> PAGEBLOCK_ORDER).or_default().free_pages += 1 << order;
                });
            }
        }
        let desc = &self.world.zones[zone];
        for (page, &name) in self.names.iter().enumerate() {
            let Some(record) = name.checked_sub(1).filter(|_| name & IS_FREE == 0) else {
                continue;
            };
            let record = record as usize;
            if (desc.base..desc.base + desc.spanned as usize).contains(&record) {
                let pfn = desc.pfn(record);
                let order = self.allocator.inspect(Pfn(pfn)).map_or(0, |state| state.order);
                let block = blocks.entry(pfn >> PAGEBLOCK_ORDER).or_default();
                block.used.push((page, pfn, order));
            }
        }
        blocks
    }

    /// Moves every page in use out of a pageblock. Free pages that lie in it are held meanwhile,
    /// as the kernel isolates them; if the rest of the zone has no room, nothing is moved.
    fn empty(&mut self, zone: usize, number: u64, block: &Block) -> bool {
        let (mut held, mut moved) = (Vec::new(), Vec::new());
        for &(page, _, order) in &block.used {
            let target = loop {
                match self.take_block(zone, order) {
                    Ok(taken) if taken.0 >> PAGEBLOCK_ORDER == number => held.push((taken, order)),
                    other => break other,
                }
            };
            match target {
                Ok(target) => moved.push((page, target, order)),
                Err(_) => break,
            }
        }
        let made = moved.len() == block.used.len();
        if made {
            for (&(page, pfn, order), &(_, target, _)) in block.used.iter().zip(&moved) {
                let record = self.world.page(target.0).expect("the twin allocates in its zones");
                self.was[record] = 0;
                self.names[page] = record as u32 + 1;
                held.push((Pfn(pfn), order));
            }
        } else {
            held.extend(moved.iter().map(|&(_, target, order)| (target, order)));
        }
        for (pfn, order) in held {
            self.allocator.platform().fail_next_pcp_try();
            self.allocator.free(pfn, order);
            self.allocator.platform().forget_failures();
        }
        made
    }
}
