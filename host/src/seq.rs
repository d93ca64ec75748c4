//! Virtual CPUs one after the other: the machine for replay, the oracle and tests.
//!
//! One thread; the embedder says which CPU works next. Nothing is ever contended, so a busy
//! per-CPU cache has to be asked for: [`Seq::fail_next_pcp_try`] makes the next try-lock of a
//! cache fail, as an interrupt inside a refill finds it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::platform::{
    Field, Locks, Ordering, Owned, Platform, Shared, Site, TableId, TableSpec, Work,
};
use pageyard::{Bug, CpuId, Event, NodeId};

/// Told of every event of the allocator, with the virtual CPU it happened on.
pub trait Listener {
    /// Something happened.
    fn on_event(&mut self, event: Event);
}

/// Hears nothing; compiles to nothing.
impl Listener for () {
    #[inline(always)]
    fn on_event(&mut self, _event: Event) {}
}

impl<F: FnMut(Event)> Listener for Box<F> {
    fn on_event(&mut self, event: Event) {
        self(event);
    }
}

/// What the embedder of a sequential machine can set from outside, shared with its tables.
#[derive(Debug, Default)]
struct Knobs {
    cpu: Cell<u16>,
    now_ns: Cell<u64>,
    fail_pcp_tries: Cell<u32>,
}

/// Answers [`Platform::work`]: what to do, for which node and order; returns progress.
type Worker = Box<dyn FnMut(Work, NodeId, u8) -> u64>;

/// A machine of virtual CPUs that run one after the other.
pub struct Seq<L> {
    knobs: Rc<Knobs>,
    listener: RefCell<L>,
    worker: RefCell<Option<Worker>>,
}

impl<L: Listener> Seq<L> {
    /// A machine that tells `listener` what happens.
    pub fn new(listener: L) -> Seq<L> {
        let knobs = Rc::new(Knobs::default());
        Seq { knobs, listener: RefCell::new(listener), worker: RefCell::new(None) }
    }

    /// Lets `cpu` work from now on.
    pub fn run_on(&self, cpu: CpuId) {
        self.knobs.cpu.set(cpu.0);
    }

    /// Sets the clock, nanoseconds.
    pub fn set_now_ns(&self, now_ns: u64) {
        self.knobs.now_ns.set(now_ns);
    }

    /// Makes the next try-lock of a per-CPU cache fail. It has no effect on releases that wait
    /// instead (up to 5.19); [`Seq::forget_failures`] takes it back.
    pub fn fail_next_pcp_try(&self) {
        self.knobs.fail_pcp_tries.set(self.knobs.fail_pcp_tries.get() + 1);
    }

    /// Takes back failures that nobody ran into.
    pub fn forget_failures(&self) {
        self.knobs.fail_pcp_tries.set(0);
    }

    /// Answers requests for reclaim and compaction; without one, nothing makes progress.
    pub fn set_worker(&self, worker: impl FnMut(Work, NodeId, u8) -> u64 + 'static) {
        *self.worker.borrow_mut() = Some(Box::new(worker));
    }

    /// Looks at, or changes, the listener between operations.
    pub fn listener<R>(&self, look: impl FnOnce(&mut L) -> R) -> R {
        look(&mut self.listener.borrow_mut())
    }
}

/// A table of plain words.
pub struct Words<W> {
    words: Box<[Cell<W>]>,
    fields: usize,
}

impl<W: Copy + Default> Words<W> {
    fn new(spec: TableSpec) -> Words<W> {
        let fields = usize::from(spec.fields);
        // Plain words first: they come zeroed from the system, and memory that is never touched
        // is never backed. A vector of cells would be written word by word.
        let zeroed = vec![W::default(); spec.records * fields].into_boxed_slice();
        // SAFETY: `Cell<W>` is `repr(transparent)` over `W`, so the slice has the same layout;
        // the box was just made and nobody else holds it.
        let words = unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [Cell<W>]) };
        Words { words, fields }
    }

    #[inline(always)]
    fn word(&self, record: usize, field: Field) -> &Cell<W> {
        &self.words[record * self.fields + usize::from(field.0)]
    }
}

impl Owned for Words<u32> {
    #[inline(always)]
    fn get(&self, record: usize, field: Field) -> u32 {
        self.word(record, field).get()
    }

    #[inline(always)]
    fn set(&self, record: usize, field: Field, value: u32) {
        self.word(record, field).set(value);
    }
}

