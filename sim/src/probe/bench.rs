//! A machine without an allocator: so many lines of memory on each node, and CPUs that use them.

use std::cell::Cell;
use std::rc::Rc;

use pageyard::{Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Tuning, ZoneDesc, ZoneKind};

use crate::costs::Costs;
use crate::instructions::Kernel;
use crate::layout::{Era, Layout, NumaLines};
use crate::memory::Line;
use crate::world::{Job, World};

/// Page frames between the starts of two nodes: more than any bench has.
const NODE_PFNS: u64 = 1 << 32;

/// The machine.
pub(super) struct Bench {
    pub(super) world: Rc<World>,
    lines: u64,
    /// When the last job ended.
    time: Rc<Cell<u64>>,
}

impl Bench {
    /// Empty caches over so many lines a node.
    pub(super) fn new(costs: &Costs, lines: u64) -> Bench {
        let socket = |cpu| costs.socket_of(costs.core_of(cpu)) as u8;
        let cpu_nodes: Vec<NodeId> = (0..costs.cpus()).map(|cpu| NodeId(socket(cpu))).collect();
        let cpus = (costs.cores_per_socket * costs.threads_per_core) as u16;
        let nodes = vec![NodeDesc { distance: [10; NODES_MAX], cpus }; costs.sockets];
        let lines = lines.next_multiple_of(1 << 10);
        let zone = |node| ZoneDesc {
            node: NodeId(node as u8),
            kind: ZoneKind::Normal,
            start: Pfn(node * NODE_PFNS),
            spanned_pages: lines,
            managed_pages: lines,
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
            lock_on_area_line: false,
            pcp_irq_off: false,
            ticket_locks: false,
            numa_lines: NumaLines::Folded,
            kernel: Kernel::V6_1,
        };
        let world = World::new(costs.clone(), Layout::new(&geometry, era, 0));
        Bench { world, lines, time: Rc::default() }
    }

    /// A line of a node's memory.
    pub(super) fn line(&self, node: usize, at: u64) -> Line {
        assert!(at < self.lines, "the bench was made with fewer lines");
        self.world.layout.page((node as u64 * self.lines + at) as usize)
    }

    /// Lines of a node's memory in an order that no prefetcher foresees, one of every `step`.
    pub(super) fn shuffled(&self, node: usize, count: u64, step: u64) -> Vec<Line> {
        let mut lines: Vec<Line> = (0..count).map(|at| self.line(node, at * step)).collect();
        let mut seed = 1;
        for at in (1..lines.len()).rev() {
            lines.swap(at, (next(&mut seed) % (at as u64 + 1)) as usize);
        }
        lines
    }

    /// First CPU of a socket.
    pub(super) fn cpu_of(&self, socket: usize) -> usize {
        socket * self.world.costs.cores_per_socket
    }

    /// Runs jobs on CPUs, the others have nothing to do; all begin when the last ones have ended.
    pub(super) fn run(&self, mut jobs: Vec<(usize, Job)>) {
        let cpus = jobs.iter().map(|&(cpu, _)| cpu + 1).max().unwrap_or(0);
        let start = self.time.get();
        let all = (0..cpus).map(|cpu| {
            let at = jobs.iter().position(|&(of, _)| of == cpu);
            let Some((_, job)) = at.map(|at| jobs.swap_remove(at)) else {
                return Box::new(|| ()) as Job;
            };
            let (world, time) = (Rc::clone(&self.world), Rc::clone(&self.time));
            Box::new(move || {
                world.spend(start.saturating_sub(world.now()));
                world.sync();
                job();
                time.set(time.get().max(world.now()));
            })
        });
        let all = all.collect();
        self.world.run(all);
    }

    /// Runs one job on a CPU, and returns what it returns.
    pub(super) fn on(&self, cpu: usize, job: impl FnOnce(&World) -> u64 + 'static) -> u64 {
        let result = Rc::new(Cell::new(0));
        let (world, slot) = (Rc::clone(&self.world), Rc::clone(&result));
        self.run(vec![(cpu, Box::new(move || slot.set(job(&world))))]);
        result.get()
    }
}

/// Numbers from a seed (splitmix64, Steele and others 2014).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
