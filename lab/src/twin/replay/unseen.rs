//! Allocations that leave no event, as the bulk interface makes them: found by the order of the
//! per-CPU lists, which are last in, first out.
//!
//! The twin knows which recorded page each block of its lists stands for. Where the kernel takes
//! a page from under others that nothing ever shows again, those were taken before.

use std::collections::VecDeque;

use pageyard::{CpuId, PageKind, Pfn, Request, Scope, ZoneId, ZoneKind};
use pageyard_trace::event::Event;

use super::{Assumptions, IS_FREE, NEVER_AGAIN, Placement, Replay, type_of_number};
use crate::twin::history::{History, Unseen};
use crate::twin::silent::LEFT_IN_LIST_MAX;

/// Pages that one bulk allocation is taken to have had at the most, before two visible ones.
const UNSEEN_IN_A_ROW_MAX: usize = 512;

/// Allocations without an event that are known beforehand, in order.
pub(super) fn unseen_plan(history: &History, assumptions: &Assumptions) -> VecDeque<Unseen> {
    let mut plan = assumptions.unseen.clone();
    if plan.is_empty() {
        plan = history.unseen_at_refill.clone();
    }
    plan.sort_unstable();
    plan.into()
}

impl Replay<'_> {
    /// After a refill of the same size as the kernel's, the twin's blocks take the names of the
    /// kernel's in order: which is which no longer matters for any count, but later events tell
    /// by name which blocks are gone.
    pub(super) fn name_refill(&mut self, event: &Event, request: &Request, zone: usize) {
        let context = usize::from(event.context.in_interrupt());
        let run = std::mem::take(&mut self.refilling[usize::from(event.cpu)][context]);
        let Some(list) = self.allocator.list_of(request.order, request.mobility) else {
            return;
        };
        let (zone, cpu) = (ZoneId(zone as u8), CpuId(event.cpu));
        if run.len() < 2 || self.placement == Placement::Own {
            return;
        }
        let mut left = Vec::with_capacity(run.len());
        self.allocator.visit_pcp(zone, cpu, list, |pfn| left.push(pfn.0));
        if left.len() + 1 != run.len() {
            return;
        }
        for (pfn, &(page, unseen)) in left.into_iter().zip(&run[1..]) {
            let record = self.world.page(pfn).filter(|_| page != 0);
            let Some(record) = record else { continue };
            self.was[record] = page | if unseen { NEVER_AGAIN } else { 0 };
            self.names[page as usize - 1] = (record as u32 + 1) | IS_FREE;
        }
    }

    /// Finds allocations that left no event, as the bulk interface makes them. The kernel's page
    /// lies in this CPU's list under pages that were freed later. If nothing shows one of those
    /// again, or shows it only being freed again, somebody took it without an event, and before
    /// now: lists are last in, first out.
    pub(super) fn yield_to_unseen(
        &mut self,
        cpu: u16,
        zone: usize,
        page: usize,
        request: &Request,
    ) {
        let name = self.names[page];
        if self.placement == Placement::Own || name & IS_FREE == 0 {
            return;
        }
        let Some(list) = self.allocator.list_of(request.order, request.mobility) else {
            return;
        };
        let twin = (name & !IS_FREE) as usize - 1;
        let wanted = page as u32 + 1;
        let state = self.allocator.inspect(Pfn(self.pfn_of(twin)));
        let here = state.is_some_and(|state| {
            state.kind == PageKind::Pcp
                && state.last_cpu.0 == cpu
                && state.order == request.order
                && state.migratetype.pcp_type() == request.mobility.pcp_type()
        });
        if !here || self.was[twin] & !NEVER_AGAIN != wanted {
            return;
        }
        for _ in 0..UNSEEN_IN_A_ROW_MAX {
            let head = self.allocator.pcp_head(ZoneId(zone as u8), CpuId(cpu), list);
            let Some(record) = head.and_then(|head| self.world.page(head.0)) else {
                return;
            };
            let was = self.was[record] & !NEVER_AGAIN;
            let gone = self.was[record] & NEVER_AGAIN != 0 || self.unseen.contains_key(&was);
            if was == wanted || was == 0 || !gone || request.order != 0 {
                return;
            }
            self.take_unseen_now(cpu, was, request.mobility as u8, zone);
        }
    }

    pub(super) fn last_use_of(&mut self, cpu: u16, zone: usize, list: u8) -> &mut u64 {
        let at = (usize::from(cpu) * self.world.zones.len() + zone) * 16 + usize::from(list);
        &mut self.last_use[at]
    }

    /// A refill for an allocation that left no event ends: that allocation took what was left in
    /// the list, then the first page of the refill, and those that were freed again later.
    pub(super) fn end_silent_refill(&mut self, event: &Event, number: u64) {
        let history = self.history;
        let Some(silent) =
            history.silent_refills.get(self.silent_refills).filter(|silent| silent.at <= number)
        else {
            return;
        };
        self.silent_refills += 1;
        let request = Request { mobility: type_of_number(silent.t), ..Request::kernel(0) };
        let list = self.allocator.list_of(0, request.mobility);
        let Some(list) = list.filter(|_| self.placement == Placement::Recorded) else {
            return;
        };
        let (zone, cpu) = (ZoneId(silent.zone as u8), CpuId(silent.cpu));
        *self.last_use_of(silent.cpu, silent.zone, list) = number;
        if !self.is_told {
            for _ in 0..LEFT_IN_LIST_MAX {
                let head = self.allocator.pcp_head(zone, cpu, list);
                let Some(record) = head.and_then(|head| self.world.page(head.0)) else {
                    break;
                };
                let was = self.was[record] & !NEVER_AGAIN;
                self.take_unseen_now(silent.cpu, was, silent.t, silent.zone);
            }
            let first = self.world.page(silent.first).map_or(0, |page| page as u32 + 1);
            self.take_unseen_now(silent.cpu, first, silent.t, silent.zone);
            self.oddities.silent_refills += 1;
        }
        self.name_refill(event, &request, silent.zone);
        if !self.is_told {
            let first = self.world.page(silent.first).map_or(0, |page| page as u32 + 1);
            for &page in silent.taken.iter().filter(|page| **page != first) {
                self.take_unseen_now(silent.cpu, page, silent.t, silent.zone);
            }
        }
    }

    /// An allocation of a recorded page (+ 1) that left no event, at the event under way.
    pub(super) fn take_unseen_now(&mut self, cpu: u16, page: u32, t: u8, zone: usize) {
        self.take_unseen(Unseen { at: self.event - 1, cpu, page, t, zone: zone as u8 });
    }

    /// An allocation that left no event.
    pub(super) fn take_unseen(&mut self, unseen: Unseen) {
        let now = self.event - 1;
        let Unseen { cpu, page, t, zone, .. } = unseen;
        let mut request = Request {
            mobility: type_of_number(t),
            highest: ZoneKind::Movable,
            no_marks: true,
            may_wait: false,
            ..Request::kernel(0)
        };
        if self.placement == Placement::Recorded {
            request.scope = Scope::Only(ZoneId(zone));
        }
        self.unseen.remove(&page);
        self.unseen_log.push(Unseen { at: now, ..unseen });
        let list = self.allocator.list_of(0, request.mobility).unwrap_or(0);
        let early = *self.last_use_of(cpu, usize::from(zone), list) + 1;
        self.unseen_early.push(Unseen { at: early.min(now), ..unseen });
        self.oddities.unseen_allocs += 1;
        self.allocator.platform().run_on(CpuId(cpu));
        let mut taken = [Pfn(0)];
        if self.allocator.alloc_bulk(&request, &mut taken) == 1 {
            let record = self.world.page(taken[0].0);
            if let Some(record) = record {
                self.was[record] = 0;
            }
            if let Some(page) = page.checked_sub(1) {
                self.names[page as usize] = record.map_or(0, |record| record as u32 + 1);
            }
        }
        self.record(now);
    }
}
