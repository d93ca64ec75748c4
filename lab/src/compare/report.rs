//! The comparison for people, in 100 columns: first how far the twins can be trusted, then the
//! verdict, then every figure with its reason.

mod believe;
mod figures;
mod summary;

use super::result::Comparison;

/// Columns of the report.
pub(in crate::compare) const COLUMNS: usize = 100;

/// The report as text.
#[must_use]
pub fn write(comparison: &Comparison) -> String {
    let mut out = String::new();
    summary::head(&mut out, comparison);
    believe::twins(&mut out, comparison);
    if comparison.cases.is_empty() {
        return out;
    }
    summary::matrix(&mut out, comparison);
    summary::whom(&mut out, comparison);
    figures::total(&mut out, comparison);
    for (case, changes) in &comparison.cases {
        figures::case(&mut out, comparison, case, changes);
    }
    out
}

/// Only what is compared with what: where no recording was asked for.
#[must_use]
pub fn head(comparison: &Comparison) -> String {
    let mut out = String::new();
    summary::head(&mut out, comparison);
    line(&mut out, "");
    out
}

/// Adds a line without blanks at its end.
pub(in crate::compare) fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Adds a paragraph: the first line begins with `first`, the others with as many blanks.
pub(in crate::compare) fn paragraph(out: &mut String, first: &str, text: &str) {
    let indent = first.chars().count();
    let mut at = first.to_string();
    let mut empty = true;
    for word in text.split(' ') {
        let width = at.chars().count() + usize::from(!empty) + word.chars().count();
        if width > COLUMNS && !empty {
            line(out, &at);
            at = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            at.push(' ');
        }
        at.push_str(word);
        empty = false;
    }
    line(out, &at);
}

/// A change in per cent with its sign, as `+12.3 %`.
pub(crate) fn percent(pct: Option<f64>) -> String {
    match pct {
        None => "n/a".to_string(),
        Some(pct) if pct.is_infinite() => "from 0".to_string(),
        Some(pct) if pct.abs() < 0.05 => "0 %".to_string(),
        Some(pct) if pct.abs() >= 100.0 => format!("{pct:+.0} %"),
        Some(pct) => format!("{pct:+.1} %"),
    }
}
