//! A recording with its twin: both readings, the inference between them, and the verdict.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pageyard::policy::PcpHigh;
use pageyard::{CpuId, Policy, ZoneId};
use pageyard_trace::error::TraceError;
use pageyard_trace::event::Event;
use pageyard_trace::reader::EventReader;
use pageyard_trace::recording::Recording;

use super::history::{Historian, History, Unseen};
use super::ledger::Ledger;
use super::observe::Observer;
use super::replay::{Assumptions, Glimpse, Placement, Replay};
use super::score::{self, Sequence};
use super::settle::{ROUNDS_MAX, Settling};
use super::ticks::{self, LimitAtEnd, Tick};
use super::world::{World, WorldError};

/// Events up to which a recording is kept decoded between readings; longer ones are read again.
const KEPT_EVENTS_MAX: usize = 2 << 20;

/// By CPU and zone: how alike its sequences are, and whether all are identical.
type Scores = BTreeMap<(u16, usize), (i64, bool)>;

/// Pages by which a count is nudged.
const NUDGES: [i64; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 60];

/// Why a recording has no twin.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It does not describe a machine.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// A recording, read once, with all that was inferred.
pub struct Twin {
    /// The recording.
    pub recording: Recording,
    /// The recorded machine.
    pub world: World,
    /// The recorded kernel's policy, as far as its release tells.
    pub policy: Policy,
    /// What the first reading found.
    pub history: History,
    /// What the kernel did with its zone locks.
    pub observed: Ledger,
    /// What trying found.
    pub assumptions: Assumptions,
    /// Counts that were moved: CPU, zone, pages, whether the first drain then agreed.
    pub moved: Vec<(u16, usize, i64, bool)>,
    /// Ticks that were placed.
    pub ticks: Vec<Tick>,
    /// When zoneinfo was read before and after, where the recording says.
    pub snapshot_ns: (Option<u64>, Option<u64>),
    /// What of the recording was unreadable or lost.
    pub faults: Vec<String>,
    kept: Option<Vec<Event>>,
    /// What [`Twin::unseen`] found: it costs a replay.
    unseen: OnceLock<Vec<Unseen>>,
}

impl Twin {
    /// Reads a recording and infers what it does not say, under the policy of its own kernel.
    ///
    /// # Errors
    /// The recording cannot be read, or has no zoneinfo.
    pub fn of(recording: Recording, policy: Policy) -> Result<Twin, TwinError> {
        let world = World::of(&recording)?;
        let read_ns = |file| recording.read_time(file).map(|time| *time.end());
        let snapshot_ns = (read_ns("zoneinfo.before"), read_ns("zoneinfo.after"));
        let (history, kept, faults) = read_history(&recording, &world, &policy, snapshot_ns.0)?;
        let mut twin = Twin {
            recording,
            world,
            policy,
            history,
            observed: Ledger::default(),
            assumptions: Assumptions::default(),
            moved: Vec::new(),
            ticks: Vec::new(),
            snapshot_ns,
            faults,
            kept,
            unseen: OnceLock::new(),
        };
        let mut observer = Observer::new(&twin.world, &policy, &twin.history);
        twin.each_event(|event| observer.on_event(event))?;
        twin.observed = observer.finish();
        twin.infer()?;
        Ok(twin)
    }

