//! How well the twin of a recorded kernel does what the kernel did: shown above every comparison,
//! because a comparison on a twin that is off is worth as little as the twin.

use pageyard_trace::error::TraceError;

use crate::twin::infer::Twin;
use crate::twin::report::{TwinReport, report};
use crate::twin::score::{Row, Sequence};

/// Quantities that decide whether a twin matches: what moved under zone locks.
const FLOWS: [&str; 2] = ["refilled pages", "drained pages"];

/// The recorded kernel's own policy, held against the kernel.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Every row and sequence, and what was inferred.
    pub report: TwinReport,
}

impl Agreement {
    /// Replays the recording under the recorded kernel's policy and scores it.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn of(twin: &Twin, policy_name: &str) -> Result<Agreement, TraceError> {
        let report = report(twin, policy_name)?;
        Ok(Agreement { report })
    }

    /// Observed and predicted pages of a quantity, and the worst error of a zone in per cent.
    #[must_use]
    pub fn flow(&self, quantity: &str) -> Option<(f64, f64)> {
        let rows = self.report.twin.iter();
        let mut zones = rows.filter(|row| row.cpu.is_none() && row.exercised);
        let mut found = None;
        for row in zones.by_ref().filter(|row| row.quantity == quantity) {
            let (pages, worst) = found.unwrap_or((0.0, 0.0f64));
            let error = row.error_pct.unwrap_or(f64::INFINITY);
            found = Some((pages + row.observed, worst.max(error)));
        }
        found
    }

    /// Refills and drains that agree in sequence, and all that the kernel did.
    #[must_use]
    pub fn in_sequence(&self) -> (usize, usize) {
        let agree = self.report.sequences.iter().map(|sequence| sequence.agree).sum();
        let longer = |s: &Sequence| s.observed.max(s.predicted);
        (agree, self.report.sequences.iter().map(longer).sum())
    }

    /// True if every zone and every CPU is within 1 % or one largest batch of the kernel; none
    /// if the recording exercises nothing.
    #[must_use]
    pub fn matches(&self) -> Option<bool> {
        let slack = f64::from(self.report.largest_batch);
        let near = |row: &Row| row.within || (row.predicted - row.observed).abs() <= slack;
        let rows = self.report.twin.iter();
        let mut moved =
            rows.filter(|row| row.exercised && FLOWS.contains(&row.quantity.as_str())).peekable();
        moved.peek()?;
        Some(moved.all(near))
    }
}
