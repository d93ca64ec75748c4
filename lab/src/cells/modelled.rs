//! A modelled machine as a stage: all that a workload does beside the allocator is charged for.

mod net;
mod shelf;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::{Pfn, Request};
use pageyard_sim::memory::Line;

use super::file::FilePages;
use super::lru::Lru;
use super::page_fault1::CLEAR_BYTES;
use super::work::{Record, Stage, Watch};
use super::yard::{Control, Yard};

pub use shelf::Shelf;

/// Slots of a ring on a line: pointers.
const LINE_SLOTS: usize = 8;
/// Slots that a receiver empties together: two lines of them (`__ptr_ring_set_size`,
/// include/linux/ptr_ring.h).
const TOGETHER: usize = 2 * LINE_SLOTS;
/// `PAUSE`, picoseconds: 140 cycles since Skylake (Intel's optimization manual) at 2.8 GHz.
const PAUSE_PS: u64 = 50_000;

/// A CPU's part of a modelled machine.
#[derive(Clone)]
pub struct Modelled {
    /// The machine.
    pub yard: Rc<Yard>,
    /// The list of pages in use of each node, for workloads that put pages there.
    pub lrus: Rc<Vec<Lru>>,
}

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its first page.
    pub pfn: Pfn,
    /// It has `1 << order` pages.
    pub order: u8,
}

/// A ring between two CPUs, on lines of the workload's own.
pub struct Ring {
    first: u64,
    slots: RefCell<Vec<Option<Held>>>,
    /// Where the sender goes on.
    to: Cell<usize>,
    /// Where the receiver goes on, and from where on it has not emptied slots yet.
    from: Cell<usize>,
    emptied: Cell<usize>,
}

impl Ring {
    /// Lines of a ring with so many slots: one for each end, and the slots.
    #[must_use]
    pub const fn lines(slots: usize) -> u64 {
        2 + slots.div_ceil(LINE_SLOTS) as u64
    }

    /// An empty ring on lines of the workload's own from `first` on.
    #[must_use]
    pub fn new(first: u64, slots: usize) -> Ring {
        assert!(slots >= 2 * TOGETHER, "a ring has room while slots wait to be emptied");
        let slots = RefCell::new(vec![None; slots]);
        Ring { first, slots, to: Cell::new(0), from: Cell::new(0), emptied: Cell::new(0) }
    }

    fn line(&self, yard: &Yard, at: u64) -> Line {
        yard.world.layout.extra(self.first + at)
    }

    fn slot(&self, yard: &Yard, slot: usize) -> Line {
        self.line(yard, 2 + (slot / LINE_SLOTS) as u64)
    }

    fn send(&self, yard: &Yard, held: Held) -> Option<Held> {
        let (world, end) = (&yard.world, self.line(yard, 0));
        world.sync();
        world.locked(end);
        let to = self.to.get();
        world.read(self.slot(yard, to));
        if self.slots.borrow()[to].is_some() {
            world.write(end);
            return Some(held);
        }
        self.slots.borrow_mut()[to] = Some(held);
        world.write(self.slot(yard, to));
        self.to.set((to + 1) % self.slots.borrow().len());
        world.write(end);
        None
    }

    fn receive(&self, yard: &Yard) -> Option<Held> {
        let (world, end) = (&yard.world, self.line(yard, 1));
        world.sync();
        world.locked(end);
        let from = self.from.get();
        world.read(self.slot(yard, from));
        let held = self.slots.borrow()[from];
        if held.is_some() {
            let slots = self.slots.borrow().len();
            if from + 1 - self.emptied.get() == TOGETHER || from + 1 == slots {
                // Backwards: the sender is not to see room in a line that is still written.
                for slot in (self.emptied.get()..=from).rev() {
                    self.slots.borrow_mut()[slot] = None;
                    world.write(self.slot(yard, slot));
                }
                self.emptied.set((from + 1) % slots);
            }
            self.from.set((from + 1) % slots);
        }
        world.write(end);
        held
    }
}

impl Modelled {
    /// A machine whose workload lists no pages.
    #[must_use]
    pub fn new(yard: &Rc<Yard>) -> Modelled {
        Modelled { yard: Rc::clone(yard), lrus: Rc::default() }
    }

    fn lru(&self) -> &Lru {
        &self.lrus[usize::from(self.yard.cpu_nodes[self.yard.world.cpu()].0)]
    }

    fn records(&self, pages: &[Held]) -> Vec<usize> {
        pages.iter().map(|page| self.yard.record(page.pfn)).collect()
    }

