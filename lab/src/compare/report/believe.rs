//! How well the twins match their kernels: what must be read before any figure.

use super::summary::{NAME, short};
use super::{line, paragraph};
use crate::compare::agree::Agreement;
use crate::compare::reason::grouped;
use crate::compare::result::Comparison;
use crate::compare::run::Case;

const ABOUT: &str = "The twin of each recorded kernel, under that kernel's own policy, against \
    what the kernel did: error of refilled and drained pages (worst zone), refills and drains that \
    agree one by one.";

/// Each recording: can the replay be believed?
pub fn twins(out: &mut String, comparison: &Comparison) {
    line(out, "");
    paragraph(out, "Can it be believed?  ", ABOUT);
    line(out, "");
    columns(out, ["recording", "kernel policy", "refilled", "drained", "in sequence", "verdict"]);
    for (case, _) in &comparison.cases {
        row(out, case);
    }
    for (path, error) in &comparison.failures {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| path.display().to_string());
        let first = format!("  {:<NAME$}", short(&name));
        paragraph(out, &first, &format!("NOT COMPARED: {error}"));
    }
    notes(out, comparison);
}

fn columns(out: &mut String, [name, policy, refilled, drained, sequence, verdict]: [&str; 6]) {
    let pages = format!("{refilled:>10}{drained:>10}");
    line(out, &format!("  {name:<NAME$}{policy:<15}{pages}{sequence:>18}   {verdict}"));
}

fn row(out: &mut String, case: &Case) {
    let agreement = &case.agreement;
    let (agree, all) = agreement.in_sequence();
    let sequence = match all {
        0 => "none".to_string(),
        _ => format!("{} of {}", grouped(agree as u64), grouped(all as u64)),
    };
    let verdict = match agreement.matches() {
        None => "not exercised",
        Some(true) => "matches",
        Some(false) => "OFF",
    };
    let (refilled, drained) =
        (error(agreement, "refilled pages"), error(agreement, "drained pages"));
    let policy = &case.kernel_policy.name;
    columns(out, [&short(&case.name), policy, &refilled, &drained, &sequence, verdict]);
}

fn error(agreement: &Agreement, quantity: &str) -> String {
    match agreement.flow(quantity) {
        None => "none".to_string(),
        Some((_, pct)) if pct.is_infinite() => "from 0".to_string(),
        Some((_, pct)) => format!("{pct:.2} %"),
    }
}

/// Twins that are off, and presets that would fit better.
fn notes(out: &mut String, comparison: &Comparison) {
    for (case, _) in &comparison.cases {
        if let Some(better) = &case.agreement.report.better_preset {
            let policy = &case.kernel_policy.name;
            let text = format!("{} fits {better} better than {policy}", case.name);
            paragraph(out, "  note  ", &text);
        }
        if let Some(remark) = &case.kernel_policy.remark {
            paragraph(out, "  note  ", &format!("{}: {remark}", case.name));
        }
    }
    let off = |(case, _): &&(Case, _)| case.agreement.matches() == Some(false);
    let cases = comparison.cases.iter().filter(off);
    let off: Vec<&str> = cases.map(|(case, _)| case.name.as_str()).collect();
    if !off.is_empty() {
        line(out, "");
        let text = format!(
            "more than 1 % and one largest batch away from the kernel. What is said about {} is \
             worth as little as that.",
            off.join(", ")
        );
        paragraph(out, "  OFF: ", &text);
    }
}
