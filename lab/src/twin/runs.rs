//! Refills and drains as the events show them.
//!
//! A refill is the run of `alloc_zone_locked` events of one CPU up to the `mm_page_alloc` that
//! ends it; a drain is a run of `pcpu_drain` events of one CPU, ended by any other page event of
//! that CPU. Time gaps say nothing: a hold of the zone lock may be interrupted. Where a policy
//! never scales its refills, single pages in a row beyond one batch are the next refill: a bulk
//! allocation leaves no event in between. If the allocation that follows took the first page of
//! all, though, nobody came in between, and the policy is refuted.

use pageyard::Policy;
use pageyard::policy::AllocScale;
use pageyard_trace::event::{Event, Kind};

use super::world::World;

/// A run of `alloc_zone_locked` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    /// CPU.
    pub cpu: u16,
    /// Zone.
    pub zone: usize,
    /// Order of the blocks.
    pub order: u8,
    /// Type that the events name.
    pub migratetype: u8,
    /// Blocks.
    pub blocks: u32,
    /// First block.
    pub first: u64,
    /// Number of the first event.
    pub event: u64,
    /// Number of the last event.
    pub last: u64,
}

/// A run of `pcpu_drain` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// CPU.
    pub cpu: u16,
    /// Zone of the first page.
    pub zone: usize,
    /// Base pages.
    pub pages: u32,
    /// Number of the free that came just before, else of the first event.
    pub event: u64,
    /// Task that ran.
    pub pid: i32,
    /// Whether a page was freed just before, by the same CPU: else nobody freed anything, and a
    /// tick or a request drained.
    pub after_free: bool,
}

/// What an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A refill, with the page of the allocation that it was for: none where no allocation of its
    /// order and type followed, and not the first of its pages where some were taken unseen.
    Refill(Refill, Option<u64>),
    /// A drain.
    Drain(Drain),
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Runs of tasks and of interrupts: an interrupt may come between a task's refill and the
    /// allocation that ends it.
    refill: [Option<Refill>; 2],
    /// Full batches of the same list just before it: refills, unless they all are one.
    batches: [Vec<Refill>; 2],
    drain: Option<Drain>,
    /// The free that was this CPU's last page event, drains apart.
    freed_last: Option<u64>,
}

impl Cpu {
    /// Takes a block of a refill; a run of another list ends.
    fn on_refill(&mut self, block: Refill, most: u32, context: usize, ended: impl FnMut(Ended)) {
        let list = |run: &Refill| (run.order, run.migratetype, run.zone);
        match &mut self.refill[context] {
            Some(run) if list(run) == list(&block) && run.blocks < most => {
                run.blocks += 1;
                run.last = block.last;
            }
            Some(run) if list(run) == list(&block) => {
                self.batches[context].push(*run);
                *run = block;
            }
            _ => {
                self.end_refill(context, None, ended);
                self.refill[context] = Some(block);
            }
        }
    }

    /// Ends a run. `alloc` is the allocation that ended it: page, order and type. If that took the
    /// very first page, all was one refill, whatever the policy makes of a batch.
    fn end_refill(
        &mut self,
        context: usize,
        alloc: Option<(u64, u8, u8)>,
        mut ended: impl FnMut(Ended),
    ) {
        let Some(mut run) = self.refill[context].take() else {
            return;
        };
        let of_type = |t| run.migratetype == t || run.migratetype > 2;
        let served = alloc.filter(|&(_, order, t)| run.order == order && of_type(t));
        let served = served.map(|(pfn, ..)| pfn);
        let batches = std::mem::take(&mut self.batches[context]);
        match batches.first() {
            Some(first) if served == Some(first.first) => {
                run.blocks += batches.iter().map(|batch| batch.blocks).sum::<u32>();
                (run.first, run.event) = (first.first, first.event);
            }
            _ => batches.into_iter().for_each(|batch| ended(Ended::Refill(batch, None))),
        }
        ended(Ended::Refill(run, served));
    }

