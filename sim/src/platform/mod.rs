//! The allocator's platform on a modelled machine.

pub(crate) mod ahead;
pub mod coroutine;

use std::cell::RefCell;
use std::rc::Rc;

use pageyard::platform::{Field, Platform, PrefetchHint, TableId, TableSpec, Work};
use pageyard::{Bug, CpuId, Event, NodeId};

use crate::lock::SimLocks;
use crate::tables::SimTable;
use crate::world::World;

/// Told of what the allocator does, with the CPU and time of the world.
pub type Listener = Box<dyn FnMut(&World, Event)>;

/// A modelled machine below an allocator.
pub struct Sim {
    world: Rc<World>,
    listener: RefCell<Option<Listener>>,
}

impl Sim {
    /// A platform on a machine.
    #[must_use]
    pub fn new(world: Rc<World>) -> Sim {
        Sim { world, listener: RefCell::new(None) }
    }

    /// The machine.
    #[must_use]
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// Tells `listener` of everything that happens from now on.
    pub fn listen(&self, listener: Listener) {
        *self.listener.borrow_mut() = Some(listener);
    }
}

impl Platform for Sim {
    type Owned = SimTable<u32>;
    type Shared = SimTable<u32>;
    type Wide = SimTable<u64>;
    type Locks = SimLocks;

    fn owned(&self, spec: TableSpec) -> SimTable<u32> {
        SimTable::new(Rc::clone(&self.world), spec)
    }

    fn shared(&self, spec: TableSpec) -> SimTable<u32> {
        SimTable::new(Rc::clone(&self.world), spec)
    }

    fn wide(&self, spec: TableSpec) -> SimTable<u64> {
        SimTable::new(Rc::clone(&self.world), spec)
    }

    fn locks(&self, spec: TableSpec) -> SimLocks {
        SimLocks::new(Rc::clone(&self.world), spec)
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.world.cpu() as u16)
    }

    fn now_ns(&self) -> u64 {
        self.world.now() / 1000
    }

    fn prefetch(&self, _: &SimTable<u32>, page: usize, _: PrefetchHint) {
        self.world.prefetch(self.world.layout.line(TableId::Pages, page, Field(0)));
    }

    fn note(&self, event: Event) {
        self.world.searched(&event);
        self.world.work(self.world.layout.era().kernel.beside(&event));
        if let Some(listener) = self.listener.borrow_mut().as_mut() {
            listener(&self.world, event);
        }
    }

    fn work(&self, _: Work, _: NodeId, _: u8) -> u64 {
        0
    }

    fn bug(&self, bug: Bug) -> ! {
        panic!("CPU {} at {} ps: {bug}", self.world.cpu(), self.world.now());
    }
}
