//! The verdict on a twin: every row, every sequence, what was inferred, and one line that says
//! whether to believe it.

use std::collections::BTreeMap;

use pageyard::{EventItem, Policy, preset};
use pageyard_trace::error::TraceError;
use serde::Serialize;

use super::infer::Twin;
use super::ledger::Ledger;
use super::reasons;
use super::replay::{Glimpse, Oddities, Placement, Replay};
use super::score::{Row, Sequence, flow_rows};

/// How many batches of one size the kernel and the twin moved.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct SizeCount {
    /// `refill` or `drain`.
    pub what: &'static str,
    /// Zone.
    pub zone: String,
    /// Base pages of one batch.
    pub pages: u32,
    /// By the kernel.
    pub observed: u64,
    /// By the twin.
    pub predicted: u64,
}

/// Everything that is known about how well a twin follows its kernel.
#[derive(Clone, Debug, Serialize)]
pub struct TwinReport {
    /// Name of the recording.
    pub recording: String,
    /// Release of the recorded kernel.
    pub kernel: String,
    /// Policy of the twin.
    pub policy: String,
    /// Who chose it: `by its release`, or `as asked`.
    pub chosen_by: &'static str,
    /// Events of the recording.
    pub events: u64,
    /// Time from first to last event, nanoseconds.
    pub window_ns: u64,
    /// Largest number of pages that the kernel moved under one hold: the unit of slack.
    pub largest_batch: u32,
    /// Quantities.
    pub twin: Vec<Row>,
    /// Largest error over exercised rows above 20 largest batches; none if no row is.
    pub twin_worst_error_pct: Option<f64>,
    /// Sequences of refills and drains.
    pub sequences: Vec<Sequence>,
    /// Distribution of batch sizes.
    pub sizes: Vec<SizeCount>,
    /// What of the recording was unreadable or lost: the rest was replayed.
    pub faults: Vec<String>,
    /// What was not recorded and had to be inferred or assumed.
    pub inferred: Vec<String>,
    /// What happened outside the events, shown apart.
    pub apart: Vec<String>,
    /// Share of allocations that took the very page the kernel took, of those that could.
    pub same_page_pct: Option<f64>,
    /// A preset that fits better, if the sequences refute this one.
    pub better_preset: Option<String>,
}

impl TwinReport {
    /// Every exercised row within its bound.
    #[must_use]
    pub fn rows_within(&self) -> (usize, usize) {
        let exercised = self.twin.iter().filter(|row| row.exercised && row.scored);
        let (mut within, mut all) = (0, 0);
        for row in exercised {
            all += 1;
            within += usize::from(row.within);
        }
        (within, all)
    }

    /// Sequences identical, and all.
    #[must_use]
    pub fn sequences_identical(&self) -> (usize, usize) {
        let identical = self.sequences.iter().filter(|sequence| sequence.is_identical()).count();
        (identical, self.sequences.len())
    }
}

/// Replays with the kernel's own preset and placement, and reports.
///
/// # Errors
/// The recording cannot be read again.
pub fn report(twin: &Twin, policy_name: &str) -> Result<TwinReport, TraceError> {
    let replay = twin.replay(twin.policy, Placement::Recorded)?;
    let largest_batch = twin.largest_batch();
    let slack = f64::from(largest_batch);
    let end = twin.glimpse_after(&replay);
    let mut rows = flow_rows(&twin.world, &twin.observed, &replay.ledger, slack);
    let mut apart = Vec::new();
    rows.extend(free_rows(twin, &replay, &end, slack, &mut apart));
    rows.extend(numa_rows(twin, &end, slack, &mut apart));
    rows.extend(cache_rows(twin, &end, slack));
    rows.extend(block_rows(twin, &end));
    let worst = rows
        .iter()
        .filter(|row| row.scored && row.exercised && row.observed.abs() > 20.0 * slack)
        .filter_map(|row| row.error_pct)
        .reduce(f64::max);
    let mut sequences = twin.sequences(&replay.ledger);
    reasons::give(twin, &mut sequences)?;
    let (from_ns, to_ns) = twin.history.window_ns;
    let odd = replay.oddities;
    Ok(TwinReport {
        recording: twin.recording.name(),
        kernel: twin.recording.kernel().unwrap_or("unknown").into(),
        policy: policy_name.into(),
        chosen_by: chosen_by(twin),
        events: twin.history.events,
        window_ns: to_ns.saturating_sub(from_ns),
        largest_batch,
        twin_worst_error_pct: worst,
        better_preset: better_preset(twin, &sequences)?,
        sizes: sizes(twin, &replay.ledger),
        faults: twin.faults.clone(),
        inferred: inferred(twin, &replay),
        twin: rows,
        sequences,
        apart,
        same_page_pct: (odd.comparable > 0)
            .then(|| 100.0 * odd.same_page as f64 / odd.comparable as f64),
    })
}

