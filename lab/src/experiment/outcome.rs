//! What came out of a cell: whole numbers, so that it reads back as it was written.

use std::collections::BTreeMap;

use pageyard::platform::Site;
use pageyard_sim::stats::{LockAt, LockTime, Stats};
use serde::{Deserialize, Serialize};

use crate::cells::yard::{Measured, OutOfMemory};

/// Time at one group of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockFigures {
    /// Which: `zone refill`, `lru`, and so on.
    pub at: String,
    /// Times it was taken.
    pub taken: u64,
    /// Of them, after waiting.
    pub waited: u64,
    /// Waiting, thousandths of all CPUs' time.
    pub wait_thousandths: u64,
    /// Mean hold, picoseconds.
    pub hold_mean_ps: u64,
    /// Longest hold, picoseconds.
    pub hold_max_ps: u64,
}

/// Uses of lines of one structure that were found at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFigures {
    /// Whose lines.
    pub structure: String,
    /// Where they were found.
    pub source: String,
    /// How often.
    pub count: u64,
}

/// What results call the contents of pages.
pub const CONTENT: &str = "Content";

/// The result of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellResult {
    /// Units of work a second, all CPUs together.
    pub score_per_s: u64,
    /// Thousandths of processes that are unmapping at any time.
    pub unmapping_thousandths: u64,
    /// Length of the measured stretch, picoseconds of virtual time.
    pub simulated_ps: u64,
    /// Line events in it.
    pub line_events: u64,
    /// Zone locks taken by allocations.
    pub zone_alloc: LockFigures,
    /// Zone locks taken by frees.
    pub zone_free: LockFigures,
    /// LRU locks.
    pub lru: LockFigures,
    /// Each lock by call site.
    pub locks: Vec<LockFigures>,
    /// Lines by structure and source.
    pub lines: Vec<LineFigures>,
    /// Holds of zone locks that every CPU should have seen; none where they are not waited for.
    pub holds_wanted: Option<u64>,
    /// Holds by the CPU with the fewest. Less than wanted: it ended by work done, as the caches
    /// of CPUs hold too much.
    pub holds_least: u64,
    /// The end of a workload that takes more than there is: nothing was measured.
    pub out_of_memory: Option<OutOfMemory>,
    /// Figures that only this workload has, by name: thousandths of their unit.
    pub own: BTreeMap<String, u64>,
}

/// Name of a lock and a place where it is taken.
fn name_of(at: LockAt) -> String {
    let (lock, site) = match at {
        LockAt::Zone(site) => ("zone", site),
        LockAt::Pcp(site) => ("pcp", site),
        LockAt::Workload(name) => return name.to_string(),
    };
    format!("{lock} {}", site_name(site))
}

/// What results call a place where a lock of the allocator is taken.
#[must_use]
pub fn site_name(site: Site) -> &'static str {
    match site {
        Site::PcpAlloc => "alloc",
        Site::PcpFree => "free",
        Site::PcpDrain => "drain",
        Site::PcpAdmin => "limits",
        Site::Refill => "refill",
        Site::Direct => "direct alloc",
        Site::BulkFree => "bulk free",
        Site::DirectFree => "direct free",
        Site::ZoneAdmin => "admin",
    }
}

fn figures(at: &str, time: LockTime, all_ps: u128) -> LockFigures {
    LockFigures {
        at: at.to_string(),
        taken: time.taken,
        waited: time.waited,
        wait_thousandths: (u128::from(time.wait_ps) * 1000 / all_ps.max(1)) as u64,
        hold_mean_ps: time.hold_ps / time.taken.max(1),
        hold_max_ps: time.hold_max_ps,
    }
}

fn lines(stats: &Stats) -> Vec<LineFigures> {
    let line = |((structure, source), count): (&(_, _), &u64)| LineFigures {
        structure: format!("{structure:?}"),
        source: format!("{source:?}"),
        count: *count,
    };
    let content = stats.contents.iter().map(|(source, count)| LineFigures {
        structure: CONTENT.to_string(),
        source: format!("{source:?}"),
        count: *count,
    });
    stats.lines.iter().map(line).chain(content).collect()
}

impl CellResult {
    /// The result of a measured stretch.
    #[must_use]
    pub fn of_measured(measured: &Measured) -> CellResult {
        let result = CellResult::of(&measured.stats, measured.elapsed_ps, measured.cpus);
        CellResult {
            score_per_s: measured.per_second(),
            holds_wanted: Some(u64::from(measured.holds_wanted)),
            holds_least: u64::from(measured.holds_least),
            ..result
        }
    }

    /// What the machine counted while so many CPUs ran for a time. The score is left at 0.
    #[must_use]
    pub fn of(stats: &Stats, elapsed_ps: u64, cpus: usize) -> CellResult {
        let all_ps = u128::from(elapsed_ps) * cpus as u128;
        let sum = |name, which: fn(&LockAt) -> bool| figures(name, stats.lock(which), all_ps);
        CellResult {
            simulated_ps: elapsed_ps,
            line_events: stats.events,
            zone_alloc: sum("zone, allocating", |at| {
                matches!(at, LockAt::Zone(Site::Refill | Site::Direct))
            }),
            zone_free: sum("zone, freeing", |at| {
                matches!(at, LockAt::Zone(Site::BulkFree | Site::DirectFree))
            }),
            lru: sum("lru", |at| matches!(at, LockAt::Workload(name) if name.starts_with("lru"))),
            locks: stats.locks.iter().map(|(at, t)| figures(&name_of(*at), *t, all_ps)).collect(),
            lines: lines(stats),
            ..CellResult::default()
        }
    }

    /// Waiting for zone locks, thousandths of all CPUs' time.
    #[must_use]
    pub fn zone_wait_thousandths(&self) -> u64 {
        self.zone_alloc.wait_thousandths + self.zone_free.wait_thousandths
    }

    /// Waiting for zone and LRU locks, thousandths of all CPUs' time.
    #[must_use]
    pub fn lock_wait_thousandths(&self) -> u64 {
        self.zone_wait_thousandths() + self.lru.wait_thousandths
    }

    /// Notes a figure of the workload's own, in thousandths of its unit.
    pub fn set(&mut self, name: &str, thousandths: u64) {
        self.own.insert(name.to_string(), thousandths);
    }
}
