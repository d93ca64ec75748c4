//! A modelled machine with an allocator on it, ready to run a workload.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;

use pageyard::policy::{Collect, LockLine, NumaStat, PcpLock, SpinLock};
use pageyard::{
    Allocator, Event, Geometry, GeometryError, NodeDesc, NodeId, Pfn, Policy, Request, Tuning,
    ZoneDesc, ZoneId, ZoneItem, ZoneKind,
};
use pageyard_sim::costs::Costs;
use pageyard_sim::instructions::Kernel;
use pageyard_sim::layout::{Era, Layout, NumaLines};
use pageyard_sim::machine::Machine;
use pageyard_sim::platform::Sim;
use pageyard_sim::stats::Stats;
use pageyard_sim::world::World;
use serde::{Deserialize, Serialize};

use super::homes;

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
    spans: Vec<u64>,
    /// Record of the first page of each node, and one past the last of all.
    bases: Vec<u64>,
    /// Node of each CPU; where that has no memory, the one that the CPU takes from.
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
        Yard::with_lines(machine, policy, pages, 0)
    }

    /// The same with so many lines, at the least, that the workload may use.
    ///
    /// # Errors
    /// As [`Yard::new`].
    pub fn with_lines(
        machine: &Machine,
        policy: Policy,
        pages: u64,
        lines: u64,
    ) -> Result<Yard, GeometryError> {
        let yard = Yard::empty(machine, policy, pages, lines)?;
        for node in 0..yard.world.costs.sockets {
            if yard.span(node) > 0 {
                yard.allocator.add_memory(yard.first(node), yard.span(node));
            }
        }
        Ok(yard)
    }

    /// The same without any memory: the workload says which pages are free, and which are whose.
    ///
    /// # Errors
    /// As [`Yard::new`].
    pub fn bare(machine: &Machine, policy: Policy, pages: u64) -> Result<Yard, GeometryError> {
        Yard::empty(machine, policy, pages, 0)
    }

    fn empty(
        machine: &Machine,
        policy: Policy,
        pages: u64,
        lines: u64,
    ) -> Result<Yard, GeometryError> {
        let costs = Costs::of(machine);
        let sockets = costs.sockets;
        let cpu_nodes: Vec<NodeId> = (0..costs.cpus())
            .map(|cpu| NodeId(costs.socket_of(costs.core_of(cpu)) as u8))
            .collect();
        let homes = homes::of(machine)?;
        let memory = |node: u32| machine.node_memory_bytes[node as usize] / 4096;
        let wanted = pages.next_multiple_of(1 << 10);
        // Where a node is too small, its CPUs take from the others: these must reach further.
        let is_short = (0..sockets as u32).any(|node| memory(node) < wanted);
        let wanted = if is_short { wanted * sockets as u64 } else { wanted };
        let spans: Vec<u64> = (0..sockets as u32).map(|node| wanted.min(memory(node))).collect();
        let nodes: Vec<NodeDesc> =
            (0..sockets as u32).map(|node| homes::describe(machine, node)).collect();
        let zones: Vec<ZoneDesc> = (0..sockets as u64)
            .map(|node| ZoneDesc {
                node: NodeId(node as u8),
                kind: ZoneKind::Normal,
                start: Pfn(FIRST_PFN + node * NODE_PFNS),
                spanned_pages: match spans[node as usize] {
                    0 => homes::ABSENT_PAGES,
                    pages => pages,
                },
                managed_pages: memory(node as u32),
            })
            .collect();
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &cpu_nodes,
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning {
                min_free_kbytes: min_free_kbytes(&machine.node_memory_bytes),
                ..Tuning::default()
            },
        };
        let mut bases = vec![0];
        for zone in &zones {
            bases.push(bases[bases.len() - 1] + zone.spanned_pages);
        }
        let layout = Layout::new(&geometry, era_of(&policy), lines.max(EXTRA_LINES)).homes(&homes);
        let world = World::new(costs, layout);
        let allocator = Allocator::new(Sim::new(Rc::clone(&world)), &geometry, policy)?;
        let control = Control::new(&world, cpu_nodes.len());
        let listener = Rc::clone(&control);
        allocator.platform().listen(Box::new(move |world, event| listener.on_event(world, event)));
        let cpu_nodes = cpu_nodes.iter().map(|node| homes[usize::from(node.0)]).collect();
        Ok(Yard { world, allocator: Rc::new(allocator), spans, bases, cpu_nodes, control })
    }

    /// First page of a node.
    #[must_use]
    pub fn first(&self, node: usize) -> Pfn {
        Pfn(FIRST_PFN + node as u64 * NODE_PFNS)
    }

    /// Pages of a node that records exist for.
    #[must_use]
    pub fn span(&self, node: usize) -> u64 {
        self.spans[node]
    }

    /// Takes pages. If there are none, the cell ends here: it unwinds with [`OutOfMemory`], which
    /// whoever runs cells makes its result.
    #[must_use]
    pub fn take(&self, request: &Request) -> Pfn {
        let taken = self.allocator.alloc(request);
        // No panic: nothing is wrong with the program, and nothing is to be printed.
        taken.unwrap_or_else(|_| resume_unwind(Box::new(self.out_of_memory(request.order))))
    }

    fn out_of_memory(&self, order: u8) -> OutOfMemory {
        let node = |node: usize| {
            let zone = ZoneId(node as u8);
            let free = self.allocator.zone_count(zone, ZoneItem::FreePages).max(0) as u64;
            let (pages, marks) = (self.spans[node], self.allocator.marks(zone));
            NodeState { pages, free, min_mark: u64::from(marks.min) }
        };
        let nodes: Vec<NodeState> = (0..self.spans.len()).map(node).collect();
        let taken = nodes.iter().map(|node| node.pages.saturating_sub(node.free)).sum();
        OutOfMemory { cpu: self.world.cpu(), at_ps: self.world.now(), order, taken, nodes }
    }

    /// Record of a page, over all nodes.
    #[must_use]
    pub fn record(&self, pfn: Pfn) -> usize {
        let at = pfn.0 - FIRST_PFN;
        (self.bases[(at / NODE_PFNS) as usize] + at % NODE_PFNS) as usize
    }

    /// Node of a page.
    #[must_use]
    pub fn node_of(&self, pfn: Pfn) -> u8 {
        ((pfn.0 - FIRST_PFN) / NODE_PFNS) as u8
    }

    /// Page records of all nodes.
    #[must_use]
    pub fn records(&self) -> usize {
        self.bases.last().map_or(0, |end| *end as usize)
    }
}

