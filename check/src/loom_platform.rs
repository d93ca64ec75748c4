//! A machine whose every interleaving is tried: loom's cells, atomics and mutexes.
//!
//! An owned word is a tracked cell: an access that no lock orders ends the test, so the comments
//! of the core that name the lock of each word are checked. No `cfg(loom)` is needed, because the
//! platform is a type parameter.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use pageyard::platform::{
    Field, Locks, Ordering, Owned, Platform, Shared, Site, TableId, TableSpec,
};
use pageyard::{Allocator, Bug, CpuId};

use crate::machine::{Job, Machine};

loom::thread_local! {
    static CPU: std::cell::Cell<u16> = std::cell::Cell::new(0);
}

/// Preemptions that loom explores unless `PAGEYARD_LOOM_PREEMPTIONS` says otherwise. Almost every
/// known race needs no more (CHESS, 2007).
pub const PREEMPTIONS: usize = 2;
/// Bounds one execution: more operations than any test of ours makes, few enough to find a
/// loop that never ends.
const BRANCHES_MAX: usize = 200_000;

/// Words of stack a CPU has; loom's own 4096 are too few for an allocator under construction.
const STACK_WORDS: usize = 32 << 10;

/// Runs `test` under every interleaving that the bound allows; returns how many there were.
///
/// `PAGEYARD_LOOM_PREEMPTIONS` sets the bound: a number, or `0` or `unbounded` for all of them.
pub fn explore(test: impl Fn() + Send + Sync + 'static) -> usize {
    explore_bounded(PREEMPTIONS, test)
}

/// The same with a bound of its own where the variable is not set.
pub fn explore_bounded(preemptions: usize, test: impl Fn() + Send + Sync + 'static) -> usize {
    let mut model = loom::model::Builder::new();
    model.max_branches = BRANCHES_MAX;
    model.preemption_bound = match std::env::var("PAGEYARD_LOOM_PREEMPTIONS").ok().as_deref() {
        None => Some(preemptions),
        Some("0" | "unbounded") => None,
        Some(text) => {
            Some(text.parse().expect("PAGEYARD_LOOM_PREEMPTIONS is a number or `unbounded`"))
        }
    };
    let runs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let test = Arc::new(test);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let test = Arc::clone(&test);
        stand(move || test());
    });
    runs.load(Ordering::Relaxed)
}

/// Runs `f` on a thread of the model with a stack that is large enough; waits for it.
fn stand(f: impl FnOnce() + Send + 'static) {
    start(f).join().expect("a CPU panicked");
}

fn start(f: impl FnOnce() + Send + 'static) -> loom::thread::JoinHandle<()> {
    let builder = loom::thread::Builder::new().stack_size(STACK_WORDS);
    builder.spawn(f).expect("loom has room for four threads")
}

/// The platform. Belongs inside of [`explore`].
#[derive(Default)]
pub struct Loom {
    /// Locks of this table do nothing: to see that the check finds what they were for.
    pub broken: Option<TableId>,
}

/// Owned words: tracked cells.
pub struct Cells {
    words: Box<[UnsafeCell<u32>]>,
    fields: usize,
}

// SAFETY: loom's threads are coroutines of one thread, and each access through a shared reference
// is checked by loom before it happens: see `get` and `set`.
unsafe impl Sync for Cells {}

impl Cells {
    fn word(&self, record: usize, field: Field) -> &UnsafeCell<u32> {
        &self.words[record * self.fields + usize::from(field.0)]
    }
}

impl Owned for Cells {
    fn get(&self, record: usize, field: Field) -> u32 {
        // SAFETY: loom panics before the closure runs if a write to this cell is not ordered
        // before us, and its threads are coroutines of one thread that switch only in loom's
        // own calls, of which the closure makes none.
        self.word(record, field).with(|word| unsafe { *word })
    }

    fn set(&self, record: usize, field: Field, value: u32) {
        // SAFETY: as in `get`; `with_mut` also panics if a read is not ordered before us.
        self.word(record, field).with_mut(|word| unsafe { *word = value });
    }
}

/// Raced words.
///
/// loom 0.7.2 remembers only the last access to an atomic. A thread that loads a word and then
/// stores to it, as every plain counter of ours does, thereby hides the load that another thread
/// made before, and the order in which the store comes first is never tried (see the test
/// `a_load_before_a_store_hides_nothing`). So each word has a companion that every access touches
/// by a relaxed read-modify-write: those depend on each other, all orders are tried, and, being
/// relaxed and on another word, they order nothing and leave stale values possible.
pub struct Atomics<A> {
    words: Box<[(A, AtomicU32)]>,
    fields: usize,
}

