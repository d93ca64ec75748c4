//! The events against the kernel's own counters: what left no event.
//!
//! `alloc_pages_bulk` emits no `mm_page_alloc`, though the frees of its pages are seen; compaction
//! takes free pages without an event, too. `/proc/vmstat` counts all of them.

use super::between::Between;
use crate::recording::Recording;
use crate::snapshot::{Snapshot, VmStat};

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Reconciled {
    /// Name in `/proc/vmstat`.
    pub counter: String,
    /// Pages that it grew by between the snapshots.
    pub counted: u64,
    /// Pages in the events of the same time.
    pub traced: u64,
}

impl Reconciled {
    /// Pages without an event; negative when the events hold more than the counter grew.
    #[must_use]
    pub fn missing(&self) -> i64 {
        self.counted as i64 - self.traced as i64
    }
}

/// Where the snapshots lie in the recording's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Window {
    /// There is a snapshot before, and one after.
    pub before: bool,
    /// There is a snapshot after.
    pub after: bool,
    /// When the snapshot before was complete, by the recording's clock.
    pub before_end_ns: Option<u64>,
    /// When reading the snapshot after began.
    pub after_begin_ns: Option<u64>,
    /// Known to lie within the traced time: the events count exactly what the snapshots do.
    pub inside: Option<bool>,
}

impl Window {
    pub(super) fn of(recording: &Recording, first_ns: u64, last_ns: u64) -> Window {
        let times = |end: &'static str| {
            let pieces = recording.read_times.iter().filter(move |time| time.file.ends_with(end));
            pieces.map(|time| (time.begin_ns, time.end_ns))
        };
        let before_end_ns = times(".before").map(|(_, end)| end).max();
        let after_begin_ns = times(".after").map(|(begin, _)| begin).min();
        // Tracing was on before the first piece was read and after the last: events surround them,
        // or at least the recording's own reads of the snapshots do.
        let inside = match (before_end_ns, after_begin_ns) {
            (Some(before), Some(after)) => Some(first_ns <= before && after <= last_ns),
            _ => None,
        };
        let (before, after) = (recording.before.is_some(), recording.after.is_some());
        Window { before, after, before_end_ns, after_begin_ns, inside }
    }
}

/// Pages in the events, between the readings of vmstat where their times are known.
#[derive(Debug, Default)]
pub(super) struct Traced {
    /// First and last page frame, and counter, of each zone.
    zones: Vec<(u64, u64, usize)>,
    /// Zone names, lower case: the counters' endings.
    names: Vec<String>,
    allocated: Vec<u64>,
    /// Allocated outside every known zone.
    elsewhere: u64,
    freed: u64,
    /// The same between the two readings, as exact as their times allow.
    freed_between: Option<Between>,
    from_ns: u64,
    to_ns: u64,
}

impl Traced {
    pub(super) fn of(recording: &Recording) -> Traced {
        let mut traced = Traced { to_ns: u64::MAX, ..Traced::default() };
        // Within a reading the counter may or may not hold an event: its middle halves the error.
        let middle = |range: std::ops::RangeInclusive<u64>| {
            range.start() + (range.end() - range.start()) / 2
        };
        let before = recording.read_time("vmstat.before");
        let after = recording.read_time("vmstat.after");
        let both = before.clone().zip(after.clone());
        traced.freed_between = both.map(|(before, after)| Between::new(before, after));
        if let Some(range) = before {
            traced.from_ns = middle(range);
        }
        if let Some(range) = after {
            traced.to_ns = middle(range);
        }
        let zones = recording.before.as_ref().and_then(|before| before.zoneinfo.as_ref());
        for zone in zones.iter().flat_map(|info| &info.zones).filter(|zone| zone.populated()) {
            let Some(start) = zone.start_pfn else {
                continue;
            };
            let name = zone.name.to_lowercase();
            let index = traced.names.iter().position(|known| *known == name);
            let index = index.unwrap_or(traced.names.len());
            if index == traced.names.len() {
                traced.names.push(name);
                traced.allocated.push(0);
            }
            traced.zones.push((start, start.saturating_add(zone.spanned), index));
        }
        traced
    }

    fn within(&self, time_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&time_ns)
    }

    pub(super) fn alloc(&mut self, time_ns: u64, pfn: u64, order: u8) {
        if !self.within(time_ns) {
            return;
        }
        let pages = 1u64.checked_shl(u32::from(order)).unwrap_or(0);
        let found = self.zones.iter().find(|(start, end, _)| (*start..*end).contains(&pfn));
        let sum = match found {
            Some((_, _, index)) => &mut self.allocated[*index],
            None => &mut self.elsewhere,
        };
        *sum = sum.saturating_add(pages);
    }

    pub(super) fn free(&mut self, time_ns: u64, order: u8) {
        let pages = 1u64.checked_shl(u32::from(order)).unwrap_or(0);
        if self.within(time_ns) {
            self.freed = self.freed.saturating_add(pages);
        }
        if let Some(between) = &mut self.freed_between {
            between.add(time_ns, i64::try_from(pages).unwrap_or(i64::MAX));
        }
    }

    /// Pages that `pgfree` counts and no event shows, whenever it was looked at within a reading.
    pub(super) fn freed_unseen(&self, recording: &Recording) -> Option<u64> {
        let pgfree = |snapshot: &Option<Snapshot>| -> Option<u64> {
            snapshot.as_ref()?.vmstat.as_ref()?.get("pgfree")
        };
        let counted = pgfree(&recording.after)?.wrapping_sub(pgfree(&recording.before)?) as i64;
        let most = *self.freed_between.as_ref()?.range().end();
        Some(u64::try_from(counted.saturating_sub(most)).unwrap_or(0))
    }
}

/// The rows; empty without two readings of vmstat.
pub(super) fn rows(recording: &Recording, traced: &Traced) -> Vec<Reconciled> {
    let stat =
        |snapshot: &Option<Snapshot>| -> Option<VmStat> { snapshot.as_ref()?.vmstat.clone() };
    let (Some(before), Some(after)) = (stat(&recording.before), stat(&recording.after)) else {
        return Vec::new();
    };
    let grown = |name: &str| Some(after.get(name)?.wrapping_sub(before.get(name)?));
    let mut rows = Vec::new();
    for (name, pages) in traced.names.iter().zip(&traced.allocated) {
        let counter = format!("pgalloc_{name}");
        if let Some(counted) = grown(&counter) {
            rows.push(Reconciled { counter, counted, traced: *pages });
        }
    }
    let sum = after.sum("pgalloc_").wrapping_sub(before.sum("pgalloc_"));
    let pages = traced.allocated.iter().sum::<u64>() + traced.elsewhere;
    rows.push(Reconciled { counter: "pgalloc (all)".to_string(), counted: sum, traced: pages });
    if let Some(counted) = grown("pgfree") {
        rows.push(Reconciled { counter: "pgfree".to_string(), counted, traced: traced.freed });
    }
    rows
}
