//! Where the time went in the rows of a table: areas over rows named by numbers, bars else.

use crate::experiment::evaluate::{Evaluation, Run};
use crate::experiment::load::Experiment;
use crate::experiment::spec::Figure;
use crate::html::page::{charts, figure, keys, number, paragraph};
use crate::html::shares::{self, Bar, Column, Shares};

/// Rows from which areas say more than bars.
const AREAS_FROM: usize = 3;

/// The section; nothing where no CPU waits for another.
pub fn section(out: &mut String, experiment: &Experiment, evaluation: &Evaluation) {
    let mut figures = Vec::new();
    let mut shown = Vec::new();
    let machines = super::in_order(evaluation.runs.iter().map(|run| run.machine.as_str()));
    for machine in machines {
        let runs: Vec<(&Run, Shares)> = evaluation
            .runs
            .iter()
            .filter(|run| run.machine == machine && run.cpus > 1)
            .filter_map(|run| Some((run, shares::mean(&run.results)?)))
            .collect();
        if runs.is_empty() {
            continue;
        }
        shown.extend(runs.iter().map(|(_, shares)| *shares));
        let alt = format!("{machine}: parts of all CPUs' time by row");
        let picture = match columns(experiment, machine, &runs) {
            Some(columns) => shares::areas(&columns, &alt),
            None => shares::bars(&runs.iter().map(bar).collect::<Vec<_>>(), " %", &alt),
        };
        let small = format!("{} CPUs, per cent of their time", runs[0].0.cpus);
        figures.push(figure(machine, &small, &picture));
    }
    if figures.is_empty() {
        return;
    }
    out.push_str("<h3>Where the time goes in the model</h3>\n");
    keys(out, &shares::keys(&shown));
    if has_published(experiment) {
        let text = "Diamonds are published: the lower one waiting for zone locks, the upper one \
                    zone and LRU locks together. Reproduced, they lie on the edges of the areas.";
        paragraph(out, "mut", text);
    }
    charts(out, &figures);
}

fn bar((run, parts): &(&Run, Shares)) -> Bar {
    let waited: f64 = parts[..4].iter().sum();
    Bar { name: run.variant.clone(), total: format!("waiting {} %", number(waited)), parts: *parts }
}

/// Columns of a stacked area; `None` where rows are not named by numbers above zero.
fn columns(experiment: &Experiment, machine: &str, runs: &[(&Run, Shares)]) -> Option<Vec<Column>> {
    if runs.len() < AREAS_FROM {
        return None;
    }
    let column = |(run, shares): &(&Run, Shares)| {
        let x: f64 = run.variant.parse().ok()?;
        let zone = published(experiment, machine, &run.variant, Figure::ZoneWaitPct);
        let lru = published(experiment, machine, &run.variant, Figure::LruWaitPct);
        let all = zone.zip(lru).map(|(zone, lru)| zone + lru);
        let column =
            Column { name: run.variant.clone(), x, shares: *shares, published: (zone, all) };
        (x.is_finite() && x > 0.0).then_some(column)
    };
    let mut columns: Vec<Column> = runs.iter().map(column).collect::<Option<_>>()?;
    columns.sort_by(|a, b| a.x.total_cmp(&b.x));
    Some(columns)
}

fn has_published(experiment: &Experiment) -> bool {
    let points = experiment.groups.iter().flat_map(|group| &group.points);
    points.into_iter().any(|point| point.figure == Figure::ZoneWaitPct)
}

/// A published figure of a variant on a machine.
fn published(experiment: &Experiment, machine: &str, variant: &str, figure: Figure) -> Option<f64> {
    experiment.groups.iter().find_map(|group| {
        let at = group.variants.iter().position(|planned| {
            planned.name == variant && planned.ready.machine_name() == machine
        })?;
        let point = group.points.iter().find(|point| point.variant == at && point.figure == figure);
        point.map(|point| point.published)
    })
}
