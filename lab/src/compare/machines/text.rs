//! The matrix of places for people, in 100 columns: verdicts, whom it helps and hurts, and why.

use super::ask::Place;
use super::judge::{Builds, Cell, Matrix};
use crate::compare::metrics::Verdict;
use crate::compare::reason::grouped;
use crate::compare::report::{COLUMNS, line, paragraph, percent};

/// Width of a machine's name with its CPUs.
const NAME: usize = 22;
/// Width of a column of the matrix.
const CELL: usize = 25;

/// The part of a comparison that is about modelled machines.
#[must_use]
pub fn write(matrix: &Matrix) -> String {
    let mut out = String::new();
    head(&mut out, matrix);
    grid(&mut out, matrix);
    whom(&mut out, matrix);
    for cell in &matrix.cells {
        why(&mut out, cell);
    }
    for (place, why) in &matrix.failures {
        let first = format!("  {} {}: NOT COMPARED: ", place.machine, place.workload);
        paragraph(&mut out, &first, why);
    }
    out
}

/// In words what a verdict on the score means.
#[must_use]
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "helps",
        Verdict::Worse => "hurts",
        Verdict::Unknown => "n/a",
        Verdict::Same | Verdict::Differs => "no change",
    }
}

/// What is to be said about two builds, if there are two.
#[must_use]
pub fn builds(builds: Builds) -> Option<&'static str> {
    match builds {
        Builds::Same => None,
        Builds::Allocator => {
            Some("two builds: the allocator differs, machines and workloads are the same")
        }
        Builds::Model => Some(
            "two builds whose machines or workloads differ: what changed is not the allocator's \
             alone",
        ),
    }
}

fn head(out: &mut String, matrix: &Matrix) {
    let noise = match matrix.seeds {
        1 => "one seed, so that noise is not known".to_string(),
        seeds => format!("mean of {seeds} seeds ± 95 % of their spread"),
    };
    let text = format!("HEAD against BASE, change of the score in per cent ({noise})");
    paragraph(out, "Modelled machines  ", &text);
    if let Some(text) = memory(matrix) {
        paragraph(out, "Memory  ", &text);
    }
    if let Some(text) = builds(matrix.builds) {
        paragraph(out, "Builds  ", text);
    }
    line(out, "");
}

/// What is to be said about the machines' memory, if it is not all that they have.
#[must_use]
pub fn memory(matrix: &Matrix) -> Option<String> {
    let places = matrix.cells.iter().map(|cell| &cell.place);
    let given = places.filter_map(|place| place.memory_mib).next();
    given.map(|mib| format!("every node was given {mib} MiB, not what the machine has"))
}

fn machines(matrix: &Matrix) -> Vec<&str> {
    in_order(matrix.cells.iter().map(|cell| cell.place.machine.as_str()))
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

fn grid(out: &mut String, matrix: &Matrix) {
    let workloads = in_order(matrix.cells.iter().map(|cell| cell.place.workload.as_str()));
    for workloads in workloads.chunks((COLUMNS - NAME) / CELL) {
        let mut text = format!(" {:<NAME$}", "machine");
        for workload in workloads {
            // Over the figures; words stand behind them.
            text.push_str(&format!("{:>1$}    ", short(workload, CELL - 5), CELL - 4));
        }
        line(out, &text);
        for machine in machines(matrix) {
            row(out, matrix, machine, workloads);
        }
        line(out, "");
    }
}

fn row(out: &mut String, matrix: &Matrix, machine: &str, workloads: &[&str]) {
    let find =
        |place: &Place, workload: &str| place.machine == machine && place.workload == workload;
    let cell = |workload: &&str| matrix.cells.iter().find(|cell| find(&cell.place, workload));
    let cpus = workloads.iter().find_map(cell).map_or(0, |cell| cell.cpus);
    let name =
        format!("{}, {cpus} CPU{}", short(machine, NAME - 10), if cpus == 1 { "" } else { "s" });
    let mut text = format!(" {name:<NAME$}");
    for workload in workloads {
        let shown = cell(workload).map_or_else(|| "n/a".to_string(), shown);
        text.push_str(&format!("{shown:>CELL$}"));
    }
    line(out, &text);
}

/// `-3.2 ±0.4 hurts`.
fn shown(cell: &Cell) -> String {
    let word = word(cell.score().verdict);
    match cell.no_memory.who() {
        "" => {}
        "both" => return format!("{:<9}", "no memory"),
        who => return format!("{who}: no memory {word:<9}"),
    }
    let pct = cell.score().pct().unwrap_or(f64::NAN);
    let noise = cell.noise.map_or(String::new(), |noise| format!(" ±{noise:.1}"));
    // Rounded to nothing, it has no sign.
    let pct = if pct.abs() < 0.05 { "0.0".to_string() } else { format!("{pct:+.1}") };
    format!("{pct}{noise} {word:<9}")
}

fn short(name: &str, width: usize) -> String {
    match name.chars().count() > width {
        true => name.chars().take(width - 1).chain(['…']).collect(),
        false => name.to_string(),
    }
}

fn whom(out: &mut String, matrix: &Matrix) {
    for (label, verdict) in [("Helps      ", Verdict::Better), ("Hurts      ", Verdict::Worse)] {
        paragraph(out, label, &who(matrix, verdict));
    }
    let same = who(matrix, Verdict::Same);
    if same != "nobody" {
        paragraph(out, "No change  ", &same);
    }
    let both = matrix.cells.iter().filter(|cell| cell.no_memory.who() == "both");
    let both: Vec<String> = both.map(Cell::name).collect();
    if !both.is_empty() {
        paragraph(out, "No memory  ", &format!("under both: {}", both.join("; ")));
    }
    line(out, "");
}

/// Places of a verdict with their changes.
#[must_use]
pub fn who(matrix: &Matrix, verdict: Verdict) -> String {
    let found = matrix.cells.iter().filter(|cell| cell.score().verdict == verdict);
    let change = |cell: &Cell| match cell.no_memory.who() {
        "" => percent(cell.score().pct()),
        who => format!("{who} runs out of memory"),
    };
    let found: Vec<String> =
        found.map(|cell| format!("{} ({})", cell.name(), change(cell))).collect();
    if found.is_empty() { "nobody".to_string() } else { found.join("; ") }
}

fn why(out: &mut String, cell: &Cell) {
    let score = |value: f64| match value {
        0.0 => "nothing".to_string(),
        _ => grouped(value.round() as u64),
    };
    let first = format!("  {}: ", cell.name());
    let (base, head) = (score(cell.base.score), score(cell.head.score));
    let text = match cell.no_memory.who() {
        "both" => cell.reason.clone(),
        _ => format!("{base} → {head} {}s a second; {}", cell.unit, cell.reason),
    };
    line(out, first.trim_end());
    paragraph(out, "      ", &text);
}