    /// Takes a page that was drained; returns the drain of another zone that this one ended.
    fn on_drain(&mut self, number: u64, event: &Event, zone: usize, order: u8) -> Option<Drain> {
        let pages = 1 << order;
        if let Some(drain) = self.drain.as_mut().filter(|drain| drain.zone == zone) {
            drain.pages += pages;
            return None;
        }
        let (after_free, first) = (self.freed_last.is_some(), self.freed_last.unwrap_or(number));
        let (cpu, pid) = (event.cpu, event.pid);
        self.drain.replace(Drain { cpu, zone, pages, event: first, pid, after_free })
    }
}

/// Follows the runs of every CPU.
#[derive(Debug)]
pub struct Runs {
    cpus: Vec<Cpu>,
    /// Pages of one refill of order 0 at the most, by zone.
    refill_max: Vec<u32>,
}

impl Runs {
    /// No run is under way.
    #[must_use]
    pub fn new(world: &World, policy: &Policy) -> Runs {
        let most = |zone| match policy.alloc_scale {
            AllocScale::None => world.limits(zone, policy).0.max(1),
            _ => u32::MAX,
        };
        let refill_max = (0..world.zones.len()).map(most).collect();
        Runs { cpus: vec![Cpu::default(); world.cpus()], refill_max }
    }

    /// A refill of the task on this CPU whose allocation is still to come.
    #[must_use]
    pub fn open_refill(&self, cpu: usize) -> Option<&Refill> {
        self.cpus[cpu].refill[0].as_ref()
    }

    /// Whether a free was this CPU's last page event, drains apart: a drain is then its.
    #[must_use]
    pub fn is_after_free(&self, cpu: u16) -> bool {
        self.cpus[usize::from(cpu)].freed_last.is_some()
    }

    /// Takes an event that is about no page. A task at work on compaction or reclaim drains by
    /// itself: its event ends a drain, which is returned, and the next is not of the last free.
    pub fn on_other(&mut self, event: &Event) -> Option<Drain> {
        let works = matches!(event.kind, Kind::Compaction { .. } | Kind::Reclaim { .. });
        let in_task = works && !event.context.in_interrupt();
        let cpu = self.cpus.get_mut(usize::from(event.cpu)).filter(|_| in_task)?;
        cpu.freed_last = None;
        cpu.drain.take()
    }

    /// Takes an event; `zone` is that of its page. Tells `ended` of runs that it ended.
    pub fn on_event(
        &mut self,
        number: u64,
        event: &Event,
        zone: usize,
        mut ended: impl FnMut(Ended),
    ) {
        let cpu = &mut self.cpus[usize::from(event.cpu)];
        let context = usize::from(event.context.in_interrupt());
        if !matches!(event.kind, Kind::PcpuDrain { .. })
            && let Some(drain) = cpu.drain.take()
        {
            ended(Ended::Drain(drain));
        }
        match event.kind {
            Kind::ZoneLocked { pfn, order, migratetype, .. } => {
                let most = if order == 0 { self.refill_max[zone] } else { u32::MAX };
                let block = Refill {
                    cpu: event.cpu,
                    zone,
                    order,
                    migratetype,
                    blocks: 1,
                    first: pfn,
                    event: number,
                    last: number,
                };
                cpu.on_refill(block, most, context, &mut ended);
            }
            Kind::PageAlloc { pfn, order, migratetype, .. } => {
                cpu.end_refill(context, Some((pfn, order, migratetype)), &mut ended);
            }
            Kind::PcpuDrain { order, .. } => {
                if let Some(before) = cpu.on_drain(number, event, zone, order) {
                    ended(Ended::Drain(before));
                }
            }
            _ => {}
        }
        cpu.freed_last = match event.kind {
            Kind::PageFree { .. } | Kind::PageFreeBatched { .. } => Some(number),
            Kind::PcpuDrain { .. } => cpu.freed_last,
            _ => None,
        };
    }

    /// Ends every run: the recording is over.
    pub fn finish(&mut self, mut ended: impl FnMut(Ended)) {
        for cpu in &mut self.cpus {
            (0..2).for_each(|context| cpu.end_refill(context, None, &mut ended));
            if let Some(drain) = cpu.drain.take() {
                ended(Ended::Drain(drain));
            }
        }
    }
}
