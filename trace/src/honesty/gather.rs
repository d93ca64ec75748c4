//! One pass over a recording, counting.

use std::collections::{BTreeMap, HashMap};

use super::lists::ListsWalk;
use super::pages::{Ledger, PageCounts};
use super::reconcile::{self, Traced, Window};
use super::{CpuRow, KindRow, Report, verdict};
use crate::error::TraceError;
use crate::event::{Context, Event, Kind, PFN_NONE};
use crate::reader::EventReader;
use crate::recording::Recording;

/// Waiting for locks, by `contention_begin` and `contention_end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Contention {
    /// Waits that began.
    pub begun: u64,
    /// Waits that began and ended within the recording.
    pub matched: u64,
    /// Ends without a beginning.
    pub ended_only: u64,
    /// Time waited in matched waits.
    pub wait_ns: u64,
    /// The longest.
    pub wait_max_ns: u64,
    /// The three locks (addresses, hashed in text) waited for longest: waits and nanoseconds.
    pub locks: Vec<(u64, u64, u64)>,
}

/// Locks counted apart; a kernel under load shows some thousand.
const LOCKS_MAX: usize = 1 << 16;

#[derive(Default)]
struct Waits {
    sum: Contention,
    open: HashMap<(u16, i32, bool), (u64, u64)>,
    locks: BTreeMap<u64, (u64, u64)>,
}