    /// Whether the events are kept decoded, so that trying something costs little.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Calls `f` for each event, in order.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn each_event(&self, mut f: impl FnMut(&Event)) -> Result<(), TraceError> {
        if let Some(kept) = &self.kept {
            kept.iter().for_each(f);
            return Ok(());
        }
        let mut reader = self.recording.events()?;
        let mut block = Vec::new();
        while reader.read_block(&mut block)? {
            block.iter().for_each(&mut f);
        }
        Ok(())
    }

    /// Replays the recording once under a policy.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn replay(&self, policy: Policy, placement: Placement) -> Result<Replay<'_>, TraceError> {
        let replay = self.replay_with(policy, placement, &self.assumptions)?;
        if policy == self.policy && placement == Placement::Recorded {
            self.unseen.get_or_init(|| replay.unseen_log.clone());
        }
        Ok(replay)
    }

    /// Builds the state at the first event under a policy, and feeds nothing yet.
    #[must_use]
    pub fn begin(&self, policy: Policy, placement: Placement) -> Replay<'_> {
        Replay::new(
            &self.recording,
            &self.world,
            &self.history,
            policy,
            placement,
            &self.assumptions,
        )
    }

    /// Allocations that left no event, as the twin of the kernel's own policy placed them: what
    /// another policy's replay is to follow. Replays only if nobody has replayed so before.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn unseen(&self) -> Result<&[Unseen], TraceError> {
        if self.unseen.get().is_none() {
            self.replay(self.policy, Placement::Recorded)?;
        }
        Ok(self.unseen.get().map(Vec::as_slice).unwrap_or_default())
    }

    fn replay_with(
        &self,
        policy: Policy,
        placement: Placement,
        assumptions: &Assumptions,
    ) -> Result<Replay<'_>, TraceError> {
        let mut replay = Replay::new(
            &self.recording,
            &self.world,
            &self.history,
            policy,
            placement,
            assumptions,
        );
        if let (Some(before), Some(after)) = self.snapshot_ns {
            replay.watch(&[before, after]);
        }
        self.each_event(|event| replay.on_event(event))?;
        Ok(replay)
    }

    /// Tries assumptions against what was observed: ticks first, because they move limits; then
    /// counts, because they move first drains; then when unseen allocations happened.
    fn infer(&mut self) -> Result<(), TraceError> {
        if self.kept.is_none() {
            self.world.remarks.push(
                "the recording is too long to be replayed several times: counts and ticks at its \
                 start were not inferred"
                    .into(),
            );
            return Ok(());
        }
        let mut assumptions = Assumptions::default();
        self.align_to_snapshot(&mut assumptions)?;
        let ticks = self.find_ticks(&assumptions)?;
        for tick in &ticks {
            assumptions.ticks.extend(tick.times_ns.iter().map(|&at| (at, tick.cpu)));
        }
        assumptions.ticks.sort_unstable();
        let aligned = assumptions.offsets.clone();
        let mut settling = Settling::default();
        for _ in 0..ROUNDS_MAX {
            let replay = self.replay_with(self.policy, Placement::Recorded, &assumptions)?;
            let again = settling.learn(&self.observed, &replay.ledger);
            if !again {
                break;
            }
            assumptions.offsets = summed(&aligned, &settling.offsets());
        }
        let moved = settling.moved();
        assumptions.offsets = summed(&aligned, &settled(&settling));
        let late = self.replay_with(self.policy, Placement::Recorded, &assumptions)?;
        if !late.unseen_early.is_empty() {
            let early = Assumptions { unseen: late.unseen_early.clone(), ..assumptions.clone() };
            if self.agreement(&early)? > agreeing(&self.sequences(&late.ledger)) {
                assumptions = early;
            }
        }
        drop(late);
        self.nudge(&mut assumptions)?;
        self.moved = moved_counts(&assumptions, &moved);
        (self.assumptions, self.ticks) = (assumptions, ticks);
        Ok(())
    }

    /// Where the recording says when zoneinfo was read, the twin must hold the printed counts and
    /// limits at that moment, not at the first event.
    fn align_to_snapshot(&self, assumptions: &mut Assumptions) -> Result<(), TraceError> {
        let Some(before_ns) = self.snapshot_ns.0 else {
            return Ok(());
        };
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        let Some(glimpse) = replay.glimpses.first().filter(|_| before_ns > 0) else {
            return Ok(());
        };
        for (zone, desc) in self.world.zones.iter().enumerate() {
            for set in &desc.pagesets {
                let key = (set.cpu as u16, zone);
                let Some(&(count, high)) = glimpse.caches.get(&key) else {
                    continue;
                };
                let off = set.count - i64::from(count);
                if off != 0 {
                    assumptions.offsets.insert(key, off);
                }
                if set.high != i64::from(high) && set.high > 0 {
                    assumptions.high_offsets.insert(key, set.high - i64::from(high));
                }
            }
        }
        Ok(())
    }

    /// Places ticks where limits end lower than the refills account for.
    fn find_ticks(&self, assumptions: &Assumptions) -> Result<Vec<Tick>, TraceError> {
        if self.policy.pcp_high != PcpHigh::Auto {
            return Ok(Vec::new());
        }
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        let end = self.glimpse_after(&replay);
        let at_ns = self.snapshot_ns.1.unwrap_or(self.history.window_ns.1);
        let mut limits = BTreeMap::new();
        for (cpu, zone, _, printed) in self.printed_caches() {
            let without = end.caches.get(&(cpu, zone)).map_or(0, |cache| cache.1);
            let size = replay.allocator().pcp(ZoneId(zone as u8), CpuId(cpu)).size;
            let range = (size.high_min, size.high_max);
            let started = replay.start.caches.iter().find(|c| (c.cpu, c.zone) == (cpu, zone));
            let (first, batch) = (started.map_or(0, |cache| cache.high), size.batch);
            if let Ok(printed) = u32::try_from(printed)
                && printed != without
            {
                let limit = LimitAtEnd { printed, without, first, batch, range, at_ns };
                limits.insert((cpu, zone), limit);
            }
        }
        if limits.is_empty() {
            return Ok(Vec::new());
        }
        let mut times = Vec::new();
        self.each_event(|event| times.push(event.time_ns))?;
        let time_of = |event: u64| times.get(event as usize).copied().unwrap_or(0);
        let start_ns = self.history.window_ns.0;
        Ok(ticks::infer(&self.observed.accounts, &limits, start_ns, &time_of))
    }

    /// A twin as it was when the last snapshot was read, or at the end.
    #[must_use]
    pub fn glimpse_after(&self, replay: &Replay<'_>) -> Glimpse {
        let last = replay.glimpses.get(1).filter(|_| self.snapshot_ns.0.is_some());
        last.cloned().unwrap_or_else(|| replay.glimpse())
    }

    /// A drain set off by a block of several pages leaves the count open by as many: the offset
    /// nearby that makes most of the cache's later sequences agree is taken.
    fn nudge(&self, assumptions: &mut Assumptions) -> Result<(), TraceError> {
        let best = self.scores(assumptions)?;
        let wrong: Vec<(u16, usize)> =
            best.iter().filter(|(_, score)| !score.1).map(|(&key, _)| key).collect();
        let mut best: BTreeMap<(u16, usize), (i64, i64)> =
            wrong.iter().map(|key| (*key, (best[key].0, 0))).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        for shift in NUDGES.into_iter().flat_map(|pages| [-pages, pages]) {
            let mut tried = assumptions.clone();
            for key in &wrong {
                *tried.offsets.entry(*key).or_default() += shift;
            }
            let scores = self.scores(&tried)?;
            for (key, best) in &mut best {
                let agree = scores.get(key).map_or(i64::MIN, |score| score.0);
                if agree > best.0 {
                    *best = (agree, shift);
                }
            }
        }
        for (key, (_, shift)) in best {
            if shift != 0 {
                *assumptions.offsets.entry(key).or_default() += shift;
            }
        }
        Ok(())
    }

    /// By CPU and zone: elements of sequences that agree, and whether all do.
    fn scores(&self, assumptions: &Assumptions) -> Result<Scores, TraceError> {
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        let mut scores = BTreeMap::new();
        for sequence in self.sequences(&replay.ledger) {
            let zone = self.world.zones.iter().position(|zone| zone.name() == sequence.zone);
            let score = scores.entry((sequence.cpu, zone.unwrap_or(0))).or_insert((0, true));
            *score = (score.0 + sequence.likeness(), score.1 && sequence.is_identical());
        }
        Ok(scores)
    }

    /// Elements of sequences that agree.
    fn agreement(&self, assumptions: &Assumptions) -> Result<i64, TraceError> {
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        Ok(self.sequences(&replay.ledger).iter().map(Sequence::likeness).sum())
    }

    /// Refills and drains beside the kernel's.
    #[must_use]
    pub fn sequences(&self, predicted: &Ledger) -> Vec<Sequence> {
        score::sequences(&self.world, &self.observed, predicted)
    }

    /// Largest number of pages that the kernel moved under one hold of a zone lock, at least one
    /// batch: the unit of what is forgiven.
    #[must_use]
    pub fn largest_batch(&self) -> u32 {
        let accounts = self.observed.accounts.values();
        let moved = accounts.flat_map(|account| {
            let refills = account.refills.iter().map(|refill| refill.blocks << refill.order);
            refills.chain(account.drains.iter().map(|drain| drain.pages)).collect::<Vec<u32>>()
        });
        let batch = (0..self.world.zones.len()).map(|zone| self.world.limits(zone, &self.policy).0);
        moved.chain(batch).max().unwrap_or(1)
    }

    /// Pages in each cache at the end: CPU, zone, printed count and limit.
    #[must_use]
    pub fn printed_caches(&self) -> Vec<(u16, usize, i64, i64)> {
        let after = self.recording.after.as_ref().and_then(|snapshot| snapshot.zoneinfo.as_ref());
        let mut rows = Vec::new();
        for (zone, desc) in self.world.zones.iter().enumerate() {
            let info = after.and_then(|info| info.zone(u16::from(desc.node), desc.kind.name()));
            for set in info.map(|info| info.pagesets.as_slice()).unwrap_or_default() {
                rows.push((set.cpu as u16, zone, set.count, set.high));
            }
        }
        rows
    }

    /// Pages that a twin holds in a cache, and its limit.
    #[must_use]
    pub fn cache_of(replay: &Replay<'_>, zone: usize, cpu: u16) -> (u32, u32) {
        let size = replay.allocator().pcp(ZoneId(zone as u8), CpuId(cpu)).size;
        (size.count, size.high)
    }
}