/// Whether the twin's policy is the preset of the recorded release.
fn chosen_by(twin: &Twin) -> &'static str {
    let release = twin.recording.kernel().and_then(preset::Release::parse);
    match release.map(Policy::linux) == Some(twin.policy) {
        true => "by its release",
        false => "as asked",
    }
}

/// Change of free pages by zone: by the snapshots, and by what the events say.
fn free_rows(
    twin: &Twin,
    replay: &Replay<'_>,
    end: &Glimpse,
    slack: f64,
    apart: &mut Vec<String>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    // buddyinfo counts the lists themselves. zoneinfo's figure leaves out what each CPU has not
    // told the zone yet, up to its threshold.
    let counted = |snapshot: &Option<pageyard_trace::snapshot::Snapshot>, zone: usize| {
        let desc = &twin.world.zones[zone];
        let (snapshot, node, kind) = (snapshot.as_ref()?, u16::from(desc.node), desc.kind.name());
        let row = snapshot.buddyinfo.as_ref().and_then(|info| info.row(node, kind));
        let zoneinfo = || Some(snapshot.zoneinfo.as_ref()?.zone(node, kind)?.free as i64);
        row.map(|row| row.pages() as i64).or_else(zoneinfo)
    };
    for (zone, desc) in twin.world.zones.iter().enumerate() {
        let predicted = match replay.glimpses.first() {
            Some(start) if twin.snapshot_ns.0.is_some() => end.free[zone] - start.free[zone],
            _ => replay.ledger.free_change(zone),
        };
        let by_events = twin.observed.free_change(zone);
        let before = counted(&twin.recording.before, zone);
        let after = counted(&twin.recording.after, zone);
        let printed = before.zip(after).map(|(before, after)| after - before);
        let observed = printed.unwrap_or(by_events);
        let values = (observed as f64, predicted as f64, 0.0);
        rows.push(Row::new("change of free pages", desc.name(), None, values, slack));
        if observed != by_events {
            apart.push(format!(
                "{}: free pages changed by {observed} between the snapshots, by {by_events} over \
                 all events; {} are of what lies between snapshots and events, or left no event",
                desc.name(),
                observed - by_events
            ));
        }
    }
    rows
}

const NUMA: [(&str, EventItem); 6] = [
    ("numa_hit", EventItem::NumaHit),
    ("numa_miss", EventItem::NumaMiss),
    ("numa_foreign", EventItem::NumaForeign),
    ("interleave_hit", EventItem::NumaInterleave),
    ("local_node", EventItem::NumaLocal),
    ("other_node", EventItem::NumaOther),
];

