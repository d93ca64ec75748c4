//! The answer: every metric, for each recording and in total, with its reason.

use std::path::PathBuf;

use super::measure::Measure;
use super::metrics::{self, Change, Metric, Verdict};
use super::reason::{self, Facts};
use super::run::{Case, CompareError, Question};

/// The metrics of the summary: lock traffic, tail, hits, memory held, mixing, high orders.
pub const KEY_METRICS: [&str; 6] =
    ["zone_locks", "hold_pages_max", "pcp_hit_pct", "pcp_pages_mean", "fallbacks", "unusable_o9"];

/// Both policies over all recordings.
#[derive(Debug)]
pub struct Comparison {
    /// What was asked.
    pub question: Question,
    /// Recordings that were compared, with their changes by metric.
    pub cases: Vec<(Case, Vec<Change>)>,
    /// Recordings that could not be.
    pub failures: Vec<(PathBuf, CompareError)>,
    /// The metrics, in order.
    pub metrics: Vec<Metric>,
    /// Changes over all recordings together: counts summed, means pooled, maxima of all.
    pub total: Vec<Change>,
}

impl Comparison {
    /// Draws the conclusions from what was measured; `results` stand in the order of `paths`.
    #[must_use]
    pub fn of(
        question: Question,
        paths: &[PathBuf],
        results: Vec<Result<Case, CompareError>>,
    ) -> Comparison {
        let mut cases = Vec::new();
        let mut failures = Vec::new();
        for (path, result) in paths.iter().zip(results) {
            match result {
                Ok(case) => cases.push(case),
                Err(error) => failures.push((path.clone(), error)),
            }
        }
        let nodes = cases.iter().map(|case| case.nodes).max().unwrap_or(1);
        let metrics = metrics::all(nodes as u8);
        let bases: Vec<&Measure> = cases.iter().map(|case| &case.base).collect();
        let heads: Vec<&Measure> = cases.iter().map(|case| &case.head).collect();
        let total = changes(&metrics, &bases, &heads);
        let cases = cases
            .into_iter()
            .map(|case| {
                let changes = changes(&metrics, &[&case.base], &[&case.head]);
                (case, changes)
            })
            .collect();
        Comparison { question, cases, failures, metrics, total }
    }

    /// Whether a metric depends on where free blocks lie.
    #[must_use]
    pub fn is_positional(&self, name: &str) -> bool {
        self.metrics.iter().any(|metric| metric.name == name && metric.positional)
    }

    /// Whether every recording has the positions of its free blocks.
    #[must_use]
    pub fn all_positions(&self) -> bool {
        self.cases.iter().all(|(case, _)| case.positions)
    }
}

fn changes(metrics: &[Metric], base: &[&Measure], head: &[&Measure]) -> Vec<Change> {
    let (base_facts, head_facts) = (Facts::of(base), Facts::of(head));
    let with_reason = |metric: &Metric| {
        let mut change = metric.compare(base, head);
        let moved = !matches!(change.verdict, Verdict::Unknown) && change.base != change.head;
        if moved {
            change.reason = reason::sentence(&metric.name, &base_facts, &head_facts);
        }
        change
    };
    metrics.iter().map(with_reason).collect()
}

/// The change of a metric by name.
#[must_use]
pub fn by_name<'a>(changes: &'a [Change], name: &str) -> Option<&'a Change> {
    changes.iter().find(|change| change.metric == name)
}
