//! Takes experiments through a pool and holds what comes out against what was published.

use serde::Serialize;

use super::cell::Ready;
use super::fit::{self, Fitted};
use super::load::{Experiment, GroupPlan, Point, SlopePlan, VariantPlan};
use super::outcome::CellResult;
use super::pool::{Pool, Stop};
use super::spec::Figure;

/// Seeds of every predicted variant; `--quick` takes the first.
const SEEDS: [u64; 3] = [1, 2, 3];

/// A published figure beside the modelled one. What `--json` lists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The published table.
    pub table: String,
    /// Its row, or what slope this is.
    pub row: String,
    /// Its column, or what the slope is of.
    pub column: String,
    /// As published.
    pub published: f64,
    /// As modelled; `None` if the run was ended before, or `--quick` leaves it out.
    pub modelled: Option<f64>,
    /// Whether it was made to agree.
    pub fitted: bool,
    /// Modelled less published: points where both are in per cent, else per cent of the published.
    pub error: Option<f64>,
    /// Whether the error is no larger than the experiment allows; `None` where it is not judged.
    pub within: Option<bool>,
    /// Whether errors are in points.
    #[serde(skip)]
    pub in_points: bool,
    /// Whether a verdict counts it.
    #[serde(skip)]
    pub judged: bool,
    /// Largest error that counts as reproduced, in the unit of `error`.
    #[serde(skip)]
    pub tolerance: Option<f64>,
    /// The machine it is of.
    #[serde(skip)]
    pub machine: String,
    /// What the reader should know of its column.
    #[serde(skip)]
    pub note: Option<String>,
}

/// A variant on a machine, with what came out: for reports that say why.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The machine.
    pub machine: String,
    /// CPUs that ran.
    pub cpus: usize,
    /// The variant.
    pub variant: String,
    /// A result for each seed; none if it was not run.
    pub results: Vec<CellResult>,
}

/// Think time of a machine, and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Thought {
    /// The machine.
    pub machine: String,
    /// CPUs that ran, the most of any variant.
    pub cpus: usize,
    /// Think time, picoseconds.
    pub think_ps: u64,
    /// Published and modelled figure if it was fitted, and whether they agree.
    pub fitted: Option<(u64, u64, bool)>,
    /// What stands behind these figures: `a second`, `cycles`, `ns`.
    pub unit: &'static str,
}

/// What became of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Every published figure with a counterpart.
    pub compared: Vec<Compared>,
    /// Think time of each machine whose cells were run.
    pub thoughts: Vec<Thought>,
    /// Every variant on every machine.
    pub runs: Vec<Run>,
    /// Why parts are missing: cells without a result, the user's end.
    pub stops: Vec<String>,
}

impl Evaluation {
    /// Whether all that is judged came out, on baselines that were met.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let met = self.thoughts.iter().all(|thought| thought.fitted.is_none_or(|(.., met)| met));
        let judged = self.compared.iter().all(|compared| compared.within != Some(false));
        met && judged && self.stops.is_empty()
    }
}

