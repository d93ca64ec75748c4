//! The second reading: requests in recorded order, fed to virtual CPUs.
//!
//! Only requests are fed: who allocated or freed what, when, on which CPU. Refills, drains and
//! placement are the allocator's own, and are what is predicted.

mod compact;
pub(crate) mod request;
mod taken;
mod unasked;
mod unseen;

use std::collections::{BTreeMap, VecDeque};

use pageyard::event::DrainCause;
use pageyard::{Allocator, CpuId, Event as CoreEvent, MigrateType, Pfn, Policy, ZoneId, ZoneItem};
use pageyard_host::seq::Seq;
use pageyard_trace::event::{Event, Gfp, Kind, PFN_NONE};
use pageyard_trace::recording::Recording;

use super::freed::FreeNote;
use super::history::{History, Unseen};
use super::ledger::{DrainEntry, Ledger, RefillEntry, Tally, zone_index};
use super::reclaim;
use super::start::{self, StartReport};
use super::unasked::Unasked;
use super::world::{MAX_ORDER, World};

/// Who chooses where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Zone and list type of each page are the recorded kernel's: the mode that is scored.
    Recorded,
    /// The twin's own: a recorded frame number is only a name.
    Own,
}

/// What is inferred by trying: the same requests, with these assumptions.
#[derive(Clone, Debug, Default)]
pub struct Assumptions {
    /// Pages added to the printed count of each cache (CPU, zone).
    pub offsets: BTreeMap<(u16, usize), i64>,
    /// Pages added to the printed limit of each cache.
    pub high_offsets: BTreeMap<(u16, usize), i64>,
    /// Allocations without an event, where they are placed earlier than the lists demand.
    pub unseen: Vec<Unseen>,
    /// Ticks that showed only in the limits at the end: time in nanoseconds and CPU.
    pub ticks: Vec<(u64, u16)>,
}

/// In `names`: the page is free, and the twin's page is where its free put it.
const IS_FREE: u32 = 1 << 31;
/// In `was`: the recorded page is never seen again after this free.
const NEVER_AGAIN: u32 = 1 << 31;

/// A free whose page has not reached the per-CPU list yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    pfn: u64,
    order: u8,
    note: FreeNote,
}

/// What a replay could not follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Frees of pages that the twin never had.
    pub unknown_frees: u64,
    /// Allocations of a page that was in use already.
    pub reused_names: u64,
    /// Frees of another order than the allocation's.
    pub split_frees: u64,
    /// Requests that the twin could not serve.
    pub failed: u64,
    /// Allocations whose page was the one that the kernel chose.
    pub same_page: u64,
    /// Allocations that the twin served.
    pub comparable: u64,
    /// Allocations that left no event, synthesised.
    pub unseen_allocs: u64,
    /// Refills for such allocations.
    pub silent_refills: u64,
    /// Blocks taken from the buddy lists without an event, as compaction does.
    pub taken_blocks: u64,
    /// Pageblocks that the twin made whole for a request, as the kernel's compaction had.
    pub compactions: u64,
}

/// The twin at the moment at which a snapshot was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Pages in each cache and its limit, by CPU and zone.
    pub caches: BTreeMap<(u16, usize), (u32, u32)>,
    /// Free pages of each zone.
    pub free: Vec<i64>,
    /// Free blocks of each zone, by order and type.
    pub free_blocks: Vec<Vec<[u64; 6]>>,
    /// Event counters of each zone, by number.
    pub counters: Vec<[u64; 8]>,
}

