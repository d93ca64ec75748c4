//! Refills and drains as the events show them.
//!
//! A refill is the run of `alloc_zone_locked` events of one CPU up to the `mm_page_alloc` that
//! ends it; a drain is a run of `pcpu_drain` events of one CPU, ended by any other page event of
//! that CPU. Time gaps say nothing: a hold of the zone lock may be interrupted.

use pageyard_trace::event::{Event, Kind};

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

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Runs of tasks and of interrupts: an interrupt may come between a task's refill and the
    /// allocation that ends it.
    refill: [Option<Refill>; 2],
    drain: Option<Drain>,
    /// The free that was this CPU's last page event, drains apart.
    freed_last: Option<u64>,
}

/// Follows the runs of every CPU.
#[derive(Debug)]
pub struct Runs {
    cpus: Vec<Cpu>,
}

impl Runs {
    /// No run is under way.
    #[must_use]
    pub fn new(cpus: usize) -> Runs {
        Runs { cpus: vec![Cpu::default(); cpus] }
    }

    /// A refill of the task on this CPU whose allocation is still to come.
    #[must_use]
    pub fn open_refill(&self, cpu: usize) -> Option<&Refill> {
        self.cpus[cpu].refill[0].as_ref()
    }

    /// Takes an event that is about no page. Compaction at work on a CPU drains it itself: the
    /// drain that follows is not of the last free.
    pub fn on_other(&mut self, event: &Event) {
        if matches!(event.kind, Kind::Compaction { .. })
            && let Some(cpu) = self.cpus.get_mut(usize::from(event.cpu))
        {
            cpu.freed_last = None;
        }
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
                let open = &mut cpu.refill[context];
                let same = |run: &Refill| {
                    (run.order, run.migratetype, run.zone) == (order, migratetype, zone)
                };
                match open {
                    Some(run) if same(run) => {
                        run.blocks += 1;
                        run.last = number;
                    }
                    _ => {
                        let run = Refill {
                            cpu: event.cpu,
                            zone,
                            order,
                            migratetype,
                            blocks: 1,
                            first: pfn,
                            event: number,
                            last: number,
                        };
                        if let Some(before) = open.replace(run) {
                            ended(Ended::Refill(before, None));
                        }
                    }
                }
            }
            Kind::PageAlloc { pfn, order, migratetype, .. } => {
                if let Some(run) = cpu.refill[context].take() {
                    let of_type = run.migratetype == migratetype || run.migratetype > 2;
                    let served = (run.order == order && of_type).then_some(pfn);
                    ended(Ended::Refill(run, served));
                }
            }
            Kind::PcpuDrain { order, .. } => match &mut cpu.drain {
                Some(drain) if drain.zone == zone => drain.pages += 1 << order,
                open => {
                    let after_free = cpu.freed_last.is_some();
                    let number = cpu.freed_last.unwrap_or(number);
                    let (cpu, pid) = (event.cpu, event.pid);
                    let pages = 1 << order;
                    let drain = Drain { cpu, zone, pages, event: number, pid, after_free };
                    if let Some(before) = open.replace(drain) {
                        ended(Ended::Drain(before));
                    }
                }
            },
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
            for run in cpu.refill.iter_mut().filter_map(Option::take) {
                ended(Ended::Refill(run, None));
            }
            if let Some(drain) = cpu.drain.take() {
                ended(Ended::Drain(drain));
            }
        }
    }
}
