//! What is compared, and who gains and who loses.

use pageyard::keys::KEYS;

use super::{line, paragraph, percent};
use crate::compare::metrics::{Change, Verdict};
use crate::compare::result::{Comparison, KEY_METRICS, by_name};
use crate::compare::run::Case;

/// Width of a recording's name.
pub(super) const NAME: usize = 27;
/// Events below which a change in per cent says little.
const FEW: f64 = 32.0;
/// Width of a column of the matrix.
const CELL: usize = 12;

/// Names of both policies and where they differ.
pub fn head(out: &mut String, comparison: &Comparison) {
    let (base, head) = (&comparison.question.base, &comparison.question.head);
    paragraph(out, "BASE  ", &base.name);
    paragraph(out, "HEAD  ", &head.name);
    for (side, named) in [("BASE", base), ("HEAD", head)] {
        if let Some(remark) = &named.remark {
            paragraph(out, "      ", &format!("{side}: {remark}"));
        }
    }
    let differing: Vec<String> = KEYS
        .iter()
        .filter(|key| (key.get)(&base.policy) != (key.get)(&head.policy))
        .map(|key| {
            let (b, h) = ((key.get)(&base.policy), (key.get)(&head.policy));
            format!("{} {b} → {h}", key.name)
        })
        .collect();
    let text = match differing.len() {
        0 => "in nothing".to_string(),
        _ => differing.join("; "),
    };
    paragraph(out, "they differ  ", &text);
}

/// Recordings by key metrics.
pub fn matrix(out: &mut String, comparison: &Comparison) {
    line(out, "");
    let positions = comparison.all_positions();
    let counts = match positions {
        true => "",
        false => "; ~ positions of free blocks not known",
    };
    line(out, &format!("HEAD against BASE, change in per cent (same: less than 1 %{counts})"));
    line(out, "");
    let mut head = format!(" {:<NAME$}", "recording");
    for name in KEY_METRICS {
        head.push_str(&format!("{:>CELL$}", label(name)));
    }
    line(out, &head);
    for (case, changes) in &comparison.cases {
        row(out, comparison, &short(&case.name), (changes, case.positions));
    }
    if comparison.cases.len() > 1 {
        let total = (comparison.total.as_slice(), positions);
        row(out, comparison, "all together", total);
    }
}

/// Name of a metric in a narrow column.
fn label(metric: &str) -> &str {
    match metric {
        "hold_pages_max" => "hold_max",
        "pcp_hit_pct" => "pcp_hit",
        "pcp_pages_mean" => "pcp_pages",
        other => other,
    }
}

fn row(
    out: &mut String,
    comparison: &Comparison,
    name: &str,
    (changes, positions): (&[Change], bool),
) {
    let mut text = format!(" {name:<NAME$}");
    for metric in KEY_METRICS {
        let counted = comparison.is_positional(metric) && !positions;
        let change = by_name(changes, metric);
        let cell = change.map_or_else(|| "n/a".to_string(), |change| cell(change, counted));
        text.push_str(&format!("{cell:>CELL$}"));
    }
    line(out, &text);
}

fn cell(change: &Change, counted: bool) -> String {
    if is_few(change) {
        return format!("{} → {}", number(change.base), number(change.head));
    }
    // What rests on counts alone deserves no decimals.
    let pct = change.pct().map(|pct| if counted { pct.round() } else { pct });
    let mark = if counted { "~" } else { "" };
    match change.verdict {
        Verdict::Better => format!("{mark}{} better", coarse(pct, counted)),
        Verdict::Worse => format!("{mark}{} worse ", coarse(pct, counted)),
        Verdict::Differs => format!("{mark}{}", coarse(pct, counted)),
        Verdict::Same => "same".to_string(),
        Verdict::Unknown => "n/a".to_string(),
    }
}

/// A handful of events more or less: shown as counts, and no witness for or against anybody.
fn is_few(change: &Change) -> bool {
    let counted = ["zone_locks", "fallbacks"].contains(&change.metric.as_str());
    let largest = change.base.unwrap_or(0.0).max(change.head.unwrap_or(0.0));
    let moved = change.verdict != Verdict::Same;
    counted && moved && largest < FEW
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_string(), |value| format!("{value:.0}"))
}

/// A change in per cent in four characters; from tenfold on as a factor.
fn coarse(pct: Option<f64>, whole: bool) -> String {
    match pct {
        None => "n/a".to_string(),
        Some(pct) if pct.is_infinite() => "new".to_string(),
        Some(pct) if pct >= 999.5 => format!("x{:.0}", 1.0 + pct / 100.0),
        Some(pct) if pct.abs() < 9.95 && !whole => format!("{pct:+.1}"),
        Some(pct) => format!("{pct:+.0}"),
    }
}

/// Whom it helps, whom it hurts: figures that rest on invented positions are no witness.
pub fn whom(out: &mut String, comparison: &Comparison) {
    line(out, "");
    for (label, verdict) in [("Helps   ", Verdict::Better), ("Hurts   ", Verdict::Worse)] {
        let found: Vec<String> = comparison
            .cases
            .iter()
            .filter_map(|(case, changes)| {
                let hits: Vec<String> = KEY_METRICS
                    .iter()
                    .filter(|name| case.positions || !comparison.is_positional(name))
                    .filter_map(|name| by_name(changes, name))
                    .filter(|change| change.verdict == verdict && !is_few(change))
                    .map(|change| format!("{} {}", change.metric, percent(change.pct())))
                    .collect();
                (!hits.is_empty()).then(|| format!("{} ({})", case.name, hits.join(", ")))
            })
            .collect();
        let text = if found.is_empty() { "nobody".to_string() } else { found.join("; ") };
        paragraph(out, label, &text);
    }
    let unmoved = |(case, changes): &&(Case, Vec<Change>)| {
        let safe = |name: &&&str| case.positions || !comparison.is_positional(name);
        let key = |name: &&str| by_name(changes, name);
        let mut keys = KEY_METRICS.iter().filter(safe).filter_map(key);
        keys.all(|change| {
            matches!(change.verdict, Verdict::Same | Verdict::Unknown) || is_few(change)
        })
    };
    let same: Vec<&str> =
        comparison.cases.iter().filter(unmoved).map(|(case, _)| &*case.name).collect();
    if !same.is_empty() {
        paragraph(out, "Neither ", &same.join("; "));
    }
}

/// A name that fits its column.
pub(super) fn short(name: &str) -> String {
    match name.chars().count() {
        0..=NAME => name.to_string(),
        _ => name.chars().take(NAME - 1).chain(['…']).collect(),
    }
}