impl Waits {
    fn take(&mut self, event: &Event) {
        let interrupt = event.context.0 & (Context::HARDIRQ | Context::SOFTIRQ | Context::NMI) != 0;
        // A waiter may move to another CPU while it sleeps, but not while it spins: the CPU is
        // part of the key for the idle task, of which there is one on each.
        let cpu = if event.pid == 0 { event.cpu } else { 0 };
        let key = (cpu, event.pid, interrupt);
        match event.kind {
            Kind::ContentionBegin { lock, .. } => {
                self.sum.begun += 1;
                self.open.insert(key, (lock, event.time_ns));
            }
            Kind::ContentionEnd { .. } => {
                let Some((lock, begin_ns)) = self.open.remove(&key) else {
                    self.sum.ended_only += 1;
                    return;
                };
                let wait_ns = event.time_ns.saturating_sub(begin_ns);
                self.sum.matched += 1;
                self.sum.wait_ns = self.sum.wait_ns.saturating_add(wait_ns);
                self.sum.wait_max_ns = self.sum.wait_max_ns.max(wait_ns);
                if self.locks.len() < LOCKS_MAX || self.locks.contains_key(&lock) {
                    let (count, sum) = self.locks.entry(lock).or_default();
                    (*count, *sum) = (*count + 1, sum.saturating_add(wait_ns));
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Contention {
        let mut locks: Vec<_> =
            self.locks.into_iter().map(|(lock, (count, wait))| (lock, count, wait)).collect();
        locks.sort_by_key(|(lock, _, wait)| (std::cmp::Reverse(*wait), *lock));
        locks.truncate(3);
        self.sum.locks = locks;
        self.sum
    }
}

#[derive(Default)]
struct Gatherer {
    kinds: BTreeMap<(u16, &'static str), u64>,
    cpus: BTreeMap<u16, CpuRow>,
    ledger: Ledger,
    failed: BTreeMap<u8, u64>,
    waits: Waits,
    traced: Traced,
    lists: Option<ListsWalk>,
}

impl Gatherer {
    fn take(&mut self, event: &Event) {
        if event.kind != Kind::Other {
            *self.kinds.entry((event.cpu, event.kind.name())).or_default() += 1;
        }
        let row = self.cpus.entry(event.cpu).or_insert_with(|| CpuRow {
            cpu: event.cpu,
            first_ns: event.time_ns,
            last_ns: event.time_ns,
            ..CpuRow::default()
        });
        let gap_ns = event.time_ns.saturating_sub(row.last_ns);
        if gap_ns > row.gap_ns {
            (row.gap_ns, row.gap_at_ns) = (gap_ns, row.last_ns);
        }
        row.events += 1;
        row.last_ns = row.last_ns.max(event.time_ns);
        if let Some(lists) = &mut self.lists {
            lists.take(event);
        }
        match event.kind {
            Kind::PageAlloc { pfn: PFN_NONE, order, .. } => {
                self.ledger.counts.failed_events += 1;
                *self.failed.entry(order).or_default() += 1;
            }
            Kind::PageAlloc { pfn, order, .. } => {
                self.ledger.alloc(pfn, order);
                self.traced.alloc(event.time_ns, pfn, order);
            }
            Kind::PageFree { pfn, order } => {
                self.ledger.free(pfn, order);
                self.traced.free(event.time_ns, order);
            }
            Kind::ContentionBegin { .. } | Kind::ContentionEnd { .. } => self.waits.take(event),
            _ => {}
        }
    }
}

pub(super) fn gather(
    recording: &Recording,
    mut progress: impl FnMut(&EventReader) -> bool,
) -> Result<Report, TraceError> {
    let mut reader = recording.events()?;
    let mut gatherer = Gatherer {
        traced: Traced::of(recording),
        lists: ListsWalk::of(recording),
        ..Gatherer::default()
    };
    let mut block = Vec::new();
    let mut first_ns = None;
    while reader.read_block(&mut block)? {
        first_ns = first_ns.or_else(|| block.first().map(|event| event.time_ns));
        block.iter().for_each(|event| gatherer.take(event));
        if !progress(&reader) {
            break;
        }
    }
    let mut counts: PageCounts = gatherer.ledger.counts;
    counts.failed_events = gatherer.failed.values().sum();
    let first_ns = first_ns.unwrap_or(0);
    let (cpus, last_ns) = cpu_rows(gatherer.cpus, first_ns);
    let mut report = Report {
        name: recording.name(),
        format: recording.format_name(),
        kernel: recording.kernel().map(str::to_string),
        clock: recording.clock().map(str::to_string),
        command: recording.command.clone(),
        events: reader.events_read(),
        first_ns,
        last_ns,
        kinds: kinds(&gatherer.kinds, &cpus, &reader),
        cpus,
        lost_elsewhere: 0,
        lost_uncounted: 0,
        pages: counts,
        failed_by_order: gatherer.failed.into_iter().collect(),
        contention: gatherer.waits.finish(),
        reconciled: reconcile::rows(recording, &gatherer.traced),
        freed_unseen: None,
        free_lists: None,
        window: Window::of(recording, first_ns, last_ns),
        backwards: reader.backwards(),
        unfinished_line: reader.unfinished(),
        damage: Vec::new(),
        damage_count: reader.damage().count() + recording.damage.len() as u64,
        verdicts: Vec::new(),
    };
    put_damage(&mut report, recording, &reader, gatherer.ledger.orders_impossible);
    if report.window.inside == Some(true) {
        report.freed_unseen = gatherer.traced.freed_unseen(recording);
        let lists = gatherer.lists.as_ref();
        report.free_lists = lists.and_then(|walk| walk.finish(recording, &report));
    }
    report.put_losses(reader.lost(), recording);
    report.verdicts = verdict::of(&report, recording);
    Ok(report)
}

/// Rows by CPU, and the last time stamp of all.
fn cpu_rows(cpus: BTreeMap<u16, CpuRow>, first_ns: u64) -> (Vec<CpuRow>, u64) {
    let mut cpus: Vec<CpuRow> = cpus.into_values().collect();
    let last_ns = cpus.iter().map(|cpu| cpu.last_ns).max().unwrap_or(0);
    for row in &mut cpus {
        // Silence before a CPU's first event and after its last is silence, too.
        for (from, to) in [(first_ns, row.first_ns), (row.last_ns, last_ns)] {
            if to.saturating_sub(from) > row.gap_ns {
                (row.gap_ns, row.gap_at_ns) = (to - from, from);
            }
        }
    }
    (cpus, last_ns)
}

fn put_damage(report: &mut Report, recording: &Recording, reader: &EventReader, orders: u64) {
    let damage = &mut report.damage;
    if orders > 0 {
        damage.push(format!("{orders} events with an order that no kernel has"));
        report.damage_count += orders;
    }
    let trace = recording.trace_path().file_name().map(|name| name.to_string_lossy());
    let trace = trace.as_deref().unwrap_or("trace");
    damage.extend(reader.damage().faults().iter().map(|fault| format!("{trace}: {fault}")));
    damage.extend(recording.damage.iter().map(|(name, fault)| format!("{name}: {fault}")));
}

/// Kinds with their counts by CPU; uninterpreted ones have their own names, from the reader.
fn kinds(
    counts: &BTreeMap<(u16, &'static str), u64>,
    cpus: &[CpuRow],
    reader: &EventReader,
) -> Vec<KindRow> {
    let mut rows: BTreeMap<&str, KindRow> = BTreeMap::new();
    for ((cpu, name), count) in counts {
        let row = rows.entry(name).or_insert_with(|| KindRow {
            name: (*name).to_string(),
            events: 0,
            per_cpu: vec![0; cpus.len()],
        });
        row.events += count;
        if let Ok(index) = cpus.binary_search_by_key(cpu, |row| row.cpu) {
            row.per_cpu[index] += count;
        }
    }
    let mut rows: Vec<KindRow> = rows.into_values().collect();
    rows.extend(reader.others().map(|(name, events)| KindRow {
        name: name.to_string(),
        events,
        per_cpu: Vec::new(),
    }));
    rows.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.name.cmp(&b.name)));
    rows
}
