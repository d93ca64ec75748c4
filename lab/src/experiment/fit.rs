//! Finds the think time with which a modelled score is the published one.
//!
//! A search between no think time and all of a unit's time; the model answers each question with a
//! whole cell. Whole numbers only, so that it takes the same steps everywhere.

use super::cell::Ready;
use super::outcome::CellResult;
use super::pool::{Pool, Stop};
use super::target::{FitOn, FitPlan};

/// Cells that a search takes at the most.
const CELLS_MAX: usize = 8;
/// The same for `--quick`, where cells have more CPUs than are simulated in a second or two.
const CELLS_MAX_QUICK: usize = 3;
const CPUS_QUICK: usize = 8;
/// A figure this near to the published one is taken, 1/10000: where nothing is left to chance, and
/// where processes begin at points of chance. Seeds of such a cell differ by 1 %, with `--quick` by
/// 1 to 4 %.
const NEAR: Near = Near { sure: 50, by_chance: 100 };
/// The same for `--quick`.
const NEAR_QUICK: Near = Near { sure: 100, by_chance: 200 };

struct Near {
    sure: u64,
    by_chance: u64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// Think time, picoseconds.
    pub think_ps: u64,
    /// The cell's result with it.
    pub result: CellResult,
    /// The published figure.
    pub target: u64,
    /// The modelled one.
    pub modelled: u64,
    /// What stands behind both.
    pub unit: &'static str,
    /// Whether they came as near as they should, half a per cent to two.
    pub reached: bool,
}

/// A think time and the time a unit of work then takes each CPU, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    think_ps: u64,
    unit_ps: u64,
}

/// The search, apart from the machine that it asks. More think time makes no unit shorter, and
/// none longer than by itself.
struct Search {
    wanted_ps: u64,
    /// What a unit gets longer with think time, in tenths of it, as long as nothing else is known.
    /// It only decides where the second cell looks.
    rise_tenths: u64,
    /// The longest think time with too short units.
    low: Option<Known>,
    /// The shortest with too long ones.
    high: Option<Known>,
}

impl Search {
    fn new(wanted_ps: u64, rise_tenths: u64) -> Search {
        Search { wanted_ps, rise_tenths, low: None, high: None }
    }

    /// Learns of a think time and says which to try next; `None` when there is none.
    fn next(&mut self, here: Known) -> Option<u64> {
        let before = self.low;
        if here.unit_ps < self.wanted_ps {
            self.low = Some(here)
        } else {
            self.high = Some(here)
        }
        let next = match (self.low, self.high) {
            (None, None) => return None,
            // Without think time units are too long already: nothing is left to try.
            (None, Some(high)) if high.think_ps == 0 => return None,
            (None, Some(high)) => {
                let much = (high.unit_ps - self.wanted_ps) * 10 / self.rise_tenths;
                high.think_ps.saturating_sub(much)
            }
            (Some(low), None) => {
                let missing = self.wanted_ps - low.unit_ps;
                let (rise, span) = before.map_or((self.rise_tenths, 10), |before| {
                    (low.unit_ps.saturating_sub(before.unit_ps), low.think_ps - before.think_ps)
                });
                // Where locks are full, think time is hardly felt: go further, at most eightfold.
                let rise = rise.clamp((span / 8).max(1), span.max(1));
                let far = u128::from(missing) * u128::from(span) / u128::from(rise);
                // Units are never shorter than the think time in them.
                (low.think_ps + far as u64).min(self.wanted_ps)
            }
            (Some(low), Some(high)) => between(low, high, self.wanted_ps),
        };
        let is_known = |known: Option<Known>| known.is_some_and(|known| known.think_ps == next);
        (!is_known(self.low) && !is_known(self.high)).then_some(next)
    }
}

/// On the straight line between two, but not so near an end that it hardly moves.
fn between(low: Known, high: Known, wanted_ps: u64) -> u64 {
    let span = high.think_ps - low.think_ps;
    let rise = (high.unit_ps - low.unit_ps).max(1);
    let straight = u128::from(span) * u128::from(wanted_ps - low.unit_ps) / u128::from(rise);
    let margin = span / 8;
    low.think_ps + (straight as u64).clamp(margin, span - margin)
}

