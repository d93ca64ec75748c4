//! Two sides against each other: the change of the score in each place, and how much is noise.
//!
//! The same seed gives both sides the same starting points, so changes are taken seed by seed.
//! Their mean is a change only if it is beyond the interval that their spread leaves for it.

use serde::Serialize;

use super::ask::Place;
use super::run::{Answer, Ran, Side};
use super::why::{self, Parts};
use crate::compare::metrics::{Better, Change, SAME_PCT, Verdict};
use crate::experiment::outcome::CellResult;

/// Student's t for 95 % by degrees of freedom, from 1; the last one for all beyond.
const STUDENT: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

/// Metrics of places, for `--fail-if`, with what each is.
pub const METRICS: [(&str, &str); 6] = [
    ("score", "units of work a second on modelled machines"),
    ("zone_wait", "waiting for zone locks, a unit of work"),
    ("lru_wait", "waiting for LRU locks, a unit of work"),
    ("alloc_hold", "mean hold of a zone lock by allocations"),
    ("free_hold", "mean hold of a zone lock by frees"),
    ("transfers", "lines from other cores and memory, a unit of work"),
];

/// A place under both.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Where.
    pub place: Place,
    /// CPUs that ran.
    pub cpus: usize,
    /// What a unit of work is called.
    pub unit: String,
    /// Where a unit's time goes under BASE, mean over seeds.
    pub base: Parts,
    /// Under HEAD.
    pub head: Parts,
    /// Half of the interval of the score's change that is left by the seeds, points; none with one
    /// seed.
    pub noise: Option<f64>,
    /// Changes by metric: the score first.
    pub changes: Vec<Change>,
    /// Where the time went, or which side ran out of memory.
    pub reason: String,
    /// Sides that ran out of memory.
    pub no_memory: NoMemory,
}

/// How a workload that takes more memory than there is ended, on either side. That is a result: the
/// side does no work, which is worse than any that does some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NoMemory {
    /// BASE, if it did.
    pub base: Option<String>,
    /// HEAD, if it did.
    pub head: Option<String>,
}

impl NoMemory {
    fn of(base: &[CellResult], head: &[CellResult]) -> NoMemory {
        let first = |results: &[CellResult]| {
            results.iter().find_map(|result| Some(result.out_of_memory.as_ref()?.to_string()))
        };
        NoMemory { base: first(base), head: first(head) }
    }

    /// Who did, for people; empty if nobody.
    #[must_use]
    pub fn who(&self) -> &'static str {
        match (&self.base, &self.head) {
            (None, None) => "",
            (Some(_), None) => "BASE",
            (None, Some(_)) => "HEAD",
            (Some(_), Some(_)) => "both",
        }
    }
}

/// What is known about the builds of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Builds {
    /// One build made both.
    Same,
    /// Allocators differ, machines and workloads do not.
    Allocator,
    /// Machines or workloads differ: what changed is not the allocator's alone.
    Model,
}

/// Both sides over the places that both have.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Seeds of every place.
    pub seeds: u64,
    /// Whether builds differ.
    pub builds: Builds,
    /// Places with results on both sides.
    pub cells: Vec<Cell>,
    /// Places without, and why.
    pub failures: Vec<(Place, String)>,
}

impl Cell {
    /// The change of the score.
    #[must_use]
    pub fn score(&self) -> &Change {
        &self.changes[0]
    }

