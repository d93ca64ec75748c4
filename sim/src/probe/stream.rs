//! Cores that read as fast as they can, or at a rate, and what a dependent load costs beside them.

use std::cell::Cell;
use std::rc::Rc;

use super::bench::Bench;
use crate::costs::Costs;
use crate::memory::{PAGE_LINES, Use};
use crate::world::{Job, World};

/// Virtual time of a stream before it counts and while it counts, picoseconds. The model takes the
/// load of memory over 2 us.
const WARM_PS: u64 = 20_000_000;
const TIMED_PS: u64 = 60_000_000;
/// Bytes that an instruction reads: half of a line (AVX2).
const INSTRUCTION_BYTES: u64 = 32;
const PAGE_BYTES: u64 = 4096;
/// Page numbers between two CPUs' pages.
const CPU_PAGES: u64 = 1 << 24;
/// Lines that each core reads in order.
const IN_ORDER: u64 = 1 << 13;

/// What a stream did within its time.
#[derive(Clone, Copy, Default)]
struct Done {
    bytes: u64,
    over: bool,
}

/// Reads fresh pages, each after `rest_ps` more than it takes, until somebody says that it is over.
fn stream(world: &Rc<World>, node: u8, rest_ps: u64, done: &Rc<Cell<Done>>) -> Job {
    let (world, done) = (Rc::clone(world), Rc::clone(done));
    Box::new(move || {
        let start = world.now();
        let mut page = CPU_PAGES * (world.cpu() as u64 + 1);
        // Not all at one moment.
        world.spend(rest_ps * (world.cpu() as u64 % 16) / 16);
        while !done.get().over && world.now() < start + WARM_PS + TIMED_PS {
            world.sync();
            let is_timed = world.now() >= start + WARM_PS;
            world.private(page, node, Use::Read, INSTRUCTION_BYTES);
            if is_timed {
                let Done { bytes, over } = done.get();
                done.set(Done { bytes: bytes + PAGE_BYTES, over });
            }
            world.spend(rest_ps);
            page += 1;
        }
    })
}

/// All cores of the first socket read pages of a node, none of which is in a cache: bytes a
/// microsecond.
pub(super) fn pages(costs: &Costs, node: u8) -> u64 {
    let bench = Bench::new(costs, 1);
    let done = Rc::new(Cell::new(Done::default()));
    let jobs = (0..costs.cores_per_socket).map(|cpu| (cpu, stream(&bench.world, node, 0, &done)));
    bench.run(jobs.collect());
    done.get().bytes * 1_000_000 / TIMED_PS
}

/// All cores of the first socket load their own lines one after the other: bytes a microsecond.
pub(super) fn lines(costs: &Costs) -> u64 {
    let cores = costs.cores_per_socket;
    let bench = Bench::new(costs, IN_ORDER * cores as u64);
    let last = Rc::new(Cell::new(0));
    let reader = |cpu: usize| -> Job {
        let (world, last) = (Rc::clone(&bench.world), Rc::clone(&last));
        let first = bench.line(0, IN_ORDER * cpu as u64);
        Box::new(move || {
            for at in 0..IN_ORDER {
                if at % PAGE_LINES == 0 {
                    world.sync();
                }
                world.read(crate::memory::Line(first.0 + at));
            }
            last.set(last.get().max(world.now()));
        })
    };
    bench.run((0..cores).map(|cpu| (cpu, reader(cpu))).collect());
    cores as u64 * IN_ORDER * 64 * 1_000_000 / last.get().max(1)
}

/// One core's dependent loads from memory while the other cores of its socket stream at about
/// `load` bytes a microsecond: what they reached, and picoseconds a load.
pub(super) fn loaded(costs: &Costs, load: u64) -> (u64, u64) {
    let streams = costs.cores_per_socket - 1;
    // A rest that gives the rate if a page took no time; then less, by the time it took.
    let period = PAGE_BYTES * 1_000_000 * streams as u64 / load.max(1);
    let mut rest = period;
    let mut result = (0, 0);
    for _ in 0..4 {
        result = beside(costs, streams, rest);
        let (reached, _) = result;
        let took = PAGE_BYTES * 1_000_000 * streams as u64 / reached.max(1);
        rest = (rest + period).saturating_sub(took);
    }
    result
}

fn beside(costs: &Costs, streams: usize, rest_ps: u64) -> (u64, u64) {
    let longest = costs.dram_ps[0][0].max(1);
    let count = (WARM_PS + TIMED_PS) / longest + 1;
    let bench = Bench::new(costs, 2 * count);
    let lines = bench.shuffled(0, count, 2);
    let done = Rc::new(Cell::new(Done::default()));
    let latency = Rc::new(Cell::new(0));
    let chaser: Job = {
        let (world, done, latency) =
            (Rc::clone(&bench.world), Rc::clone(&done), Rc::clone(&latency));
        Box::new(move || {
            let start = world.now();
            let (mut spent, mut loads) = (0, 0);
            for &line in &lines {
                world.sync();
                let from = world.now();
                if from >= start + WARM_PS + TIMED_PS {
                    break;
                }
                world.load_and_wait(line);
                if from >= start + WARM_PS {
                    spent += world.now() - from;
                    loads += 1;
                }
            }
            done.set(Done { over: true, ..done.get() });
            latency.set(spent / u64::max(loads, 1));
        })
    };
    let mut jobs = vec![(0, chaser)];
    for cpu in 1..=streams {
        jobs.push((cpu, stream(&bench.world, 0, rest_ps, &done)));
    }
    bench.run(jobs);
    (done.get().bytes * 1_000_000 / TIMED_PS, latency.get())
}