/// Changes of the NUMA counters by node. Bulk allocations leave no event but count: what vmstat
/// says was allocated and the twin did not is added to the local hits, and said.
fn numa_rows(twin: &Twin, end: &Glimpse, slack: f64, apart: &mut Vec<String>) -> Vec<Row> {
    let stats = |snapshot: &Option<pageyard_trace::snapshot::Snapshot>| {
        snapshot.as_ref().and_then(|snapshot| snapshot.numastat.clone())
    };
    let (Some(before), Some(after)) = (stats(&twin.recording.before), stats(&twin.recording.after))
    else {
        return Vec::new();
    };
    let count = |node: u8, item: EventItem| -> f64 {
        let zones = twin.world.zones.iter().enumerate().filter(|(_, zone)| zone.node == node);
        zones.map(|(zone, _)| end.counters[zone][item as usize] as f64).sum()
    };
    let missing = bulk_pages(twin, end);
    let local: f64 = (0..twin.world.nodes as u8).map(|n| count(n, EventItem::NumaLocal)).sum();
    if missing != 0.0 {
        apart.push(format!(
            "vmstat counts {missing:+.0} pages allocated beyond the events (bulk allocations, and \
             what lies between snapshots and events): added to the local NUMA hits"
        ));
    }
    let mut rows = Vec::new();
    for node in 0..twin.world.nodes as u8 {
        for (name, item) in NUMA {
            let of = |stat: &pageyard_trace::snapshot::NumaStat| {
                stat.node(u16::from(node)).and_then(|stat| stat.get(name)).unwrap_or(0) as f64
            };
            let share = match item {
                EventItem::NumaHit | EventItem::NumaLocal if local > 0.0 => {
                    missing * count(node, EventItem::NumaLocal) / local
                }
                _ => 0.0,
            };
            let values = (of(&after) - of(&before), count(node, item) + share, 0.0);
            let mut row = Row::new(name, format!("node {node}"), None, values, slack);
            // One node has nothing to choose: its hits only count allocations again.
            row.scored = twin.world.nodes > 1;
            rows.push(row);
        }
    }
    rows
}

/// Pages that vmstat counts as allocated and the twin did not allocate.
fn bulk_pages(twin: &Twin, end: &Glimpse) -> f64 {
    let sum = |snapshot: &Option<pageyard_trace::snapshot::Snapshot>| {
        let stat = snapshot.as_ref()?.vmstat.as_ref()?;
        let kinds = ["pgalloc_dma", "pgalloc_dma32", "pgalloc_normal", "pgalloc_movable"];
        Some(kinds.iter().filter_map(|name| stat.get(name)).sum::<u64>() as f64)
    };
    let allocated: u64 =
        end.counters.iter().map(|zone| zone[EventItem::PagesAllocated as usize]).sum();
    match (sum(&twin.recording.before), sum(&twin.recording.after)) {
        (Some(before), Some(after)) => after - before - allocated as f64,
        _ => 0.0,
    }
}

/// Pages and limits of the per-CPU caches at the last snapshot.
fn cache_rows(twin: &Twin, end: &Glimpse, slack: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cpu, zone, count, high) in twin.printed_caches() {
        let Some(&(pages, limit)) = end.caches.get(&(cpu, zone)) else {
            continue;
        };
        let desc = &twin.world.zones[zone];
        let set = desc.pagesets.get(usize::from(cpu));
        let before = set.map_or(0.0, |set| set.count as f64);
        let values = (count as f64, f64::from(pages), before);
        let mut row = Row::new("pages in cache at end", desc.name(), Some(cpu), values, slack);
        row.scored = false;
        rows.push(row);
        let before = set.map_or(0.0, |set| set.high as f64);
        let values = (high as f64, f64::from(limit), before);
        let mut row = Row::new("limit of cache at end", desc.name(), Some(cpu), values, slack);
        row.scored = false;
        rows.push(row);
    }
    rows.retain(|row| row.observed != 0.0 || row.predicted != 0.0);
    rows
}

/// Free blocks by order and type at the end. Without kpageflags their positions are invented, so
/// they are shown and not scored.
fn block_rows(twin: &Twin, end: &Glimpse) -> Vec<Row> {
    let mut rows = Vec::new();
    let types = |snapshot: &Option<pageyard_trace::snapshot::Snapshot>| {
        snapshot.as_ref().and_then(|snapshot| snapshot.pagetypeinfo.clone())
    };
    let (before, after) = (types(&twin.recording.before), types(&twin.recording.after));
    for (zone, desc) in twin.world.zones.iter().enumerate() {
        for (order, blocks) in end.free_blocks[zone].iter().enumerate() {
            for t in pageyard::MigrateType::ALL {
                let printed = |info: &Option<pageyard_trace::snapshot::PageTypeInfo>| {
                    let info = info.as_ref()?;
                    let row = info.free_row(u16::from(desc.node), desc.kind.name(), t.name())?;
                    row.blocks.get(order).filter(|count| !count.at_least).map(|c| c.value as f64)
                };
                let (Some(was), Some(is)) = (printed(&before), printed(&after)) else {
                    continue;
                };
                let quantity = format!("free blocks of order {order}, {}", t.name());
                let values = (is, blocks[t as usize] as f64, was);
                let mut row = Row::new(&quantity, desc.name(), None, values, 0.0);
                row.scored = false;
                if row.exercised {
                    rows.push(row);
                }
            }
        }
    }
    rows
}

