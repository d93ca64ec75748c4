//! The report of a comparison: whom a change helps and hurts on modelled machines and over
//! recordings, and where the time goes under both.

use std::fmt::Write;

use pageyard::keys::KEYS;

use super::page::{self, breakable, charts, facts, figure, keys, number, paragraph, signed};
use super::shares::{self, Bar};
use super::svg::escape;
use crate::compare::machines::judge::{Cell, Matrix};
use crate::compare::machines::text::{builds, memory, who, word};
use crate::compare::machines::why::ns;
use crate::compare::metrics::{Change, Verdict};
use crate::compare::result::{Comparison, KEY_METRICS, by_name};
use crate::compare::run::Question;

const TITLE: &str = "Two policies compared";

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What was asked.
    pub question: &'a Question,
    /// Recordings, if they were asked for.
    pub recordings: Option<&'a Comparison>,
    /// Modelled machines, if they were asked for.
    pub machines: Option<&'a Matrix>,
}

/// The report as one file.
#[must_use]
pub fn write(report: &Report<'_>) -> String {
    let mut out = format!("<h1>{TITLE}</h1>\n");
    head(&mut out, report);
    if let Some(matrix) = report.machines {
        machines(&mut out, matrix);
    }
    if let Some(comparison) = report.recordings {
        recordings(&mut out, comparison);
    }
    page::shell(TITLE, &out)
}

fn head(out: &mut String, report: &Report<'_>) {
    let (base, head) = (&report.question.base, &report.question.head);
    let differing = KEYS.iter().filter(|key| (key.get)(&base.policy) != (key.get)(&head.policy));
    let differing: Vec<String> = differing
        .map(|key| {
            format!("{} {} → {}", key.name, (key.get)(&base.policy), (key.get)(&head.policy))
        })
        .collect();
    let differing =
        if differing.is_empty() { "in nothing".to_string() } else { differing.join("; ") };
    let two = report.machines.and_then(|matrix| builds(matrix.builds));
    facts(
        out,
        &[
            ("BASE", base.name.clone()),
            ("HEAD", head.name.clone()),
            ("they differ", differing),
            ("builds", two.unwrap_or_default().to_string()),
            ("memory", report.machines.and_then(memory).unwrap_or_default()),
        ],
    );
    let version = env!("CARGO_PKG_VERSION");
    paragraph(out, "mut", &format!("Pageyard {version}. Changes are HEAD against BASE."));
}

/// A verdict with its sign and colour.
fn marked(verdict: Verdict, words: &str) -> String {
    let (class, sign) = match verdict {
        Verdict::Better => ("good", "\u{25b2} "),
        Verdict::Worse => ("miss", "\u{25bc} "),
        _ => ("mut", ""),
    };
    format!("<span class=\"{class}\">{sign}{}</span>", escape(words))
}

fn machines(out: &mut String, matrix: &Matrix) {
    out.push_str("<section id=\"machines\">\n<h2>Modelled machines</h2>\n");
    let noise = match matrix.seeds {
        1 => "one seed: noise is not known".to_string(),
        seeds => format!("mean of {seeds} seeds, \u{b1} the half of the 95 % interval of it"),
    };
    let text = format!("Change of the score in per cent ({noise}).");
    paragraph(out, "", &text);
    let found =
        [("helps", Verdict::Better), ("hurts", Verdict::Worse), ("no change", Verdict::Same)];
    let found = found.map(|(name, verdict)| (name, who(matrix, verdict)));
    facts(
        out,
        &found.map(|(name, who)| match name {
            "no change" if who == "nobody" => (name, String::new()),
            _ => (name, who),
        }),
    );
    out.push_str(
        "<div class=\"box\" tabindex=\"0\"><table>\n<thead><tr><th>machine</th>\
         <th class=\"l\">verdict</th><th>change</th><th>BASE</th><th>HEAD</th></tr></thead>\n\
         <tbody>\n",
    );
    for cell in &matrix.cells {
        let score = cell.score();
        let noise = cell.noise.map_or(String::new(), |noise| format!(" \u{b1}{noise:.1}"));
        let verdict = match cell.no_memory.who() {
            "both" => "no memory".to_string(),
            _ => word(score.verdict).to_string(),
        };
        let change = match cell.no_memory.who() {
            "" => score.pct().map_or_else(|| "n/a".to_string(), |pct| signed(pct, "&nbsp;%")),
            who => format!("{who}: no memory"),
        };
        let side = |end: &Option<String>, score: f64| match end {
            Some(_) => "\u{2013}".to_string(),
            None => number(score),
        };
        let _ = writeln!(
            out,
            "<tr><td>{}, {} CPU{}<br><small>{}</small></td><td class=\"l one\">{}</td>\
             <td class=\"one\">{}{noise}</td><td class=\"one\">{}</td>\
             <td class=\"one\">{}</td></tr>",
            escape(&cell.place.machine),
            cell.cpus,
            if cell.cpus == 1 { "" } else { "s" },
            breakable(&cell.place.workload),
            marked(score.verdict, &verdict),
            change,
            side(&cell.no_memory.base, cell.base.score),
            side(&cell.no_memory.head, cell.head.score),
        );
    }
    out.push_str("</tbody></table></div>\n");
    let ended = matrix.cells.iter().filter(|cell| !cell.no_memory.who().is_empty());
    for cell in ended {
        paragraph(out, "", &format!("{}: {}", cell.name(), cell.reason));
    }
    if !matrix.failures.is_empty() {
        out.push_str("<ul>\n");
        for (place, why) in &matrix.failures {
            let name = escape(&format!("{} {}", place.machine, place.workload));
            let _ = writeln!(out, "<li>{name}: not compared: {}</li>", escape(why));
        }
        out.push_str("</ul>\n");
    }
    time(out, matrix);
    out.push_str("</section>\n");
}

