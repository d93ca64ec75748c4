//! Holds a page against what every report promises, and makes evaluations up for it to show.

use std::collections::BTreeSet;

use crate::experiment::catalogue;
use crate::experiment::evaluate::{Compared, Evaluation, Run, Thought};
use crate::experiment::load::{Experiment, GroupPlan, Point};
use crate::experiment::outcome::CellResult;

/// Elements without an end.
const VOID: [&str; 5] = ["meta", "br", "wbr", "hr", "!DOCTYPE"];

/// Panics unless tags nest, ids are used once, everything referred to is there, nothing is loaded
/// and no character stands for markup that was not meant.
pub fn check(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let (mut ids, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("every tag ends");
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<'), "a tag in a tag: {tag}");
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if let Some(ended) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(ended), "before {rest:.60}");
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
        assert!(!["script", "link", "img", "iframe", "object", "use"].contains(&name), "{tag}");
        if let Some(id) = attribute(tag, "id") {
            assert!(ids.insert(id), "id {id} twice");
        }
        for target in attribute(tag, "href").into_iter().chain(attribute(tag, "src")) {
            let target = target.strip_prefix('#');
            wanted.insert(target.unwrap_or_else(|| panic!("loads something: {tag}")));
        }
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "no place: {tag}");
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for part in page.split("url(").skip(1) {
        let target = part.split(')').next().unwrap_or_default();
        wanted.insert(target.strip_prefix('#').expect("a pattern of this page"));
    }
    assert!(!page.contains("@import"));
    assert!(wanted.is_subset(&ids), "refers to nothing: {:?}", wanted.difference(&ids));
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    value.split('"').next()
}

/// All bundled experiments with figures that were made up: some within, some not, some not run.
pub fn made_up() -> Vec<(Experiment, Evaluation)> {
    let names = catalogue::BUNDLED.iter().map(|(name, ..)| *name);
    let loaded = names.map(|name| catalogue::load(name).expect("bundled").expect("whole"));
    loaded.map(|experiment| (experiment.clone(), evaluation(&experiment))).collect()
}

fn evaluation(experiment: &Experiment) -> Evaluation {
    let mut made = Evaluation { compared: vec![], thoughts: vec![], runs: vec![], stops: vec![] };
    for group in &experiment.groups {
        let Some(first) = group.variants.first() else { continue };
        let machine = first.ready.machine_name().to_string();
        let figures = group.points.iter().enumerate();
        made.compared.extend(figures.map(|(n, point)| compared(experiment, group, point, n)));
        made.runs.extend(group.variants.iter().enumerate().map(|(n, variant)| Run {
            machine: machine.clone(),
            cpus: variant.ready.cell.cpus,
            variant: variant.name.clone(),
            results: vec![result(n as u64)],
        }));
        let score = group.fit.map(|fit| fit.on.published(&first.ready));
        let fitted = score.map(|score| (score, score + 7, true));
        made.thoughts.push(Thought {
            machine,
            cpus: first.ready.cell.cpus,
            think_ps: 3_000_000,
            fitted,
            unit: "a second",
        });
    }
    made
}

/// Waiting that moves from the zone lock to the LRU lock.
fn result(n: u64) -> CellResult {
    let mut result = CellResult { score_per_s: 1_000_000 + n, ..CellResult::default() };
    result.zone_alloc.wait_thousandths = 400 / (n + 1);
    result.zone_free.wait_thousandths = 200 / (n + 1);
    result.lru.wait_thousandths = 100 * n.min(4);
    result
}

fn compared(experiment: &Experiment, group: &GroupPlan, point: &Point, n: usize) -> Compared {
    let fitted = group.fit.is_some_and(|fit| fit.decides(point.variant, point.figure));
    let run = group.variants[point.variant].quick;
    // Every second one near, the others far.
    let factor = if fitted || n.is_multiple_of(2) { 1.01 } else { 1.7 + 0.1 * (n % 9) as f64 };
    let off = if n.is_multiple_of(2) { 0.5 } else { 9.5 };
    let modelled = run.then_some(point.published * factor + off);
    let in_points = point.figure.is_pct();
    let error = modelled.map(|modelled| match in_points {
        true => modelled - point.published,
        false => (modelled / point.published - 1.0) * 100.0,
    });
    let tolerance = point.within.filter(|_| !fitted);
    Compared {
        table: experiment.table.id.clone(),
        row: point.row.clone(),
        column: point.column.clone(),
        published: point.published,
        modelled,
        fitted,
        error,
        within: tolerance.and_then(|within| Some(error?.abs() <= within)),
        in_points,
        judged: tolerance.is_some(),
        tolerance,
        machine: group.variants[point.variant].ready.machine_name().to_string(),
        note: point.note.clone(),
    }
}