/// `vm.min_free_kbytes` of a machine: by the size of its memory, or more, where khugepaged asks for
/// 2 + 9 pageblocks a zone, DMA and DMA32 among them (set_recommended_min_free_kbytes). It gives
/// the 421 pages a CPU that were published of a machine with two nodes of 64 GiB.
#[must_use]
pub fn min_free_kbytes(node_memory_bytes: &[u64]) -> u64 {
    const PAGEBLOCK_KBYTES: u64 = 2048;
    let memory_kbytes: u64 = node_memory_bytes.iter().map(|bytes| bytes / 1024).sum();
    let by_size = (memory_kbytes * 16).isqrt().clamp(128, 262_144);
    let zones = node_memory_bytes.len() as u64 + 2;
    // Never more than 5 % of memory.
    by_size.max((PAGEBLOCK_KBYTES * 11 * zones).min(memory_kbytes / 20))
}

/// A node when memory ran out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Pages that it has, as far as the workload reaches them.
    pub pages: u64,
    /// Of them free, in no CPU's cache.
    pub free: u64,
    /// Free pages that ordinary requests leave.
    pub min_mark: u64,
}

/// The end of a cell whose workload takes more than there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "out of memory on CPU {cpu} after {} us, {taken} pages taken or cached, asking for order \
     {order}: {}",
    at_ps / 1_000_000, described(nodes)
)]
pub struct OutOfMemory {
    /// CPU that asked.
    pub cpu: usize,
    /// Its time, picoseconds; 0 while processes are set up.
    pub at_ps: u64,
    /// What it asked for.
    pub order: u8,
    /// Pages that are not free.
    pub taken: u64,
    /// Every node.
    pub nodes: Vec<NodeState>,
}

