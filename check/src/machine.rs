//! The machines that a test of behaviour runs on: one trait, four of them.

use std::sync::{Arc, Barrier};

use pageyard::{Allocator, CpuId, Platform};
use pageyard_host::plain::{Plain, set_thread_cpu};
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

/// Real memory and real threads.
pub struct Threads;

impl Machine for Threads {
    type Platform = Plain;

    fn platform() -> Plain {
        Plain::new()
    }

    fn run(test: impl Fn() + Send + Sync + 'static) {
        // The harness gives each test a thread of its own; until it says otherwise it is CPU 0.
        set_thread_cpu(Some(CpuId(0)));
        test();
    }

    fn on<R>(_: &Allocator<Plain>, cpu: CpuId, f: impl FnOnce() -> R) -> R {
        set_thread_cpu(Some(cpu));
        let result = f();
        set_thread_cpu(Some(CpuId(0)));
        result
    }

    fn together(allocator: &Arc<Allocator<Plain>>, jobs: Vec<Job<Plain>>) {
        let start = Barrier::new(jobs.len());
        std::thread::scope(|scope| {
            for (cpu, job) in (0..).map(CpuId).zip(jobs) {
                let start = &start;
                scope.spawn(move || {
                    set_thread_cpu(Some(cpu));
                    start.wait();
                    job(allocator);
                });
            }
        });
    }
}
