//! One result of two: all processes mapping, and all of them unmapping.
//!
//! Processes that begin together and wait in the same fair queues stay together: none overtakes. A
//! cycle is then a stretch in which all map and one in which all unmap, each as long as its page
//! takes.

use super::super::outcome::{CellResult, LockFigures};
use crate::cells::page_fault1::Outcome;

/// The result of whole cycles.
pub fn cycle(mapping: &Outcome, unmapping: &Outcome) -> CellResult {
    let (map_ps, unmap_ps) = (mapping.page_ps[0], unmapping.page_ps[1]);
    let cycle_ps = (map_ps + unmap_ps).max(1);
    let cpus = mapping.measured.cpus as u128;
    let parts = [mapping, unmapping].map(|outcome| CellResult::of_measured(&outcome.measured));
    let weights = [map_ps, unmap_ps].map(|ps| ps as u128 * 1000 / u128::from(cycle_ps));
    let both =
        |of: &dyn Fn(&CellResult) -> &LockFigures| add([of(&parts[0]), of(&parts[1])], weights);
    let mut result = CellResult {
        score_per_s: (cpus * 1_000_000_000_000 / u128::from(cycle_ps)) as u64,
        unmapping_thousandths: unmap_ps * 1000 / cycle_ps,
        simulated_ps: parts.iter().map(|part| part.simulated_ps).sum(),
        line_events: parts.iter().map(|part| part.line_events).sum(),
        zone_alloc: both(&|part| &part.zone_alloc),
        zone_free: both(&|part| &part.zone_free),
        lru: both(&|part| &part.lru),
        ..CellResult::default()
    };
    result.locks = sites(&parts, weights);
    for line in parts.iter().flat_map(|part| &part.lines) {
        let same = |known: &&mut super::super::outcome::LineFigures| {
            known.structure == line.structure && known.source == line.source
        };
        match result.lines.iter_mut().find(same) {
            Some(known) => known.count += line.count,
            None => result.lines.push(line.clone()),
        }
    }
    result
}

/// Every call site of either part.
fn sites(parts: &[CellResult; 2], weights: [u128; 2]) -> Vec<LockFigures> {
    let none = |at: &str| LockFigures { at: at.to_string(), ..LockFigures::default() };
    let find = |part: &CellResult, at: &str| {
        let found = part.locks.iter().find(|lock| lock.at == at);
        found.cloned().unwrap_or_else(|| none(at))
    };
    let mut names: Vec<&str> = Vec::new();
    for lock in parts.iter().flat_map(|part| &part.locks) {
        if !names.contains(&lock.at.as_str()) {
            names.push(&lock.at);
        }
    }
    let of = |at: &str| add([&find(&parts[0], at), &find(&parts[1], at)], weights);
    names.into_iter().map(of).collect()
}

/// Waiting by the length of each part, holds by their number.
fn add(of: [&LockFigures; 2], weights: [u128; 2]) -> LockFigures {
    let taken = of[0].taken + of[1].taken;
    let waits = [0, 1].map(|at| u128::from(of[at].wait_thousandths) * weights[at]);
    let holds = [0, 1].map(|at| u128::from(of[at].hold_mean_ps) * u128::from(of[at].taken));
    LockFigures {
        at: of[0].at.clone(),
        taken,
        waited: of[0].waited + of[1].waited,
        wait_thousandths: ((waits[0] + waits[1]) / 1000) as u64,
        hold_mean_ps: ((holds[0] + holds[1]) / u128::from(taken.max(1))) as u64,
        hold_max_ps: of[0].hold_max_ps.max(of[1].hold_max_ps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_by_their_length_and_holds_by_their_number() {
        let lock = |taken, wait_thousandths, hold_mean_ps| LockFigures {
            at: "zone".to_string(),
            taken,
            waited: taken,
            wait_thousandths,
            hold_mean_ps,
            hold_max_ps: hold_mean_ps,
        };
        let sum = add([&lock(30, 600, 1000), &lock(10, 100, 5000)], [750, 250]);
        assert_eq!(sum, LockFigures { hold_max_ps: 5000, ..lock(40, 475, 2000) });
    }
}