fn agreeing(sequences: &[Sequence]) -> i64 {
    sequences.iter().map(Sequence::likeness).sum()
}

fn summed(
    a: &BTreeMap<(u16, usize), i64>,
    b: &BTreeMap<(u16, usize), i64>,
) -> BTreeMap<(u16, usize), i64> {
    let mut sum = a.clone();
    for (&key, pages) in b {
        *sum.entry(key).or_default() += pages;
    }
    sum
}

/// Counts that were moved in the end, with whether the first drain agreed.
fn moved_counts(
    assumptions: &Assumptions,
    moved: &[(u16, usize, i64, bool)],
) -> Vec<(u16, usize, i64, bool)> {
    let agrees = |key| moved.iter().any(|&(cpu, zone, _, ok)| (cpu, zone) == key && ok);
    let offsets = assumptions.offsets.iter().filter(|(_, pages)| **pages != 0);
    offsets.map(|(&key, &pages)| (key.0, key.1, pages, agrees(key))).collect()
}

/// Offsets that made the first drain agree; the others say nothing and are dropped.
fn settled(settling: &Settling) -> BTreeMap<(u16, usize), i64> {
    let moved = settling.moved();
    let good = moved.into_iter().filter(|&(.., agrees)| agrees);
    good.map(|(cpu, zone, pages, _)| ((cpu, zone), pages)).collect()
}

