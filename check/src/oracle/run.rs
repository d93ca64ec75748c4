//! One run: a machine, a policy and operations from a seed, the model compared after each.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use fastrand::Rng;
use pageyard::platform::Work;
use pageyard::{Allocator, CpuId, MigrateType, Pfn, Request};
use pageyard_host::seq::Seq;

use super::draw::{self, Drawn};
use super::model::Model;
use super::op::{self, Action, Op};
use super::reach::Reach;
use super::walk;
use crate::layout::Layout;

/// Operations between two walks over everything.
const WALK_EVERY: usize = 211;
/// Blocks that one call for reclaim frees at the most.
const RECLAIM_BLOCKS_MAX: u64 = 8;

type Yard = Allocator<Seq<Reach>>;

/// A run, decided but not begun.
#[derive(Clone)]
pub struct Run {
    /// Where it all comes from.
    pub seed: u64,
    /// The machine.
    pub layout: Layout,
    /// The policy.
    pub policy: Drawn,
    /// What is done.
    pub ops: Vec<Op>,
}

impl Run {
    /// Decides a run of `count` operations.
    #[must_use]
    pub fn draw(seed: u64, count: usize) -> Run {
        let mut rng = Rng::with_seed(seed);
        let layout = draw::layout(&mut rng);
        let policy = draw::policy(&mut rng);
        let ops = op::list(&mut rng, &layout, count);
        Run { seed, layout, policy, ops }
    }

    /// Performs it. `step` is the operation at work, for whoever catches a panic.
    ///
    /// # Panics
    /// The allocator and the model disagree.
    pub fn perform(&self, step: &Cell<usize>) -> Reach {
        let mut bench = Bench::new(self);
        for (at, op) in self.ops.iter().enumerate() {
            step.set(at);
            bench.perform(op);
            let model = bench.model.borrow();
            model.compare(&bench.yard);
            if at % WALK_EVERY == WALK_EVERY - 1 {
                walk::everything(&model, &bench.yard);
            }
        }
        step.set(self.ops.len());
        bench.finish();
        bench.yard.platform().listener(std::mem::take)
    }
}

/// An allocator and its model at work.
struct Bench {
    yard: Rc<Yard>,
    model: Rc<RefCell<Model>>,
    is_exact: bool,
}

impl Bench {
    fn new(run: &Run) -> Bench {
        // Its own stream: cutting the operations shorter leaves the machine as it is.
        let mut rng = Rng::with_seed(run.seed ^ 0x5eed);
        let yard = run.layout.build(Seq::new(Reach::default()), run.policy.policy);
        let is_exact = draw::settle(&mut rng, &yard, &run.layout);
        lend(&mut rng, &yard, &run.layout);
        for memory in &run.layout.memory {
            yard.add_memory(Pfn(memory.start), memory.pages);
        }
        let yard = Rc::new(yard);
        let model = Rc::new(RefCell::new(Model::new(&run.layout, run.policy.policy)));
        reclaim_on_demand(&yard, &model, rng);
        let bench = Bench { yard, model, is_exact };
        walk::everything(&bench.model.borrow(), &bench.yard);
        bench
    }

    fn perform(&mut self, op: &Op) {
        let machine = self.yard.platform();
        machine.run_on(op.cpu);
        for _ in 0..op.busy {
            machine.fail_next_pcp_try();
        }
        match op.action {
            Action::Alloc(request) => self.alloc(&request, op.cpu),
            Action::Bulk(request, blocks) => self.bulk(&request, op.cpu, blocks),
            Action::Free { pick } => {
                let block = self.model.borrow().pick(pick);
                if let Some(pfn) = block {
                    let order = self.model.borrow_mut().give(pfn);
                    self.yard.free(Pfn(pfn), order);
                }
            }
            Action::Tick => self.yard.tick(op.cpu),
            Action::DrainCpu(cpu) => self.yard.drain_cpu(cpu),
            Action::DrainAll => self.yard.drain_all(),
            Action::Trim(zone, cpu, pages) => self.yard.trim_zone_cpu(zone, cpu, pages),
            Action::Reclaim(zone, active) => self.yard.set_reclaim_active(zone, active),
            Action::Settle(zone) => self.yard.settle_boost(zone, self.yard.boost(zone)),
            Action::Isolate { pick } => self.isolate(pick),
            Action::Restore { pick } => self.restore(pick),
            Action::Limit(zone, cpu, [batch, low, high]) => {
                self.yard.set_pcp_limits(zone, cpu, batch, low, high);
            }
            Action::Disable(zone) => self.yard.disable_pcp(zone),
        }
        self.yard.platform().forget_failures();
    }

