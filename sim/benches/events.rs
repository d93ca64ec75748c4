//! Line events a second, and memory, of page_fault1-like traffic on a modelled four-socket machine
//! with all its CPUs: every one takes pages until it has a few thousand, clears them and gives them
//! back, again and again.
//!
//! `cargo bench -p pageyard-sim`

use std::rc::Rc;
use std::time::Instant;

use pageyard::{
    Allocator, Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Request, Tuning, ZoneDesc, ZoneId,
    ZoneKind, preset, watermark,
};
use pageyard_sim::costs::Costs;
use pageyard_sim::instructions::Kernel;
use pageyard_sim::layout::{Era, Layout, NumaLines};
use pageyard_sim::machine::Machine;
use pageyard_sim::platform::Sim;
use pageyard_sim::world::{Job, World};

/// Pages that a CPU holds at most, and how often it takes and gives them back.
const PAGES: usize = 4096;
const ROUNDS: usize = 1;
const FIRST: u64 = 1 << 20;
/// Page frames of a node.
const NODE_PAGES: u64 = 1 << 19;

fn build(machine: &Machine) -> (Rc<World>, Rc<Allocator<Sim>>) {
    let costs = Costs::of(machine);
    let socket = |cpu| costs.socket_of(costs.core_of(cpu)) as u8;
    let cpu_nodes: Vec<NodeId> = (0..costs.cpus()).map(|cpu| NodeId(socket(cpu))).collect();
    let cpus = (costs.cpus() / costs.sockets) as u16;
    let node = |own: usize| {
        let mut distance = [21; NODES_MAX];
        distance[own] = 10;
        NodeDesc { distance, cpus }
    };
    let nodes: Vec<NodeDesc> = (0..costs.sockets).map(node).collect();
    let zone = |node: u64| ZoneDesc {
        node: NodeId(node as u8),
        kind: ZoneKind::Normal,
        start: Pfn(FIRST + node * NODE_PAGES),
        spanned_pages: NODE_PAGES,
        managed_pages: machine.node_memory_bytes[node as usize] / 4096,
    };
    let zones: Vec<ZoneDesc> = (0..costs.sockets as u64).map(zone).collect();
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &cpu_nodes,
        nodes: &nodes,
        zones: &zones,
        tuning: Tuning::default(),
    };
    let era = Era {
        lock_on_area_line: true,
        pcp_irq_off: true,
        ticket_locks: false,
        numa_lines: NumaLines::Folded,
        kernel: Kernel::V6_1,
    };
    let world = World::new(costs, Layout::new(&geometry, era, 0));
    let policy = preset::find("linux-4.17").expect("a preset");
    let sim = Sim::new(Rc::clone(&world));
    let allocator = Allocator::new(sim, &geometry, policy).expect("a machine");
    for (at, zone) in zones.iter().enumerate() {
        allocator.add_memory(zone.start, zone.spanned_pages);
        allocator.set_marks(ZoneId(at as u8), watermark::Marks::default());
    }
    (world, Rc::new(allocator))
}

fn process(world: &Rc<World>, allocator: &Rc<Allocator<Sim>>) -> Job {
    let (world, allocator) = (Rc::clone(world), Rc::clone(allocator));
    Box::new(move || {
        for _ in 0..ROUNDS {
            let mut held = Vec::with_capacity(PAGES);
            for _ in 0..PAGES {
                let pfn = allocator.alloc(&Request::user(0)).expect("a node has room for all");
                let at = pfn.0 - FIRST;
                world.contents(at, (at / NODE_PAGES) as u8, 32);
                world.write(world.layout.page(at as usize));
                held.push(pfn);
            }
            for pfn in held {
                world.locked(world.layout.page((pfn.0 - FIRST) as usize));
                allocator.free(pfn, 0);
            }
        }
    })
}

/// Time that this thread was on a CPU, seconds, where the kernel tells: others may use it too.
fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// The most memory this process had, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn main() {
    let machine = Machine::named("skl-4s").expect("a bundled machine");
    let (world, allocator) = build(&machine);
    let jobs = (0..machine.cpus()).map(|_| process(&world, &allocator)).collect();
    let (from, before) = (Instant::now(), on_cpu());
    world.run(jobs);
    let elapsed = from.elapsed().as_secs_f64();
    let seconds = on_cpu().zip(before).map_or(elapsed, |(after, before)| after - before);
    let events = world.stats().events;
    let structures: u64 = world.stats().lines.values().sum();
    assert!(structures > 0 && events > structures);
    let rate = events as f64 / seconds / 1e6;
    println!(
        "{}, {} CPUs: {events} line events, {structures} of structures; {rate:.1} million/s",
        machine.name,
        machine.cpus(),
    );
    println!(
        "{seconds:.2} s on a CPU, {elapsed:.2} s by the clock; {} ms of virtual time, {} MiB",
        world.now() / 1_000_000_000,
        peak_mib(),
    );
}
