//! The free lists against the events: pages that left or joined them unseen.
//!
//! buddyinfo is read under the zone's lock, and under the same lock every block that leaves a free
//! list emits `mm_page_alloc_zone_locked` (from 6.10 on a fallback that takes without claiming, or
//! takes a whole pageblock, emits only `mm_page_alloc_extfrag`) and every block of a per-CPU list
//! that joins one `mm_page_pcpu_drain`. Orders that no per-CPU list holds are freed straight to the
//! lists, at `mm_page_free`. So with all events there, the sums are equal to the page.

use std::ops::Range;

use pageyard::policy::{PcpLists, Policy};
use pageyard::preset::Release;

use super::Report;
use super::between::Between;
use super::pages::ORDER_MAX;
use crate::event::{Event, Kind, PFN_NONE};
use crate::recording::Recording;
use crate::snapshot::{BuddyInfo, Snapshot};

/// Pageblocks are of this order where pagetypeinfo does not say it.
const PAGEBLOCK_ORDER: u8 = 9;
/// Events without which the sums mean nothing.
const NEEDED: [&str; 3] = ["mm_page_free", "mm_page_alloc_zone_locked", "mm_page_pcpu_drain"];

/// How one zone's free lists changed between the two readings of buddyinfo.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FreeListChange {
    /// NUMA node; none where the row is for all zones.
    pub node: Option<u16>,
    /// Zone name, as `Normal`; none where the row is for all zones.
    pub zone: Option<String>,
    /// Pages by which they grew, by buddyinfo.
    pub counted: i64,
    /// Pages by which they grew, by the events; the nearest to `counted` that the times of the
    /// readings allow.
    pub traced: i64,
}

impl FreeListChange {
    /// Pages that joined the lists without an event; negative when they left.
    #[must_use]
    pub fn unseen(&self) -> i64 {
        self.counted.saturating_sub(self.traced)
    }
}

/// The free lists between the two readings of buddyinfo.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FreeLists {
    /// Zones in the order of buddyinfo; one row for all where a page's zone cannot be told.
    pub zones: Vec<FreeListChange>,
    /// Pages of the largest free block.
    pub largest_pages: u64,
    /// Compaction worked in that time. It takes free pages, which its own events count, and may
    /// keep a block while that is freed, of which no event tells.
    pub compaction: bool,
}

impl FreeLists {
    /// Pages that left and that joined the lists without an event, of all zones.
    #[must_use]
    pub fn unseen(&self) -> (u64, u64) {
        let of = |sign: i64| {
            let zones = self.zones.iter().map(|zone| zone.unseen());
            zones.filter(|unseen| unseen.signum() == sign).map(i64::unsigned_abs).sum()
        };
        (of(-1), of(1))
    }
}

/// Follows the free lists through the events.
#[derive(Debug)]
pub(super) struct ListsWalk {
    lists: PcpLists,
    pageblock_order: u8,
    /// A fallback emits its event behind that of the taking, if there is one.
    fallback_last: bool,
    zones: Vec<(Range<u64>, u16, String, Between)>,
    elsewhere: Between,
    /// The block that each CPU took in its last event, or [`PFN_NONE`].
    just_taken: Vec<u64>,
}

impl ListsWalk {
    /// None where the recording does not say what is needed.
    pub(super) fn of(recording: &Recording) -> Option<ListsWalk> {
        let before = recording.before.as_ref()?;
        let release = Release::parse(recording.kernel()?)?;
        let read = |name| recording.read_time(name);
        let sum = Between::new(read("buddyinfo.before")?, read("buddyinfo.after")?);
        let mut zones = Vec::new();
        for zone in before.zoneinfo.iter().flat_map(|info| &info.zones).filter(|z| z.populated()) {
            let start = zone.start_pfn.unwrap_or(0);
            let pages = start..start.saturating_add(zone.spanned);
            zones.push((pages, zone.node, zone.name.clone(), sum.clone()));
        }
        zones.sort_by_key(|(pages, ..)| pages.start);
        if zones.windows(2).any(|pair| pair[1].0.start < pair[0].0.end) {
            zones.clear();
        }
        let types = before.pagetypeinfo.as_ref();
        let pageblock_order = types.and_then(|types| types.pageblock_order?.try_into().ok());
        Some(ListsWalk {
            lists: Policy::linux(release).pcp_lists,
            pageblock_order: pageblock_order.unwrap_or(PAGEBLOCK_ORDER),
            fallback_last: release.since(6, 10),
            zones,
            elsewhere: sum,
            just_taken: Vec::new(),
        })
    }

