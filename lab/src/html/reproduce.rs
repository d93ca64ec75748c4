//! The report on published tables: verdicts first, then machines side by side, then each table with
//! its figures, where the time goes and what was missed.

mod grid;
mod side;
mod time;

use std::fmt::Write;

use super::page::{self, anchor, breakable, charts, facts, keys, number, paragraph, signed};
use super::points::{self, Mark};
use super::prose;
use super::scale::tick;
use super::svg::escape;
use crate::experiment::cell::MODEL;
use crate::experiment::evaluate::{Compared, Evaluation, Thought};
use crate::experiment::load::Experiment;
use crate::experiment::text::{machine, verdict};

/// Where the machines are known to be wrong.
const BIAS: &str = include_str!("../../../docs/BIAS.md");
const TITLE: &str = "Published tables, reproduced on modelled machines";

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Tables that were run.
    pub experiments: &'a [Experiment],
    /// What became of each.
    pub evaluations: &'a [Evaluation],
    /// Tables that nothing models yet, and what they need.
    pub missing: &'a [(&'a str, &'a str)],
    /// Whether rows, seeds and stretches were cut short.
    pub quick: bool,
}

/// The report as one file.
#[must_use]
pub fn write(report: &Report<'_>) -> String {
    let mut out = format!("<h1>{TITLE}</h1>\n");
    intro(&mut out, report);
    summary(&mut out, report);
    side::section(&mut out, report);
    for (experiment, evaluation) in report.experiments.iter().zip(report.evaluations) {
        table(&mut out, experiment, evaluation);
    }
    missing(&mut out, report);
    out.push_str("<section id=\"bias\">\n");
    out.push_str(&prose::html(BIAS, 1));
    out.push_str("</section>\n");
    page::shell(TITLE, &out)
}

fn intro(out: &mut String, report: &Report<'_>) {
    let how = match report.quick {
        true => "A quick run: fewer rows, one seed, shorter stretches.",
        false => "A full run: every row, three seeds where chance plays a part.",
    };
    let text = "Tables that kernel developers printed in commit messages, mails and papers, beside \
                what the same allocator does on modelled machines. At most the baseline row of a \
                table is fitted, by one number, the think time of the workload; everything else is \
                a prediction, and misses are called misses.";
    paragraph(out, "", text);
    let version = env!("CARGO_PKG_VERSION");
    paragraph(out, "mut", &format!("{how} Pageyard {version}, model {}.", &MODEL[..12]));
}

/// Judged figures: within, judged and run, judged in all.
fn counts(evaluation: &Evaluation) -> (usize, usize, usize) {
    let judged = || evaluation.compared.iter().filter(|compared| compared.judged);
    let run = judged().filter(|compared| compared.within.is_some()).count();
    (judged().filter(|compared| compared.within == Some(true)).count(), run, judged().count())
}

fn summary(out: &mut String, report: &Report<'_>) {
    let all: Vec<_> = report.evaluations.iter().map(counts).collect();
    let within: usize = all.iter().map(|count| count.0).sum();
    let run: usize = all.iter().map(|count| count.1).sum();
    let tables = report.evaluations.iter().filter(|evaluation| evaluation.is_good()).count();
    let text = format!(
        "{within} of {run} judged figures are within their tolerance; {tables} of {} tables pass.",
        all.len()
    );
    paragraph(out, "big", &text);
    out.push_str(
        "<table class=\"wide\">\n<thead><tr><th>table</th><th class=\"l\">within</th>\
         <th class=\"l\">verdict</th></tr></thead>\n<tbody>\n",
    );
    for ((experiment, evaluation), (within, run, judged)) in
        report.experiments.iter().zip(report.evaluations).zip(all)
    {
        let id = &experiment.table.id;
        let pct = (within * 100).checked_div(run).unwrap_or(0);
        let open = if judged > run {
            format!(" <small>({} not run)</small>", judged - run)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{}\">{}</a></td><td class=\"l\"><span class=\"meter\">\
             <i style=\"width:{pct}%\"></i></span> {within} of {run}{open}</td>\
             <td class=\"l\">{}</td></tr>",
            anchor(id),
            breakable(id),
            verdict_word(evaluation),
        );
    }
    out.push_str("</tbody></table>\n");
    if !report.missing.is_empty() {
        let _ = writeln!(
            out,
            "<p>{} more tables are <a href=\"#missing\">not modelled</a> yet.</p>",
            report.missing.len()
        );
    }
}

fn verdict_word(evaluation: &Evaluation) -> String {
    let unmet = |thought: &Thought| thought.fitted.is_some_and(|(.., met)| !met);
    if evaluation.is_good() {
        "<span class=\"good\">\u{2713} passes</span>".to_string()
    } else if !evaluation.stops.is_empty() {
        "<span class=\"miss\">\u{2717} not all of it ran</span>".to_string()
    } else if evaluation.thoughts.iter().any(unmet) {
        "<span class=\"miss\">\u{2717} baseline not met</span>".to_string()
    } else {
        "<span class=\"miss\">\u{2717} misses</span>".to_string()
    }
}

