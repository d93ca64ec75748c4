//! What the kernel did with its zone locks, from the events and the notes of the first reading.

use pageyard::Policy;
use pageyard_trace::event::{Event, Kind};

use super::history::{History, page_of};
use super::ledger::{DrainEntry, Ledger, RefillEntry};
use super::runs::{Ended, Runs};
use super::world::{PAGEBLOCK_ORDER, World};

/// Follows a second reading on the kernel's side.
pub struct Observer<'a> {
    world: &'a World,
    policy: &'a Policy,
    history: &'a History,
    runs: Runs,
    event: u64,
    allocs: usize,
    frees: usize,
    /// What the kernel did.
    pub ledger: Ledger,
}

/// True for orders that a policy caches per CPU.
#[must_use]
pub fn is_cached(policy: &Policy, order: u8) -> bool {
    policy.pcp_lists.hold(order, PAGEBLOCK_ORDER)
}

impl<'a> Observer<'a> {
    /// Begins. `policy` is the recorded kernel's.
    #[must_use]
    pub fn new(world: &'a World, policy: &'a Policy, history: &'a History) -> Observer<'a> {
        Observer {
            world,
            policy,
            history,
            runs: Runs::new(world, policy),
            event: 0,
            allocs: 0,
            frees: 0,
            ledger: Ledger::default(),
        }
    }

    /// Takes the next event.
    pub fn on_event(&mut self, event: &Event) {
        let number = self.event;
        self.event += 1;
        let zone = page_of(event)
            .and_then(|pfn| self.world.zone_of(pfn))
            .filter(|_| usize::from(event.cpu) < self.world.cpus());
        match event.kind {
            Kind::PageAlloc { .. } => self.allocs += 1,
            Kind::PageFree { order, .. } => {
                let note = self.history.frees.get(self.frees).copied().unwrap_or_default();
                self.frees += 1;
                let to_zone = note.went_to_zone() || !is_cached(self.policy, order);
                if let Some(zone) = zone.filter(|_| to_zone) {
                    let account = self.ledger.account(event.cpu, zone);
                    account.direct_frees += 1;
                    account.direct_free_pages += 1 << order;
                }
            }
            _ => {}
        }
        let Some(zone) = zone else {
            if let Some(drain) = self.runs.on_other(event) {
                enter(&mut self.ledger, self.policy, Ended::Drain(drain), false);
            }
            return;
        };
        let direct = self.allocs.checked_sub(1).and_then(|at| self.history.direct_allocs.get(at));
        let direct = direct.copied().unwrap_or(false);
        let (policy, ledger) = (self.policy, &mut self.ledger);
        self.runs.on_event(number, event, zone, |ended| {
            enter(ledger, policy, ended, direct);
        });
    }

    /// Ends: runs that are open at the end are taken as they are.
    #[must_use]
    pub fn finish(mut self) -> Ledger {
        let (policy, ledger) = (self.policy, &mut self.ledger);
        self.runs.finish(|ended| enter(ledger, policy, ended, false));
        for drain in &self.history.unasked {
            let (event, pages) = (drain.event, drain.pages);
            let entry = DrainEntry { event, pages, emptied: false, ticked: true };
            ledger.account(drain.cpu, drain.zone).drains.push(entry);
        }
        for account in ledger.accounts.values_mut() {
            account.drains.sort_by_key(|drain| drain.event);
        }
        self.ledger
    }
}

fn enter(ledger: &mut Ledger, policy: &Policy, ended: Ended, direct: bool) {
    match ended {
        Ended::Refill(run, for_alloc) => {
            let account = ledger.account(run.cpu, run.zone);
            if (for_alloc.is_some() && direct) || !is_cached(policy, run.order) {
                account.direct_allocs += u64::from(run.blocks);
                account.direct_alloc_pages += u64::from(run.blocks) << run.order;
                return;
            }
            let migratetype = run.migratetype.min(2);
            let (event, order, blocks) = (run.event, run.order, run.blocks);
            account.refills.push(RefillEntry { event, order, migratetype, blocks, high: 0 });
        }
        // The first reading found whose cache it was.
        Ended::Drain(run) if !run.after_free => {}
        Ended::Drain(run) => {
            let (event, pages) = (run.event, run.pages);
            let entry = DrainEntry { event, pages, emptied: false, ticked: false };
            ledger.account(run.cpu, run.zone).drains.push(entry);
        }
    }
}