/// A twin under way.
pub struct Replay<'a> {
    world: &'a World,
    history: &'a History,
    placement: Placement,
    allocator: Allocator<Seq<Tally>>,
    /// Twin's page of each recorded page, + 1; with [`IS_FREE`] once it was freed.
    names: Vec<u32>,
    /// Recorded page whose free put a twin's page where it is, + 1; with [`NEVER_AGAIN`].
    was: Vec<u32>,
    /// Recorded pages that an allocation without an event takes, with the twin's page and CPU.
    unseen: BTreeMap<u32, (u32, u16)>,
    /// Where such allocations were found to belong: event, CPU, recorded page.
    pub unseen_log: Vec<Unseen>,
    /// The same at the earliest: right after the last visible use of the list.
    pub unseen_early: Vec<Unseen>,
    /// Last visible use of each list: CPU, zone, list.
    last_use: Vec<u64>,
    /// The same, from an earlier replay that could tell.
    unseen_plan: VecDeque<Unseen>,
    reclaim: Vec<(u64, u8, bool)>,
    quiet_ticks: VecDeque<(u64, u16)>,
    /// Inferred ticks and planned allocations as they were at the first event.
    first_ticks: Vec<(u64, u16)>,
    first_unseen: Vec<Unseen>,
    /// How many of the history's silent refills lie before the event.
    silent_refills: usize,
    /// Another replay told where every allocation without an event belongs.
    is_told: bool,
    pending: Vec<VecDeque<Pending>>,
    /// Blocks of the kernel's refill under way on each CPU, of tasks and of interrupts: recorded
    /// page + 1, and whether nothing shows it again.
    refilling: Vec<[Vec<(u32, bool)>; 2]>,
    event: u64,
    allocs: usize,
    frees: usize,
    /// How many of the history's `refills_unseen` lie before the event.
    refills_unseen: usize,
    /// Drains that no free set off, still to come.
    asked_drains: std::slice::Iter<'a, Unasked>,
    recent: Vec<CoreEvent>,
    /// When to look, nanoseconds, last first; and what was seen, first first.
    watch: Vec<u64>,
    /// The twin at the moments it was told to look.
    pub glimpses: Vec<Glimpse>,
    /// What the twin did.
    pub ledger: Ledger,
    /// By zone: what blocks taken for compaction added to the event counters.
    taken: Vec<[u64; 8]>,
    /// What it could not follow.
    pub oddities: Oddities,
    /// How it started.
    pub start: StartReport,
}