macro_rules! shared {
    ($word:ty) => {
        impl Shared<$word> for Words<$word> {
            #[inline(always)]
            fn load(&self, record: usize, field: Field, _: Ordering) -> $word {
                self.word(record, field).get()
            }

            #[inline(always)]
            fn store(&self, record: usize, field: Field, value: $word, _: Ordering) {
                self.word(record, field).set(value);
            }

            #[inline(always)]
            fn add(&self, record: usize, field: Field, delta: $word, _: Ordering) -> $word {
                let word = self.word(record, field);
                let before = word.get();
                word.set(before.wrapping_add(delta));
                before
            }

            #[inline(always)]
            fn swap(&self, record: usize, field: Field, value: $word, _: Ordering) -> $word {
                self.word(record, field).replace(value)
            }

            #[inline(always)]
            fn peek(&self, record: usize, field: Field) -> $word {
                self.word(record, field).get()
            }
        }
    };
}
shared!(u32);
shared!(u64);

/// Locks that are never contended; taking one twice is a bug of the allocator.
pub struct SeqLocks {
    held: Box<[Cell<bool>]>,
    is_pcp: bool,
    knobs: Rc<Knobs>,
}

impl SeqLocks {
    #[inline(always)]
    fn hold<R>(&self, index: usize, f: impl FnOnce() -> R) -> R {
        assert!(!self.held[index].replace(true), "a lock is taken twice by one CPU");
        let result = f();
        self.held[index].set(false);
        result
    }
}

impl Locks for SeqLocks {
    #[inline(always)]
    fn with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> R {
        self.hold(index, f)
    }

    #[inline(always)]
    fn try_with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> Option<R> {
        let failures = self.knobs.fail_pcp_tries.get();
        if failures > 0 && self.is_pcp {
            self.knobs.fail_pcp_tries.set(failures - 1);
            return None;
        }
        Some(self.hold(index, f))
    }
}

impl<L: Listener> Platform for Seq<L> {
    type Owned = Words<u32>;
    type Shared = Words<u32>;
    type Wide = Words<u64>;
    type Locks = SeqLocks;

    fn owned(&self, spec: TableSpec) -> Words<u32> {
        Words::new(spec)
    }

    fn shared(&self, spec: TableSpec) -> Words<u32> {
        Words::new(spec)
    }

    fn wide(&self, spec: TableSpec) -> Words<u64> {
        Words::new(spec)
    }

    fn locks(&self, spec: TableSpec) -> SeqLocks {
        let held = vec![Cell::new(false); spec.records].into_boxed_slice();
        SeqLocks { held, is_pcp: spec.id == TableId::PcpLocks, knobs: Rc::clone(&self.knobs) }
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(self.knobs.cpu.get())
    }

    fn now_ns(&self) -> u64 {
        self.knobs.now_ns.get()
    }

    #[inline(always)]
    fn note(&self, event: Event) {
        self.listener.borrow_mut().on_event(event);
    }

    fn work(&self, work: Work, node: NodeId, order: u8) -> u64 {
        // Taken out while it runs: a worker may free pages, which may ask again.
        let Some(mut worker) = self.worker.borrow_mut().take() else {
            return 0;
        };
        let progress = worker(work, node, order);
        *self.worker.borrow_mut() = Some(worker);
        progress
    }

    fn bug(&self, bug: Bug) -> ! {
        panic!("{bug}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{
        Allocator, Geometry, MigrateType, NODES_MAX, NodeDesc, Pfn, Policy, Request, Tuning,
        ZoneDesc, ZoneId, ZoneKind, preset,
    };

    fn machine(policy: &str) -> Allocator<Seq<()>> {
        let nodes = [NodeDesc { distance: [10; NODES_MAX], cpus: 2 }];
        let zones = [ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(1 << 20),
            spanned_pages: 1 << 18,
            managed_pages: 1 << 18,
        }];
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &[NodeId(0), NodeId(0)],
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning::default(),
        };
        let policy: Policy = preset::find(policy).expect("a preset");
        let allocator = Allocator::new(Seq::new(()), &geometry, policy).expect("a plain machine");
        allocator.add_memory(Pfn(1 << 20), 1 << 18);
        allocator
    }

    #[test]
    fn memory_comes_back_as_it_was() {
        for release in preset::Release::all() {
            let allocator = machine(&release.to_string());
            let blocks = |order| allocator.free_blocks(ZoneId(0), order, MigrateType::Movable);
            assert_eq!(blocks(10), 256);
            let mut pages = Vec::new();
            for order in [0u8, 3, 9, 1, 0, 5, 10, 2] {
                for _ in 0..700 >> order {
                    pages.push((allocator.alloc(&Request::user(order)).expect("room"), order));
                }
            }
            for (pfn, order) in pages {
                allocator.free(pfn, order);
            }
            allocator.drain_all();
            assert_eq!(blocks(10), 256, "{release}: everything merged again");
        }
    }

    #[test]
    #[should_panic(expected = "double free of pfn")]
    fn a_double_free_is_reported() {
        let allocator = machine("linux-6.18");
        let pfn = allocator.alloc(&Request::kernel(0)).expect("room");
        allocator.free(pfn, 0);
        allocator.free(pfn, 0);
    }
}
