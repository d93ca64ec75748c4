//! Pointer chases: each load waits for the one before it, over lines in an order that nobody
//! foresees.

use super::Dirty;
use super::bench::Bench;
use crate::costs::Costs;
use crate::memory::Line;

/// Loads that are timed.
const LOADS: u64 = 4096;
/// Lines that one core hands to another: they fit its first-level cache.
const HANDED: u64 = 128;
/// Lines of a pair that comes along with a miss.
const PAIR: u64 = 2;

/// Goes round the lines `warm` times, then times `loads` loads more: picoseconds a load.
fn chase(bench: &Bench, cpu: usize, lines: Vec<Line>, warm: u64, loads: u64) -> u64 {
    bench.on(cpu, move |world| {
        for _ in 0..warm {
            lines.iter().for_each(|&line| world.load_and_wait(line));
        }
        let from = world.now();
        lines.iter().cycle().take(loads as usize).for_each(|&line| world.load_and_wait(line));
        (world.now() - from) / loads
    })
}

fn lines_of(shape: crate::tags::Shape) -> u64 {
    (shape.sets * shape.ways) as u64
}

/// First, second and last level: half of each, and for the lower ones all of the level above too.
pub(super) fn caches(costs: &Costs) -> (u64, u64, u64) {
    let (l1, l2, llc) = (lines_of(costs.l1), lines_of(costs.l2), lines_of(costs.llc));
    // An inclusive last level holds what the second level holds, too.
    let levels = [l1 / 2, l1 + (l2 - l1.min(l2)) / 2, l2 + (llc - l2.min(llc)) / 2];
    let [first, second, last] = levels.map(|lines| {
        let bench = Bench::new(costs, lines);
        let lines = bench.shuffled(0, lines, 1);
        chase(&bench, 0, lines, 2, LOADS)
    });
    (first, second, last)
}

/// Memory of every node from every socket: lines that nobody has loaded, one of each pair.
pub(super) fn idle(costs: &Costs) -> Vec<Vec<u64>> {
    let sockets = || 0..costs.sockets;
    let one = |socket: usize, node: usize| {
        let bench = Bench::new(costs, PAIR * LOADS);
        let lines = bench.shuffled(node, LOADS, PAIR);
        chase(&bench, bench.cpu_of(socket), lines, 0, LOADS)
    };
    sockets().map(|socket| sockets().map(|node| one(socket, node)).collect()).collect()
}

/// Lines that another core of the socket brought from memory.
pub(super) fn clean(costs: &Costs) -> u64 {
    let bench = Bench::new(costs, PAIR * HANDED);
    let lines = bench.shuffled(0, HANDED, PAIR);
    let other = lines.clone();
    bench.on(1, move |world| {
        other.iter().for_each(|&line| world.load_and_wait(line));
        0
    });
    chase(&bench, 0, lines, 0, HANDED)
}

/// Lines that another core wrote: in the socket, and in every other one by home. Only the first two
/// sockets load: what is nearer to the others is in [`idle`].
pub(super) fn dirty(costs: &Costs) -> Vec<Dirty> {
    let mut all = Vec::new();
    if costs.cores_per_socket > 1 {
        all.push(handed(costs, 0, 0, 0));
    }
    for writer in 1..costs.sockets {
        for home in 0..costs.sockets {
            all.push(handed(costs, 0, writer, home));
        }
    }
    all
}

fn handed(costs: &Costs, reader: usize, writer: usize, home: usize) -> Dirty {
    let bench = Bench::new(costs, PAIR * HANDED);
    let lines = bench.shuffled(home, HANDED, PAIR);
    let written = lines.clone();
    let same = usize::from(reader == writer);
    bench.on(bench.cpu_of(writer) + same, move |world| {
        written.iter().for_each(|&line| world.write(line));
        world.visible()
    });
    Dirty { reader, writer, home, ps: chase(&bench, bench.cpu_of(reader), lines, 0, HANDED) }
}
