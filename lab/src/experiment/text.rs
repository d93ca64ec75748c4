//! The page that a person reads: published beside modelled, at most 100 columns wide.

use super::evaluate::{Compared, Evaluation, Thought};
use super::load::Experiment;

/// Widest line, characters.
const COLUMNS: usize = 100;

/// A published table and what came out.
#[must_use]
pub fn table(experiment: &Experiment, evaluation: &Evaluation) -> String {
    let mut text = format!("{}\n", experiment.table.id);
    push_wrapped(&mut text, "", &experiment.table.title);
    push_wrapped(&mut text, "source: ", &experiment.table.source);
    for thought in &evaluation.thoughts {
        push_wrapped(&mut text, "machine: ", &machine(thought));
    }
    push_wrapped(&mut text, "expected: ", &experiment.expect);
    if let Some(note) = &experiment.note {
        push_wrapped(&mut text, "note: ", note);
    }
    text.push('\n');
    for block in blocks(&evaluation.compared) {
        text.push_str(&block);
        text.push('\n');
    }
    let notes = evaluation
        .compared
        .iter()
        .filter_map(|compared| Some(format!("{}: {}", compared.column, compared.note.as_ref()?)));
    let notes: Vec<String> = notes.collect();
    for note in in_order(notes.iter().map(String::as_str)) {
        push_wrapped(&mut text, "", note);
    }
    push_wrapped(&mut text, "verdict: ", &verdict(evaluation));
    text
}

/// A machine, its CPUs, its think time and how that was found.
#[must_use]
pub fn machine(thought: &Thought) -> String {
    let Thought { machine, cpus, think_ps, fitted, unit } = thought;
    let think = format!("{} ns", think_ps / 1000);
    let how = match fitted {
        None => format!("think time {think}, not fitted"),
        Some((_, _, true)) => format!("think time {think}, fitted"),
        Some((published, modelled, false)) if *think_ps == 0 => format!(
            "the baseline is not reached: {modelled} {unit} without any think time, {published} \
             published"
        ),
        Some((published, modelled, false)) => format!(
            "the baseline is not met: {modelled} {unit} at think time {think}, {published} \
             published"
        ),
    };
    format!("{machine}, {cpus} CPU{}; {how}", if *cpus == 1 { "" } else { "s" })
}

/// In words: how many of the judged figures came out, which did not.
#[must_use]
pub fn verdict(evaluation: &Evaluation) -> String {
    let judged: Vec<&Compared> = evaluation.compared.iter().filter(|c| c.judged).collect();
    let (mut misses, mut within, mut open) = (Vec::new(), 0, 0);
    for compared in &judged {
        match compared.within {
            Some(true) => within += 1,
            Some(false) => misses.push(format!("{} of {}", compared.column, compared.row)),
            None => open += 1,
        }
    }
    let unmet =
        evaluation.thoughts.iter().filter(|t| t.fitted.is_some_and(|(.., met)| !met)).count();
    let mut parts = Vec::new();
    parts.push(match (misses.is_empty(), within) {
        (true, 0) => "nothing judged".to_string(),
        (true, _) if open == 0 && unmet == 0 => format!("reproduced, {within} of {within} figures"),
        _ => format!("{within} of {} figures within tolerance", within + misses.len()),
    });
    if unmet > 0 {
        parts
            .push(format!("baseline not met on {unmet} of {} machines", evaluation.thoughts.len()));
    }
    if open > 0 {
        parts.push(format!("{open} not run"));
    }
    let mut stops = evaluation.stops.clone();
    stops.sort();
    stops.dedup();
    parts.extend(stops);
    if !misses.is_empty() {
        parts.push(format!("misses: {}", misses.join(", ")));
    }
    parts.join("; ")
}

