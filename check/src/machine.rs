//! The machines that a test of behaviour runs on: one trait, four of them.

use std::cell::Cell;
use std::sync::Arc;

use pageyard::platform::{Platform, PrefetchHint, TableSpec, Work};
use pageyard::{Allocator, Bug, CpuId, Event, NodeId};
use pageyard_host::seq::Seq;

/// What one CPU does in [`Machine::together`].
pub type Job<P> = Box<dyn FnOnce(&Allocator<P>) + Send>;

/// A machine that tests can be run on.
pub trait Machine: 'static {
    /// Its platform.
    type Platform: Platform + 'static;

    /// A fresh platform.
    fn platform() -> Self::Platform;

    /// Runs a test as the machine demands it: once, or under many schedules.
    fn run(test: impl Fn() + Send + Sync + 'static);

    /// Runs `f` as a CPU.
    fn on<R>(allocator: &Allocator<Self::Platform>, cpu: CpuId, f: impl FnOnce() -> R) -> R;

    /// Runs job `n` as CPU `n`: at the same time, where the machine can, and waits for all.
    fn together(allocator: &Arc<Allocator<Self::Platform>>, jobs: Vec<Job<Self::Platform>>);
}

/// Virtual CPUs one after the other.
pub struct OneByOne;

impl Machine for OneByOne {
    type Platform = Seq<()>;

    fn platform() -> Seq<()> {
        Seq::new(())
    }

    fn run(test: impl Fn() + Send + Sync + 'static) {
        test();
    }

    fn on<R>(allocator: &Allocator<Seq<()>>, cpu: CpuId, f: impl FnOnce() -> R) -> R {
        allocator.platform().run_on(cpu);
        let result = f();
        allocator.platform().run_on(CpuId(0));
        result
    }

    fn together(allocator: &Arc<Allocator<Seq<()>>>, jobs: Vec<Job<Seq<()>>>) {
        for (cpu, job) in (0..).map(CpuId).zip(jobs) {
            OneByOne::on(allocator, cpu, || job(allocator));
        }
    }
}

thread_local! {
    static CHOSEN: Cell<u16> = const { Cell::new(0) };
}

/// A platform of real threads whose CPU numbers the test chooses, so that a machine of two CPUs
/// can play one of eight. Everything else is the platform inside.
pub struct Chosen<P>(pub P);

impl<P> Chosen<P> {
    /// Makes the calling thread work as `cpu`; returns what it was.
    pub fn choose(cpu: CpuId) -> CpuId {
        CpuId(CHOSEN.replace(cpu.0))
    }
}

impl<P: Platform> Platform for Chosen<P> {
    type Owned = P::Owned;
    type Shared = P::Shared;
    type Wide = P::Wide;
    type Locks = P::Locks;

    fn owned(&self, spec: TableSpec) -> P::Owned {
        self.0.owned(spec)
    }

    fn shared(&self, spec: TableSpec) -> P::Shared {
        self.0.shared(spec)
    }

    fn wide(&self, spec: TableSpec) -> P::Wide {
        self.0.wide(spec)
    }

    fn locks(&self, spec: TableSpec) -> P::Locks {
        self.0.locks(spec)
    }

    fn cpu(&self) -> CpuId {
        CpuId(CHOSEN.get())
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn prefetch(&self, pages: &P::Owned, page: usize, hint: PrefetchHint) {
        self.0.prefetch(pages, page, hint);
    }

    fn note(&self, event: Event) {
        self.0.note(event);
    }

    fn work(&self, work: Work, node: NodeId, order: u8) -> u64 {
        self.0.work(work, node, order)
    }

    fn bug(&self, bug: Bug) -> ! {
        self.0.bug(bug)
    }
}
