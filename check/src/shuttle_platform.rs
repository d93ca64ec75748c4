//! A machine with random schedules: shuttle's atomics and mutexes, any number of CPUs.
//!
//! Every access to a raced word and every lock is a place where another CPU may go on. Owned
//! words are plain: whether they are ordered by their locks is loom's question, not this one's.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32 as PlainU32;

use pageyard::platform::{Field, Locks, Ordering, Owned, Platform, Shared, Site, TableSpec};
use pageyard::{Allocator, Bug, CpuId};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, AtomicU64};

use crate::machine::{Job, Machine};

shuttle::thread_local! {
    static CPU: Cell<u16> = Cell::new(0);
}

/// Steps of one execution at the most; more is a loop that never ends.
const STEPS_MAX: usize = 10_000_000;
/// Bytes of stack a CPU has; frames are large without optimisation.
const STACK_BYTES: usize = 256 << 10;

/// Schedules of a test of behaviour unless `PAGEYARD_SHUTTLE_ITERS` says otherwise.
const BEHAVIOUR_SCHEDULES: usize = 20;

/// Runs `test` under `schedules` random schedules, the same ones for the same `seed`.
pub fn sample(seed: u64, schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    // It warns that orderings are not modelled; docs/TRUST.md says so too.
    config.silence_warnings = true;
    let scheduler = RandomScheduler::new_from_seed(seed, schedules);
    shuttle::Runner::new(scheduler, config).run(test);
}

/// The platform. Belongs inside of [`sample`].
pub struct Shuttle;

/// Owned words. Atomics only because the table is shared by threads; no switch happens at them.
pub struct Plain {
    words: Box<[PlainU32]>,
    fields: usize,
}

impl Plain {
    fn word(&self, record: usize, field: Field) -> &PlainU32 {
        &self.words[record * self.fields + usize::from(field.0)]
    }
}

impl Owned for Plain {
    fn get(&self, record: usize, field: Field) -> u32 {
        // Relaxed: shuttle's threads take turns.
        self.word(record, field).load(Ordering::Relaxed)
    }

    fn set(&self, record: usize, field: Field, value: u32) {
        // Relaxed: as in `get`.
        self.word(record, field).store(value, Ordering::Relaxed);
    }
}

/// Raced words.
pub struct Atomics<A> {
    words: Box<[A]>,
    fields: usize,
}

impl<A> Atomics<A> {
    fn new(spec: TableSpec, zero: impl Fn() -> A) -> Atomics<A> {
        let fields = usize::from(spec.fields);
        let words = (0..spec.records * fields).map(|_| zero()).collect();
        Atomics { words, fields }
    }

    fn word(&self, record: usize, field: Field) -> &A {
        &self.words[record * self.fields + usize::from(field.0)]
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

/// Locks: shuttle's mutexes.
pub struct Mutexes(Box<[Mutex<()>]>);

impl Locks for Mutexes {
    fn with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> R {
        let held = self.0[index].lock().expect("no CPU panicked under it");
        let result = f();
        drop(held);
        result
    }

    fn try_with<R>(&self, index: usize, _: Site, f: impl FnOnce() -> R) -> Option<R> {
        let held = self.0[index].try_lock().ok()?;
        let result = f();
        drop(held);
        Some(result)
    }
}

impl Platform for Shuttle {
    type Owned = Plain;
    type Shared = Atomics<AtomicU32>;
    type Wide = Atomics<AtomicU64>;
    type Locks = Mutexes;

    fn owned(&self, spec: TableSpec) -> Plain {
        let fields = usize::from(spec.fields);
        let words = (0..spec.records * fields).map(|_| PlainU32::new(0)).collect();
        Plain { words, fields }
    }

    fn shared(&self, spec: TableSpec) -> Atomics<AtomicU32> {
        Atomics::new(spec, || AtomicU32::new(0))
    }

    fn wide(&self, spec: TableSpec) -> Atomics<AtomicU64> {
        Atomics::new(spec, || AtomicU64::new(0))
    }

    fn locks(&self, spec: TableSpec) -> Mutexes {
        Mutexes((0..spec.records).map(|_| Mutex::new(())).collect())
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.with(Cell::get))
    }

    /// Nothing of the core depends on time.
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

/// Random schedules, inside of [`sample`].
pub struct RandomOrder;

impl Machine for RandomOrder {
    type Platform = Shuttle;

    fn platform() -> Shuttle {
        Shuttle
    }

    fn run(test: impl Fn() + Send + Sync + 'static) {
        sample(crate::settings::seed(), crate::settings::schedules(BEHAVIOUR_SCHEDULES), test);
    }

    fn on<R>(_: &Allocator<Shuttle>, cpu: CpuId, f: impl FnOnce() -> R) -> R {
        run_as(cpu);
        let result = f();
        run_as(CpuId(0));
        result
    }

    fn together(allocator: &Arc<Allocator<Shuttle>>, jobs: Vec<Job<Shuttle>>) {
        let threads: Vec<_> = (0..)
            .map(CpuId)
            .zip(jobs)
            .map(|(cpu, job)| {
                let allocator = Arc::clone(allocator);
                shuttle::thread::spawn(move || {
                    run_as(cpu);
                    job(&allocator);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("a CPU panicked");
        }
    }
}
