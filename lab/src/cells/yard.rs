//! A modelled machine with an allocator on it, ready to run a workload.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::policy::{LockLine, NumaStat, PcpLock};
use pageyard::{
    Allocator, Event, Geometry, GeometryError, NODES_MAX, NodeDesc, NodeId, Pfn, Policy, Tuning,
    ZoneDesc, ZoneKind,
};
use pageyard_sim::costs::Costs;
use pageyard_sim::layout::{Era, Layout, NumaLines};
use pageyard_sim::machine::Machine;
use pageyard_sim::platform::Sim;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::World;

/// First page frame of node 0; nodes follow one another.
const FIRST_PFN: u64 = 1 << 20;
/// Page frames between the starts of two nodes' zones: more than any node has.
const NODE_PFNS: u64 = 1 << 32;
/// Lines that workloads may use for locks and list heads.
const EXTRA_LINES: u64 = 4096;

/// The machine at work.
pub struct Yard {
    /// Virtual CPUs, caches, clocks.
    pub world: Rc<World>,
    /// The allocator on it.
    pub allocator: Rc<Allocator<Sim>>,
    /// Pages of each node that records exist for.
    reachable: u64,
    /// Node of each CPU.
    pub cpu_nodes: Vec<NodeId>,
    /// Measuring.
    pub control: Rc<Control>,
}

impl Yard {
    /// Builds a machine of which a workload reaches so many pages of each node. Limits and marks
    /// come from all the memory that the machine has.
    ///
    /// # Errors
    /// The policy contradicts itself, or no such machine can be built.
    pub fn new(machine: &Machine, policy: Policy, pages: u64) -> Result<Yard, GeometryError> {
        let yard = Yard::bare(machine, policy, pages)?;
        for node in 0..yard.world.costs.sockets {
            yard.allocator.add_memory(yard.first(node), yard.reachable);
        }
        Ok(yard)
    }

    /// The same without any memory: the workload says which pages are free, and which are whose.
    ///
    /// # Errors
    /// As [`Yard::new`].
    pub fn bare(machine: &Machine, policy: Policy, pages: u64) -> Result<Yard, GeometryError> {
        let costs = Costs::of(machine);
        let sockets = costs.sockets;
        let cpu_nodes: Vec<NodeId> = (0..costs.cpus())
            .map(|cpu| NodeId(costs.socket_of(costs.core_of(cpu)) as u8))
            .collect();
        let reachable = pages.next_multiple_of(1 << 10);
        let nodes: Vec<NodeDesc> =
            (0..sockets as u32).map(|node| node_of(machine, node, &cpu_nodes)).collect();
        let zones: Vec<ZoneDesc> = (0..sockets as u64)
            .map(|node| ZoneDesc {
                node: NodeId(node as u8),
                kind: ZoneKind::Normal,
                start: Pfn(FIRST_PFN + node * NODE_PFNS),
                spanned_pages: reachable,
                managed_pages: machine.node_memory_bytes[node as usize] / 4096,
            })
            .collect();
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &cpu_nodes,
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning { min_free_kbytes: min_free_kbytes(machine), ..Tuning::default() },
        };
        let layout = Layout::new(&geometry, era_of(&policy), EXTRA_LINES);
        let world = World::new(costs, layout);
        let allocator = Allocator::new(Sim::new(Rc::clone(&world)), &geometry, policy)?;
        let control = Control::new(cpu_nodes.len());
        let listener = Rc::clone(&control);
        allocator.platform().listen(Box::new(move |world, event| listener.on_event(world, event)));
        Ok(Yard { world, allocator: Rc::new(allocator), reachable, cpu_nodes, control })
    }

    /// First page of a node.
    #[must_use]
    pub fn first(&self, node: usize) -> Pfn {
        Pfn(FIRST_PFN + node as u64 * NODE_PFNS)
    }

    /// Pages of each node that records exist for.
    #[must_use]
    pub fn reachable(&self) -> u64 {
        self.reachable
    }

    /// Record of a page, over all nodes.
    #[must_use]
    pub fn record(&self, pfn: Pfn) -> usize {
        let at = pfn.0 - FIRST_PFN;
        ((at / NODE_PFNS) * self.reachable + at % NODE_PFNS) as usize
    }

    /// Node of a page.
    #[must_use]
    pub fn node_of(&self, pfn: Pfn) -> u8 {
        ((pfn.0 - FIRST_PFN) / NODE_PFNS) as u8
    }

    /// Page records of all nodes.
    #[must_use]
    pub fn records(&self) -> usize {
        self.reachable as usize * self.world.costs.sockets
    }
}

/// `vm.min_free_kbytes` of a machine: by the size of its memory, or more, where khugepaged asks for
/// 2 + 9 pageblocks a zone, DMA and DMA32 among them (set_recommended_min_free_kbytes). It gives
/// the 421 pages a CPU that were published of a machine with two nodes of 64 GiB.
fn min_free_kbytes(machine: &Machine) -> u64 {
    const PAGEBLOCK_KBYTES: u64 = 2048;
    let memory_kbytes: u64 = machine.node_memory_bytes.iter().map(|bytes| bytes / 1024).sum();
    let by_size = (memory_kbytes * 16).isqrt().clamp(128, 262_144);
    let zones = machine.node_memory_bytes.len() as u64 + 2;
    by_size.max(PAGEBLOCK_KBYTES * 11 * zones)
}