impl<'a> Replay<'a> {
    /// Builds the state at the first event under a policy.
    ///
    /// # Panics
    /// The policy contradicts itself: check it first.
    #[must_use]
    pub fn new(
        recording: &Recording,
        world: &'a World,
        history: &'a History,
        policy: Policy,
        placement: Placement,
        assumptions: &Assumptions,
    ) -> Replay<'a> {
        let allocator = world.with_geometry(|geometry| {
            Allocator::new(Seq::new(Tally::default()), geometry, policy)
                .expect("the world and the policy were checked")
        });
        let start = start::build(&allocator, recording, world, history, assumptions);
        let mut names = vec![0; world.pages];
        for &(pfn, ..) in &history.in_use {
            if let Some(page) = world.page(pfn) {
                names[page] = page as u32 + 1;
            }
        }
        let mut was = vec![0; world.pages];
        for &pfn in history.lists.values().flat_map(|list| &list.from_head) {
            if let Some(page) = world.page(pfn) {
                names[page] = (page as u32 + 1) | IS_FREE;
                was[page] = page as u32 + 1;
            }
        }
        let mut replay = Replay {
            world,
            history,
            placement,
            allocator,
            names,
            was,
            unseen: BTreeMap::new(),
            unseen_log: Vec::new(),
            unseen_early: Vec::new(),
            last_use: vec![0; world.cpus() * world.zones.len() * 16],
            unseen_plan: unseen::unseen_plan(history, assumptions),
            reclaim: reclaim::switches(&history.reclaim),
            quiet_ticks: assumptions.ticks.iter().copied().collect(),
            first_ticks: assumptions.ticks.clone(),
            first_unseen: history.unseen_at_refill.clone(),
            silent_refills: 0,
            is_told: !assumptions.unseen.is_empty(),
            pending: vec![VecDeque::new(); world.cpus()],
            refilling: vec![<[Vec<(u32, bool)>; 2]>::default(); world.cpus()],
            event: 0,
            allocs: 0,
            frees: 0,
            refills_unseen: 0,
            asked_drains: history.unasked.iter(),
            recent: Vec::new(),
            watch: Vec::new(),
            glimpses: Vec::new(),
            ledger: Ledger::default(),
            taken: vec![[0; 8]; world.zones.len()],
            oddities: Oddities::default(),
            start,
        };
        replay.forget_totals();
        replay
    }

    /// The twin's allocator.
    #[must_use]
    pub fn allocator(&self) -> &Allocator<Seq<Tally>> {
        &self.allocator
    }

    /// Forgets what was counted so far.
    pub fn forget_totals(&mut self) {
        self.allocator.platform().listener(|tally| *tally = Tally::default());
        self.ledger = Ledger::default();
    }

    /// Begins another pass over the same recording: what is in use stays in use.
    pub fn rewind(&mut self) {
        (self.event, self.allocs, self.frees) = (0, 0, 0);
        (self.refills_unseen, self.silent_refills) = (0, 0);
        self.asked_drains = self.history.unasked.iter();
        self.reclaim = reclaim::switches(&self.history.reclaim);
        self.quiet_ticks = self.first_ticks.iter().copied().collect();
        self.unseen_plan = self.first_unseen.iter().copied().collect();
        self.pending.iter_mut().for_each(VecDeque::clear);
        self.refilling.iter_mut().flatten().for_each(Vec::clear);
    }

    /// Looks at the state at these times, in order.
    pub fn watch(&mut self, times_ns: &[u64]) {
        self.watch = times_ns.iter().rev().copied().collect();
    }

    /// The state at this moment.
    #[must_use]
    pub fn glimpse(&self) -> Glimpse {
        let mut glimpse = Glimpse::default();
        for zone in 0..self.world.zones.len() {
            let id = ZoneId(zone as u8);
            for cpu in 0..self.world.cpus() as u16 {
                let pages = self.allocator.pcp_pages(id, CpuId(cpu));
                let limit = self.allocator.pcp_limit(id, CpuId(cpu));
                glimpse.caches.insert((cpu, zone), (pages, limit));
            }
            glimpse.free.push(self.allocator.zone_count(id, ZoneItem::FreePages));
            let of_order =
                |order| MigrateType::ALL.map(|t| self.allocator.free_blocks(id, order, t));
            glimpse.free_blocks.push((0..=MAX_ORDER).map(of_order).collect());
            glimpse.counters.push(self.counters(id));
        }
        glimpse
    }

    /// Takes allocations without an event at the places that another replay found.
    pub fn follow_unseen(&mut self, plan: &[Unseen]) {
        self.unseen_plan = plan.iter().copied().collect();
        self.first_unseen = plan.to_vec();
        self.is_told = true;
    }

    /// Recorded pages in use, in order: page frame, and the twin's.
    pub fn names(&self) -> impl Iterator<Item = (u64, Pfn)> + '_ {
        let in_use = |(_, name): &(usize, &u32)| **name != 0 && **name & IS_FREE == 0;
        let named = self.names.iter().enumerate().filter(in_use);
        named.map(|(page, &name)| (self.pfn_of(page), Pfn(self.pfn_of(name as usize - 1))))
    }

    /// Says which of the twin's pages stands for a recorded page from now on; `None` is not in
    /// use. Between passes only: it moves no page.
    pub fn set_name(&mut self, pfn: u64, twin: Option<Pfn>) {
        let Some(page) = self.world.page(pfn) else {
            return;
        };
        let record = twin.and_then(|twin| self.world.page(twin.0));
        let before = std::mem::replace(&mut self.names[page], 0);
        if let Some(before) = (before & !IS_FREE).checked_sub(1) {
            self.was[before as usize] = page as u32 + 1;
        }
        if let Some(record) = record {
            self.names[page] = record as u32 + 1;
            self.was[record] = 0;
        }
    }

    /// Background work that the events betray: reclaim at work, ticks that drained.
    fn before_event(&mut self, number: u64) {
        while let Some(&(at, node, active)) = self.reclaim.last()
            && at <= number
        {
            self.reclaim.pop();
            for (zone, desc) in self.world.zones.iter().enumerate() {
                if desc.node == node {
                    self.allocator.set_reclaim_active(ZoneId(zone as u8), active);
                }
            }
        }
        while let Some(&drain) = self.asked_drains.as_slice().first()
            && drain.event <= number
        {
            self.asked_drains.next();
            self.drain_unasked(drain);
            self.record(number);
        }
        while let Some(&unseen) = self.unseen_plan.front()
            && unseen.at <= number
        {
            self.unseen_plan.pop_front();
            self.take_unseen(unseen);
        }
    }

    /// Takes the next event of the recording.
    pub fn on_event(&mut self, event: &Event) {
        let number = self.event;
        self.event += 1;
        while self.watch.last().is_some_and(|&at| event.time_ns >= at) {
            self.watch.pop();
            self.glimpses.push(self.glimpse());
        }
        while let Some(&(at, cpu)) = self.quiet_ticks.front()
            && at <= event.time_ns
        {
            self.quiet_ticks.pop_front();
            self.allocator.platform().run_on(CpuId(cpu));
            self.allocator.tick(CpuId(cpu));
            self.record(number);
        }
        self.before_event(number);
        if usize::from(event.cpu) >= self.world.cpus() {
            self.skip(event);
            return;
        }
        match event.kind {
            Kind::PageAlloc { pfn, order, migratetype, gfp } => {
                let direct = self.history.direct_allocs.get(self.allocs).copied();
                self.allocs += 1;
                if pfn != PFN_NONE {
                    let asked = Asked { pfn, order, migratetype, gfp };
                    self.on_alloc(event, asked, direct.unwrap_or(false));
                }
            }
            Kind::PageFree { pfn, order } => {
                let note = self.history.frees.get(self.frees).copied().unwrap_or_default();
                self.frees += 1;
                let pending = Pending { pfn, order, note };
                match note.is_batched() {
                    true => self.pending[usize::from(event.cpu)].push_back(pending),
                    false => self.commit(event, pending),
                }
            }
            Kind::PageFreeBatched { pfn } => {
                let queue = &mut self.pending[usize::from(event.cpu)];
                let at = queue.iter().position(|pending| pending.pfn == pfn);
                if let Some(pending) = at.and_then(|at| queue.remove(at)) {
                    self.commit(event, pending);
                }
            }
            Kind::ZoneLocked { pfn, .. } => {
                let page = self.world.page(pfn).map_or(0, |page| page as u32 + 1);
                let unseen = self.is_refill_unseen(number);
                let context = usize::from(event.context.in_interrupt());
                self.refilling[usize::from(event.cpu)][context].push((page, unseen));
                self.end_silent_refill(event, number);
            }
            _ => {}
        }
    }

    /// Whether nothing shows again the block of this refill event. Asked in order of events.
    fn is_refill_unseen(&mut self, number: u64) -> bool {
        let events = &self.history.refills_unseen;
        while events.get(self.refills_unseen).is_some_and(|&event| event < number) {
            self.refills_unseen += 1;
        }
        events.get(self.refills_unseen) == Some(&number)
    }

    /// Keeps the counts of events that no CPU of this machine could have emitted.
    fn skip(&mut self, event: &Event) {
        match event.kind {
            Kind::PageAlloc { .. } => self.allocs += 1,
            Kind::PageFree { .. } => self.frees += 1,
            _ => {}
        }
    }

    fn on_alloc(&mut self, event: &Event, asked: Asked, direct: bool) {
        let Some((zone, page)) = self.world.locate(asked.pfn) else {
            return;
        };
        let request = self.request(event, &asked, zone);
        if self.names[page] != 0 && self.names[page] & IS_FREE == 0 {
            self.oddities.reused_names += 1;
        }
        self.yield_to_unseen(event.cpu, zone, page, &request);
        let machine = self.allocator.platform();
        machine.run_on(CpuId(event.cpu));
        machine.set_now_ns(event.time_ns);
        match self.serve(&request, zone, direct) {
            Ok(twin) => {
                let record = self.world.page(twin.0).expect("the twin allocates in its zones");
                self.oddities.same_page +=
                    u64::from(self.was[record] & !NEVER_AGAIN == page as u32 + 1);
                self.oddities.comparable += 1;
                self.was[record] = 0;
                self.names[page] = record as u32 + 1;
            }
            Err(_) => {
                self.oddities.failed += 1;
                self.names[page] = 0;
            }
        }
        self.name_refill(event, &request, zone);
        if let Some(list) = self.allocator.list_of(request.order, request.mobility) {
            *self.last_use_of(event.cpu, zone, list) = self.event - 1;
        }
        self.record(self.event - 1);
    }

    fn commit(&mut self, event: &Event, free: Pending) {
        let Some(page) = self.world.page(free.pfn) else {
            return;
        };
        self.allocator.platform().run_on(CpuId(event.cpu));
        self.allocator.platform().set_now_ns(event.time_ns);
        let in_use = self.names[page] != 0 && self.names[page] & IS_FREE == 0;
        if free.note.has_unseen_alloc() && !in_use {
            let known = self.unseen.get(&(page as u32 + 1)).map(|&(_, cpu)| cpu);
            let t = free.note.list_type().unwrap_or(0);
            let zone = self.world.zone_of(free.pfn).unwrap_or(0);
            self.take_unseen_now(known.unwrap_or(event.cpu), page as u32 + 1, t, zone);
            self.allocator.platform().run_on(CpuId(event.cpu));
        }
        if free.note.was_taken_from_zone() && !in_use && self.placement == Placement::Recorded {
            self.take_from_zone(page, free.order);
        }
        let name = std::mem::take(&mut self.names[page]);
        // A page whose allocation failed, or that was freed already, has nothing to give back.
        let Some(record) =
            Some(name).filter(|name| name & IS_FREE == 0).and_then(|name| name.checked_sub(1))
        else {
            self.oddities.unknown_frees += 1;
            return;
        };
        let record = record as usize;
        let zone = self.zone_of_record(record);
        let twin = self.world.zones[zone].pfn(record);
        let state = self.allocator.inspect(Pfn(twin)).expect("names lie in zones");
        let mut free = free;
        if state.order < free.order {
            // Allocated again without an event, larger: compaction hands blocks over directly.
            self.oddities.split_frees += 1;
            free.order = state.order;
        } else if state.order > free.order {
            // The kernel split the block after it was allocated: its parts are freed one by one.
            self.oddities.split_frees += 1;
            self.allocator.seed_allocated(Pfn(twin), free.order, state.migratetype);
        }
        let t = free.note.list_type().map_or(state.migratetype, type_of_number);
        if let Some(list) = self.allocator.list_of(free.order, t) {
            *self.last_use_of(event.cpu, zone, list) = self.event - 1;
        }
        let never_again = if free.note.is_never_seen_again() { NEVER_AGAIN } else { 0 };
        self.was[record] = (page as u32 + 1) | never_again;
        self.names[page] = name | IS_FREE;
        if free.note.leaves_unseen() && self.placement == Placement::Recorded {
            self.unseen.insert(page as u32 + 1, (record as u32, event.cpu));
        }
        if free.note.went_to_zone() {
            self.allocator.platform().fail_next_pcp_try();
        }
        match (self.placement, free.note.list_type()) {
            (Placement::Recorded, Some(t)) => {
                let t = type_of_number(t);
                self.allocator.free_as(Pfn(twin), free.order, t);
            }
            _ => self.allocator.free(Pfn(twin), free.order),
        }
        self.allocator.platform().forget_failures();
        self.record(self.event - 1);
    }

    fn zone_of_record(&self, record: usize) -> usize {
        let zones = &self.world.zones;
        let zone = zones.iter().rposition(|zone| zone.base <= record);
        zone.expect("the first zone's records begin at zero")
    }

    fn pfn_of(&self, record: usize) -> u64 {
        self.world.zones[self.zone_of_record(record)].pfn(record)
    }

    /// Moves what the allocator did at this event into the ledger.
    fn record(&mut self, event: u64) {
        let recent = &mut self.recent;
        let any = self.allocator.platform().listener(|tally| {
            let any = tally.has_recent();
            if any {
                tally.take_recent(recent);
            }
            any
        });
        if !any {
            return;
        }
        for &what in recent.iter() {
            enter(&mut self.ledger, &self.allocator, event, what);
        }
    }
}

