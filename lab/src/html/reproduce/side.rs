//! Machines side by side: tables with the same columns over the same kind of number, one curve each
//! machine.

use super::{Report, in_order};
use crate::experiment::evaluate::{Compared, Evaluation};
use crate::experiment::load::Experiment;
use crate::experiment::spec::Figure;
use crate::html::curves::{self, Curve, Plan};
use crate::html::page::{charts, figure, keys};

type Table<'a> = (&'a Experiment, &'a Evaluation);

/// The section; nothing where no table's rows are numbers.
pub fn section(out: &mut String, report: &Report<'_>) {
    let tables = report.experiments.iter().zip(report.evaluations);
    let mut families: Vec<(&[String], Vec<Table<'_>>)> = Vec::new();
    for table in tables.filter(is_numbered) {
        let columns = table.0.table.columns.as_slice();
        match families.iter_mut().find(|(known, _)| *known == columns) {
            Some((_, tables)) => tables.push(table),
            None => families.push((columns, vec![table])),
        }
    }
    if families.is_empty() {
        return;
    }
    out.push_str("<section id=\"machines\">\n<h2>Machines side by side</h2>\n");
    for (columns, tables) in families {
        let over = columns.first().map_or("row", String::as_str);
        let mut legend: Vec<Curve> = Vec::new();
        let mut figures = Vec::new();
        for column in shown(&tables) {
            let drawn = curves_of(&tables, column);
            let in_points = |(_, evaluation): &Table<'_>| {
                evaluation.compared.iter().any(|c| c.column == column && c.in_points)
            };
            let plan = Plan { zero: tables.iter().any(in_points), ..Plan::default() };
            if let Some(svg) = curves::chart(&drawn, &plan) {
                let alt = format!("{column} over {over}, a curve each machine");
                figures.push(figure(column, &format!("over {over}"), &svg.inline(&alt)));
            }
            let is_new = |curve: &&Curve| {
                let same = |l: &Curve| l.series == curve.series && l.published == curve.published;
                !legend.iter().any(same)
            };
            let new: Vec<Curve> = drawn.iter().filter(is_new).cloned().collect();
            legend.extend(new);
        }
        if !figures.is_empty() {
            keys(out, &curves::keys(&legend));
            charts(out, &figures);
        }
    }
    out.push_str("</section>\n");
}

/// Whether rows are named by numbers, so that a curve can go through them.
fn is_numbered((_, evaluation): &Table<'_>) -> bool {
    let rows: Vec<Option<f64>> = points(evaluation).map(|(row, _)| row).collect();
    let run = points(evaluation).filter(|(_, compared)| compared.modelled.is_some());
    rows.iter().all(|row| row.is_some_and(|x| x > 0.0)) && {
        let mut xs: Vec<&str> = run.map(|(_, compared)| compared.row.as_str()).collect();
        xs.dedup();
        in_order(xs.into_iter()).len() >= 3
    }
}

fn points(evaluation: &Evaluation) -> impl Iterator<Item = (Option<f64>, &Compared)> {
    let figures = evaluation.compared.iter().filter(|c| !c.row.starts_with("slope "));
    figures.map(|compared| (compared.row.parse().ok(), compared))
}

/// Columns to draw: scores only where no column says how they change.
fn shown<'a>(tables: &[Table<'a>]) -> Vec<&'a str> {
    let planned = || tables.iter().flat_map(|(e, _)| e.groups.iter().flat_map(|g| &g.points));
    let has_change = planned().any(|point| point.figure == Figure::ScoreChangePct);
    let wanted = planned().filter(|point| !(has_change && point.figure == Figure::Score));
    in_order(wanted.map(|point| point.column.as_str()))
}

/// A modelled and a published curve each machine.
fn curves_of(tables: &[Table<'_>], column: &str) -> Vec<Curve> {
    let mut curves = Vec::new();
    let of = |evaluation: &Evaluation, machine: &str, pick: &dyn Fn(&Compared) -> Option<f64>| {
        let figures = points(evaluation);
        let wanted = figures.filter(|(_, c)| c.column == column && c.machine == machine);
        let mut line: Vec<(f64, f64)> =
            wanted.filter_map(|(x, c)| x.zip(pick(c))).filter(|(_, y)| y.is_finite()).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        line
    };
    let mut series = 0;
    for (_, evaluation) in tables {
        for machine in in_order(points(evaluation).map(|(_, c)| c.machine.as_str())) {
            let published = of(evaluation, machine, &|compared| Some(compared.published));
            let modelled = of(evaluation, machine, &|compared| compared.modelled);
            let name = machine.to_string();
            curves.push(Curve { name: name.clone(), series, published: true, points: published });
            curves.push(Curve { name, series, published: false, points: modelled });
            series += 1;
        }
    }
    curves
}