    fn alloc(&mut self, request: &Request, cpu: CpuId) {
        let result = self.yard.alloc(request);
        let mut model = self.model.borrow_mut();
        if request.non_block && request.high_priority && request.order > 0 {
            // May have reserved a pageblock, wherever it was served.
            model.has_scars.fill(true);
        }
        match result {
            Ok(pfn) => model.take(&self.yard, request, cpu, pfn),
            Err(_) => model.refused(&self.yard, request, cpu, self.is_exact),
        }
    }

    fn bulk(&mut self, request: &Request, cpu: CpuId, blocks: usize) {
        let mut pages = vec![Pfn(0); blocks];
        let got = self.yard.alloc_bulk(request, &mut pages);
        let mut model = self.model.borrow_mut();
        for &pfn in &pages[..got] {
            model.take(&self.yard, request, cpu, pfn);
        }
        if got == 0 && blocks > 0 {
            model.refused(&self.yard, request, cpu, self.is_exact);
        }
    }

    /// Takes a pageblock out of service, unless it already is or is reserved.
    fn isolate(&mut self, pick: u64) {
        let mut model = self.model.borrow_mut();
        let order = model.layout().pageblock_order;
        let zones = &model.layout().zones;
        let zone = zones[pick as usize % zones.len()];
        let pfn = zone.start.0 + (pick >> 4) % zone.spanned_pages;
        let is_usual = self.yard.pageblock_type(Pfn(pfn)).is_some_and(MigrateType::is_mergeable);
        if is_usual {
            let at = model.zone_of(pfn);
            model.isolated.insert((pfn >> order << order).max(zone.start.0));
            model.has_scars[usize::from(at.0)] = true;
            self.yard.set_pageblock_type(Pfn(pfn), MigrateType::Isolate);
        }
    }

    fn restore(&mut self, pick: u64) {
        let mut model = self.model.borrow_mut();
        let count = model.isolated.len().max(1);
        let block = model.isolated.iter().nth(pick as usize % count).copied();
        if let Some(pfn) = block {
            model.isolated.remove(&pfn);
            self.yard.set_pageblock_type(Pfn(pfn), MigrateType::Movable);
        }
    }

    /// Everything is given back: nothing may be lost, and all that can merge has merged.
    fn finish(&mut self) {
        let held: Vec<u64> = self.model.borrow().held.keys().copied().collect();
        for pfn in held {
            let order = self.model.borrow_mut().give(pfn);
            self.yard.free(Pfn(pfn), order);
        }
        let layout = self.model.borrow().layout().clone();
        for cpu in layout.cpus() {
            self.yard.platform().run_on(cpu);
            self.yard.drain_cpu(cpu);
        }
        let model = self.model.borrow();
        model.compare(&self.yard);
        walk::everything(&model, &self.yard);
        for zone in layout.zone_ids() {
            for cpu in layout.cpus() {
                assert_eq!(self.yard.pcp_pages(zone, cpu), 0, "{zone:?} {cpu:?}: drained");
            }
        }
    }
}

/// In a quarter of the runs some pageblocks are lent by CMA.
fn lend(rng: &mut Rng, yard: &Yard, layout: &Layout) {
    if rng.u32(..4) > 0 {
        return;
    }
    let step = 1 << layout.pageblock_order;
    for zone in &layout.zones {
        for pfn in (zone.start.0..zone.start.0 + zone.spanned_pages).step_by(step) {
            if rng.u32(..5) == 0 {
                yard.seed_pageblock_type(Pfn(pfn), MigrateType::Cma);
            }
        }
    }
}

/// Answers calls for work: frees some blocks in use, or claims to have, or does nothing.
fn reclaim_on_demand(yard: &Rc<Yard>, model: &Rc<RefCell<Model>>, mut rng: Rng) {
    let yard_again: Weak<Yard> = Rc::downgrade(yard);
    let model = Rc::clone(model);
    yard.platform().set_worker(move |work, _, _| {
        let yard = yard_again.upgrade().expect("it asks us");
        let blocks = match work {
            Work::Reclaim => rng.u64(..=RECLAIM_BLOCKS_MAX),
            Work::CompactAsync | Work::CompactSyncLight => return rng.u64(..2),
        };
        let mut freed = 0;
        for _ in 0..blocks {
            let block = model.borrow().pick(rng.u64(..1 << 20));
            if let Some(pfn) = block {
                let order = model.borrow_mut().give(pfn);
                yard.free(Pfn(pfn), order);
                freed += 1 << order;
            }
        }
        freed
    });
}
