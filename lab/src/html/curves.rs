//! Curves over a number, one each machine: published dashed, modelled solid; the shape of the
//! marker says which machine as well as the colour.

use super::page::sign;
use super::scale::{Scale, tick};
use super::svg::Svg;

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Whose.
    pub name: String,
    /// Colour and shape.
    pub series: usize,
    /// Dashed, with hollow markers.
    pub published: bool,
    /// Points by their number.
    pub points: Vec<(f64, f64)>,
}

/// How a chart is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Size in its own units.
    pub size: (f64, f64),
    /// What stands below the axis.
    pub below: &'static str,
    /// Whether equal factors are equal distances, along and up.
    pub log: (bool, bool),
    /// Whether zero has to be there.
    pub zero: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { size: (360.0, 220.0), below: "", log: (true, false), zero: false }
    }
}

/// Colours there are.
const SERIES: usize = 6;

/// The chart; `None` without points.
#[must_use]
pub fn chart(curves: &[Curve], plan: &Plan) -> Option<Svg> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let finite = |pick: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = points().map(pick).filter(|value| value.is_finite()).collect();
        values
    };
    let (xs, mut ys) = (finite(|point| point.0), finite(|point| point.1));
    if xs.is_empty() || ys.is_empty() {
        return None;
    }
    ys.extend(plan.zero.then_some(0.0));
    let (width, height) = plan.size;
    let (left, right, top) = (40.0, width - 14.0, 10.0);
    let bottom = height - if plan.below.is_empty() { 20.0 } else { 34.0 };
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let across = match plan.log.0 && least > 0.0 {
        true => Scale::factors(least, most, (left, right)),
        false => Scale::between(least.min(0.0), most, (left, right)),
    };
    let up = match plan.log.1 {
        true => {
            let low = ys.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9);
            let high = ys.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Scale::factors(low / 1.3, high * 1.3, (bottom, top))
        }
        false => Scale::fitting(&ys, (bottom, top)),
    };
    let mut svg = Svg::new(width, height);
    frame(&mut svg, &across, &up, &xs, (left, right, bottom));
    if !plan.below.is_empty() {
        svg.text("m c", ((left + right) / 2.0, height - 4.0), plan.below);
    }
    for curve in curves {
        draw(&mut svg, curve, &across, &up);
    }
    Some(svg)
}

fn frame(
    svg: &mut Svg,
    across: &Scale,
    up: &Scale,
    xs: &[f64],
    (left, right, bottom): (f64, f64, f64),
) {
    let mut last = f64::INFINITY;
    for mark in up.marks(5) {
        let y = up.at(mark);
        svg.path("ax", &[(left, y), (right, y)], false);
        if last - y >= 13.0 {
            svg.text("m e", (left - 5.0, y + 4.0), &tick(mark));
            last = y;
        }
    }
    let mut at: Vec<f64> = xs.to_vec();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let mut last = f64::NEG_INFINITY;
    for x in at {
        let place = across.at(x);
        svg.path("ax", &[(place, bottom), (place, bottom + 4.0)], false);
        if place - last >= 28.0 {
            svg.text("m c", (place, bottom + 16.0), &tick(x));
            last = place;
        }
    }
}

fn draw(svg: &mut Svg, curve: &Curve, across: &Scale, up: &Scale) {
    let series = curve.series % SERIES;
    let place = |(x, y): &(f64, f64)| (across.at(*x), up.at(*y));
    let points: Vec<(f64, f64)> = curve.points.iter().map(place).collect();
    let dash = if curve.published { " dash" } else { "" };
    svg.path(&format!("cv k{series}{dash}"), &points, false);
    let fill = if curve.published { "hol".to_string() } else { format!("f{series}") };
    for point in points {
        svg.marker(series, &format!("mk k{series} {fill}"), point);
    }
}

/// Signs and names, one a series, and what dashes mean if there are any.
#[must_use]
pub fn keys(curves: &[Curve]) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    let mut seen = Vec::new();
    for curve in curves.iter().filter(|curve| !curve.published) {
        if seen.contains(&curve.series) {
            continue;
        }
        seen.push(curve.series);
        let series = curve.series % SERIES;
        let draw = |svg: &mut Svg| {
            svg.path(&format!("cv k{series}"), &[(0.0, 7.0), (24.0, 7.0)], false);
            svg.marker(series, &format!("mk k{series} f{series}"), (12.0, 7.0));
        };
        keys.push((sign(draw), curve.name.clone()));
    }
    if curves.iter().any(|curve| curve.published) {
        let draw = |svg: &mut Svg| svg.path("gap dash", &[(0.0, 7.0), (24.0, 7.0)], false);
        keys.push((sign(draw), "dashed and hollow: published".to_string()));
    }
    keys
}
