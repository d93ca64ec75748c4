//! The first reading of a recording: what the events do not say, inferred from what follows.
//!
//! A page is followed from event to event by its frame number. Where it is seen next tells where
//! it went: a freed page that is allocated again without leaving the buddy lists was on a per-CPU
//! list, and the request's type names the list; one that leaves the buddy lists had gone straight
//! to the zone. Each inference is a note on the event that it explains; the second reading feeds
//! the requests with these notes.

use std::collections::BTreeMap;

use pageyard::Policy;
use pageyard::policy::PcpLock;
use pageyard_trace::event::{Event, Kind, PFN_NONE};

use super::first_free::FirstFrees;
use super::freed::FreeNote;
use super::numa::Interleavers;
use super::observe::is_cached;
use super::place::Place;
use super::reclaim::{Rounds, Stretch};
use super::runs::{Drain, Ended, Refill, Runs};
use super::silent::{self, Silent};
use super::unasked::{self, Unasked};
use super::world::{MAX_ORDER, PAGEBLOCK_ORDER, World, WorldZone};

/// A list of a per-CPU cache: CPU, zone, order, type.
pub type ListKey = (u16, usize, u8, u8);

/// What a per-CPU list was seen to hold at the first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstList {
    /// Pages allocated from it before its first refill, head first.
    pub from_head: Vec<u64>,
    /// Pages drained from it that were never seen before, tail first.
    pub from_tail: Vec<u64>,
    /// It ran empty: `from_head` and `from_tail` are all it held.
    pub ran_empty: bool,
}

/// What a cache was seen to do until its first refill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstRefill {
    /// Blocks of the first order-0 refill; 0 if there was none.
    pub blocks: u32,
    /// Frees before it.
    pub frees_before: u32,
}

/// An allocation of order 0 that left no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unseen {
    /// Event before which it is placed.
    pub at: u64,
    /// CPU.
    pub cpu: u16,
    /// Recorded page + 1; 0 where nothing shows which.
    pub page: u32,
    /// Type of the list: 0 to 2.
    pub t: u8,
    /// Zone.
    pub zone: u8,
}

/// Everything inferred.
#[derive(Debug, Default)]
pub struct History {
    /// One note a `mm_page_free`, in order.
    pub frees: Vec<FreeNote>,
    /// One a `mm_page_alloc`, in order: it was served past the per-CPU lists.
    pub direct_allocs: Vec<bool>,
    /// Per-CPU lists at the first event.
    pub lists: BTreeMap<ListKey, FirstList>,
    /// Blocks that were in use at the first event: page frame, order, type of the block.
    pub in_use: Vec<(u64, u8, u8)>,
    /// Type of each pageblock as last seen: by zone and block number.
    pub block_types: BTreeMap<(usize, u64), u8>,
    /// The same, as first seen: before any change of it.
    pub first_block_types: BTreeMap<(usize, u64), u8>,
    /// First refills by CPU and zone.
    pub first_refills: BTreeMap<(u16, usize), FirstRefill>,
    /// Frees in a row that caches had behind them at the first event, where a drain shows it.
    pub first_free_runs: BTreeMap<(u16, usize), u32>,
    /// Drains that no free set off, in order.
    pub unasked: Vec<Unasked>,
    /// Tasks whose memory was spread over nodes page by page.
    pub interleavers: Interleavers,
    /// When background reclaim was seen at work, by node: first and last event of each stretch.
    pub reclaim: Vec<Stretch>,
    /// Events read.
    pub events: u64,
    /// Time of the first and last event, nanoseconds.
    pub window_ns: (u64, u64),
    /// Frees of pages that must have been allocated without an event.
    pub unseen_allocs: u64,
    /// Of them, those whose page lay in the buddy lists: taken from there past the caches.
    pub taken_from_zone: u64,
    /// Of them, those whose page had just been refilled, at the event that refilled it. The
    /// allocation is what the refill was for.
    pub unseen_at_refill: Vec<Unseen>,
    /// Refills whose allocation left no event, by their last event.
    pub silent_refills: Vec<Silent>,
    /// Events of refilled blocks that no allocation or drain shows again, sorted.
    pub refills_unseen: Vec<u64>,
    /// Page events outside every zone.
    pub foreign: u64,
    /// Allocations that failed.
    pub failed_allocs: u64,
    /// Frees whose way could be told from what followed, and all frees.
    pub explained_frees: (u64, u64),
}

