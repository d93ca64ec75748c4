//! The report as text, at most 100 columns wide.

use std::fmt::Write;

use super::{FreeListChange, Grade, Report};

/// Widest line.
const COLUMNS: usize = 100;
/// CPUs that get a column of their own.
const CPU_COLUMNS: usize = 4;
/// CPUs that get a line of their own; of more, those with most to say.
const CPU_LINES: usize = 32;

/// A number with commas: `1,234,567`.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with commas and, where it is below zero, a sign.
pub(super) fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", number(value.unsigned_abs()))
}

/// A share in per cent, as `0.12 %`.
pub(super) fn per_cent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return if part == 0 { "0.00 %".to_string() } else { "no base".to_string() };
    }
    format!("{:.2} %", part as f64 * 100.0 / whole as f64)
}

fn seconds(nanos: u64) -> String {
    format!("{:.6}", nanos as f64 / 1e9)
}

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    head(report, &mut out);
    kinds(report, &mut out);
    cpus(report, &mut out);
    pages(report, &mut out);
    contention(report, &mut out);
    reconciled(report, &mut out);
    free_lists(report, &mut out);
    damage(report, &mut out);
    verdicts(report, &mut out);
    out
}

/// Writes a label and text, broken into lines at blanks.
fn wrapped(out: &mut String, label: &str, text: &str) {
    let indent = label.chars().count();
    let mut line = label.to_string();
    let mut width = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > indent && width + 1 + length > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            width = indent;
        } else if width > indent {
            line.push(' ');
            width += 1;
        }
        // A word longer than a line is cut: paths and names can be of any length.
        let kept: String = word.chars().take(COLUMNS - width).collect();
        width += kept.chars().count();
        line.push_str(&kept);
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn head(report: &Report, out: &mut String) {
    let kernel = report.kernel.as_deref().unwrap_or("not recorded");
    wrapped(out, "recording  ", &report.name);
    wrapped(out, "kernel     ", kernel);
    if let Some(command) = &report.command {
        wrapped(out, "command    ", command);
    }
    let clock = report.clock.as_deref().map(|clock| format!(", clock {clock}")).unwrap_or_default();
    wrapped(out, "format     ", &format!("{}{clock}", report.format));
    let duration = report.last_ns.saturating_sub(report.first_ns);
    let cpus = report.cpus.iter().filter(|cpu| cpu.events > 0).count();
    let text = format!(
        "{} in {} s on {cpus} CPUs, from {} s",
        number(report.events),
        seconds(duration),
        seconds(report.first_ns)
    );
    wrapped(out, "events     ", &text);
}

fn kinds(report: &Report, out: &mut String) {
    let columns = if report.cpus.len() <= CPU_COLUMNS { report.cpus.len() } else { 0 };
    let _ = write!(out, "\n{:<38} {:>14}", "event", "events");
    for cpu in &report.cpus[..columns] {
        let _ = write!(out, " {:>10}", format!("CPU {}", cpu.cpu));
    }
    out.push('\n');
    for kind in &report.kinds {
        let name: String = kind.name.chars().take(38).collect();
        let _ = write!(out, "{name:<38} {:>14}", number(kind.events));
        for count in kind.per_cpu.iter().take(columns) {
            let _ = write!(out, " {:>10}", number(*count));
        }
        out.push('\n');
    }
}

fn cpus(report: &Report, out: &mut String) {
    if report.cpus.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:>5} {:>13} {:>14} {:>14} {:>14} {:>14} {:>12}",
        "CPU", "events", "first s", "last s", "longest gap s", "begins at s", "lost"
    );
    for cpu in report.cpus.iter().take(CPU_LINES) {
        let _ = writeln!(
            out,
            "{:>5} {:>13} {:>14} {:>14} {:>14} {:>14} {:>12}",
            cpu.cpu,
            number(cpu.events),
            seconds(cpu.first_ns),
            seconds(cpu.last_ns),
            seconds(cpu.gap_ns),
            seconds(cpu.gap_at_ns),
            number(cpu.lost_marked.max(cpu.lost_ring))
        );
    }
    if report.cpus.len() > CPU_LINES {
        let _ = writeln!(out, "      and {} CPUs more (see --json)", report.cpus.len() - CPU_LINES);
    }
    if report.lost_elsewhere > 0 {
        let _ = writeln!(out, "      lost on CPUs not named: {}", number(report.lost_elsewhere));
    }
    if report.lost_uncounted > 0 {
        let _ = writeln!(out, "      losses without a number: {}", number(report.lost_uncounted));
    }
}