fn node_of(machine: &Machine, node: u32, cpu_nodes: &[NodeId]) -> NodeDesc {
    let mut distance = [u8::MAX; NODES_MAX];
    for (other, slot) in distance.iter_mut().enumerate().take(machine.topology.sockets as usize) {
        *slot = u8::try_from(machine.distance(node, other as u32)).unwrap_or(u8::MAX);
    }
    let cpus = cpu_nodes.iter().filter(|at| u32::from(at.0) == node).count() as u16;
    NodeDesc { distance, cpus }
}

/// How the kernel of a policy lays out its structures.
fn era_of(policy: &Policy) -> Era {
    Era {
        lock_on_area_line: policy.zone_lock_line == LockLine::Shared,
        pcp_irq_off: policy.pcp_lock != PcpLock::Spin,
        numa_lines: match policy.numa_stat {
            NumaStat::Ordinary => NumaLines::InStat,
            NumaStat::Threshold => NumaLines::Behind,
            // Without counters nothing is written; the words that are read lie the same.
            NumaStat::Event | NumaStat::Off => NumaLines::Folded,
        },
    }
}

/// When to measure: from the moment every CPU has held zone locks often enough to be warm, until
/// every CPU has held them often enough again.
pub struct Control {
    holds: RefCell<Vec<u32>>,
    /// CPUs that take part.
    cpus: Cell<usize>,
    ready: Cell<usize>,
    goal: Cell<u32>,
    measuring: Cell<bool>,
    is_over: Cell<bool>,
    from_ps: Cell<u64>,
    result: RefCell<Option<(u64, Stats)>>,
    work: Cell<u64>,
    measure_holds: Cell<u32>,
}

impl Control {
    fn new(cpus: usize) -> Rc<Control> {
        Rc::new(Control {
            holds: RefCell::new(vec![0; cpus]),
            cpus: Cell::new(cpus),
            ready: Cell::new(0),
            goal: Cell::new(u32::MAX),
            measuring: Cell::new(false),
            is_over: Cell::new(false),
            from_ps: Cell::new(0),
            result: RefCell::new(None),
            work: Cell::new(0),
            measure_holds: Cell::new(0),
        })
    }

    /// Arms it for the first `cpus` CPUs: so many holds of zone locks each to warm up, then so many
    /// to measure.
    pub fn arm(&self, cpus: usize, warm: u32, measure: u32) {
        self.cpus.set(cpus);
        self.goal.set(warm);
        self.measure_holds.set(measure);
    }

    /// True once every CPU was measured: the workload ends.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// True while counted: every CPU is warm.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.measuring.get() && !self.is_over()
    }

    /// One unit of the workload's score was done; after the end it is not counted.
    pub fn score(&self) {
        self.work.set(self.work.get() + u64::from(!self.is_over()));
    }

    fn on_event(&self, world: &World, event: Event) {
        let is_hold = matches!(
            event,
            Event::Refill { .. }
                | Event::Drain { .. }
                | Event::Direct { .. }
                | Event::DirectFree { .. }
        );
        if !is_hold || !world.is_charging() || self.is_over.get() {
            return;
        }
        let holds = {
            let holds = &mut self.holds.borrow_mut()[world.cpu()];
            *holds += 1;
            *holds
        };
        if holds == self.goal.get() {
            self.ready.set(self.ready.get() + 1);
            if self.ready.get() == self.cpus.get() {
                self.next(world);
            }
        }
    }

    fn next(&self, world: &World) {
        if self.measuring.get() {
            let elapsed = world.now() - self.from_ps.get();
            *self.result.borrow_mut() = Some((elapsed, world.stats()));
            self.is_over.set(true);
            return;
        }
        self.measuring.set(true);
        self.from_ps.set(world.now());
        self.work.set(0);
        self.ready.set(0);
        self.holds.borrow_mut().fill(0);
        self.goal.set(self.measure_holds.get());
        world.reset_stats();
    }

    /// What was measured: elapsed picoseconds, score, and what the machine counted.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        let (elapsed_ps, stats) = self.result.borrow().clone()?;
        Some(Measured { elapsed_ps, work: self.work.get(), stats, cpus: self.cpus.get() })
    }
}

/// A measured stretch of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its length.
    pub elapsed_ps: u64,
    /// Units of work done in it.
    pub work: u64,
    /// What the machine counted.
    pub stats: Stats,
    /// CPUs that took part.
    pub cpus: usize,
}

impl Measured {
    /// Units a second.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        (u128::from(self.work) * 1_000_000_000_000 / u128::from(self.elapsed_ps.max(1))) as u64
    }

    /// Time in thousandths of all CPUs' time.
    #[must_use]
    pub fn share(&self, ps: u64) -> u64 {
        let all = u128::from(self.elapsed_ps.max(1)) * self.cpus as u128;
        (u128::from(ps) * 1000 / all) as u64
    }
}