/// Follows every page through a recording.
pub struct Historian<'a> {
    world: &'a World,
    policy: &'a Policy,
    runs: Runs,
    places: Vec<u64>,
    touched_blocks: Vec<bool>,
    /// Refills in order: CPU, first event, whether an allocation with an event ended it.
    refills: Vec<(u16, u64, bool)>,
    silent: silent::Finder,
    unasked: unasked::Finder,
    rounds: Rounds,
    first_frees: FirstFrees,
    /// Unit of refills and drains, by zone.
    batches: Vec<u32>,
    /// Node of each task that is a background reclaimer.
    reclaimers: BTreeMap<i32, Option<u8>>,
    history: History,
}

impl<'a> Historian<'a> {
    /// Begins a first reading. `policy` is the recorded kernel's: it says which orders are cached.
    /// `snapshot_ns` is when the first zoneinfo was read, if known.
    #[must_use]
    pub fn new(world: &'a World, policy: &'a Policy, snapshot_ns: Option<u64>) -> Historian<'a> {
        let drains_remotely = policy.pcp_lock == PcpLock::Spin;
        Historian {
            world,
            policy,
            runs: Runs::new(world, policy),
            places: vec![0; world.pages],
            touched_blocks: vec![false; (world.pages >> PAGEBLOCK_ORDER) + 1],
            refills: Vec::new(),
            silent: silent::Finder::default(),
            unasked: unasked::Finder::new(world.cpus(), drains_remotely),
            rounds: Rounds::default(),
            first_frees: FirstFrees::new(world, policy, snapshot_ns),
            batches: (0..world.zones.len()).map(|zone| world.limits(zone, policy).0).collect(),
            reclaimers: BTreeMap::new(),
            history: History::default(),
        }
    }

    /// Takes the next events; `name_of` knows the names of tasks.
    pub fn on_block<'n>(&mut self, block: &[Event], name_of: impl Fn(i32) -> Option<&'n str>) {
        let mut last = (i32::MIN, None);
        for event in block {
            if event.pid != last.0 {
                let node = *self
                    .reclaimers
                    .entry(event.pid)
                    .or_insert_with(|| name_of(event.pid)?.strip_prefix("kswapd")?.parse().ok());
                last = (event.pid, node);
            }
            if let Some(node) = last.1.filter(|_| !event.context.in_interrupt()) {
                self.rounds.on_kswapd(node, self.history.events, event);
            }
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: &Event) {
        let number = self.history.events;
        self.history.events += 1;
        if number == 0 {
            self.history.window_ns.0 = event.time_ns;
        }
        self.history.window_ns.1 = event.time_ns;
        let known = usize::from(event.cpu) < self.world.cpus();
        if known && ends_drain(&event.kind) {
            self.end_unasked(event);
        }
        let Some(pfn) = page_of(event) else {
            if let Some(drain) = self.runs.on_other(event) {
                self.on_drain_end(event.time_ns, &drain);
            }
            self.on_fallback(event);
            return;
        };
        let Some((zone, page)) = self.world.locate(pfn).filter(|_| known) else {
            self.note_foreign(event);
            return;
        };
        self.touched_blocks[page >> PAGEBLOCK_ORDER] = true;
        let place = Place::unpack(self.places[page]);
        let next = match event.kind {
            Kind::PageAlloc { order, migratetype, .. } => {
                self.on_alloc(event, (pfn, zone), place, order, migratetype)
            }
            Kind::PageFree { order, .. } => self.on_free(event, (pfn, zone), place, order),
            Kind::PageFreeBatched { .. } => self.on_batched(event, place),
            Kind::ZoneLocked { order, migratetype, .. } => {
                self.on_zone_locked(event, zone, place, order, migratetype)
            }
            Kind::PcpuDrain { order, migratetype, .. } => {
                self.on_drain(event, (pfn, zone), place, order, migratetype)
            }
            _ => place,
        };
        self.places[page] = next.pack();
        self.silent.on_page(pfn, &event.kind);
        self.follow_runs(number, event, zone);
        // After the drain that it ends.
        if !matches!(event.kind, Kind::PcpuDrain { .. }) {
            self.first_frees.on_page(event, zone, self.policy);
        }
    }

    /// A run of drains that no free set off ends.
    fn end_unasked(&mut self, event: &Event) {
        let lists = &mut self.history.lists;
        let found = self.unasked.end(event.cpu, |list, pfn| note_tail(lists, list, pfn));
        for drain in found {
            self.first_frees.on_unasked(drain);
        }
    }

    /// A drain that a free set off ends.
    fn on_drain_end(&mut self, time_ns: u64, drain: &Drain) {
        if drain.after_free {
            let node = self.world.zones[drain.zone].node;
            let rule = (self.policy, self.batches[drain.zone]);
            self.rounds.on_drain(time_ns, node, drain, rule);
            self.first_frees.on_drain(drain, self.world);
        }
    }

    /// A fallback tells of which type its pageblocks were until then.
    fn on_fallback(&mut self, event: &Event) {
        let Kind::Extfrag { pfn, fallback_order, fallback_migratetype, .. } = event.kind else {
            return;
        };
        let Some(zone) = self.world.zone_of(pfn) else {
            return;
        };
        let last = pfn.saturating_add((1u64 << fallback_order.min(MAX_ORDER)) - 1);
        for block in pfn >> PAGEBLOCK_ORDER..=last >> PAGEBLOCK_ORDER {
            let first = self.history.first_block_types.entry((zone, block));
            first.or_insert(fallback_migratetype.min(2));
        }
    }

    fn note_foreign(&mut self, event: &Event) {
        match event.kind {
            Kind::PageAlloc { pfn, .. } => {
                self.history.direct_allocs.push(false);
                match pfn == PFN_NONE {
                    true => self.history.failed_allocs += 1,
                    false => self.history.foreign += 1,
                }
            }
            Kind::PageFree { .. } => {
                self.history.frees.push(FreeNote::default());
                self.history.foreign += 1;
            }
            _ => self.history.foreign += 1,
        }
    }

    fn follow_runs(&mut self, number: u64, event: &Event, zone: usize) {
        let history = &mut self.history;
        let (refills, silent) = (&mut self.refills, &mut self.silent);
        let batches = &self.batches;
        let mut drained = None;
        self.runs.on_event(number, event, zone, |ended| match ended {
            Ended::Refill(run, served) => {
                refills.push((run.cpu, run.event, served.is_some()));
                let batch = batches[run.zone];
                silent.on_refill(&run, served, batch);
                let single = served.is_some() && is_direct(&run, batch);
                if single {
                    if let Some(last) = history.direct_allocs.last_mut() {
                        *last = true;
                    }
                } else if run.order == 0 {
                    let first = history.first_refills.entry((run.cpu, run.zone)).or_default();
                    if first.blocks == 0 {
                        first.blocks = run.blocks;
                    }
                }
            }
            // One event ends one drain at the most.
            Ended::Drain(drain) => drained = Some(drain),
        });
        if let Some(drain) = drained {
            self.on_drain_end(event.time_ns, &drain);
        }
    }

    fn on_alloc(
        &mut self,
        event: &Event,
        (pfn, zone): (u64, usize),
        place: Place,
        order: u8,
        t: u8,
    ) -> Place {
        self.history.direct_allocs.push(false);
        let nodes = (self.world.cpu_nodes[usize::from(event.cpu)].0, self.world.zones[zone].node);
        self.history.interleavers.on_alloc(event, nodes);
        let list = t.min(2);
        match place {
            Place::Unseen if is_cached(self.policy, order) => {
                let key = (event.cpu, zone, order, list);
                let first = self.history.lists.entry(key).or_default();
                if !first.ran_empty {
                    first.from_head.push(pfn);
                }
            }
            Place::Freed { free, .. } => {
                let note = &mut self.history.frees[free as usize];
                note.set(FreeNote::TO_PCP);
                note.set_type(list);
                self.history.explained_frees.0 += 1;
                self.know_block(zone, pfn, list);
            }
            // Compaction hands over a block that its own frees just joined, past every list.
            Place::Drained if order > 0 => {
                if let Some(last) = self.history.direct_allocs.last_mut() {
                    *last = true;
                }
            }
            _ => {}
        }
        Place::Allocated { t: list }
    }

    fn on_free(
        &mut self,
        event: &Event,
        (pfn, zone): (u64, usize),
        place: Place,
        order: u8,
    ) -> Place {
        let free = self.history.frees.len() as u32;
        let mut note = FreeNote::default();
        match place {
            Place::Unseen | Place::Drained => {
                if place == Place::Unseen {
                    self.history.in_use.push((pfn, order, u8::MAX));
                } else {
                    note.set(FreeNote::FROM_ZONE);
                    self.history.unseen_allocs += 1;
                    self.history.taken_from_zone += 1;
                }
            }
            Place::Allocated { t } => note.set_type(t),
            Place::Freed { free: before, .. } => {
                note.set(FreeNote::UNSEEN_ALLOC);
                let before = &mut self.history.frees[before as usize];
                before.set(FreeNote::LEAVES_UNSEEN);
                before.set(FreeNote::TO_PCP);
                if let Some(t) = before.list_type() {
                    note.set_type(t);
                }
                self.history.unseen_allocs += 1;
            }
            Place::Refilled { cpu, t, event } => {
                note.set(FreeNote::UNSEEN_ALLOC);
                note.set_type(t);
                self.history.unseen_allocs += 1;
                let page = self.world.page(pfn).map_or(0, |page| page as u32 + 1);
                let unseen = Unseen { at: event, cpu, page, t, zone: zone as u8 };
                self.history.unseen_at_refill.push(unseen);
            }
        }
        if event.context.in_interrupt() && self.is_in_refill(event.cpu, zone) {
            note.set(FreeNote::IN_REFILL);
        }
        self.history.frees.push(note);
        self.history.explained_frees.1 += 1;
        let first = self.history.first_refills.entry((event.cpu, zone)).or_default();
        if first.blocks == 0 {
            first.frees_before += 1;
        }
        Place::Freed { cpu: event.cpu, free }
    }

    fn is_in_refill(&self, cpu: u16, zone: usize) -> bool {
        self.runs.open_refill(usize::from(cpu)).is_some_and(|run| run.zone == zone)
    }

    fn on_batched(&mut self, event: &Event, place: Place) -> Place {
        if let Place::Freed { cpu, free } = place
            && cpu == event.cpu
        {
            self.history.frees[free as usize].set(FreeNote::BATCHED);
        }
        place
    }

    fn on_zone_locked(
        &mut self,
        event: &Event,
        zone: usize,
        place: Place,
        order: u8,
        t: u8,
    ) -> Place {
        if let Place::Freed { free, .. } = place {
            self.history.frees[free as usize].set(FreeNote::TO_ZONE);
            self.history.explained_frees.0 += 1;
        }
        if is_cached(self.policy, order) {
            let key = (event.cpu, zone, order, t.min(2));
            self.history.lists.entry(key).or_default().ran_empty = true;
        }
        Place::Refilled { cpu: event.cpu, t: t.min(2), event: self.history.events - 1 }
    }

    fn on_drain(
        &mut self,
        event: &Event,
        (pfn, zone): (u64, usize),
        place: Place,
        order: u8,
        t: u8,
    ) -> Place {
        let list = t.min(2);
        let after_free = self.runs.is_after_free(event.cpu);
        if after_free {
            self.first_frees.on_page(event, zone, self.policy);
        } else {
            let owner = match place {
                Place::Freed { cpu, .. } | Place::Refilled { cpu, .. } => Some(cpu),
                _ => None,
            };
            let (number, time_ns) = (self.history.events - 1, event.time_ns);
            let is_new = place == Place::Unseen;
            let page =
                unasked::Page { event: number, time_ns, pfn, zone, order, t: list, owner, is_new };
            self.unasked.on_page(event.cpu, page);
        }
        match place {
            Place::Freed { free, .. } => {
                let note = &mut self.history.frees[free as usize];
                note.set(FreeNote::TO_PCP);
                note.set_type(list);
                self.history.explained_frees.0 += 1;
            }
            Place::Unseen if after_free => {
                note_tail(&mut self.history.lists, (event.cpu, zone, order, list), pfn);
            }
            _ => {}
        }
        self.know_block(zone, pfn, list);
        Place::Drained
    }

    fn know_block(&mut self, zone: usize, pfn: u64, t: u8) {
        let block = (zone, pfn >> PAGEBLOCK_ORDER);
        self.history.first_block_types.entry(block).or_insert(t);
        self.history.block_types.insert(block, t);
    }

    /// Records of a zone's pages, but for the blocks that no event named: a machine may have
    /// millions of pages of which a recording touches few.
    fn touched_pages(&self, desc: &WorldZone) -> impl Iterator<Item = usize> + use<> {
        let (first, end) = (desc.base, desc.base + desc.spanned as usize);
        let blocks = first >> PAGEBLOCK_ORDER..end.div_ceil(1 << PAGEBLOCK_ORDER);
        let touched: Vec<usize> = blocks.filter(|&block| self.touched_blocks[block]).collect();
        touched.into_iter().flat_map(move |block| {
            let start = block << PAGEBLOCK_ORDER;
            start.max(first)..(start + (1 << PAGEBLOCK_ORDER)).min(end)
        })
    }

    /// Ends the first reading: frees that nothing explains get the type of their pageblock.
    #[must_use]
    pub fn finish(mut self) -> History {
        for (zone, desc) in self.world.zones.iter().enumerate() {
            for page in self.touched_pages(desc) {
                let place = Place::unpack(self.places[page]);
                if let Place::Refilled { event, .. } = place {
                    self.history.refills_unseen.push(event);
                }
                let Place::Freed { free, .. } = place else {
                    continue;
                };
                let pfn = desc.start + (page - desc.base) as u64;
                if let Some(&t) = self.history.block_types.get(&(zone, pfn >> PAGEBLOCK_ORDER)) {
                    self.history.frees[free as usize].set_type(t);
                }
            }
        }
        let mut refills = std::mem::take(&mut self.refills);
        refills.sort_unstable();
        let history = &mut self.history;
        let lists = &mut history.lists;
        history.unasked = self.unasked.finish(|list, pfn| note_tail(lists, list, pfn));
        history.first_free_runs = self.first_frees.found;
        history.reclaim = self.rounds.finish();
        history.silent_refills = self.silent.finish();
        history.sort_out_unseen(&refills);
        for (pfn, _, t) in &mut history.in_use {
            let zone = self.world.zone_of(*pfn).expect("pages in use lie in a zone");
            let block = history.block_types.get(&(zone, *pfn >> PAGEBLOCK_ORDER));
            *t = block.copied().unwrap_or(1);
        }
        self.history
    }
}

