//! Where a unit of work's time goes, and which part of it changed most: a lock's wait with its
//! hold, or what is done outside of waits with the lines that came from afar.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::outcome::CellResult;
use crate::html::shares;

/// Names of what can be waited for, in the order of the parts.
const WAITS: [&str; 4] = [
    "the zone lock while allocating",
    "the zone lock while freeing",
    "the LRU lock",
    "other locks",
];
/// Sources of lines that cost a trip off the core's own caches.
const FAR: [&str; 4] = ["Core", "FarCore", "Dram", "FarDram"];
/// A part that moved by less of a unit's time than this explains nothing, 1/100.
const SMALL: f64 = 0.005;

/// Where the time of a unit of work goes, ns, mean over seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Units a second, all CPUs together.
    pub score: f64,
    /// Time of a unit on each CPU.
    pub unit_ns: f64,
    /// Waiting for the zone lock to allocate, to free, for the LRU lock, for others; the rest.
    pub parts_ns: [f64; 5],
    /// Mean holds: zone lock to allocate, to free; LRU lock.
    pub hold_ns: [f64; 3],
    /// Lines a unit that came from another core or memory, by structure.
    pub far_lines: BTreeMap<String, f64>,
}

impl Parts {
    /// Means over seeds.
    #[must_use]
    pub fn mean(results: &[CellResult], cpus: usize) -> Parts {
        let count = results.len().max(1) as f64;
        let mut parts = Parts::default();
        for result in results {
            let score = result.score_per_s.max(1) as f64;
            let unit_ns = cpus as f64 * 1e9 / score;
            parts.score += score / count;
            parts.unit_ns += unit_ns / count;
            for (sum, share) in parts.parts_ns.iter_mut().zip(shares::of(result)) {
                *sum += share as f64 / 1000.0 * unit_ns / count;
            }
            let holds = [&result.zone_alloc, &result.zone_free, &result.lru];
            for (sum, hold) in parts.hold_ns.iter_mut().zip(holds) {
                *sum += hold.hold_mean_ps as f64 / 1000.0 / count;
            }
            let units = score * result.simulated_ps as f64 / 1e12;
            for line in result.lines.iter().filter(|line| FAR.contains(&&*line.source)) {
                *parts.far_lines.entry(line.structure.clone()).or_default() +=
                    line.count as f64 / units.max(1.0) / count;
            }
        }
        parts
    }

    /// A metric by name; see `judge::METRICS`.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        match name {
            "score" => self.score,
            "zone_wait" => self.parts_ns[0] + self.parts_ns[1],
            "lru_wait" => self.parts_ns[2],
            "alloc_hold" => self.hold_ns[0],
            "free_hold" => self.hold_ns[1],
            _ => self.far_lines.values().sum(),
        }
    }
}

/// One sentence about what changed most.
#[must_use]
pub fn sentence(base: &Parts, head: &Parts, unit: &str) -> String {
    let moved = |at: usize| head.parts_ns[at] - base.parts_ns[at];
    let most = (0..5).max_by(|a, b| moved(*a).abs().total_cmp(&moved(*b).abs())).unwrap_or(4);
    if moved(most).abs() < SMALL * base.unit_ns {
        return format!(
            "no part of a {unit}'s {} moved by half a per cent of it",
            ns(base.unit_ns)
        );
    }
    let arrow = |base: f64, head: f64| format!("{} → {}", ns(base), ns(head));
    let (from, to) = (base.parts_ns[most], head.parts_ns[most]);
    if let Some(lock) = WAITS.get(most) {
        let mut text = format!("waits for {lock}: {} a {unit}", arrow(from, to));
        if let (Some(b), Some(h)) = (base.hold_ns.get(most), head.hold_ns.get(most)) {
            text.push_str(&format!("; a hold lasts {}", arrow(*b, *h)));
        }
        return text;
    }
    let mut text = format!("outside of waits: {} a {unit}", arrow(from, to));
    if let Some((structure, b, h)) = lines(base, head) {
        let name = structure_name(&structure);
        text.push_str(&format!("; {name} from other cores and memory: {b:.2} → {h:.2} a {unit}"));
    }
    text
}

/// The structure whose far lines changed most, if by a hundredth of a line or more.
fn lines(base: &Parts, head: &Parts) -> Option<(String, f64, f64)> {
    let of = |parts: &Parts, name: &str| parts.far_lines.get(name).copied().unwrap_or(0.0);
    let names = base.far_lines.keys().chain(head.far_lines.keys());
    let changed = names.map(|name| (name.clone(), of(base, name), of(head, name)));
    let most = changed.max_by(|a, b| (a.2 - a.1).abs().total_cmp(&(b.2 - b.1).abs()));
    most.filter(|(_, b, h)| (h - b).abs() >= 0.01)
}

fn structure_name(structure: &str) -> &str {
    match structure {
        "Page" => "lines of page records",
        "Blocks" => "lines of pageblock types",
        "Area" => "lines of free areas",
        "ZoneLock" => "the zone lock's line",
        "Zone" => "lines of marks and reserves",
        "Counters" => "lines of counters",
        "Pcp" => "lines of per-CPU lists",
        "Workload" => "lines of the workload",
        "Content" => "lines of page contents",
        other => other,
    }
}

/// Nanoseconds with three digits.
#[must_use]
pub fn ns(value: f64) -> String {
    match value {
        _ if value >= 9_995.0 => format!("{:.1} us", value / 1000.0),
        _ if value >= 999.5 => format!("{:.2} us", value / 1000.0),
        _ if value >= 99.95 => format!("{value:.0} ns"),
        _ => format!("{value:.1} ns"),
    }
}
