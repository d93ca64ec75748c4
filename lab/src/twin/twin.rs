//! A recording with its twin: both readings, the inference between them, and the verdict.

use std::collections::BTreeMap;

use pageyard::{CpuId, Policy, ZoneId};
use pageyard_trace::error::TraceError;
use pageyard_trace::event::Event;
use pageyard_trace::recording::Recording;

use super::history::{Historian, History};
use super::ledger::Ledger;
use super::observe::Observer;
use super::replay::{Assumptions, Placement, Replay, UnseenWhen};
use super::score::{self, Sequence};
use super::settle::{ROUNDS_MAX, Settling};
use super::ticks::{self, Tick};
use super::world::{World, WorldError};

/// Events up to which a recording is kept decoded between readings; longer ones are read again.
const KEPT_EVENTS_MAX: usize = 2 << 20;

/// Pages by which a count is nudged: a block of order 3.
const NUDGE_MAX: i64 = 8;

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
    kept: Option<Vec<Event>>,
}

impl Twin {
    /// Reads a recording and infers what it does not say, under the policy of its own kernel.
    ///
    /// # Errors
    /// The recording cannot be read, or has no zoneinfo.
    pub fn of(recording: Recording, policy: Policy) -> Result<Twin, TwinError> {
        let world = World::of(&recording)?;
        let (history, kept) = read_history(&recording, &world, &policy)?;
        let mut twin = Twin {
            recording,
            world,
            policy,
            history,
            observed: Ledger::default(),
            assumptions: Assumptions::default(),
            moved: Vec::new(),
            ticks: Vec::new(),
            kept,
        };
        let mut observer = Observer::new(&twin.world, &policy, &twin.history);
        twin.each_event(|event| observer.on_event(event))?;
        twin.observed = observer.finish();
        twin.infer()?;
        Ok(twin)
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
        self.replay_with(policy, placement, &self.assumptions)
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
        let first = self.replay_with(self.policy, Placement::Recorded, &assumptions)?;
        let ticks = ticks::infer(
            &self.recording,
            &self.world,
            &self.policy,
            &first,
            &first.ledger,
        );
        assumptions.ticks = ticks.iter().map(|tick| (tick.event, tick.cpu)).collect();
        assumptions.ticks.sort_unstable();
        drop(first);
        let mut settling = Settling::default();
        for _ in 0..ROUNDS_MAX {
            let replay = self.replay_with(self.policy, Placement::Recorded, &assumptions)?;
            let again = settling.learn(&self.observed, &replay.ledger);
            if !again {
                break;
            }
            assumptions.offsets = settling.offsets();
        }
        let moved = settling.moved();
        assumptions.offsets = settled(&settling);
        if self.history.unseen_allocs > 0 {
            let early = Assumptions {
                unseen_when: UnseenWhen::Early,
                ..assumptions.clone()
            };
            if self.agreement(&early)? > self.agreement(&assumptions)? {
                assumptions = early;
            }
        }
        self.nudge(&mut assumptions)?;
        self.moved = moved_counts(&assumptions, &moved);
        (self.assumptions, self.ticks) = (assumptions, ticks);
        Ok(())
    }

    /// A drain set off by a block of several pages leaves the count open by as many: the offset
    /// nearby that makes most of the cache's later sequences agree is taken.
    fn nudge(&self, assumptions: &mut Assumptions) -> Result<(), TraceError> {
        let best = self.scores(assumptions)?;
        let wrong: Vec<(u16, usize)> =
            best.iter().filter(|(_, score)| !score.1).map(|(&key, _)| key).collect();
        let mut best: BTreeMap<(u16, usize), (usize, i64)> =
            wrong.iter().map(|key| (*key, (best[key].0, 0))).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        for shift in (1..=NUDGE_MAX).flat_map(|pages| [-pages, pages]) {
            let mut tried = assumptions.clone();
            for key in &wrong {
                *tried.offsets.entry(*key).or_default() += shift;
            }
            let scores = self.scores(&tried)?;
            for (key, best) in &mut best {
                let agree = scores.get(key).map_or(0, |score| score.0);
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
    fn scores(
        &self,
        assumptions: &Assumptions,
    ) -> Result<BTreeMap<(u16, usize), (usize, bool)>, TraceError> {
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        let mut scores = BTreeMap::new();
        for sequence in self.sequences(&replay.ledger) {
            let zone = self.world.zones.iter().position(|zone| zone.name() == sequence.zone);
            let score = scores.entry((sequence.cpu, zone.unwrap_or(0))).or_insert((0, true));
            *score = (score.0 + sequence.agree, score.1 && sequence.is_identical());
        }
        Ok(scores)
    }

    /// Elements of sequences that agree.
    fn agreement(&self, assumptions: &Assumptions) -> Result<usize, TraceError> {
        let replay = self.replay_with(self.policy, Placement::Recorded, assumptions)?;
        Ok(self
            .sequences(&replay.ledger)
            .iter()
            .map(|sequence| sequence.agree)
            .sum())
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
            let refills = account
                .refills
                .iter()
                .map(|refill| refill.blocks << refill.order);
            refills
                .chain(account.drains.iter().map(|drain| drain.pages))
                .collect::<Vec<u32>>()
        });
        let batch = (0..self.world.zones.len()).map(|zone| self.world.limits(zone, &self.policy).0);
        moved.chain(batch).max().unwrap_or(1)
    }

    /// Pages in each cache at the end: CPU, zone, printed count and limit.
    #[must_use]
    pub fn printed_caches(&self) -> Vec<(u16, usize, i64, i64)> {
        let after = self
            .recording
            .after
            .as_ref()
            .and_then(|snapshot| snapshot.zoneinfo.as_ref());
        let mut rows = Vec::new();
        for (zone, desc) in self.world.zones.iter().enumerate() {
            let info = after.and_then(|info| info.zone(u16::from(desc.node), desc.kind.name()));
            for set in info
                .map(|info| info.pagesets.as_slice())
                .unwrap_or_default()
            {
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
    good.map(|(cpu, zone, pages, _)| ((cpu, zone), pages))
        .collect()
}

fn read_history(
    recording: &Recording,
    world: &World,
    policy: &Policy,
) -> Result<(History, Option<Vec<Event>>), TraceError> {
    let mut historian = Historian::new(world, policy);
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
    Ok((historian.finish(), kept))
}