/// Where a unit of work's time goes under both, each cell.
fn time(out: &mut String, matrix: &Matrix) {
    let measured = || matrix.cells.iter().filter(|cell| cell.no_memory.who().is_empty());
    if measured().next().is_none() {
        return;
    }
    out.push_str("<h3>Where the time of a unit of work goes</h3>\n");
    let shown: Vec<shares::Shares> =
        measured().flat_map(|cell| [cell.base.parts_ns, cell.head.parts_ns]).collect();
    keys(out, &shares::keys(&shown));
    let figures: Vec<String> = measured().map(bars).collect();
    charts(out, &figures);
}

fn bars(cell: &Cell) -> String {
    let bar = |name: &str, parts: &crate::compare::machines::why::Parts| Bar {
        name: name.to_string(),
        total: format!("{} a {}", ns(parts.unit_ns), cell.unit),
        parts: parts.parts_ns,
    };
    let both = [bar("BASE", &cell.base), bar("HEAD", &cell.head)];
    let alt = format!("{}: time of a {} under BASE and HEAD", cell.name(), cell.unit);
    let mut picture = shares::bars(&both, " ns", &alt);
    let score = cell.score();
    let change = score.pct().map_or_else(String::new, |pct| signed(pct, " %"));
    let verdict = marked(score.verdict, &format!("{change} {}", word(score.verdict)));
    let _ = write!(picture, "<p>{verdict}: {}</p>", escape(&cell.reason));
    figure(&cell.name(), &format!("{} CPUs", cell.cpus), &picture)
}

