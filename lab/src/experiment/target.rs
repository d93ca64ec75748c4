//! What think time is fitted on: published figures that say how long a unit of work takes, and the
//! same of results, in forms that can be compared.

use super::cell::Ready;
use super::outcome::CellResult;
use super::spec::Figure;
use super::workload::{OwnFigure, Unit};

/// What think time is fitted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitPlan {
    /// The variant.
    pub variant: usize,
    /// Its published figure.
    pub on: FitOn,
}

/// A published figure that says how long a unit of work takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FitOn {
    /// Units a second, of all CPUs.
    Score(f64),
    /// A figure of the workload's own that is a time of the unit, as published.
    Own(&'static OwnFigure, f64),
    /// Both together tell for how long a CPU is at work on a unit, and not waiting.
    AtWork {
        /// Units a second, of all CPUs.
        score: f64,
        /// Waiting for locks, per cent of all CPUs' time.
        waiting_pct: f64,
    },
}

impl FitPlan {
    /// Whether a figure of the variant is made to agree: that which is fitted, or the same in
    /// another form, as throughput is the number of CPUs by cycles.
    #[must_use]
    pub fn decides(&self, variant: usize, figure: Figure) -> bool {
        let is_rate = |figure| match figure {
            Figure::Score => true,
            Figure::Own(own) => own.unit == Unit::Cycles,
            _ => false,
        };
        let fitted = self.on.figure();
        self.variant == variant && (figure == fitted || is_rate(figure) && is_rate(fitted))
    }
}

impl FitOn {
    /// What can be fitted on a published figure that may stand beside such a score; `None` if it
    /// does not tell the time of a unit.
    #[must_use]
    pub fn of(figure: Figure, published: f64, score: Option<f64>) -> Option<FitOn> {
        match figure {
            Figure::Score => Some(FitOn::Score(published)),
            Figure::Own(own) if matches!(own.unit, Unit::Ns | Unit::Cycles) => {
                Some(FitOn::Own(own, published))
            }
            Figure::LockWaitPct => {
                score.map(|score| FitOn::AtWork { score, waiting_pct: published })
            }
            _ => None,
        }
    }

    /// The figure that is made to agree.
    #[must_use]
    pub fn figure(self) -> Figure {
        match self {
            FitOn::Score(_) => Figure::Score,
            FitOn::Own(own, _) => Figure::Own(own),
            FitOn::AtWork { .. } => Figure::LockWaitPct,
        }
    }

    /// A published figure that no time of a unit can give.
    #[must_use]
    pub fn impossible(self) -> Option<f64> {
        let (figure, is_possible) = match self {
            FitOn::Score(figure) | FitOn::Own(_, figure) => (figure, figure > 0.0),
            FitOn::AtWork { score, .. } if score <= 0.0 => (score, false),
            // All of the time spent waiting leaves none to work.
            FitOn::AtWork { waiting_pct, .. } => (waiting_pct, (0.0..100.0).contains(&waiting_pct)),
        };
        (!is_possible).then_some(figure)
    }

    /// The published figure: the score whole, thousandths of a workload's own, picoseconds at work.
    #[must_use]
    pub fn published(self, ready: &Ready) -> u64 {
        match self {
            FitOn::Score(score) => score.max(0.0).round() as u64,
            FitOn::Own(_, published) => (published.max(0.0) * 1000.0).round() as u64,
            FitOn::AtWork { score, waiting_pct } => {
                at_work_ps(ready, score.round() as u64, (waiting_pct * 10.0).round() as u64)
            }
        }
    }

    /// The same of a result.
    #[must_use]
    pub fn modelled(self, ready: &Ready, result: &CellResult) -> u64 {
        match self {
            FitOn::Score(_) => result.score_per_s,
            FitOn::Own(own, _) => result.own.get(own.name).copied().unwrap_or(0),
            FitOn::AtWork { .. } => {
                at_work_ps(ready, result.score_per_s, result.lock_wait_thousandths())
            }
        }
    }

    /// Time of a unit of work by such a number, picoseconds.
    #[must_use]
    pub fn unit_ps(self, ready: &Ready, number: u64) -> u64 {
        match self {
            FitOn::Score(_) => unit_ps(ready, number),
            FitOn::Own(own, _) if own.unit == Unit::Cycles => {
                let khz = u128::from(ready.machine().tsc_khz.max(1));
                (u128::from(number) * 1_000_000 / khz) as u64
            }
            FitOn::Own(..) | FitOn::AtWork { .. } => number,
        }
    }

    /// What a unit gets longer with think time, in tenths of it, before anything is known. A CPU
    /// that thinks longer waits less: of the time by the score, 7 to 9 tenths are felt in nine of
    /// ten published baselines where a search begins. Of time at work waiting hides nothing.
    #[must_use]
    pub fn rise_tenths(self) -> u64 {
        match self {
            FitOn::Score(_) => 8,
            FitOn::Own(..) | FitOn::AtWork { .. } => 10,
        }
    }

    /// What stands behind a figure when it is told, and how many of its numbers are one.
    #[must_use]
    pub fn told(self) -> (&'static str, u64) {
        match self {
            FitOn::Score(_) => ("a second", 1),
            FitOn::Own(own, _) if own.unit == Unit::Cycles => ("cycles", 1000),
            FitOn::Own(..) => ("ns", 1000),
            FitOn::AtWork { .. } => ("ns at work on a unit", 1000),
        }
    }
}

/// Time a unit of work takes each CPU, waiting and all.
fn unit_ps(ready: &Ready, score: u64) -> u64 {
    (ready.cell.cpus as u128 * 1_000_000_000_000 / u128::from(score.max(1))) as u64
}

/// Time that a CPU works on a unit, if it waits for so many thousandths of all.
fn at_work_ps(ready: &Ready, score: u64, waits: u64) -> u64 {
    let unit = u128::from(unit_ps(ready, score));
    (unit * u128::from(1000_u64.saturating_sub(waits)) / 1000) as u64
}