/// Finds the think time for a published figure.
///
/// # Errors
/// The user ended the run, or a cell has no result.
pub fn search(pool: &Pool<'_>, ready: &Ready, fit: &FitPlan) -> Result<Fitted, Stop> {
    let on = fit.on;
    let target = on.published(ready);
    let mut search = Search::new(on.unit_ps(ready, target), on.rise_tenths());
    let mut best: Option<(u64, Fitted)> = None;
    // Half of the time for what is modelled, to begin with.
    let mut next = Some(search.wanted_ps / 2);
    let is_dear = ready.cell.cpus > CPUS_QUICK;
    let cells = if ready.cell.quick && is_dear { CELLS_MAX_QUICK } else { CELLS_MAX };
    for _ in 0..cells {
        let Some(think_ps) = next else { break };
        let mut ready = ready.clone();
        ready.cell.think_ps = think_ps;
        let result = pool.run_ahead(std::slice::from_ref(&ready))?.swap_remove(0);
        let result = ready.measured(result)?;
        let modelled = on.modelled(&ready, &result);
        let away = modelled.abs_diff(target);
        let fitted = fitted(on, &ready, result, (target, modelled));
        let reached = fitted.reached;
        if best.as_ref().is_none_or(|(least, _)| away < *least) {
            best = Some((away, fitted));
        }
        if reached {
            break;
        }
        next = search.next(Known { think_ps, unit_ps: on.unit_ps(&ready, modelled) });
    }
    best.map(|(_, fitted)| fitted).ok_or(Stop::Interrupted)
}

fn fitted(on: FitOn, ready: &Ready, result: CellResult, (target, modelled): (u64, u64)) -> Fitted {
    let near = if ready.cell.quick { NEAR_QUICK } else { NEAR };
    let near = match on {
        FitOn::Own(..) => near.sure,
        FitOn::Score(_) | FitOn::AtWork { .. } => near.by_chance,
    };
    let reached = modelled.abs_diff(target) * 10_000 <= target * near;
    let (unit, one) = on.told();
    let (target, modelled) = ((target + one / 2) / one, (modelled + one / 2) / one);
    Fitted { think_ps: ready.cell.think_ps, result, target, modelled, unit, reached }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a made-up machine; think time found, the unit there, cells used.
    fn found(wanted_ps: u64, rise_tenths: u64, unit: impl Fn(u64) -> u64) -> (u64, u64, usize) {
        let mut search = Search::new(wanted_ps, rise_tenths);
        let mut think_ps = wanted_ps / 2;
        for cells in 1..=CELLS_MAX {
            let unit_ps = unit(think_ps);
            if unit_ps.abs_diff(wanted_ps) * 10_000 <= wanted_ps * NEAR.sure {
                return (think_ps, unit_ps, cells);
            }
            match search.next(Known { think_ps, unit_ps }) {
                Some(next) => think_ps = next,
                None => return (think_ps, unit_ps, cells),
            }
        }
        (think_ps, unit(think_ps), CELLS_MAX)
    }

    #[test]
    fn where_think_time_is_felt_as_supposed_the_second_cell_is_right() {
        // All of it: less waiting cannot hide any.
        assert_eq!(found(10_000, 10, |think| think + 2_000), (8_000, 10_000, 2));
        assert_eq!(found(10_000, 10, |think| think + 7_000), (3_000, 10_000, 2));
        // A fifth of it is hidden by less waiting.
        let hidden = |think: u64| think * 4 / 5 + 4_000;
        assert_eq!(found(10_000, 8, hidden), (7_500, 10_000, 2));
    }

    #[test]
    fn where_it_is_felt_otherwise_the_third_is() {
        assert_eq!(found(10_000, 8, |think| think + 2_000), (8_000, 10_000, 3));
        assert_eq!(found(10_000, 8, |think| think + 7_000), (3_000, 10_000, 3));
    }

    #[test]
    fn a_full_lock_is_found_out_of() {
        // Full up to a think time of 6 us, then free.
        let (think_ps, unit_ps, cells) = found(10_000, 8, |think| 9_000.max(think + 3_000));
        assert!((think_ps, unit_ps) == (7_000, 10_000) && cells < CELLS_MAX, "{think_ps} {cells}");
        let (think_ps, unit_ps, _) = found(10_000, 8, |think| 8_000 + think * think / 20_000);
        assert!(unit_ps.abs_diff(10_000) <= 50, "{think_ps} {unit_ps}");
    }

    #[test]
    fn what_is_too_slow_without_think_time_ends_there() {
        let (think_ps, unit_ps, cells) = found(10_000, 8, |think| think + 12_000);
        assert_eq!((think_ps, unit_ps), (0, 12_000));
        assert!(cells <= 3);
    }
}