impl<A> Atomics<A> {
    fn new(spec: TableSpec, zero: impl Fn() -> A) -> Atomics<A> {
        let fields = usize::from(spec.fields);
        let words = (0..spec.records * fields).map(|_| (zero(), AtomicU32::new(0))).collect();
        Atomics { words, fields }
    }

    fn word(&self, record: usize, field: Field) -> &A {
        let (word, companion) = &self.words[record * self.fields + usize::from(field.0)];
        companion.fetch_add(0, Ordering::Relaxed);
        word
    }
}

macro_rules! shared {
    ($atomic:ty, $word:ty) => {
        impl Shared<$word> for Atomics<$atomic> {
            fn load(&self, record: usize, field: Field, ordering: Ordering) -> $word {
                self.word(record, field).load(ordering)
            }

            fn store(&self, record: usize, field: Field, value: $word, ordering: Ordering) {
                self.word(record, field).store(value, ordering);
            }

            fn add(&self, record: usize, field: Field, delta: $word, ordering: Ordering) -> $word {
                self.word(record, field).fetch_add(delta, ordering)
            }

            fn swap(&self, record: usize, field: Field, value: $word, ordering: Ordering) -> $word {
                self.word(record, field).swap(value, ordering)
            }

            fn peek(&self, record: usize, field: Field) -> $word {
                self.word(record, field).load(Ordering::Relaxed)
            }
        }
    };
}
shared!(AtomicU32, u32);
shared!(AtomicU64, u64);

/// Locks: loom's mutexes.
pub struct Mutexes {
    locks: Box<[Mutex<()>]>,
    works: bool,
}

impl Locks for Mutexes {
    fn with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> R {
        if !self.works {
            return f();
        }
        let held = self.locks[index].lock().expect("loom does not poison");
        let result = f();
        drop(held);
        result
    }

    fn try_with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> Option<R> {
        if !self.works {
            return Some(f());
        }
        let held = self.locks[index].try_lock().ok()?;
        let result = f();
        drop(held);
        Some(result)
    }
}

impl Platform for Loom {
    type Owned = Cells;
    type Shared = Atomics<AtomicU32>;
    type Wide = Atomics<AtomicU64>;
    type Locks = Mutexes;

    fn owned(&self, spec: TableSpec) -> Cells {
        let fields = usize::from(spec.fields);
        let words = (0..spec.records * fields).map(|_| UnsafeCell::new(0)).collect();
        Cells { words, fields }
    }

    fn shared(&self, spec: TableSpec) -> Atomics<AtomicU32> {
        Atomics::new(spec, || AtomicU32::new(0))
    }

    fn wide(&self, spec: TableSpec) -> Atomics<AtomicU64> {
        Atomics::new(spec, || AtomicU64::new(0))
    }

    fn locks(&self, spec: TableSpec) -> Mutexes {
        Mutexes {
            locks: (0..spec.records).map(|_| Mutex::new(())).collect(),
            works: self.broken != Some(spec.id),
        }
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.with(std::cell::Cell::get))
    }

    /// Nothing of the core depends on time; a step counter would only add interleavings.
    fn now_ns(&self) -> u64 {
        0
    }

    fn bug(&self, bug: Bug) -> ! {
        panic!("{bug}");
    }
}

/// Makes the calling thread of the model work as `cpu`.
pub fn run_as(cpu: CpuId) {
    CPU.with(|now| now.set(cpu.0));
}

/// Every interleaving, inside of [`explore`].
pub struct EveryOrder;

impl Machine for EveryOrder {
    type Platform = Loom;

    fn platform() -> Loom {
        Loom::default()
    }

    fn run(test: impl Fn() + Send + Sync + 'static) {
        println!("{} interleavings", explore(test));
    }

    fn on<R>(_: &Allocator<Loom>, cpu: CpuId, f: impl FnOnce() -> R) -> R {
        run_as(cpu);
        let result = f();
        run_as(CpuId(0));
        result
    }

    /// CPU 0 is the calling thread: every thread less is a factor less.
    fn together(allocator: &Arc<Allocator<Loom>>, jobs: Vec<Job<Loom>>) {
        let mut jobs = (0..).map(CpuId).zip(jobs);
        let first = jobs.next();
        let others: Vec<_> = jobs
            .map(|(cpu, job)| {
                let allocator = Arc::clone(allocator);
                start(move || {
                    run_as(cpu);
                    job(&allocator);
                })
            })
            .collect();
        if let Some((_, job)) = first {
            job(allocator);
        }
        for other in others {
            other.join().expect("the other CPU panicked");
        }
    }
}