fn described(nodes: &[NodeState]) -> String {
    let one = |(at, node): (usize, &NodeState)| {
        let NodeState { pages, free, min_mark } = node;
        format!("node {at} has {free} of {pages} pages free, min mark {min_mark}")
    };
    nodes.iter().enumerate().map(one).collect::<Vec<_>>().join("; ")
}

/// How the kernel of a policy lays out its structures.
fn era_of(policy: &Policy) -> Era {
    Era {
        lock_on_area_line: policy.zone_lock_line == LockLine::Shared,
        pcp_irq_off: policy.pcp_lock != PcpLock::Spin,
        ticket_locks: policy.spinlock == SpinLock::Ticket,
        numa_lines: match policy.numa_stat {
            NumaStat::Ordinary => NumaLines::InStat,
            NumaStat::Threshold => NumaLines::Behind,
            // Without counters nothing is written; the words that are read lie the same.
            NumaStat::Event | NumaStat::Off => NumaLines::Folded,
        },
        kernel: match (policy.pcp_lock, policy.has_hygiene()) {
            (_, true) => Kernel::V6_12,
            (PcpLock::Spin, _) => Kernel::V6_1,
            _ if policy.collect == Collect::UnderLock => Kernel::V4_14,
            _ => Kernel::V5_10,
        },
    }
}

/// When to measure: from the moment every CPU has held zone locks often enough to be warm, until
/// every CPU has held them often enough again. Caches may be so large that this never comes: a CPU
/// that has done so much work is as good.
pub struct Control {
    world: Rc<World>,
    /// What each CPU did in this stretch.
    done: RefCell<Vec<Done>>,
    /// CPUs that take part.
    cpus: Cell<usize>,
    ready: Cell<usize>,
    goal: Cell<Goal>,
    measure: Cell<Goal>,
    measuring: Cell<bool>,
    is_over: Cell<bool>,
    from_ps: Cell<u64>,
    result: RefCell<Option<(u64, Stats)>>,
    work: Cell<u64>,
    /// Parts of the workload that a measured stretch has to see, and those that it saw: bits.
    parts: Cell<u32>,
    seen: Cell<u32>,
}

#[derive(Clone, Copy, Default)]
struct Done {
    holds: u32,
    work: u64,
    is_ready: bool,
}

/// What each CPU has to do in a stretch: either.
#[derive(Clone, Copy)]
struct Goal {
    holds: u32,
    work: u64,
}

/// Nothing is counted before it is armed.
const NEVER: Goal = Goal { holds: u32::MAX, work: u64::MAX };

impl Control {
    fn new(world: &Rc<World>, cpus: usize) -> Rc<Control> {
        Rc::new(Control {
            world: Rc::clone(world),
            done: RefCell::new(vec![Done::default(); cpus]),
            cpus: Cell::new(cpus),
            ready: Cell::new(0),
            goal: Cell::new(NEVER),
            measure: Cell::new(NEVER),
            measuring: Cell::new(false),
            is_over: Cell::new(false),
            from_ps: Cell::new(0),
            result: RefCell::new(None),
            work: Cell::new(0),
            parts: Cell::new(0),
            seen: Cell::new(0),
        })
    }

