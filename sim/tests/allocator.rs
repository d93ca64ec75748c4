//! The allocator on a modelled machine: same bytes out, and time where it belongs.

use std::rc::Rc;

use pageyard::{
    Allocator, Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Policy, Request, Tuning, ZoneDesc,
    ZoneKind, preset,
};
use pageyard_sim::costs::Costs;
use pageyard_sim::instructions::Kernel;
use pageyard_sim::layout::{Era, Layout, NumaLines};
use pageyard_sim::platform::Sim;
use pageyard_sim::stats::{LockAt, Stats};
use pageyard_sim::tags;
use pageyard_sim::window;
use pageyard_sim::world::{Job, World};

fn costs(sockets: usize, cores: usize) -> Costs {
    let far = |near: u64, far: u64| {
        let row = |a| (0..sockets).map(|b| if a == b { near } else { far }).collect();
        (0..sockets).map(row).collect::<Vec<Vec<u64>>>()
    };
    Costs {
        sockets,
        cores_per_socket: cores,
        threads_per_core: 1,
        window: window::Shape {
            instruction_fs: 200_000,
            reorder: 224,
            fill_buffers: 10,
            store_buffer: 56,
        },
        smt_slower: 1000,
        l1: tags::Shape::of(32 << 10, 8),
        l2: tags::Shape::of(1 << 20, 16),
        llc: tags::Shape::of(8 << 20, 16),
        llc_inclusive: false,
        adjacent_line: true,
        l1_ps: 1_000,
        l2_ps: 5_000,
        llc_ps: 20_000,
        clean_socket_ps: 20_000,
        dram_ps: far(80_000, 140_000),
        dirty_ps: (0..sockets).map(|_| vec![vec![110_000; sockets]; sockets]).collect(),
        atomic_ps: 6_000,
        sibling_ps: 0,
        pause_ps: 0,
        mispredict_ps: 6_000,
        retpoline_ps: 12_000,
        loaded: Vec::new(),
        dram_bytes_per_us: 0,
        link_bytes_per_us: 0,
    }
}

fn machine(sockets: usize, cores: usize, policy: &str) -> (Rc<World>, Rc<Allocator<Sim>>) {
    let pages = 1u64 << 16;
    let nodes: Vec<NodeDesc> = (0..sockets)
        .map(|node| {
            let mut distance = [20; NODES_MAX];
            distance[node] = 10;
            NodeDesc { distance, cpus: cores as u16 }
        })
        .collect();
    let zones: Vec<ZoneDesc> = (0..sockets as u64)
        .map(|node| ZoneDesc {
            node: NodeId(node as u8),
            kind: ZoneKind::Normal,
            start: Pfn((1 << 20) + node * pages),
            spanned_pages: pages,
            managed_pages: 16 << 20,
        })
        .collect();
    let cpu_nodes: Vec<NodeId> =
        (0..sockets * cores).map(|cpu| NodeId((cpu / cores) as u8)).collect();
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &cpu_nodes,
        nodes: &nodes,
        zones: &zones,
        tuning: Tuning::default(),
    };
    let era = Era {
        lock_on_area_line: false,
        pcp_irq_off: false,
        ticket_locks: false,
        numa_lines: NumaLines::Folded,
        kernel: Kernel::V6_1,
    };
    let layout = Layout::new(&geometry, era, 8);
    let world = World::new(costs(sockets, cores), layout);
    let policy: Policy = preset::find(policy).expect("a preset");
    let allocator =
        Allocator::new(Sim::new(Rc::clone(&world)), &geometry, policy).expect("a machine");
    for zone in &zones {
        allocator.add_memory(zone.start, zone.spanned_pages);
    }
    for zone in 0..sockets as u8 {
        allocator.set_marks(pageyard::ZoneId(zone), pageyard::watermark::Marks::default());
    }
    (world, Rc::new(allocator))
}

/// Every CPU takes and gives back `pages` pages, `rounds` times.
fn rounds(sockets: usize, cores: usize, policy: &str, pages: usize, rounds: usize) -> (u64, Stats) {
    let (world, allocator) = machine(sockets, cores, policy);
    let jobs = (0..sockets * cores).map(|_| {
        let allocator = Rc::clone(&allocator);
        let job: Job = Box::new(move || {
            for _ in 0..rounds {
                let held: Vec<Pfn> =
                    (0..pages).map(|_| allocator.alloc(&Request::user(0)).expect("room")).collect();
                for pfn in held {
                    allocator.free(pfn, 0);
                }
            }
        });
        job
    });
    world.run(jobs.collect());
    world.set_up_as(0);
    (world.now(), world.stats())
}

#[test]
fn the_same_run_gives_the_same_times_and_counts() {
    let run = || rounds(2, 8, "linux-5.17", 500, 4);
    assert_eq!(run(), run());
}

#[test]
fn more_cpus_wait_longer_for_one_zone() {
    let wait = |cores| {
        let (_, stats) = rounds(1, cores, "linux-4.17", 400, 4);
        let zone = stats.lock(|at| matches!(at, LockAt::Zone(_)));
        assert!(zone.taken > 0 && zone.hold_ps > 0);
        zone.wait_ps / zone.taken
    };
    let (one, four, sixteen) = (wait(1), wait(4), wait(16));
    assert_eq!(one, 0);
    assert!(four > 0 && sixteen > 3 * four, "{one} {four} {sixteen}");
}

#[test]
fn larger_batches_take_the_lock_less_often() {
    let taken =
        |policy| rounds(1, 4, policy, 1000, 4).1.lock(|at| matches!(at, LockAt::Zone(_))).taken;
    assert!(taken("linux-4.17") > taken("linux-4.19"));
}