/// The grid of rows and columns, in blocks that fit a line.
fn blocks(compared: &[Compared]) -> Vec<String> {
    let mut blocks = Vec::new();
    // Slopes are rows of their own that have no other columns: they stand below.
    let (slopes, points): (Vec<&Compared>, Vec<&Compared>) =
        compared.iter().partition(|compared| compared.row.starts_with("slope "));
    for part in [points, slopes] {
        let rows = in_order(part.iter().map(|compared| compared.row.as_str()));
        let columns = in_order(part.iter().map(|compared| compared.column.as_str()));
        let first = width(rows.iter().copied()).max(3) + 2;
        let cells: Vec<Vec<String>> =
            columns.iter().map(|column| grid_column(&part, &rows, column)).collect();
        let widths: Vec<usize> =
            cells.iter().map(|cells| width(cells.iter().map(String::as_str)) + 2).collect();
        let mut at = 0;
        while at < cells.len() {
            let mut end = at;
            let mut used = first;
            while end < cells.len() && (end == at || used + widths[end] <= COLUMNS) {
                used += widths[end];
                end += 1;
            }
            blocks.push(block(&rows, first, &cells[at..end], &widths[at..end]));
            at = end;
        }
    }
    blocks
}

/// Lines of a block: two of headings, then one a row that has a figure here.
fn block(rows: &[&str], first: usize, cells: &[Vec<String>], widths: &[usize]) -> String {
    let mut text = String::new();
    for line in 0..rows.len() + 2 {
        let name = line.checked_sub(2).map_or("", |row| rows[row]);
        if line >= 2 && cells.iter().all(|cells| cells[line].is_empty()) {
            continue;
        }
        let mut out = pad(name, first);
        for (cells, width) in cells.iter().zip(widths) {
            out.push_str(&pad(&cells[line], *width));
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// One published column as text: headings and a line each row.
fn grid_column(part: &[&Compared], rows: &[&str], column: &str) -> Vec<String> {
    let heads = ["published", "model", "error"];
    let mut lines: Vec<[String; 4]> = Vec::new();
    for row in rows {
        let found = part.iter().find(|c| c.row == *row && c.column == column);
        lines.push(found.map_or_else(Default::default, |compared| line(compared)));
    }
    let wide = |at: usize| lines.iter().map(|l| l[at].chars().count()).max().unwrap_or(0);
    let w: Vec<usize> = (0..3).map(|at| wide(at).max(heads[at].len())).collect();
    let join = |line: &[String; 4]| {
        let text = format!(
            "{:>a$} {:>b$} {:>c$}{}",
            line[0],
            line[1],
            line[2],
            line[3],
            a = w[0],
            b = w[1],
            c = w[2]
        );
        if text.trim().is_empty() { String::new() } else { text }
    };
    let heads = [heads[0].into(), heads[1].into(), heads[2].into(), String::new()];
    let mut out = vec![short(column, w.iter().sum::<usize>() + 2), join(&heads)];
    out.extend(lines.iter().map(join));
    out
}

/// A long heading is cut; `--json` has it whole.
fn short(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}

/// Published, modelled, error, and a mark: `!` for a miss, `=` for what was fitted.
fn line(compared: &Compared) -> [String; 4] {
    let unit = if compared.in_points { "" } else { "%" };
    let modelled = compared.modelled.map_or("-".to_string(), number);
    let error = compared.error.map_or(String::new(), |error| format!("{error:+.1}{unit}"));
    let mark = match (compared.fitted, compared.within) {
        (true, _) => "=",
        (_, Some(false)) => "!",
        _ => " ",
    };
    [number(compared.published), modelled, error, mark.to_string()]
}

/// A figure with three to four digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2}M", value / 1e6),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn width<'a>(cells: impl Iterator<Item = &'a str>) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// A paragraph with its name before it, wrapped behind blanks.
fn push_wrapped(out: &mut String, name: &str, text: &str) {
    let mut line = format!("  {name}");
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let blank = usize::from(!is_empty);
        if !is_empty && line.chars().count() + blank + word.chars().count() > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            line = "    ".to_string();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
