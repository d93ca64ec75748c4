//! Every figure: base, head, change, verdict, and the reason under it.

use super::{line, paragraph, percent};
use crate::compare::measure::{Measure, ORDERS};
use crate::compare::metrics::{Change, Metric, Verdict};
use crate::compare::reason::grouped;
use crate::compare::result::{Comparison, KEY_METRICS};
use crate::compare::run::Case;

/// All recordings together.
pub fn total(out: &mut String, comparison: &Comparison) {
    line(out, "");
    let count = comparison.cases.len();
    title(out, "All recordings together", &format!("{count}; counts summed, means pooled"));
    table(out, comparison, &comparison.total, comparison.all_positions());
}

/// One recording.
pub fn case(out: &mut String, comparison: &Comparison, case: &Case, changes: &[Change]) {
    line(out, "");
    let nodes = match case.nodes {
        1 => String::new(),
        nodes => format!(", {nodes} nodes"),
    };
    let about = format!(
        "Linux {}, {} CPUs{nodes}, {} events",
        case.kernel,
        case.cpus,
        grouped(case.events)
    );
    title(out, &case.name, &about);
    paragraph(out, "  start  ", &start(case));
    for remark in &case.remarks {
        paragraph(out, "  assumed  ", remark);
    }
    table(out, comparison, changes, case.positions);
    indices(out, case);
}

fn title(out: &mut String, name: &str, about: &str) {
    line(out, &format!("{name}: {about}"));
}

fn start(case: &Case) -> String {
    let cut = |measure: &Measure| grouped(measure.cut_pages);
    let mut text = format!(
        "cut from the caches: BASE {}, HEAD {} pages (not counted)",
        cut(&case.base),
        cut(&case.head)
    );
    let first = |measure: &Measure| grouped(measure.first_pcp_pages);
    text.push_str(&format!(
        "; the counted pass begins with {} and {} cached",
        first(&case.base),
        first(&case.head)
    ));
    let drift = (case.base.drift_pages, case.head.drift_pages);
    if drift != (0, 0) {
        text.push_str(&format!(
            "; free memory drifted between the passes by {} and {} pages",
            drift.0, drift.1
        ));
    }
    text
}

/// Metrics that moved with their reasons, then the names of those that did not.
fn table(out: &mut String, comparison: &Comparison, changes: &[Change], positions: bool) {
    let head = ["", "BASE", "HEAD", "change"];
    let [name, base, head, change] = head;
    line(out, &format!("  {name:<18}{base:>14}{head:>14}{change:>11}"));
    let mut same = Vec::new();
    let mut unknown = Vec::new();
    let mut said = None;
    for (metric, change) in comparison.metrics.iter().zip(changes) {
        let is_index = metric.name.contains("_o") && metric.positional;
        match change.verdict {
            // The other orders stand in a table of their own.
            _ if is_index && !KEY_METRICS.contains(&metric.name.as_str()) => {}
            Verdict::Same => same.push(same_text(metric, change)),
            // Nodes that this machine has not.
            Verdict::Unknown if metric.name.starts_with("numa_") => {}
            Verdict::Unknown => unknown.push(metric.name.clone()),
            _ => moved(out, metric, change, (positions, &mut said)),
        }
    }
    if !same.is_empty() {
        paragraph(out, "  same     ", &same.join(", "));
    }
    if !unknown.is_empty() {
        let why = if positions { "" } else { " (where free blocks lay was not recorded)" };
        paragraph(out, "  n/a      ", &format!("{}{why}", unknown.join(", ")));
    }
}

fn same_text(metric: &Metric, change: &Change) -> String {
    match change.base {
        Some(0.0) => format!("no {}", metric.name),
        base => format!("{} {}", metric.name, value(metric, base)),
    }
}

/// A figure that moved; its reason, unless it is the one just given.
fn moved<'a>(
    out: &mut String,
    metric: &Metric,
    change: &'a Change,
    (positions, said): (bool, &mut Option<&'a str>),
) {
    let (base, head) = (value(metric, change.base), value(metric, change.head));
    let pct = percent(change.pct());
    let counts = if metric.positional && !positions { " (by counts)" } else { "" };
    let verdict = change.verdict.name();
    let name = &metric.name;
    line(out, &format!("  {name:<18}{base:>14}{head:>14}{pct:>11}  {verdict}{counts}"));
    let reason = change.reason.as_deref();
    if let Some(reason) = reason.filter(|reason| *said != Some(reason)) {
        paragraph(out, "      ", reason);
    }
    *said = reason;
}

fn value(metric: &Metric, value: Option<f64>) -> String {
    match value {
        None => "n/a".to_string(),
        Some(value) if metric.decimals == 0 => grouped(value.round() as u64),
        Some(value) => format!("{value:.*}", metric.decimals),
    }
}

/// Unusable and fragmentation indices of the whole machine by order.
fn indices(out: &mut String, case: &Case) {
    let counts = if case.positions { "" } else { " (by counts)" };
    let mut head = format!("  {:<20}", format!("at end{counts}"));
    for order in 0..ORDERS {
        head.push_str(&format!("{:>7}", format!("o{order}")));
    }
    line(out, &head);
    let sides = [("BASE", &case.base), ("HEAD", &case.head)];
    for (side, measure) in sides {
        let blocks = measure.free_blocks();
        let unusable = |o| pageyard::watermark::unusable_index(&blocks, o) as i64;
        row(out, &format!("unusable  {side}"), unusable);
    }
    let lacking = |measure: &Measure, o: u8| {
        pageyard::watermark::extfrag_index(&measure.free_blocks(), o) >= 0
    };
    if (0..ORDERS as u8).all(|o| sides.iter().all(|(_, measure)| !lacking(measure, o))) {
        line(out, "  extfrag   a block of every order is free under both (-1.000)");
        return;
    }
    for (side, measure) in sides {
        let blocks = measure.free_blocks();
        let extfrag = |o| pageyard::watermark::extfrag_index(&blocks, o);
        row(out, &format!("extfrag   {side}"), extfrag);
    }
}

fn row(out: &mut String, name: &str, permille: impl Fn(u8) -> i64) {
    let mut text = format!("  {name:<20}");
    for order in 0..ORDERS as u8 {
        text.push_str(&format!("{:>7.3}", permille(order) as f64 / 1000.0));
    }
    line(out, &text);
}