    /// The line of a block's record.
    fn line(&self, page: &Held) -> Line {
        self.yard.world.layout.page(self.yard.record(page.pfn))
    }
}

impl Stage for Modelled {
    type Page = Held;
    type File = FilePages;
    type Ring = Ring;

    fn take(&self, request: &Request) -> Held {
        Held { pfn: self.yard.take(request), order: request.order }
    }

    fn take_many(&self, request: &Request, wanted: usize, pages: &mut Vec<Held>) {
        let mut pfns = vec![Pfn(0); wanted];
        let taken = self.yard.allocator.alloc_bulk(request, &mut pfns);
        pages.extend(pfns[..taken].iter().map(|&pfn| Held { pfn, order: 0 }));
        if taken == 0 {
            pages.push(self.take(request));
        }
    }

    fn try_take(&self, request: &Request) -> Option<Held> {
        let taken = self.yard.allocator.alloc(request).ok();
        taken.map(|pfn| Held { pfn, order: request.order })
    }

    fn free(&self, page: Held) {
        self.yard.allocator.free(page.pfn, page.order);
    }

    fn frame(page: &Held) -> u64 {
        page.pfn.0
    }

    fn order(page: &Held) -> u8 {
        page.order
    }

    fn record(&self, page: &Held, how: Record) {
        let line = self.line(page);
        match how {
            Record::Read => self.yard.world.read(line),
            Record::Write => self.yard.world.write(line),
            Record::Locked => self.yard.world.locked(line),
        }
    }

    fn records(&self, page: &Held, how: Record) {
        let first = page.pfn.0;
        let pages = (first..first + (1 << page.order)).map(|pfn| Held { pfn: Pfn(pfn), order: 0 });
        pages.for_each(|page| self.record(&page, how));
    }

    fn soon(&self, page: &Held) {
        self.yard.world.bring(self.line(page));
    }

    fn fill(&self, page: &mut Held, file: &FilePages, index: usize) {
        let (record, home) = (self.yard.record(page.pfn) as u64, self.yard.node_of(page.pfn));
        if page.order > 0 {
            for record in record..record + (1 << page.order) {
                self.yard.world.sync();
                self.yard.world.contents(record, home, CLEAR_BYTES);
            }
            return;
        }
        file.copy_from(&self.yard, index);
        self.yard.world.contents(record, home, CLEAR_BYTES);
    }

    fn list(&self, pages: &[Held]) {
        self.lru().add(&self.records(pages));
    }

    fn unlist(&self, pages: &[Held]) {
        self.lru().release(&self.records(pages));
    }

    fn send(&self, ring: &Ring, page: Held) -> Option<Held> {
        ring.send(&self.yard, page)
    }

    fn receive(&self, ring: &Ring) -> Option<Held> {
        ring.receive(&self.yard)
    }

    fn pause(&self) {
        self.yard.world.spend(PAUSE_PS);
    }

    fn execute(&self, instructions: u64) {
        self.yard.world.execute(instructions);
    }

    fn spend(&self, ps: u64) {
        self.yard.world.spend(ps);
    }

    fn sync(&self) {
        self.yard.world.sync();
    }

    fn now_ps(&self) -> u64 {
        self.yard.world.now()
    }
}

impl Watch for Control {
    fn is_over(&self) -> bool {
        Control::is_over(self)
    }

    fn did(&self, units: u64) {
        (0..units).for_each(|_| self.score());
    }

    /// Not told apart.
    fn spent(&self, _: usize, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::preset;
    use pageyard_sim::machine::Machine;

    #[test]
    fn a_ring_gives_back_in_order_and_is_full_until_slots_are_emptied_together() {
        let machine = Machine::named("skl-desktop").expect("a machine that comes along");
        let policy = preset::find("linux-6.6").expect("a preset");
        let yard = Yard::new(&machine, policy, 1 << 12).expect("a machine");
        let ring = Ring::new(0, 2 * TOGETHER);
        let held = |pfn: usize| Held { pfn: Pfn(pfn as u64), order: 0 };
        for round in 0..3 {
            for at in 0..2 * TOGETHER {
                assert_eq!(ring.send(&yard, held(at + round)), None);
            }
            assert_eq!(ring.send(&yard, held(99)), Some(held(99)), "full");
            for at in 0..2 * TOGETHER {
                assert_eq!(ring.receive(&yard), Some(held(at + round)));
                let room = ring.slots.borrow().iter().filter(|slot| slot.is_none()).count();
                assert_eq!(room, (at + 1) / TOGETHER * TOGETHER);
            }
            assert_eq!(ring.receive(&yard), None);
        }
    }
}
