//! How well the twin of a recorded kernel does what the kernel did: shown above every comparison,
//! because a comparison on a twin that is off is worth as little as the twin.

use pageyard_trace::error::TraceError;
use serde::Serialize;

use crate::twin::replay::Placement;
use crate::twin::score::{self, Row, Sequence};
use crate::twin::twin::Twin;

/// Rows below this many largest batches say little in per cent.
const BATCHES_MIN: f64 = 20.0;

/// The recorded kernel's own policy, held against the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Refilled and drained pages by zone, and by zone and CPU.
    pub rows: Vec<Row>,
    /// Refills and drains one by one.
    pub sequences: Vec<Sequence>,
    /// Worst error in per cent over exercised rows above 20 largest batches; none without any.
    pub worst_error_pct: Option<f64>,
    /// Pages of the largest batch of the kernel.
    pub largest_batch_pages: u32,
}

impl Agreement {
    /// Replays the recording under the recorded kernel's policy and scores it.
    ///
    /// # Errors
    /// The recording cannot be read again.
    pub fn of(twin: &Twin) -> Result<Agreement, TraceError> {
        let replay = twin.replay(twin.policy, Placement::Recorded)?;
        let batch = twin.largest_batch();
        let slack = f64::from(batch);
        let rows = score::flow_rows(&twin.world, &twin.observed, &replay.ledger, slack);
        let large = |row: &&Row| row.exercised && row.observed > BATCHES_MIN * slack;
        let errors = rows.iter().filter(large).filter_map(|row| row.error_pct);
        let worst_error_pct = errors.reduce(f64::max);
        Ok(Agreement {
            sequences: twin.sequences(&replay.ledger),
            worst_error_pct,
            largest_batch_pages: batch,
            rows,
        })
    }

    /// Observed and predicted pages of a quantity, and the worst error of a zone in per cent.
    #[must_use]
    pub fn flow(&self, quantity: &str) -> Option<(f64, f64)> {
        let rows = self.rows.iter();
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
        let agree = self.sequences.iter().map(|sequence| sequence.agree).sum();
        let longer = |s: &Sequence| s.observed.max(s.predicted);
        (agree, self.sequences.iter().map(longer).sum())
    }

    /// True if every zone and every CPU is within 1 % or one largest batch of the kernel; none
    /// if the recording exercises nothing.
    #[must_use]
    pub fn matches(&self) -> Option<bool> {
        let slack = f64::from(self.largest_batch_pages);
        let near = |row: &Row| row.within || (row.predicted - row.observed).abs() <= slack;
        let mut exercised = self.rows.iter().filter(|row| row.exercised).peekable();
        exercised.peek()?;
        Some(exercised.all(near))
    }
}