/// Runs experiments, all of their machines at the same time as far as workers go; results in their
/// order.
#[must_use]
pub fn all(pool: &Pool<'_>, experiments: &[Experiment], quick: bool) -> Vec<Evaluation> {
    std::thread::scope(|scope| {
        let asked: Vec<Vec<_>> = experiments
            .iter()
            .map(|experiment| {
                let groups = experiment.groups.iter();
                groups.map(|group| scope.spawn(move || Group::run(pool, group, quick))).collect()
            })
            .collect();
        let answered = experiments.iter().zip(asked).map(|(experiment, groups)| {
            let groups = groups.into_iter().map(|group| match group.join() {
                Ok(group) => group,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            gather(experiment, groups.collect())
        });
        answered.collect()
    })
}

/// Results of the variants of one machine; those that were not run are `None`.
struct Group {
    results: Vec<Option<Vec<CellResult>>>,
    fitted: Option<Fitted>,
    stop: Option<Stop>,
}

impl Group {
    fn run(pool: &Pool<'_>, plan: &GroupPlan, quick: bool) -> Group {
        let mut group =
            Group { results: vec![None; plan.variants.len()], fitted: None, stop: None };
        group.stop = group.fill(pool, plan, quick).err();
        group
    }

    fn fill(&mut self, pool: &Pool<'_>, plan: &GroupPlan, quick: bool) -> Result<(), Stop> {
        let with = |at: usize, seed: u64| -> Ready {
            let mut ready = plan.variants[at].ready.clone().quick(quick);
            ready.cell.seed = seed;
            ready
        };
        if let Some(fit) = &plan.fit {
            self.fitted = Some(fit::search(pool, &with(fit.variant, SEEDS[0]), fit)?);
        }
        let seeds = if quick { &SEEDS[..1] } else { &SEEDS[..] };
        // One CPU alone starts where it starts: seeds only shift when it is measured.
        let seeds =
            if plan.variants.iter().all(|v| v.ready.cell.cpus == 1) { &seeds[..1] } else { seeds };
        let wanted: Vec<usize> =
            (0..plan.variants.len()).filter(|&at| plan.variants[at].quick || !quick).collect();
        let mut cells = Vec::new();
        for &at in &wanted {
            cells.extend(seeds.iter().map(|&seed| {
                let mut ready = with(at, seed);
                if let Some(fitted) = &self.fitted {
                    ready.cell.think_ps = fitted.think_ps;
                }
                ready
            }));
        }
        let results = pool.run(&cells)?.into_iter().zip(&cells);
        let results = results.map(|(result, ready)| ready.measured(result));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        for (&at, results) in wanted.iter().zip(results.chunks(seeds.len())) {
            self.results[at] = Some(results.to_vec());
        }
        Ok(())
    }

    /// Change of a figure from another variant, per cent.
    fn change(&self, figure: Figure, variant: usize, against: usize) -> Option<f64> {
        let base = self.figure(figure, against, None)?;
        Some((self.figure(figure, variant, None)? / base - 1.0) * 100.0)
    }

    /// A figure of a variant, the mean over its seeds.
    fn figure(&self, figure: Figure, variant: usize, against: Option<usize>) -> Option<f64> {
        let results = self.results[variant].as_ref()?;
        let mean = |of: &dyn Fn(&CellResult) -> f64| {
            results.iter().map(of).sum::<f64>() / results.len() as f64
        };
        let waiting_pct =
            |of: &dyn Fn(&CellResult) -> u64| mean(&|result| of(result) as f64 / 10.0);
        Some(match figure {
            Figure::Score => mean(&|result| result.score_per_s as f64),
            Figure::ScoreChangePct => self.change(Figure::Score, variant, against?)?,
            Figure::OwnChangePct(own) => self.change(Figure::Own(own), variant, against?)?,
            Figure::Own(own) => {
                let all = results.iter().all(|result| result.own.contains_key(own.name));
                if !all {
                    return None;
                }
                mean(&|result| result.own[own.name] as f64 / 1000.0)
            }
            Figure::ZoneAllocWaitPct => waiting_pct(&|result| result.zone_alloc.wait_thousandths),
            Figure::ZoneFreeWaitPct => waiting_pct(&|result| result.zone_free.wait_thousandths),
            Figure::ZoneWaitPct => waiting_pct(&CellResult::zone_wait_thousandths),
            Figure::LruWaitPct => waiting_pct(&|result| result.lru.wait_thousandths),
            Figure::LockWaitPct => waiting_pct(&CellResult::lock_wait_thousandths),
            Figure::AllocHoldUs => mean(&|result| result.zone_alloc.hold_mean_ps as f64 / 1e6),
            Figure::FreeHoldUs => mean(&|result| result.zone_free.hold_mean_ps as f64 / 1e6),
        })
    }
}

fn gather(experiment: &Experiment, groups: Vec<Group>) -> Evaluation {
    let mut evaluation = Evaluation {
        compared: Vec::new(),
        thoughts: Vec::new(),
        runs: Vec::new(),
        stops: Vec::new(),
    };
    for (plan, group) in experiment.groups.iter().zip(&groups) {
        let points = plan.points.iter().map(|point| of_point(experiment, plan, group, point));
        evaluation.compared.extend(points);
        let slopes = plan.slopes.iter().flat_map(|slope| of_slope(experiment, plan, group, slope));
        evaluation.compared.extend(slopes);
        evaluation.runs.extend(plan.variants.iter().zip(&group.results).map(run_of));
        evaluation.stops.extend(group.stop.as_ref().map(ToString::to_string));
        if plan.fit.is_some() && group.fitted.is_none() {
            continue;
        }
        if let Some(first) = plan.variants.first() {
            let fitted = group.fitted.as_ref();
            evaluation.thoughts.push(Thought {
                machine: first.ready.machine_name().to_string(),
                cpus: plan.variants.iter().map(|v| v.ready.cell.cpus).max().unwrap_or(0),
                think_ps: fitted.map_or(first.ready.cell.think_ps, |fitted| fitted.think_ps),
                fitted: fitted.map(|at| (at.target, at.modelled, at.reached)),
                unit: fitted.map_or("", |at| at.unit),
            });
        }
    }
    evaluation
}

fn run_of((variant, results): (&VariantPlan, &Option<Vec<CellResult>>)) -> Run {
    Run {
        machine: variant.ready.machine_name().to_string(),
        cpus: variant.ready.cell.cpus,
        variant: variant.name.clone(),
        results: results.clone().unwrap_or_default(),
    }
}

/// Name of the machine of a group, as its file says.
fn machine_of(plan: &GroupPlan) -> String {
    plan.variants.first().map_or_else(String::new, |v| v.ready.machine_name().to_string())
}

fn of_point(experiment: &Experiment, plan: &GroupPlan, group: &Group, point: &Point) -> Compared {
    let is_fit = plan.fit.is_some_and(|fit| fit.decides(point.variant, point.figure));
    let judged = if is_fit { None } else { point.within };
    let modelled = group.figure(point.figure, point.variant, point.against);
    let at = (point.row.clone(), point.column.clone());
    let in_points = point.figure.is_pct();
    let mut compared = compare(experiment, at, (point.published, modelled), judged, in_points);
    compared.machine = machine_of(plan);
    compared.fitted = is_fit;
    compared.note.clone_from(&point.note);
    if point.same_sign && modelled.is_some_and(|modelled| !same_sign(modelled, point.published)) {
        compared.within = compared.within.map(|_| false);
    }
    compared
}

/// A change that is none has neither sign.
fn same_sign(a: f64, b: f64) -> bool {
    a * b > 0.0
}

/// The slope and, if it is asked for, where it begins.
fn of_slope(
    experiment: &Experiment,
    plan: &GroupPlan,
    group: &Group,
    slope: &SlopePlan,
) -> Vec<Compared> {
    let published: Vec<(f64, f64)> = slope.over.iter().map(|&(_, x, y)| (x, y)).collect();
    let modelled: Option<Vec<(f64, f64)>> = slope
        .over
        .iter()
        .filter(|(variant, ..)| group.results[*variant].is_some())
        .map(|&(variant, x, _)| Some((x, group.figure(slope.figure, variant, None)?)))
        .collect();
    // `--quick` leaves out some points: a straight line needs two.
    let modelled = modelled.filter(|points| points.len() >= 2);
    // µs a page to ns a page.
    let to_ns = if slope.figure.own().is_some() { 1.0 } else { 1000.0 };
    let line = |points: &[(f64, f64)]| least_squares(points).0 * to_ns;
    let ends = |at: Option<&(usize, f64, f64)>| {
        at.map_or("", |&(variant, ..)| plan.variants[variant].name.as_str())
    };
    let row = format!("slope {}..{}", ends(slope.over.first()), ends(slope.over.last()));
    let figures = (line(&published), modelled.as_deref().map(line));
    let mut all =
        vec![compare(experiment, (row, slope.name.clone()), figures, slope.within, false)];
    if let Some(knee) = &slope.knee {
        let start = |points: &[(f64, f64)], from: f64| {
            let (rise, at_zero) = least_squares(points);
            (from - at_zero) / rise
        };
        let from = group.figure(slope.figure, knee.from.0, None);
        let begins = modelled.as_deref().zip(from).map(|(points, from)| start(points, from));
        let figures = (start(&published, knee.from.1), begins);
        let at = ("slope begins".to_string(), knee.name.clone());
        all.push(compare(experiment, at, figures, knee.within, true));
    }
    for compared in &mut all {
        compared.machine = machine_of(plan);
    }
    all
}

fn compare(
    experiment: &Experiment,
    (row, column): (String, String),
    (published, modelled): (f64, Option<f64>),
    within: Option<f64>,
    in_points: bool,
) -> Compared {
    let error = modelled.map(|modelled| match in_points {
        true => modelled - published,
        false => (modelled / published - 1.0) * 100.0,
    });
    Compared {
        table: experiment.table.id.clone(),
        row,
        column,
        published,
        modelled,
        fitted: false,
        error,
        within: within.and_then(|within| Some(error?.abs() <= within)),
        in_points,
        judged: within.is_some(),
        tolerance: within,
        machine: String::new(),
        note: None,
    }
}

/// The straight line with the least squares: its slope, and what it is at 0.
fn least_squares(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let below: f64 = points.iter().map(|(x, _)| (x - x_mean) * (x - x_mean)).sum();
    (above / below, y_mean - above / below * x_mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_error_with_the_wrong_sign_is_a_miss() {
        let experiment = super::super::catalogue::load("prefetch_v3_v4").unwrap().unwrap();
        let plan = &experiment.groups[1];
        let point = plan.points.iter().find(|point| point.published == 2.8).unwrap();
        let with = |base: u64, head: u64| {
            let result = |score_per_s| {
                let result = CellResult { score_per_s, ..CellResult::default() };
                Some(vec![result])
            };
            let mut results = vec![None; plan.variants.len()];
            results[point.against.unwrap()] = result(base);
            results[point.variant] = result(head);
            let group = Group { results, fitted: None, stop: None };
            of_point(&experiment, plan, &group, point).within
        };
        assert_eq!(with(1000, 1010), Some(true));
        assert_eq!(with(1000, 1057), Some(true));
        assert_eq!(with(1000, 1059), Some(false));
        assert_eq!(with(1000, 1000), Some(false), "no change at all has no sign");
        assert_eq!(with(1000, 999), Some(false), "2.9 points off, and a loss");
    }

    #[test]
    fn the_published_slopes_are_those_that_least_squares_gives() {
        // Cascade Lake, free: 42.9 ns a page over 63 to 511.
        let points = [(63.0, 3.29), (127.0, 6.12), (255.0, 11.68), (511.0, 22.54)];
        assert!((least_squares(&points).0 * 1000.0 - 42.9).abs() < 0.1);
    }
}
