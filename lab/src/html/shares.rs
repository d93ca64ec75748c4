//! Where the CPUs' time goes: waiting for each kind of lock, and the rest; stacked areas or bars.

use super::page::sign;
use super::scale::{Scale, tick};
use super::svg::Svg;
use crate::experiment::outcome::CellResult;

const WIDTH: f64 = 360.0;
/// Parts of the time: what is waited for, and all else.
pub const PARTS: [(&str, &str); 5] = [
    ("t-alloc", "wait, zone lock, allocating"),
    ("t-free", "wait, zone lock, freeing"),
    ("t-lru", "wait, LRU lock"),
    ("t-other", "wait, other locks"),
    ("t-rest", "not waiting"),
];

/// Parts of the time of all CPUs in per cent, in the order of [`PARTS`].
pub type Shares = [f64; 5];

/// Mean parts over results; none without results.
#[must_use]
pub fn mean(results: &[CellResult]) -> Option<Shares> {
    let count = results.len() as f64;
    let mut sum = [0.0; 5];
    for result in results {
        for (sum, part) in sum.iter_mut().zip(of(result)) {
            *sum += part as f64 / 10.0;
        }
    }
    (!results.is_empty()).then(|| sum.map(|part| part / count))
}

/// Parts of the time in thousandths.
#[must_use]
pub fn of(result: &CellResult) -> [u64; 5] {
    let named = [&result.zone_alloc, &result.zone_free, &result.lru].map(|at| at.wait_thousandths);
    let all: u64 = result.locks.iter().map(|lock| lock.wait_thousandths).sum();
    let known: u64 = named.iter().sum();
    // Each is rounded by itself: call sites may add up to less than the groups.
    let other = all.saturating_sub(known);
    [named[0], named[1], named[2], other, 1000u64.saturating_sub(known + other)]
}

/// Signs and words of the parts that are there.
#[must_use]
pub fn keys(shown: &[Shares]) -> Vec<(String, String)> {
    let there = |at: &usize| shown.iter().any(|shares| shares[*at] > 0.0);
    let parts = (0..PARTS.len()).filter(there).map(|at| {
        let draw = |svg: &mut Svg| svg.rect(PARTS[at].0, (1.0, 1.0), (22.0, 12.0));
        (sign(draw), PARTS[at].1.to_string())
    });
    parts.collect()
}

/// A column of a stacked chart.
#[derive(Clone, Debug)]
pub struct Column {
    /// What stands below it.
    pub name: String,
    /// Its place, such as a batch; above zero.
    pub x: f64,
    /// The parts.
    pub shares: Shares,
    /// Published: waiting for zone locks, and for zone and LRU locks together, per cent.
    pub published: (Option<f64>, Option<f64>),
}

/// Areas over columns that stand in a row by their number.
#[must_use]
pub fn areas(columns: &[Column], alt: &str) -> String {
    let (left, right, top, bottom) = (30.0, WIDTH - 12.0, 8.0, 196.0);
    let mut svg = Svg::new(WIDTH, bottom + 20.0);
    let least = columns.iter().map(|column| column.x).fold(f64::INFINITY, f64::min);
    let most = columns.iter().map(|column| column.x).fold(0.0, f64::max);
    let across = Scale::factors(least, most, (left, right));
    let up = Scale::between(0.0, 100.0, (bottom, top));
    let mut below = vec![0.0; columns.len()];
    for (at, (class, _)) in PARTS.iter().enumerate() {
        let above: Vec<f64> =
            columns.iter().zip(&below).map(|(column, low)| low + column.shares[at]).collect();
        let place = |(column, y): (&Column, &f64)| (across.at(column.x), up.at(*y));
        let mut outline: Vec<(f64, f64)> = columns.iter().zip(&above).map(place).collect();
        outline.extend(columns.iter().zip(&below).map(place).collect::<Vec<_>>().into_iter().rev());
        svg.path(class, &outline, true);
        below = above;
    }
    for mark in [0.0, 25.0, 50.0, 75.0, 100.0] {
        svg.path("ax dash", &[(left, up.at(mark)), (right, up.at(mark))], false);
        svg.text("m e", (left - 4.0, up.at(mark) + 4.0), &tick(mark));
    }
    let mut last = f64::NEG_INFINITY;
    for column in columns {
        let x = across.at(column.x);
        svg.path("ax", &[(x, bottom), (x, bottom + 4.0)], false);
        if x - last >= 26.0 {
            svg.text("m c", (x.min(WIDTH - 14.0), bottom + 16.0), &column.name);
            last = x;
        }
        let (zone, all) = column.published;
        for value in zone.into_iter().chain(all) {
            svg.diamond("pub", (x, up.at(value)));
        }
    }
    svg.inline(alt)
}

/// A bar of a stacked chart: name, total, parts in the unit of the total.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands above it.
    pub name: String,
    /// What stands at its right end, above.
    pub total: String,
    /// Its parts.
    pub parts: Shares,
}

/// Bars below each other, all on one scale.
#[must_use]
pub fn bars(bars: &[Bar], unit: &str, alt: &str) -> String {
    const EACH: f64 = 38.0;
    let bottom = EACH * bars.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 20.0);
    let most = bars.iter().map(|bar| bar.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let across = Scale::between(0.0, most, (4.0, WIDTH - 4.0));
    let marks = across.marks(4);
    for (n, bar) in bars.iter().enumerate() {
        let top = n as f64 * EACH;
        svg.text("b", (0.0, top + 12.0), &bar.name);
        svg.text("e m", (WIDTH, top + 12.0), &bar.total);
        // Only beside the bar: words stay free of lines.
        for mark in &marks {
            let x = across.at(*mark);
            svg.path("ax", &[(x, top + 16.0), (x, top + 35.0)], false);
        }
        let mut from = 0.0;
        for (part, (class, _)) in bar.parts.iter().zip(PARTS) {
            let (x, end) = (across.at(from), across.at(from + part));
            if end - x >= 0.2 {
                svg.rect(&format!("{class} edge"), (x, top + 17.0), (end - x, 15.0));
            }
            from += part;
        }
    }
    for (n, mark) in marks.iter().enumerate() {
        let class = if n == 0 { "m" } else { "m c" };
        let unit = if n + 1 == marks.len() { unit } else { "" };
        let x = if n == 0 { across.at(*mark) } else { across.at(*mark).min(WIDTH - 20.0) };
        svg.text(class, (x, bottom + 14.0), &format!("{}{unit}", tick(*mark)));
    }
    svg.inline(alt)
}