    pub(super) fn take(&mut self, event: &Event) {
        let cpu = usize::from(event.cpu);
        if self.just_taken.len() <= cpu {
            self.just_taken.resize(cpu + 1, PFN_NONE);
        }
        let just_taken = std::mem::replace(&mut self.just_taken[cpu], PFN_NONE);
        let (pfn, pages) = match event.kind {
            // Old kernels emit the event for a taking that failed, too, with no page.
            Kind::ZoneLocked { pfn: 0 | PFN_NONE, .. } => return,
            Kind::ZoneLocked { pfn, order, .. } => {
                self.just_taken[cpu] = pfn;
                (pfn, -size(order))
            }
            Kind::Extfrag { pfn, alloc_order, .. } if self.fallback_last && pfn != just_taken => {
                (pfn, -size(alloc_order))
            }
            Kind::PcpuDrain { pfn, order, .. } => (pfn, size(order)),
            Kind::PageFree { pfn, order } if !self.lists.hold(order, self.pageblock_order) => {
                (pfn, size(order))
            }
            Kind::Compaction { b, .. } if isolates_free(&event.kind) => {
                (PFN_NONE, -i64::try_from(b).unwrap_or(i64::MAX))
            }
            _ => return,
        };
        let zone = self.zones.iter_mut().find(|(range, ..)| range.contains(&pfn));
        zone.map_or(&mut self.elsewhere, |(.., sum)| sum).add(event.time_ns, pages);
    }

    /// What the events say beside what buddyinfo says; none where either is not known.
    pub(super) fn finish(&self, recording: &Recording, report: &Report) -> Option<FreeLists> {
        let buddy = |snapshot: &'_ Option<Snapshot>| -> Option<BuddyInfo> {
            snapshot.as_ref()?.buddyinfo.clone()
        };
        let (before, after) = (buddy(&recording.before)?, buddy(&recording.after)?);
        if !self.recorded(recording, report) {
            return None;
        }
        let mut zones = Vec::new();
        for row in &before.rows {
            let later = after.row(row.node, &row.zone)?;
            let walked =
                self.zones.iter().find(|(_, n, name, _)| (*n, name) == (row.node, &row.zone));
            let counted = (later.pages() as i64).wrapping_sub(row.pages() as i64);
            zones.push((row, counted, walked.map(|(.., sum)| sum.range())));
        }
        let told = !self.elsewhere.any && zones.iter().all(|(.., range)| range.is_some());
        let zones = if told {
            let change = |(row, counted, range): (&crate::snapshot::BuddyRow, i64, Option<_>)| {
                let (node, zone) = (Some(row.node), Some(row.zone.clone()));
                FreeListChange { node, zone, counted, traced: nearest(counted, range) }
            };
            zones.into_iter().map(change).collect()
        } else {
            let sums = self.zones.iter().map(|(.., sum)| sum).chain([&self.elsewhere]);
            let add = |a: std::ops::RangeInclusive<i64>, b: std::ops::RangeInclusive<i64>| {
                a.start().saturating_add(*b.start())..=a.end().saturating_add(*b.end())
            };
            let range = sums.map(Between::range).reduce(add);
            let counted = zones.iter().fold(0, |sum: i64, (_, n, _)| sum.saturating_add(*n));
            vec![FreeListChange {
                node: None,
                zone: None,
                counted,
                traced: nearest(counted, range),
            }]
        };
        let orders = before.rows.iter().map(|row| row.blocks.len()).max()?;
        let largest_pages = size(u8::try_from(orders).ok()?.checked_sub(1)?).unsigned_abs();
        Some(FreeLists { zones, largest_pages, compaction: compacted(recording, report) })
    }

    /// True when the events were recorded: they happened, or the recording says that they did not.
    fn recorded(&self, recording: &Recording, report: &Report) -> bool {
        let meta = recording.extra("meta");
        let meta: Option<serde_json::Value> =
            meta.and_then(|text| serde_json::from_str(&text).ok());
        let listed = meta.as_ref().and_then(|meta| meta.get("events"));
        let fallback = listed.filter(|_| self.fallback_last).map(|_| "mm_page_alloc_extfrag");
        NEEDED.into_iter().chain(fallback).all(|name| {
            report.kinds.iter().any(|kind| kind.name == name)
                || listed.is_some_and(|events| events.get(format!("kmem:{name}")).is_some())
        })
    }
}

/// Pages of a block; nothing for orders that no kernel has.
fn size(order: u8) -> i64 {
    if order > ORDER_MAX { 0 } else { 1 << order }
}

fn nearest(counted: i64, range: Option<std::ops::RangeInclusive<i64>>) -> i64 {
    range.map_or(counted, |range| counted.clamp(*range.start(), *range.end()))
}

/// True for compaction's events that count free pages taken.
fn isolates_free(kind: &Kind) -> bool {
    matches!(
        kind.name(),
        "mm_compaction_isolate_freepages" | "mm_compaction_fast_isolate_freepages"
    )
}

fn compacted(recording: &Recording, report: &Report) -> bool {
    let scanned = |snapshot: &Option<Snapshot>| -> Option<u64> {
        snapshot.as_ref()?.vmstat.as_ref()?.get("compact_free_scanned")
    };
    scanned(&recording.before) != scanned(&recording.after)
        || report.kinds.iter().any(|kind| kind.name.ends_with("isolate_freepages"))
}
