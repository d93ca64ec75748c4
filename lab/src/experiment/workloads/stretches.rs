//! One result of several stretches of the same workload, with processes at other points of their
//! cycles in each.
//!
//! Stretches stand for equal parts of the cycle's time, however long each had to be to be measured.

use super::super::outcome::{CellResult, LineFigures, LockFigures};
use crate::cells::page_fault1::Outcome;

/// Time of a page, mapping and unmapping, picoseconds; none where it was not seen.
pub fn page_ps(parts: &[Outcome]) -> Option<[u64; 2]> {
    let of = |at: usize| {
        // Of a stretch's time and pages, what they are in a second of it.
        let rate = |part: &Outcome, of: u64| {
            u128::from(of) * 1_000_000_000 / u128::from(part.measured.elapsed_ps.max(1))
        };
        let ps: u128 = parts.iter().map(|part| rate(part, part.spent[at].0)).sum();
        let pages: u128 =
            parts.iter().map(|part| rate(part, part.spent[at].1.saturating_mul(1_000_000))).sum();
        (ps * 1_000_000).checked_div(pages).filter(|&ps| ps > 0).map(|ps| ps as u64)
    };
    of(0).zip(of(1)).map(|(map, unmap)| [map, unmap])
}

/// Thousandths of its time that a process unmaps.
pub fn unmapping([map, unmap]: [u64; 2]) -> u64 {
    unmap * 1000 / (map + unmap)
}

/// The result of whole cycles.
pub fn together(parts: &[Outcome]) -> CellResult {
    let of_parts: Vec<CellResult> =
        parts.iter().map(|part| CellResult::of_measured(&part.measured)).collect();
    let sum = |of: fn(&CellResult) -> u64| of_parts.iter().map(of).sum::<u64>();
    let lock =
        |of: fn(&CellResult) -> &LockFigures| mean(&of_parts.iter().map(of).collect::<Vec<_>>());
    let mut result = CellResult {
        score_per_s: sum(|part| part.score_per_s) / parts.len().max(1) as u64,
        simulated_ps: sum(|part| part.simulated_ps),
        line_events: sum(|part| part.line_events),
        zone_alloc: lock(|part| &part.zone_alloc),
        zone_free: lock(|part| &part.zone_free),
        lru: lock(|part| &part.lru),
        locks: sites(&of_parts),
        lines: lines(&of_parts),
        holds_wanted: of_parts.iter().map(|part| part.holds_wanted).sum(),
        holds_least: sum(|part| part.holds_least),
        ..CellResult::default()
    };
    if let (Some(page), Some(first)) = (page_ps(parts), parts.first()) {
        let cpus = first.measured.cpus as u128;
        let cycle = u128::from(page[0] + page[1]);
        result.score_per_s = (cpus * 1_000_000_000_000 / cycle) as u64;
        result.unmapping_thousandths = unmapping(page);
    }
    result
}

/// Lines of all parts.
fn lines(parts: &[CellResult]) -> Vec<LineFigures> {
    let mut all: Vec<LineFigures> = Vec::new();
    for line in parts.iter().flat_map(|part| &part.lines) {
        let same = |known: &&mut LineFigures| {
            known.structure == line.structure && known.source == line.source
        };
        match all.iter_mut().find(same) {
            Some(known) => known.count += line.count,
            None => all.push(line.clone()),
        }
    }
    all
}

/// Every call site of any part.
fn sites(parts: &[CellResult]) -> Vec<LockFigures> {
    let mut names: Vec<&str> = Vec::new();
    for lock in parts.iter().flat_map(|part| &part.locks) {
        if !names.contains(&lock.at.as_str()) {
            names.push(&lock.at);
        }
    }
    let none = |at: &str| LockFigures { at: at.to_string(), ..LockFigures::default() };
    let find = |part: &CellResult, at: &str| {
        part.locks.iter().find(|lock| lock.at == at).cloned().unwrap_or_else(|| none(at))
    };
    let of = |at: &str| {
        let found: Vec<LockFigures> = parts.iter().map(|part| find(part, at)).collect();
        mean(&found.iter().collect::<Vec<_>>())
    };
    names.into_iter().map(of).collect()
}

/// Waiting as all parts alike, holds by their number.
fn mean(of: &[&LockFigures]) -> LockFigures {
    let sum = |what: fn(&LockFigures) -> u64| of.iter().map(|lock| what(lock)).sum::<u64>();
    let taken = sum(|lock| lock.taken);
    let held: u128 =
        of.iter().map(|lock| u128::from(lock.hold_mean_ps) * u128::from(lock.taken)).sum();
    LockFigures {
        at: of.first().map(|lock| lock.at.clone()).unwrap_or_default(),
        taken,
        waited: sum(|lock| lock.waited),
        wait_thousandths: sum(|lock| lock.wait_thousandths) / of.len().max(1) as u64,
        hold_mean_ps: (held / u128::from(taken.max(1))) as u64,
        hold_max_ps: of.iter().map(|lock| lock.hold_max_ps).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_alike_and_holds_by_their_number() {
        let lock = |taken, wait_thousandths, hold_mean_ps| LockFigures {
            at: "zone".to_string(),
            taken,
            waited: taken,
            wait_thousandths,
            hold_mean_ps,
            hold_max_ps: hold_mean_ps,
        };
        let both = mean(&[&lock(30, 600, 1000), &lock(10, 100, 5000)]);
        assert_eq!(both, LockFigures { hold_max_ps: 5000, ..lock(40, 350, 2000) });
    }
}