    /// Arms it for the first `cpus` CPUs: so many holds of zone locks each to warm up, then so many
    /// to measure.
    pub fn arm(&self, cpus: usize, warm: u32, measure: u32) {
        self.cpus.set(cpus);
        self.goal.set(Goal { holds: warm, ..NEVER });
        self.measure.set(Goal { holds: measure, ..NEVER });
    }

    /// Lets each of both stretches end for a CPU after so much work too.
    pub fn bound(&self, work: u64) {
        self.goal.set(Goal { work, ..self.goal.get() });
        self.measure.set(Goal { work, ..self.measure.get() });
    }

    /// Lets every CPU warm up by so much work, however many locks it holds meanwhile.
    pub fn warm_by_work(&self, work: u64) {
        self.goal.set(Goal { work, ..NEVER });
    }

    /// Lets measuring go on until each of the first so many parts of the workload was seen on some
    /// CPU: of few CPUs, all may be at the same part for as long as they are measured.
    pub fn see_parts(&self, parts: u32) {
        self.parts.set((1 << parts) - 1);
    }

    /// A CPU went through some of a part of the workload.
    pub fn saw(&self, part: usize) {
        if self.is_measuring() {
            self.seen.set(self.seen.get() | 1 << part);
            self.go_on();
        }
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
        if self.is_over() {
            return;
        }
        self.work.set(self.work.get() + 1);
        self.count(|done| done.work += 1);
    }

    /// Work that is no part of the score, such as taking back what was done, is done too.
    pub fn undid(&self, work: u64) {
        if !self.is_over() {
            self.count(|done| done.work += work);
        }
    }

    fn on_event(&self, world: &World, event: Event) {
        let is_hold = matches!(
            event,
            Event::Refill { .. }
                | Event::Drain { .. }
                | Event::Direct { .. }
                | Event::DirectFree { .. }
        );
        if is_hold && world.is_charging() && !self.is_over() {
            self.count(|done| done.holds += 1);
        }
    }

    fn count(&self, count: impl Fn(&mut Done)) {
        let goal = self.goal.get();
        {
            let done = &mut self.done.borrow_mut()[self.world.cpu()];
            count(done);
            if done.is_ready || (done.holds < goal.holds && done.work < goal.work) {
                return;
            }
            done.is_ready = true;
        }
        self.ready.set(self.ready.get() + 1);
        self.go_on();
    }

    /// Begins to measure, or ends, if all is there for that.
    fn go_on(&self) {
        if self.ready.get() < self.cpus.get() {
            return;
        }
        if self.measuring.get() {
            if self.seen.get() & self.parts.get() == self.parts.get() {
                self.finish();
            }
            return;
        }
        self.measuring.set(true);
        self.from_ps.set(self.world.now());
        self.work.set(0);
        self.ready.set(0);
        self.done.borrow_mut().fill(Done::default());
        self.goal.set(self.measure.get());
        self.world.reset_stats();
    }

    /// Ends it now: everything was measured, or a CPU has nothing left to do. What was counted so
    /// far is the result, of the warm-up if there was no more.
    pub fn finish(&self) {
        if !self.is_over() {
            let elapsed = self.world.now() - self.from_ps.get();
            *self.result.borrow_mut() = Some((elapsed, self.world.stats()));
            self.is_over.set(true);
        }
    }

    /// What was measured: elapsed picoseconds, score, and what the machine counted.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        let (elapsed_ps, stats) = self.result.borrow().clone()?;
        let (work, cpus) = (self.work.get(), self.cpus.get());
        let holds = self.done.borrow().iter().take(cpus).map(|done| done.holds).min();
        let holds_least = holds.unwrap_or(0);
        let holds_wanted = self.measure.get().holds;
        Some(Measured { elapsed_ps, work, stats, cpus, holds_least, holds_wanted })
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
    /// Holds of zone locks by the CPU with the fewest.
    pub holds_least: u32,
    /// Holds that every CPU should have seen.
    pub holds_wanted: u32,
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