impl History {
    /// Pages that were refilled and then freed without an allocation in between: where the refill
    /// itself was for no visible allocation, it was for them; else they were taken later.
    fn sort_out_unseen(&mut self, refills: &[(u16, u64, bool)]) {
        let silent: BTreeMap<(u16, u64), usize> =
            self.silent_refills.iter().enumerate().map(|(i, s)| ((s.cpu, s.from), i)).collect();
        let found = std::mem::take(&mut self.unseen_at_refill);
        for unseen in found {
            let of = (unseen.cpu, unseen.at);
            let after = refills.partition_point(|&(c, first, _)| (c, first) <= of);
            let run = after.checked_sub(1).map(|at| refills[at]).filter(|run| run.0 == of.0);
            let silent = run.and_then(|run| silent.get(&(run.0, run.1)));
            match (run, silent) {
                (_, Some(&silent)) => {
                    self.silent_refills[silent].taken.push(unseen.page);
                    self.refills_unseen.push(unseen.at);
                }
                (Some((_, _, true)), _) => self.refills_unseen.push(unseen.at),
                _ => self.unseen_at_refill.push(unseen),
            }
        }
        self.unseen_at_refill.sort_unstable();
        self.refills_unseen.sort_unstable();
    }
}

/// A single block for a single allocation of a cached order: the list was passed by. A refill of
/// one block happens only where the batch is one, or with whole pageblocks: a zone has few.
fn is_direct(run: &Refill, batch: u32) -> bool {
    run.blocks == 1 && run.order < PAGEBLOCK_ORDER && batch > 1
}

/// Notes a page that was at the tail of a list at the first event.
fn note_tail(lists: &mut BTreeMap<ListKey, FirstList>, list: ListKey, pfn: u64) {
    let first = lists.entry(list).or_default();
    if !first.ran_empty {
        first.from_tail.push(pfn);
    }
}

/// Whether an event tells that a CPU has ended its drain: waiting for a lock does not.
fn ends_drain(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::PcpuDrain { .. } | Kind::ContentionBegin { .. } | Kind::ContentionEnd { .. }
    )
}

/// The page that an event is about.
#[must_use]
pub fn page_of(event: &Event) -> Option<u64> {
    match event.kind {
        Kind::PageAlloc { pfn, .. }
        | Kind::PageFree { pfn, .. }
        | Kind::PageFreeBatched { pfn }
        | Kind::ZoneLocked { pfn, .. }
        | Kind::PcpuDrain { pfn, .. } => Some(pfn),
        _ => None,
    }
}