fn type_of_number(t: u8) -> MigrateType {
    MigrateType::of(u32::from(t))
}

/// An allocation as recorded.
#[derive(Clone, Copy)]
struct Asked {
    pfn: u64,
    order: u8,
    migratetype: u8,
    gfp: Gfp,
}

fn enter(ledger: &mut Ledger, allocator: &Allocator<Seq<Tally>>, event: u64, what: CoreEvent) {
    let here = pageyard::Platform::cpu(allocator.platform()).0;
    match what {
        CoreEvent::Refill { zone, cpu, order, list, got_blocks, .. } => {
            let migratetype = if list < 12 { list % 3 } else { list - 12 };
            let high = allocator.pcp_limit(zone, cpu);
            let entry = RefillEntry { event, order, migratetype, blocks: got_blocks, high };
            // The kernel has no event for a refill that finds nothing.
            if got_blocks > 0 {
                ledger.account(cpu.0, zone_index(zone)).refills.push(entry);
            }
        }
        CoreEvent::Drain { zone, cpu, pages, left_pages, cause } => {
            let ticked = !matches!(cause, DrainCause::Limit | DrainCause::FreeHigh);
            let drains = &mut ledger.account(cpu.0, zone_index(zone)).drains;
            let emptied = left_pages == 0;
            match drains.last_mut() {
                // Chunks of one bulk free follow each other at one event.
                Some(last) if last.event == event => {
                    last.pages += pages;
                    last.emptied = emptied;
                }
                _ => drains.push(DrainEntry { event, pages, emptied, ticked }),
            }
        }
        CoreEvent::Direct { zone, order } => {
            let account = ledger.account(here, zone_index(zone));
            account.direct_allocs += 1;
            account.direct_alloc_pages += 1 << order;
        }
        CoreEvent::DirectFree { zone, order } => {
            let account = ledger.account(here, zone_index(zone));
            account.direct_frees += 1;
            account.direct_free_pages += 1 << order;
        }
        _ => {}
    }
}