fn sizes(twin: &Twin, predicted: &Ledger) -> Vec<SizeCount> {
    let mut counts: BTreeMap<(&'static str, usize, u32), (u64, u64)> = BTreeMap::new();
    let mut add = |ledger: &Ledger, is_observed: bool| {
        for (&(_, zone), account) in &ledger.accounts {
            let refills = account.refills.iter().map(|r| ("refill", r.blocks << r.order));
            let drains = account.drains.iter().map(|d| ("drain", d.pages));
            for (what, pages) in refills.chain(drains) {
                let slot = counts.entry((what, zone, pages)).or_default();
                if is_observed {
                    slot.0 += 1;
                } else {
                    slot.1 += 1;
                }
            }
        }
    };
    add(&twin.observed, true);
    add(predicted, false);
    counts
        .into_iter()
        .map(|((what, zone, pages), (observed, predicted))| {
            let zone = twin.world.zones[zone].name();
            SizeCount { what, zone, pages, observed, predicted }
        })
        .collect()
}

/// What was inferred or assumed, with the evidence.
fn inferred(twin: &Twin, replay: &Replay<'_>) -> Vec<String> {
    let mut lines = vec![format!("free blocks at the first event: {}", replay.start.free_map)];
    lines.extend(twin.world.remarks.iter().cloned());
    if replay.start.unplaced_pages > 0 {
        let pages = replay.start.unplaced_pages;
        lines.push(format!("{pages} free pages of the first snapshot found no room of their own"));
    }
    lines.extend(twin.world.limit_mismatches(&twin.policy));
    let (explained, frees) = twin.history.explained_frees;
    lines.push(format!(
        "the list of {explained} of {frees} freed pages from what was seen of them next; of the \
         others from the type of their pageblock"
    ));
    lines.extend(cache_lines(twin, replay));
    lines.extend(tick_lines(twin));
    lines.extend(drain_lines(twin));
    lines.extend(reclaim_lines(twin));
    for (pid, pages) in twin.history.interleavers.found() {
        lines
            .push(format!("task {pid} interleaves: its {pages} user pages change node one by one"));
    }
    if let (tasks @ 1.., pages) = twin.history.interleavers.overflows() {
        lines.push(format!(
            "{pages} pages of {tasks} task(s) from another node overflowed: the tasks take a tenth \
             or more from the node of their CPU, so they are not bound"
        ));
    }
    lines.extend(odd_lines(&replay.oddities, twin.history.failed_allocs));
    lines
}

/// Caches that start with other counts than zoneinfo prints.
fn cache_lines(twin: &Twin, replay: &Replay<'_>) -> Vec<String> {
    let name = |zone: usize| twin.world.zones[zone].name();
    let differing = replay.start.caches.iter().filter(|cache| cache.used != cache.printed);
    let mut lines: Vec<String> = differing
        .map(|cache| {
            let (cpu, zone, used) = (cache.cpu, name(cache.zone), cache.used);
            let (printed, seen) = (cache.printed, cache.seen);
            format!(
                "CPU {cpu} {zone}: zoneinfo prints {printed} pages in its cache, the twin starts \
                 with {used} ({seen} of them were seen to come out)"
            )
        })
        .collect();
    for &(cpu, zone, pages, agrees) in &twin.moved {
        let why = match agrees {
            true => "its first drain then falls on the kernel's",
            false => "the moment of the snapshot, or its later sequence",
        };
        let zone = name(zone);
        lines.push(format!("CPU {cpu} {zone}: its count moved by {pages:+} pages ({why})"));
    }
    lines
}

/// Drains by other CPUs, and frees in a row before the first event.
fn drain_lines(twin: &Twin) -> Vec<String> {
    let remote = twin.history.unasked.iter().filter(|drain| drain.cpu != drain.by).count();
    let mut lines = Vec::new();
    if remote > 0 {
        lines.push(format!(
            "{remote} drains of other CPUs' caches: whose, by the events that put their pages there"
        ));
    }
    for (&(cpu, zone), run) in &twin.history.first_free_runs {
        let zone = twin.world.zones[zone].name();
        lines.push(format!(
            "CPU {cpu} {zone}: its frees had doubled {run} time(s) before the first event (a block \
             of order 1 to 3 emptied it far below its limit)"
        ));
    }
    lines
}

fn reclaim_lines(twin: &Twin) -> Vec<String> {
    let line = |stretch: &super::reclaim::Stretch| {
        let seen = match (stretch.from_wake, stretch.to_drain) {
            (true, false) => "from its wake to its last page",
            (_, true) => "from its wake to a drain of three batches, as only its cap makes",
            (false, false) => "kswapd was seen",
        };
        let (node, from, to) = (stretch.node, stretch.from, stretch.to);
        format!("node {node}: background reclaim at work from event {from} to {to} ({seen})")
    };
    twin.history.reclaim.iter().map(line).collect()
}

fn tick_lines(twin: &Twin) -> Vec<String> {
    let line = |tick: &super::ticks::Tick| {
        let first_ns = tick.times_ns[0].saturating_sub(twin.history.window_ns.0);
        format!(
            "CPU {}: {} tick(s), the first {:.3} s after the first event: the limit of {} is \
             printed as {} at the end, {} without",
            tick.cpu,
            tick.times_ns.len(),
            first_ns as f64 / 1e9,
            twin.world.zones[tick.zone].name(),
            tick.printed,
            tick.without
        )
    };
    twin.ticks.iter().map(line).collect()
}

fn odd_lines(odd: &Oddities, failed: u64) -> Vec<String> {
    let notes = [
        (odd.unseen_allocs, "allocations left no event and were placed by the order of the lists"),
        (
            odd.silent_refills,
            "refills were for allocations that left no event: they emptied the list",
        ),
        (
            odd.taken_blocks,
            "pages were freed that lay in the buddy lists: compaction took them there, unseen",
        ),
        (odd.compactions, "pageblocks were made whole where the kernel's compaction had made one"),
        (odd.unknown_frees, "frees of pages that the twin never had were passed over"),
        (odd.split_frees, "blocks were freed with another order than they were allocated with"),
        (odd.reused_names, "pages were allocated again without a free in between"),
        (failed, "allocations failed on the recorded kernel and were not replayed"),
        (odd.failed, "requests failed on the twin"),
    ];
    notes
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect()
}

/// Tries the preset of every era when the sequences refute the chosen one.
fn better_preset(twin: &Twin, sequences: &[Sequence]) -> Result<Option<String>, TraceError> {
    let likeness = |sequences: &[Sequence]| sequences.iter().map(Sequence::likeness).sum::<i64>();
    // A long recording is read again for every try: too dear for a hint.
    if sequences.iter().all(Sequence::is_identical) || !twin.is_kept() {
        return Ok(None);
    }
    let own = likeness(sequences);
    let mut best: Option<(i64, String)> = None;
    let mut tried: Vec<Policy> = vec![twin.policy];
    for release in preset::Release::all() {
        let policy = Policy::linux(release);
        if tried.contains(&policy) {
            continue;
        }
        tried.push(policy);
        let replay = twin.replay(policy, Placement::Recorded)?;
        let score = likeness(&twin.sequences(&replay.ledger));
        if score > best.as_ref().map_or(own, |best| best.0) {
            best = Some((score, release.to_string()));
        }
    }
    Ok(best.map(|(score, name)| format!("{name} ({score} elements in step against {own})")))
}
