//! What came out of a cell: whole numbers, so that it reads back as it was written.

use pageyard::platform::Site;
use pageyard_sim::stats::{LockAt, LockTime, Stats};
use serde::{Deserialize, Serialize};

use crate::cells::page_fault1::Outcome;
use crate::cells::yard::Measured;

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
}

/// Name of a lock and a place where it is taken.
fn name_of(at: LockAt) -> String {
    let (lock, site) = match at {
        LockAt::Zone(site) => ("zone", site),
        LockAt::Pcp(site) => ("pcp", site),
        LockAt::Workload(name) => return name.to_string(),
    };
    let site = match site {
        Site::PcpAlloc => "alloc",
        Site::PcpFree => "free",
        Site::PcpDrain => "drain",
        Site::PcpAdmin => "limits",
        Site::Refill => "refill",
        Site::Direct => "direct alloc",
        Site::BulkFree => "bulk free",
        Site::DirectFree => "direct free",
        Site::ZoneAdmin => "admin",
    };
    format!("{lock} {site}")
}

fn figures(at: &str, time: LockTime, measured: &Measured) -> LockFigures {
    LockFigures {
        at: at.to_string(),
        taken: time.taken,
        waited: time.waited,
        wait_thousandths: measured.share(time.wait_ps),
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
    stats.lines.iter().map(line).collect()
}

impl CellResult {
    /// The result of a run of page_fault1.
    #[must_use]
    pub fn of(outcome: &Outcome) -> CellResult {
        let measured = &outcome.measured;
        let stats = &measured.stats;
        let sum = |name, which: fn(&LockAt) -> bool| figures(name, stats.lock(which), measured);
        CellResult {
            score_per_s: measured.per_second(),
            unmapping_thousandths: outcome.unmapping,
            simulated_ps: measured.elapsed_ps,
            line_events: stats.events,
            zone_alloc: sum("zone, allocating", |at| {
                matches!(at, LockAt::Zone(Site::Refill | Site::Direct))
            }),
            zone_free: sum("zone, freeing", |at| {
                matches!(at, LockAt::Zone(Site::BulkFree | Site::DirectFree))
            }),
            lru: sum("lru", |at| matches!(at, LockAt::Workload("lru"))),
            locks: stats.locks.iter().map(|(at, t)| figures(&name_of(*at), *t, measured)).collect(),
            lines: lines(stats),
        }
    }
}