fn recordings(out: &mut String, comparison: &Comparison) {
    out.push_str("<section id=\"recordings\">\n<h2>Recordings of real kernels</h2>\n");
    let text = "Every recording is replayed under both policies; counts, not time. How far each \
                can be believed stands beside it: whether its twin does what the kernel did.";
    paragraph(out, "", text);
    out.push_str(
        "<div class=\"box\" tabindex=\"0\"><table>\n<thead><tr><th>recording</th>\
         <th class=\"l\">twin</th>",
    );
    for name in KEY_METRICS {
        let _ = write!(out, "<th>{}</th>", breakable(name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (at, (case, changes)) in comparison.cases.iter().enumerate() {
        let twin = match case.agreement.matches() {
            None => "not exercised",
            Some(true) => "\u{2713}\u{a0}matches",
            Some(false) => "\u{2717}\u{a0}off",
        };
        let name = breakable(&case.name);
        let name = match comparison.cases.len() {
            1 => name,
            _ => format!("<a href=\"#recording-{at}\">{name}</a>"),
        };
        let _ = write!(out, "<tr><td>{name}</td><td class=\"l\">{twin}</td>");
        key_cells(out, comparison, changes, case.positions);
        out.push_str("</tr>\n");
    }
    if comparison.cases.len() > 1 {
        out.push_str("<tr><td>all together</td><td></td>");
        key_cells(out, comparison, &comparison.total, comparison.all_positions());
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if !comparison.all_positions() {
        let text = "~ rests on counts: where free blocks lay was not recorded.";
        paragraph(out, "mut", text);
    }
    if !comparison.failures.is_empty() {
        out.push_str("<ul>\n");
        for (path, error) in &comparison.failures {
            let name = escape(&path.display().to_string());
            let _ = writeln!(out, "<li>{name}: not compared: {}</li>", escape(&error.to_string()));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("<h3>Every figure that moved</h3>\n");
    paragraph(out, "mut", "Under BASE, under HEAD, the change, and why.");
    moved(out, "all recordings together", "all", &comparison.total);
    if comparison.cases.len() > 1 {
        for (at, (case, changes)) in comparison.cases.iter().enumerate() {
            moved(out, &case.name, &at.to_string(), changes);
        }
    }
    out.push_str("</section>\n");
}

fn key_cells(out: &mut String, comparison: &Comparison, changes: &[Change], positions: bool) {
    for name in KEY_METRICS {
        let about = if comparison.is_positional(name) && !positions { "\u{a0}~" } else { "" };
        let text = match by_name(changes, name) {
            None => "n/a".to_string(),
            Some(change) => match change.verdict {
                Verdict::Same => "<span class=\"mut\">same</span>".to_string(),
                Verdict::Unknown => "n/a".to_string(),
                verdict => marked(verdict, &format!("{}{about}", percent(change))),
            },
        };
        let _ = write!(out, "<td class=\"one\">{text}</td>");
    }
}

fn percent(change: &Change) -> String {
    match change.pct() {
        None => "n/a".to_string(),
        Some(pct) if pct.is_infinite() => "from 0".to_string(),
        Some(pct) => signed(pct, "\u{a0}%"),
    }
}

/// Figures that moved, with their reasons; `id` is what links call it.
fn moved(out: &mut String, name: &str, id: &str, changes: &[Change]) {
    let still = |change: &&Change| !matches!(change.verdict, Verdict::Same | Verdict::Unknown);
    let changes: Vec<&Change> = changes.iter().filter(still).collect();
    let _ = writeln!(out, "<h4 id=\"recording-{id}\">{}</h4>", breakable(name));
    if changes.is_empty() {
        paragraph(out, "mut", "nothing moved by 1 % or more");
        return;
    }
    out.push_str(
        "<div class=\"box\" tabindex=\"0\"><table class=\"moved\">\n<thead><tr><th>figure</th>\
         <th>BASE</th><th>HEAD</th><th>change</th><th class=\"l\">why</th></tr></thead>\n<tbody>\n",
    );
    for change in changes {
        let value = |value: Option<f64>| value.map_or_else(|| "n/a".to_string(), number);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"one\">{}</td><td class=\"one\">{}</td>\
             <td class=\"one\">{}</td><td class=\"l why\">{}</td></tr>",
            breakable(&change.metric),
            value(change.base),
            value(change.head),
            marked(change.verdict, &percent(change)),
            escape(change.reason.as_deref().unwrap_or_default()),
        );
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::machines::judge::NoMemory;
    use crate::compare::machines::tests::{matrix, question};
    use crate::html::testing;

    fn page(matrix: &Matrix) -> String {
        let question = question();
        write(&Report { question: &question, recordings: None, machines: Some(matrix) })
    }

    #[test]
    fn every_cell_has_its_bars_its_verdict_and_its_reason() {
        let matrix = matrix();
        let text = page(&matrix);
        testing::check(&text);
        assert_eq!(text, page(&matrix));
        assert_eq!(text.matches("<figure>").count(), matrix.cells.len());
        for cell in &matrix.cells {
            assert!(text.contains(&escape(&cell.reason)), "{}", cell.reason);
        }
    }

    #[test]
    fn a_cell_that_ran_out_of_memory_says_so_and_has_no_bars() {
        let mut matrix = matrix();
        let no_memory = NoMemory { base: None, head: Some("out of memory on CPU 3".to_string()) };
        matrix.cells[0].reason = "HEAD: out of memory on CPU 3".to_string();
        matrix.cells[0].no_memory = no_memory;
        let text = page(&matrix);
        testing::check(&text);
        assert_eq!(text.matches("<figure>").count(), matrix.cells.len() - 1);
        assert!(text.contains("HEAD: no memory") && text.contains(&matrix.cells[0].reason));
    }

    #[test]
    fn names_of_machines_and_reasons_are_no_markup() {
        let mut matrix = matrix();
        let nasty = "<i>&\"'\u{1b}";
        matrix.cells[0].place.machine = nasty.to_string();
        matrix.cells[0].reason = nasty.to_string();
        matrix.failures.push((matrix.cells[0].place.clone(), nasty.to_string()));
        testing::check(&page(&matrix));
    }
}
