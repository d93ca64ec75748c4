//! The way of a request: normalised once into a plan, then up a ladder of steps.
//!
//! Only this file and `free.rs` know that there is more than one level. The ladder is data; its
//! interpreter is the only slow loop of the crate, and it is bounded.

use crate::allocator::Allocator;
use crate::event::{Event, PageKind};
use crate::fallback::{Mode, Rights};
use crate::platform::{Platform, Site, Work};
use crate::policy::{Merge, PcpHigh};
use crate::request::{Request, Scope};
use crate::stat::{Counting, EventItem};
use crate::types::{AllocError, COSTLY_ORDER, CpuId, Mark, NodeId, Pfn, ZoneId};

/// A step of the ladder.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Looks for a zone above the mark.
    Hunt(Mark),
    /// Wakes background reclaim.
    Wake,
    /// Asks the embedder for work.
    Ask(Work),
    /// Gives one high-atomic block back; all of them if `true`.
    Unreserve(bool),
    /// Empties every per-CPU cache.
    DrainAll,
    /// Ends the climb.
    GiveUp(AllocError),
    /// Back to the step given while work makes progress, [`RETRIES_MAX`] times at the most.
    Retry(usize),
}

/// When a step applies.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    CannotWait,
    CompactFirst,
    HighOrder,
    NoRetry,
    CostlyOnce,
    WithoutProgress,
}

/// Rounds of reclaim for one request (Linux `MAX_RECLAIM_RETRIES`).
const RETRIES_MAX: u32 = 16;
const LOOP: usize = 6;

/// The order in which Linux tries: low mark, background reclaim, min mark, then work.
const LADDER: [(When, Step); 20] = [
    (When::Always, Step::Hunt(Mark::Low)),
    (When::Always, Step::Wake),
    (When::Always, Step::Hunt(Mark::Min)),
    (When::CannotWait, Step::GiveUp(AllocError::WouldBlock)),
    (When::CompactFirst, Step::Ask(Work::CompactAsync)),
    (When::CompactFirst, Step::Hunt(Mark::Min)),
    (When::Always, Step::Wake), // LOOP
    (When::Always, Step::Hunt(Mark::Min)),
    (When::Always, Step::Ask(Work::Reclaim)),
    (When::Always, Step::Hunt(Mark::Min)),
    (When::WithoutProgress, Step::Unreserve(false)),
    (When::Always, Step::DrainAll),
    (When::Always, Step::Hunt(Mark::Min)),
    (When::HighOrder, Step::Ask(Work::CompactSyncLight)),
    (When::HighOrder, Step::Hunt(Mark::Min)),
    (When::NoRetry, Step::GiveUp(AllocError::NoMemory)),
    (When::CostlyOnce, Step::GiveUp(AllocError::NoMemory)),
    (When::Always, Step::Retry(LOOP)),
    (When::Always, Step::Unreserve(true)),
    (When::Always, Step::Hunt(Mark::Min)),
];

/// A request after its questions were answered once.
#[derive(Clone, Copy)]
struct Plan<'a> {
    request: &'a Request,
    cpu: CpuId,
    node: NodeId,
    zones: &'a [ZoneId],
    /// The zone that would serve best; NUMA counters are held against it.
    preferred: ZoneId,
}