    /// Where, in words.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.place.machine, self.place.workload)
    }

    fn of(base: &Ran, head: &Ran, results: (&[CellResult], &[CellResult])) -> Cell {
        let no_memory = NoMemory::of(results.0, results.1);
        match no_memory.who() {
            "" => Cell::measured(base, head, results),
            _ => Cell::ended(base, head, results, no_memory),
        }
    }

    /// A cell of which a side has no figures but how it ended.
    fn ended(
        base: &Ran,
        head: &Ran,
        (b, h): (&[CellResult], &[CellResult]),
        no_memory: NoMemory,
    ) -> Cell {
        let parts = |results, end: &Option<String>, cpus| match end {
            Some(_) => Parts::default(),
            None => Parts::mean(results, cpus),
        };
        let base_parts = parts(b, &no_memory.base, base.cpus);
        let head_parts = parts(h, &no_memory.head, head.cpus);
        let sides = [("BASE", &no_memory.base), ("HEAD", &no_memory.head)];
        let ends =
            sides.iter().filter_map(|(side, end)| Some(format!("{side}: {}", end.as_ref()?)));
        let reason = ends.collect::<Vec<_>>().join("; ");
        let mut score = change("score", base_parts.score, head_parts.score);
        if no_memory.who() == "both" {
            score = Change { base: None, head: None, change_pct: None, ..score };
            score.verdict = Verdict::Unknown;
        } else if no_memory.base.is_some() {
            score.verdict = Verdict::Better;
        }
        score.reason = Some(reason.clone());
        Cell {
            place: head.place.clone(),
            cpus: head.cpus,
            unit: base.unit.clone(),
            base: base_parts,
            head: head_parts,
            noise: None,
            changes: vec![score],
            reason,
            no_memory,
        }
    }

    fn measured(base: &Ran, head: &Ran, (b, h): (&[CellResult], &[CellResult])) -> Cell {
        let cpus = head.cpus;
        let (base_parts, head_parts) = (Parts::mean(b, cpus), Parts::mean(h, cpus));
        let pairs = b.iter().zip(h);
        let changes: Vec<f64> =
            pairs.map(|(b, h)| percent(b.score_per_s as f64, h.score_per_s as f64)).collect();
        let noise = half_interval(&changes);
        let mut changed: Vec<Change> = METRICS
            .iter()
            .map(|(name, _)| change(name, base_parts.metric(name), head_parts.metric(name)))
            .collect();
        let pct = mean(&changes);
        changed[0].change_pct = Some(pct).filter(|pct| pct.is_finite());
        changed[0].verdict = verdict(pct, noise);
        let reason = why::sentence(&base_parts, &head_parts, &base.unit);
        changed[0].reason = Some(reason.clone());
        Cell {
            place: head.place.clone(),
            cpus,
            unit: base.unit.clone(),
            base: base_parts,
            head: head_parts,
            noise,
            changes: changed,
            reason,
            no_memory: NoMemory::default(),
        }
    }
}

impl Matrix {
    /// Holds two sides against each other, in the order of `base`.
    #[must_use]
    pub fn of(base: &Side, head: &Side) -> Matrix {
        let (mut cells, mut failures) = (Vec::new(), Vec::new());
        for one in &base.ran {
            let same = |ran: &&Ran| ran.place == one.place && ran.cpus == one.cpus;
            let Some(other) = head.ran.iter().find(same) else {
                failures.push((one.place.clone(), "HEAD has no such cell".to_string()));
                continue;
            };
            match (&one.answer, &other.answer) {
                (Answer::Results(b), Answer::Results(h)) if !b.is_empty() && !h.is_empty() => {
                    cells.push(Cell::of(one, other, (b, h)));
                }
                (b, h) => failures.push((one.place.clone(), failed(b, h))),
            }
        }
        for other in &head.ran {
            if !base.ran.iter().any(|ran| ran.place == other.place && ran.cpus == other.cpus) {
                failures.push((other.place.clone(), "BASE has no such cell".to_string()));
            }
        }
        let builds = match (base.model == head.model, base.allocator == head.allocator) {
            (true, true) => Builds::Same,
            (true, false) => Builds::Allocator,
            (false, _) => Builds::Model,
        };
        Matrix { seeds: base.seeds.min(head.seeds), builds, cells, failures }
    }
}

fn failed(base: &Answer, head: &Answer) -> String {
    let why = |side: &str, answer: &Answer| match answer {
        Answer::Failed(why) => Some(format!("{side}: {why}")),
        Answer::Results(_) => None,
    };
    let both: Vec<String> = why("BASE", base).into_iter().chain(why("HEAD", head)).collect();
    if both.is_empty() { "no results in the file".to_string() } else { both.join("; ") }
}

fn percent(base: f64, head: f64) -> f64 {
    if base == head { 0.0 } else { (head / base - 1.0) * 100.0 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half of the 95 % interval of the mean; `None` where there is no spread to know it by.
fn half_interval(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle) * (value - middle)).sum();
    let t = STUDENT[(freedom - 1).min(STUDENT.len() - 1)];
    Some(t * (squares / freedom as f64 / values.len() as f64).sqrt())
}

fn verdict(pct: f64, noise: Option<f64>) -> Verdict {
    match pct {
        _ if !pct.is_finite() => Verdict::Unknown,
        _ if pct.abs() < SAME_PCT || noise.is_some_and(|noise| pct.abs() <= noise) => Verdict::Same,
        _ if pct > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// A metric other than the score: what explains it, good or bad by itself.
fn change(name: &str, base: f64, head: f64) -> Change {
    let better = if name == "score" { Better::More } else { Better::Less };
    let pct = percent(base, head);
    let verdict = match (pct, better) {
        _ if !pct.is_finite() => Verdict::Worse,
        _ if pct.abs() < SAME_PCT => Verdict::Same,
        (_, Better::More) if pct > 0.0 => Verdict::Better,
        (_, Better::Less) if pct < 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    };
    Change {
        metric: name.to_string(),
        base: Some(base),
        head: Some(head),
        change_pct: Some(pct).filter(|pct| pct.is_finite()),
        from_zero: base == 0.0 && head != 0.0,
        better,
        verdict,
        reason: None,
    }
}