/// One published table.
fn table(out: &mut String, experiment: &Experiment, evaluation: &Evaluation) {
    let table = &experiment.table;
    let _ = writeln!(
        out,
        "<section id=\"{}\">\n<h2>{}</h2>",
        anchor(&table.id),
        breakable(&table.title)
    );
    let mut known = vec![("table", table.id.clone()), ("source", table.source.clone())];
    known.extend(evaluation.thoughts.iter().map(|thought| ("machine", machine(thought))));
    known.push(("expected", experiment.expect.clone()));
    known.push(("supposed", experiment.note.clone().unwrap_or_default()));
    known.push(("verdict", verdict(evaluation)));
    facts(out, &known);
    let columns = in_order(evaluation.compared.iter().map(|compared| compared.column.as_str()));
    let figures = columns.iter().filter_map(|column| {
        let rows: Vec<&Compared> =
            evaluation.compared.iter().filter(|c| c.column == *column).collect();
        let small =
            if rows.iter().any(|row| row.judged) { "published / modelled" } else { "not judged" };
        Some(page::figure(column, small, &points::chart(column, &rows)?))
    });
    let figures: Vec<String> = figures.collect();
    if !figures.is_empty() {
        out.push_str("<h3>Published against modelled</h3>\n");
        keys(out, &points::keys());
        charts(out, &figures);
    }
    time::section(out, experiment, evaluation);
    grid::section(out, &evaluation.compared);
    misses(out, evaluation);
    out.push_str("</section>\n");
}

/// Every miss, and what is known about why.
fn misses(out: &mut String, evaluation: &Evaluation) {
    let missed: Vec<&Compared> =
        evaluation.compared.iter().filter(|c| Mark::of(c) == Mark::Miss).collect();
    let why = reasons(evaluation);
    if missed.is_empty() && why.is_empty() {
        return;
    }
    out.push_str("<h3>Misses, and what is known about them</h3>\n<div class=\"note\">\n<ul>\n");
    for row in missed {
        let unit = if row.in_points { " points" } else { " %" };
        let error = row.error.map_or(String::new(), |error| signed(error, unit));
        let room = row.tolerance.map_or(String::new(), |t| format!(", {} allowed", tick(t)));
        let _ = writeln!(
            out,
            "<li><span class=\"miss\">\u{2717}</span> {} of {}: {} published, {} modelled, \
             {}{}</li>",
            breakable(&row.column),
            escape(&row.row),
            number(row.published),
            row.modelled.map_or_else(String::new, number),
            escape(&error).replace(' ', "&nbsp;"),
            escape(&room),
        );
    }
    out.push_str("</ul>\n");
    why.iter().for_each(|why| paragraph(out, "", why));
    out.push_str(
        "<p>What the model is known to get wrong: <a href=\"#bias\">below</a>.</p>\n</div>\n",
    );
}

/// What the run itself says about why figures are off: baselines, and how little is left of a
/// unit's time for what is modelled.
fn reasons(evaluation: &Evaluation) -> Vec<String> {
    let mut reasons = evaluation.stops.clone();
    for thought in &evaluation.thoughts {
        let Some((published, modelled, met)) = thought.fitted else { continue };
        let name = &thought.machine;
        if !met {
            reasons.push(format!(
                "{name}: the baseline is {published} {} as published and {modelled} as modelled; \
                 no think time that was tried brings them together, so all other rows are of \
                 another load.",
                thought.unit
            ));
            continue;
        }
        // Other units say at once what a unit takes.
        if thought.unit != "a second" {
            continue;
        }
        let unit_ps = u128::from(thought.cpus as u64) * 1_000_000_000_000;
        let unit_ps = (unit_ps / u128::from(modelled.max(1))) as u64;
        let part = thought.think_ps * 100 / unit_ps.max(1);
        reasons.push(format!(
            "{name}: of the {} ns that a unit of work takes a CPU in the fitted row, {part} % are \
             think time. If that is more than the real workload does outside the allocator, the \
             model holds its locks too shortly, and rows that depend on waiting come out too tame.",
            unit_ps / 1000
        ));
    }
    reasons
}

/// Tables and rows that have no figure, with why.
fn missing(out: &mut String, report: &Report<'_>) {
    if report.missing.is_empty() {
        return;
    }
    out.push_str("<section id=\"missing\">\n<h2>Not modelled</h2>\n<ul>\n");
    for (name, why) in report.missing {
        let _ = writeln!(out, "<li><code>{}</code>: needs {}</li>", breakable(name), escape(why));
    }
    out.push_str("</ul>\n</section>\n");
}

/// Names once each, in the order in which they come.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests;