impl<P: Platform> Allocator<P> {
    /// Allocates a block; returns its first page frame.
    ///
    /// # Errors
    /// [`AllocError::WouldBlock`] if the request may not wait and nothing was at hand, else
    /// [`AllocError::NoMemory`] once the ladder is climbed to its end.
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        let Some(plan) = self.plan(request) else {
            return Err(AllocError::NoMemory);
        };
        // The hit path: one pass above the low mark.
        match self.hunt(&plan, Mark::Low) {
            Some(pfn) => Ok(pfn),
            None => self.climb(&plan),
        }
    }

    /// Takes up to `blocks.len()` order-0 pages from one cache under one entry; returns how many
    /// were placed in `blocks`. Falls back to [`Allocator::alloc`] for a single page.
    ///
    /// As Linux' bulk interface: it leaves the run of frees of the cache as it is.
    pub fn alloc_bulk(&self, request: &Request, blocks: &mut [Pfn]) -> usize {
        let Some(plan) = self.plan(request) else {
            return 0;
        };
        let zone = plan.zones.iter().copied().find(|&zone| {
            self.is_eligible(&plan, zone)
                && (request.no_marks || self.is_above(zone, Mark::Low, request))
        });
        let rights = self.rights(request, false);
        let list = self.pcp_list(0, request.mobility);
        let taken = match (zone, list) {
            (Some(zone), Some(list)) if request.order == 0 => {
                self.take_bulk(&plan, zone, list, rights, blocks)
            }
            _ => 0,
        };
        if taken > 0 || blocks.is_empty() {
            return taken;
        }
        match self.alloc(request) {
            Ok(pfn) => {
                blocks[0] = pfn;
                1
            }
            Err(_) => 0,
        }
    }

    fn take_bulk(
        &self,
        plan: &Plan<'_>,
        zone: ZoneId,
        list: u8,
        rights: Rights,
        blocks: &mut [Pfn],
    ) -> usize {
        let t = plan.request.mobility;
        let cpu = plan.cpu;
        let taken = self.enter_pcp(zone, cpu, Site::PcpAlloc, |cache| {
            let mut taken = 0;
            for slot in blocks.iter_mut() {
                let Some(page) = self.pcp_take(cache, 0, t, list, rights) else {
                    break;
                };
                self.set_state(page, PageKind::Allocated, 0, t, cpu);
                *slot = Pfn(self.zone(zone).pfn(page));
                taken += 1;
            }
            if taken > 0 {
                self.count_served(plan, zone, taken, Counting::UnderPcpLock(cache.record));
            }
            taken
        });
        taken.unwrap_or(0) as usize
    }

    fn plan<'a>(&'a self, request: &'a Request) -> Option<Plan<'a>> {
        if request.order > self.shape.max_order {
            self.platform.bug(crate::event::Bug::OrderTooLarge { order: request.order });
        }
        let cpu = self.platform.cpu();
        let node = request.node.unwrap_or_else(|| self.node_of(cpu));
        let zones = self.zonelists.of_node(node);
        let mut plan = Plan { request, cpu, node, zones, preferred: ZoneId(0) };
        plan.preferred = zones.iter().copied().find(|&zone| {
            self.zone(zone).kind <= request.highest
                && (request.scope != Scope::ThisNode || self.zone(zone).node == node)
        })?;
        Some(plan)
    }

    fn is_eligible(&self, plan: &Plan<'_>, zone: ZoneId) -> bool {
        let span = self.zone(zone);
        let in_scope = match plan.request.scope {
            Scope::AllNodes => true,
            Scope::ThisNode => span.node == plan.node,
            Scope::Only(only) => zone == only,
        };
        in_scope && span.kind <= plan.request.highest && span.managed > 0
    }

    fn rights(&self, request: &Request, nofragment: bool) -> Rights {
        Rights { cma: request.may_use_cma(), nofragment, may_wake: request.may_wake }
    }

    fn applies(&self, when: When, request: &Request, progress: u64) -> bool {
        let costly = request.order > COSTLY_ORDER;
        let movable = request.may_use_cma();
        match when {
            When::Always => true,
            When::CannotWait => !request.may_wait,
            When::CompactFirst => costly || (request.order > 0 && !movable),
            When::HighOrder => request.order > 0,
            When::NoRetry => request.no_retry,
            When::CostlyOnce => costly && !request.retry_may_fail,
            When::WithoutProgress => progress == 0,
        }
    }

    fn climb(&self, plan: &Plan<'_>) -> Result<Pfn, AllocError> {
        let mut progress = 0;
        let mut retries = 0;
        let mut at = 1; // the first rung was the hit path
        while at < LADDER.len() {
            let (when, step) = LADDER[at];
            at += 1;
            if !self.applies(when, plan.request, progress) {
                continue;
            }
            match step {
                Step::Hunt(mark) => {
                    if let Some(pfn) = self.hunt(plan, mark) {
                        return Ok(pfn);
                    }
                }
                Step::Wake => self.wake(plan),
                Step::Ask(work) => {
                    if self.policy.merge == Merge::Deferred && work != Work::Reclaim {
                        progress += self.join_for(plan);
                    }
                    progress += self.platform.work(work, plan.node, plan.request.order);
                }
                Step::Unreserve(force) => {
                    let t = plan.request.mobility;
                    if self.unreserve_high_atomic(plan.zones, t, plan.cpu, force) {
                        progress += 1;
                    }
                }
                Step::DrainAll => self.drain_all(),
                Step::GiveUp(error) => return Err(error),
                Step::Retry(to) => {
                    if progress > 0 && retries < RETRIES_MAX {
                        (at, progress, retries) = (to, 0, retries + 1);
                    }
                }
            }
            assert!(retries <= RETRIES_MAX, "the ladder is bounded");
        }
        Err(AllocError::NoMemory)
    }

    /// Joins pages that were left apart, in each zone that may serve; 1 if one then has a block.
    #[cold]
    #[inline(never)]
    fn join_for(&self, plan: &Plan<'_>) -> u64 {
        let zones = plan.zones.iter().filter(|&&zone| self.is_eligible(plan, zone));
        u64::from({ zones }.any(|&zone| self.join_apart(zone, plan.request.order)))
    }

    fn wake(&self, plan: &Plan<'_>) {
        if plan.request.may_wake {
            let node = self.zone(plan.preferred).node;
            self.platform.note(Event::Wake { node, order: plan.request.order });
        }
    }

    /// One walk down the zonelist, repeated when types could not be kept apart.
    fn hunt(&self, plan: &Plan<'_>, mark: Mark) -> Option<Pfn> {
        let apart = self.starts_apart(plan.preferred);
        let mut apart = apart && !matches!(plan.request.scope, Scope::Only(_));
        loop {
            let (found, leaves_node) = self.scan(plan, mark, apart);
            if found.is_some() || !(apart || leaves_node) {
                return found;
            }
            // Locality, and any page at all, beat keeping types apart.
            apart = false;
        }
    }

    /// Visits each zone once; also says whether the scan stopped because it would leave the node.
    fn scan(&self, plan: &Plan<'_>, mark: Mark, apart: bool) -> (Option<Pfn>, bool) {
        for &zone in plan.zones {
            if !self.is_eligible(plan, zone) {
                continue;
            }
            let foreign = self.zone(zone).node != self.zone(plan.preferred).node;
            if apart && self.shape.nodes > 1 && foreign {
                return (None, true);
            }
            if !self.may_serve(plan, zone, mark) {
                self.platform.note(Event::BelowMark { zone });
                continue;
            }
            if let Some(pfn) = self.take_from(plan, zone, apart) {
                return (Some(pfn), false);
            }
        }
        (None, false)
    }

    /// The marks; also notes when a zone first falls below its high one (6.7 on).
    fn may_serve(&self, plan: &Plan<'_>, zone: ZoneId, mark: Mark) -> bool {
        let request = plan.request;
        if self.policy.pcp_high == PcpHigh::Auto && !self.is_below_high(zone) {
            if self.is_above(zone, Mark::High, request) {
                return true;
            }
            self.set_below_high(zone, true);
        }
        request.no_marks || self.is_above(zone, mark, request)
    }

    /// From the CPU's own list if the order is cached, else from the zone.
    fn take_from(&self, plan: &Plan<'_>, zone: ZoneId, apart: bool) -> Option<Pfn> {
        let request = plan.request;
        let rights = self.rights(request, apart);
        let cached = self.pcp_list(request.order, request.mobility).and_then(|list| {
            let entered = self.enter_pcp(zone, plan.cpu, Site::PcpAlloc, |cache| {
                self.pcp_end_free_run(cache);
                let (order, t) = (request.order, request.mobility);
                let page = self.pcp_take(cache, order, t, list, rights)?;
                self.set_state(page, PageKind::Allocated, order, t, plan.cpu);
                self.count_served(plan, zone, 1, Counting::UnderPcpLock(cache.record));
                self.platform.note(Event::PcpHit { zone, cpu: plan.cpu, order });
                Some(page)
            });
            if entered.is_none() {
                self.platform.note(Event::PcpBusy { zone, cpu: plan.cpu });
            }
            entered.flatten()
        });
        let page = cached.or_else(|| self.take_direct(plan, zone, rights))?;
        self.wake_if_boosted(zone);
        if request.is_high_atomic() {
            self.reserve_high_atomic(zone, page, plan.cpu);
        }
        Some(Pfn(self.zone(zone).pfn(page)))
    }

    fn take_direct(&self, plan: &Plan<'_>, zone: ZoneId, rights: Rights) -> Option<usize> {
        let request = plan.request;
        let (order, t) = (request.order, request.mobility);
        let reserve = crate::types::MigrateType::HighAtomic;
        let page = self.with_zone(zone, plan.cpu, Site::Direct, |held| {
            let mut mode = Mode::Normal;
            let first = request.is_high_atomic().then(|| self.take_smallest(held, order, reserve));
            let page = first
                .flatten()
                .or_else(|| self.take(held, order, t, rights, &mut mode))
                .or_else(|| {
                    let last_resort = request.oom_victim || request.non_block;
                    last_resort.then(|| self.take_smallest(held, order, reserve)).flatten()
                })?;
            self.hand_out(held, page, order, t, PageKind::Allocated);
            Some(page)
        })?;
        self.count_served(plan, zone, 1, Counting::Raced);
        self.platform.note(Event::Direct { zone, order });
        Some(page)
    }

    /// Counts `blocks` blocks served from a zone.
    fn count_served(&self, plan: &Plan<'_>, zone: ZoneId, blocks: u64, counting: Counting) {
        let pages = blocks << plan.request.order;
        self.count_event(zone, EventItem::PagesAllocated, pages, counting);
        self.count_numa(zone, plan.preferred, plan.cpu, blocks, counting);
        if plan.request.interleave && self.zone(zone).node == plan.node {
            self.count_event(zone, EventItem::NumaInterleave, blocks, counting);
        }
    }
}
