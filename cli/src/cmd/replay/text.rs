//! The twin's verdict as text of at most 100 columns.

use std::fmt::Write;

use pageyard_lab::twin::outcome::Outcome;
use pageyard_lab::twin::report::TwinReport;
use pageyard_lab::twin::score::{Row, Sequence};

/// Lines of inferred facts that are shown without `--all`.
const INFERRED_SHOWN: usize = 14;

/// A number with thousands apart.
fn grouped(value: f64) -> String {
    let rounded = value.round();
    let digits = format!("{:.0}", rounded.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if rounded < 0.0 { format!("-{text}") } else { text }
}

/// The whole report.
pub fn twin(report: &TwinReport, all: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} events in {:.3} s, kernel {}",
        report.recording,
        grouped(report.events as f64),
        report.window_ns as f64 / 1e9,
        report.kernel
    );
    let _ = writeln!(out, "twin: {}\n", verdict(report));
    if !report.faults.is_empty() {
        section(
            &mut out,
            "DAMAGED: what follows is of the part that could be read",
            &report.faults,
            all,
        );
        out.push('\n');
    }
    rows(&mut out, report, all);
    sequences(&mut out, &report.sequences);
    if all {
        sizes(&mut out, report);
    }
    section(&mut out, "\nnot recorded, inferred", &report.inferred, all);
    section(&mut out, "\nbetween snapshots and events, shown apart", &report.apart, all);
    out
}

fn verdict(report: &TwinReport) -> String {
    let (within, rows) = report.rows_within();
    let (identical, sequences) = report.sequences_identical();
    let worst = report.twin_worst_error_pct;
    let mut text = format!(
        "{}, {}; {within} of {rows} exercised quantities within 1 % or one largest \
         batch,\n      {identical} of {sequences} sequences of refills and drains identical",
        report.policy, report.chosen_by
    );
    if let Some(worst) = worst {
        let _ = write!(text, "; worst error {worst:.2} %");
    }
    if let Some(pct) = report.same_page_pct {
        let _ = write!(text, "\n      {pct:.2} % of allocations took the page the kernel took");
    }
    match &report.better_preset {
        Some(name) => {
            let _ = write!(text, "\n      a better fit: {name}; try it with --kernel-policy");
        }
        None if identical < sequences => text.push_str("\n      no other preset fits better"),
        None => {}
    }
    text
}

fn rows(out: &mut String, report: &TwinReport, all: bool) {
    let _ = writeln!(
        out,
        "{:<34} {:<15} {:>4} {:>12} {:>12} {:>9}  null model",
        "quantity", "zone", "CPU", "kernel", "twin", "error"
    );
    let mut hidden = 0;
    for row in &report.twin {
        let whole = row.cpu.is_none() && row.scored;
        let show =
            all || (whole && row.quantity != "refilled pages" || row.exercised && row.scored);
        if !show || (!row.exercised && !all && row.observed == 0.0 && !whole) {
            hidden += 1;
            continue;
        }
        line(out, row);
    }
    if hidden > 0 && !all {
        let _ = writeln!(out, "({hidden} more rows with --all: caches and free blocks at the end)");
    }
}

fn line(out: &mut String, row: &Row) {
    let cpu = row.cpu.map_or_else(|| "all".into(), |cpu| cpu.to_string());
    let error = match (row.exercised, row.error_pct) {
        (false, _) => "-".into(),
        (true, Some(pct)) => format!("{pct:.2} %"),
        (true, None) => "new".into(),
    };
    let note = match () {
        () if !row.exercised => "not exercised".into(),
        () if !row.scored => "shown, not scored".into(),
        () if row.within => null_model(row),
        () => format!("{}  MISS", null_model(row)),
    };
    let _ = writeln!(
        out,
        "{:<34} {:<15} {:>4} {:>12} {:>12} {:>9}  {}",
        row.quantity,
        row.zone,
        cpu,
        grouped(row.observed),
        grouped(row.predicted),
        error,
        note
    );
}

fn null_model(row: &Row) -> String {
    match row.observed == row.null {
        true => "right".into(),
        false => "100 % off".into(),
    }
}

fn sequences(out: &mut String, sequences: &[Sequence]) {
    if sequences.is_empty() {
        let _ = writeln!(out, "\nno refill and no drain: their sequences are not exercised");
        return;
    }
    let _ = writeln!(out, "\nsequences of refill and drain sizes");
    for sequence in sequences {
        let excused = match sequence.excused {
            0 => String::new(),
            n => format!(" ({n} emptied the cache: size not held to account)"),
        };
        let what = match &sequence.first_difference {
            None => format!("{} of {} identical{excused}", sequence.agree, sequence.observed),
            Some(first) => {
                let reason = sequence.reason.as_deref().unwrap_or_default();
                let (agree, observed) = (sequence.agree, sequence.observed);
                let counts = format!("kernel {observed}, twin {}", sequence.predicted);
                let why = wrapped(&format!("first difference {first}; {reason}"), "      ");
                format!("{agree} in step; {counts}{excused}\n{}", why.trim_end())
            }
        };
        let _ = writeln!(
            out,
            "  {:<7} {:<15} CPU {:<3} {what}",
            sequence.what, sequence.zone, sequence.cpu
        );
    }
}

fn sizes(out: &mut String, report: &TwinReport) {
    let _ = writeln!(out, "\nbatches by size (pages): kernel, twin");
    for size in &report.sizes {
        let _ = writeln!(
            out,
            "  {:<7} {:<15} {:>6} pages {:>8} {:>8}",
            size.what, size.zone, size.pages, size.observed, size.predicted
        );
    }
}

fn section(out: &mut String, title: &str, lines: &[String], all: bool) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}");
    let shown = if all { lines.len() } else { INFERRED_SHOWN.min(lines.len()) };
    for line in &lines[..shown] {
        wrap(out, line);
    }
    if shown < lines.len() {
        let _ = writeln!(out, "  ({} more with --all)", lines.len() - shown);
    }
}

/// Writes `- line`, broken at blanks before column 100.
fn wrap(out: &mut String, line: &str) {
    let text = wrapped(line, "    ");
    out.push_str("  - ");
    out.push_str(text.trim_start());
}

/// A text broken at blanks before column 100, each line led by `lead`.
fn wrapped(text: &str, lead: &str) -> String {
    let mut out = String::new();
    let mut column = usize::MAX;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column.saturating_add(1 + width) > 98 {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(lead);
            column = lead.len();
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
    out
}

/// Policies side by side.
pub fn outcomes(outcomes: &[Outcome]) -> String {
    let mut out = String::from("the same requests, each policy placing pages itself\n");
    let width = 14;
    let _ = write!(out, "{:<36}", "");
    for outcome in outcomes {
        let name: String = outcome.policy.chars().take(width).collect();
        let _ = write!(out, " {name:>width$}");
    }
    out.push('\n');
    let Some(first) = outcomes.first() else {
        return out;
    };
    for (at, (name, _)) in first.numbers.iter().enumerate() {
        let _ = write!(out, "{name:<36}");
        for outcome in outcomes {
            let _ = write!(out, " {:>width$}", grouped(outcome.numbers[at].1 as f64));
        }
        out.push('\n');
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.cut_pages > 0) {
        let _ = writeln!(
            out,
            "{}: {} pages above its limits were cut from the caches first, not counted",
            outcome.policy,
            grouped(outcome.cut_pages as f64)
        );
    }
    out
}
