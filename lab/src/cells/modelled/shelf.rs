//! Blocks of a recording on a modelled machine: where they are, since when, and who waits for them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pageyard::{MigrateType, PageKind, Pfn};

use super::{Held, Modelled};
use crate::cells::work::recording::{PartOf, Recall};
use crate::cells::work::{Record, Stage};

/// A place of a block.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Not allocated yet.
    Empty,
    /// Allocated at a time.
    Held(Pfn, u64),
    /// There was no memory for it.
    Failed,
}

/// Places of blocks.
pub struct Shelf {
    slots: RefCell<Vec<Slot>>,
    /// CPUs that wait for a block.
    waiting: RefCell<BTreeMap<u32, Vec<usize>>>,
}

impl Modelled {
    /// The first page of a block, as soon as it is there; `None` if it never will be.
    fn await_block(&self, shelf: &Shelf, block: u32) -> (Option<Pfn>, Option<u64>) {
        let world = &self.yard.world;
        let from = world.now();
        if let Slot::Empty = shelf.slots.borrow()[block as usize] {
            shelf.waiting.borrow_mut().entry(block).or_default().push(world.cpu());
        }
        let is_waiting = shelf.waiting.borrow().contains_key(&block);
        if is_waiting {
            world.park();
        }
        let slot = shelf.slots.borrow()[block as usize];
        let found = match slot {
            Slot::Held(pfn, at) => {
                world.spend(at.saturating_sub(world.now()));
                Some(pfn)
            }
            Slot::Empty | Slot::Failed => None,
        };
        let has_waited = is_waiting || world.now() > from;
        (found, has_waited.then(|| world.now() - from))
    }
}

impl Recall for Modelled {
    type Shelf = Shelf;

    fn shelf(&self, places: usize) -> Shelf {
        let slots = RefCell::new(vec![Slot::Empty; places]);
        Shelf { slots, waiting: RefCell::default() }
    }

    fn put(&self, shelf: &Shelf, place: u32, block: Option<Held>) {
        let now = self.yard.world.now();
        let slot = block.map_or(Slot::Failed, |block| Slot::Held(block.pfn, now));
        shelf.slots.borrow_mut()[place as usize] = slot;
        let waiting = shelf.waiting.borrow_mut().remove(&place);
        waiting.into_iter().flatten().for_each(|cpu| self.yard.world.wake(cpu, now));
    }

    fn part(
        &self,
        shelf: &Shelf,
        part: PartOf,
        _: impl Fn() -> bool,
    ) -> (Option<Held>, Option<u64>) {
        let PartOf { block, offset, order } = part;
        let (base, waited) = self.await_block(shelf, block);
        let Some(base) = base else { return (None, waited) };
        let page = Held { pfn: Pfn(base.0 + u64::from(offset)), order };
        // The last reference goes with a locked instruction.
        self.record(&page, Record::Locked);
        let allocator = &self.yard.allocator;
        let state = allocator.inspect(page.pfn);
        let is_whole = state.is_some_and(|s| s.kind == PageKind::Allocated && s.order == order);
        if !is_whole {
            // The kernel split the block after it was allocated.
            let migratetype = state.map_or(MigrateType::Movable, |state| state.migratetype);
            allocator.seed_allocated(page.pfn, order, migratetype);
        }
        (Some(page), waited)
    }
}