/// Faults that are told one by one.
const FAULTS_TOLD: usize = 5;

/// What of the recording could not be read, and what its tracer lost: nothing after such a place
/// can be held to account.
fn faults(recording: &Recording, reader: &EventReader) -> Vec<String> {
    let damage = reader.damage();
    let trace = recording.trace_path().display();
    let told = damage.faults().iter().take(FAULTS_TOLD);
    let mut lines: Vec<String> = told.map(|fault| format!("{trace}: {fault}")).collect();
    if damage.count() > lines.len() as u64 {
        lines.push(format!("{trace}: {} faults in all", damage.count()));
    }
    lines.extend(recording.damage.iter().map(|(name, fault)| format!("{name}: {fault}")));
    let in_rings: u64 = recording.ring_stats.iter().map(|ring| ring.lost()).sum();
    let lost = reader.lost().total().max(in_rings);
    if lost > 0 {
        lines.push(format!("{lost} events were lost while recording"));
    }
    lines
}

/// What a first reading gives: the history, the events if they are few, and what is damaged.
type FirstReading = (History, Option<Vec<Event>>, Vec<String>);

fn read_history(
    recording: &Recording,
    world: &World,
    policy: &Policy,
    snapshot_ns: Option<u64>,
) -> Result<FirstReading, TraceError> {
    let mut historian = Historian::new(world, policy, snapshot_ns);
    let mut reader = recording.events()?;
    let mut block = Vec::new();
    let mut kept = Some(Vec::new());
    while reader.read_block(&mut block)? {
        historian.on_block(&block, |pid| reader.comm(pid));
        if let Some(events) = &mut kept {
            events.extend_from_slice(&block);
            if events.len() > KEPT_EVENTS_MAX {
                kept = None;
            }
        }
    }
    let faults = faults(recording, &reader);
    Ok((historian.finish(), kept, faults))
}
