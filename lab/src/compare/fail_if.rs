//! `--fail-if 'zone_locks>5%'`: a verdict for scripts.

use pageyard::NODES_MAX;

use super::machines::judge::{METRICS, Matrix};
use super::metrics::{self, Change, Verdict};
use super::result::{Comparison, by_name};

/// Names that an error suggests at the most.
const NEAREST_MAX: usize = 3;

/// Why an expression is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExpressionError {
    /// It has not the form.
    #[error(
        "--fail-if '{0}': not of the form METRIC>N%, METRIC<N% or abs(METRIC)>N%, as in \
         'zone_locks>5%' or 'pcp_hit_pct<-1%'"
    )]
    Form(String),
    /// The limit is not a number of per cent.
    #[error("--fail-if '{0}': '{1}' is not a number of per cent; write it as 5% or -2.5%")]
    Limit(String, String),
    /// No such metric.
    #[error("--fail-if '{text}': no metric '{name}'{}", suggestion(nearest))]
    Unknown {
        /// The expression.
        text: String,
        /// The name in it.
        name: String,
        /// Names like it.
        nearest: Vec<String>,
    },
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => "; `pageyard compare --help` lists them".to_string(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// A bound on the change of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// As given.
    pub text: String,
    metric: String,
    abs: bool,
    above: bool,
    limit_pct: f64,
}

impl FailIf {
    /// Reads an expression.
    ///
    /// # Errors
    /// It has not the form, or the metric is unknown.
    pub fn parse(text: &str) -> Result<FailIf, ExpressionError> {
        let form = || ExpressionError::Form(text.to_string());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (left, right) = (text[..at].trim(), text[at + 1..].trim());
        let abs = left.strip_prefix("abs").map(str::trim);
        let abs = abs.map(|rest| rest.trim_start_matches('(').trim_end_matches(')').trim());
        let name = abs.unwrap_or(left);
        let limit = right.strip_suffix('%').map(str::trim_end);
        let limit = limit.and_then(|number| number.parse().ok());
        let limit = limit.filter(|number: &f64| number.is_finite());
        let bad_limit = || ExpressionError::Limit(text.to_string(), right.to_string());
        if name.is_empty() {
            return Err(form());
        }
        check_name(text, name)?;
        Ok(FailIf {
            text: text.to_string(),
            metric: name.to_string(),
            abs: abs.is_some(),
            above: text[at..].starts_with('>'),
            limit_pct: limit.ok_or_else(bad_limit)?,
        })
    }

    /// Whether a change violates it; `None` if the metric has no value there.
    #[must_use]
    pub fn violated_by(&self, changes: &[Change]) -> Option<bool> {
        let pct = by_name(changes, &self.metric)?.pct()?;
        let pct = if self.abs { pct.abs() } else { pct };
        Some(match self.above {
            true => pct > self.limit_pct,
            false => pct < self.limit_pct,
        })
    }

    /// Adds what holds of places on modelled machines, each by itself. A change of the score that
    /// is within its noise breaks nothing.
    pub fn judge_places(&self, matrix: &Matrix, judgement: &mut Judgement) {
        for cell in &matrix.cells {
            let Some(violated) = self.violated_by(&cell.changes) else {
                continue;
            };
            judgement.judged += 1;
            let Some(change) = by_name(&cell.changes, &self.metric) else {
                continue;
            };
            if violated && change.verdict != Verdict::Same {
                let (place, change) = (cell.name(), change.clone());
                judgement.violations.push(Violation { place, change });
            }
        }
    }

    /// Judges a comparison: a line for each violation, and one if nothing could be judged.
    #[must_use]
    pub fn judge(&self, comparison: &Comparison, per_trace: bool) -> Judgement {
        let mut places: Vec<(&str, &[Change])> = vec![("all recordings", &comparison.total)];
        if per_trace {
            let cases = comparison.cases.iter();
            places.extend(cases.map(|(case, changes)| (case.name.as_str(), changes.as_slice())));
        }
        let mut judgement =
            Judgement { expression: self.text.clone(), judged: 0, violations: Vec::new() };
        for (place, changes) in places {
            let Some(violated) = self.violated_by(changes) else {
                continue;
            };
            judgement.judged += 1;
            if violated && let Some(change) = by_name(changes, &self.metric) {
                judgement
                    .violations
                    .push(Violation { place: place.to_string(), change: change.clone() });
            }
        }
        judgement
    }
}

/// What an expression found.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Judgement {
    /// The expression.
    pub expression: String,
    /// Places where the metric had a value.
    pub judged: usize,
    /// Places where it was violated.
    pub violations: Vec<Violation>,
}

/// A bound that was broken.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// Recording, or `all recordings`.
    pub place: String,
    /// The change.
    pub change: Change,
}

fn check_name(text: &str, name: &str) -> Result<(), ExpressionError> {
    let known = metrics::all(NODES_MAX as u8).into_iter().map(|metric| metric.name);
    let known: Vec<String> = METRICS.iter().map(|m| m.0.to_string()).chain(known).collect();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    let mut scored: Vec<(usize, String)> = known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, &known), known))
        .filter(|(distance, known)| distance * 2 <= known.len() || known.contains(name))
        .collect();
    scored.sort_by_key(|(distance, _)| *distance);
    let nearest = scored.into_iter().take(NEAREST_MAX).map(|(_, name)| name);
    Err(ExpressionError::Unknown {
        text: text.to_string(),
        name: name.to_string(),
        nearest: nearest.collect(),
    })
}