fn pages(report: &Report, out: &mut String) {
    let pages = &report.pages;
    let _ = writeln!(out, "\n{:<38} {:>14}", "", "pages");
    let mut row = |label: &str, value: u64, note: String| {
        let _ =
            writeln!(out, "{}", format!("{label:<38} {:>14}  {note}", number(value)).trim_end());
    };
    row("allocated", pages.allocated, format!("in {} events", number(pages.alloc_events)));
    row("freed", pages.freed, format!("in {} events", number(pages.free_events)));
    row("in use at the end", pages.in_use_at_end, String::new());
    let note = "allocated before the recording, or unseen";
    row("freed, never seen before", pages.freed_never_seen, note.to_string());
    let note = "taken in between without an event";
    row("freed while free", pages.freed_while_free, note.to_string());
    row("allocated while in use", pages.allocated_while_used, "a free is missing".to_string());
    let orders = report.failed_by_order.iter().take(12);
    let orders: Vec<String> =
        orders.map(|(order, count)| format!("order {order}: {}", number(*count))).collect();
    row("failed allocations", pages.failed_events, orders.join(", ").chars().take(44).collect());
}

fn contention(report: &Report, out: &mut String) {
    let waits = &report.contention;
    if waits.begun + waits.ended_only == 0 {
        return;
    }
    let text = format!(
        "{} waits, {} s in all, the longest {} us; {} without an end, {} without a beginning",
        number(waits.matched),
        seconds(waits.wait_ns),
        number(waits.wait_max_ns / 1000),
        number(waits.begun.saturating_sub(waits.matched)),
        number(waits.ended_only)
    );
    out.push('\n');
    wrapped(out, "lock contention  ", &text);
    for (lock, count, wait_ns) in waits.locks.iter().filter(|(lock, ..)| *lock != 0) {
        let text = format!("{lock:016x}: {} waits, {} s", number(*count), seconds(*wait_ns));
        wrapped(out, "                 ", &text);
    }
}

fn reconciled(report: &Report, out: &mut String) {
    if report.reconciled.is_empty() {
        return;
    }
    let heads = ["kernel's counter", "pages counted", "in the events", "without event", "share"];
    let _ = writeln!(
        out,
        "\n{:<24} {:>16} {:>16} {:>16} {:>10}",
        heads[0], heads[1], heads[2], heads[3], heads[4]
    );
    for row in &report.reconciled {
        let missing = row.missing();
        let sign = if missing < 0 { "-" } else { "" };
        let _ = writeln!(
            out,
            "{:<24} {:>16} {:>16} {:>16} {:>10}",
            row.counter,
            number(row.counted),
            number(row.traced),
            signed(missing),
            format!("{sign}{}", per_cent(missing.unsigned_abs(), row.counted))
        );
    }
}

fn free_lists(report: &Report, out: &mut String) {
    let Some(lists) = &report.free_lists else {
        return;
    };
    let heads = ["free lists grew by", "by buddyinfo", "by the events", "without event"];
    let _ = writeln!(out, "\n{:<24} {:>16} {:>16} {:>16}", heads[0], heads[1], heads[2], heads[3]);
    for row in &lists.zones {
        let FreeListChange { node, zone, .. } = row;
        let label = match (node, zone) {
            (Some(node), Some(zone)) => format!("node {node} {zone}"),
            _ => "all zones".to_string(),
        };
        let label: String = label.chars().take(24).collect();
        let _ = writeln!(
            out,
            "{label:<24} {:>16} {:>16} {:>16}",
            signed(row.counted),
            signed(row.traced),
            signed(row.unseen())
        );
    }
}

fn damage(report: &Report, out: &mut String) {
    if report.damage_count == 0 {
        return;
    }
    let _ = writeln!(out, "\nnot readable: {} places", number(report.damage_count));
    for fault in report.damage.iter().take(10) {
        wrapped(out, "  ", fault);
    }
}

fn verdicts(report: &Report, out: &mut String) {
    out.push('\n');
    for verdict in &report.verdicts {
        let label = match verdict.grade {
            Grade::Good => "good  ",
            Grade::Care => "care  ",
            Grade::Bad => "BAD   ",
        };
        wrapped(out, label, &verdict.text);
    }
    let bad: Vec<&str> = report
        .verdicts
        .iter()
        .filter(|verdict| verdict.grade == Grade::Bad)
        .map(|verdict| verdict.text.as_str())
        .collect();
    out.push('\n');
    if bad.is_empty() {
        let care = report.verdicts.iter().filter(|verdict| verdict.grade == Grade::Care).count();
        let text = match care {
            0 => "This recording can be trusted.".to_string(),
            1 => "This recording can be trusted, with care at one point.".to_string(),
            _ => format!("This recording can be trusted, with care at {care} points."),
        };
        wrapped(out, "", &text);
    } else {
        let text = format!("This recording cannot be trusted because {}.", bad.join("; "));
        wrapped(out, "", &text);
    }
}
