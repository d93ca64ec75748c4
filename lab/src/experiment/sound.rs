//! What an experiment's file must satisfy beyond its form: things that would run, and then be held
//! against nothing, or twice, or against what has no meaning.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::form::Placed;
use super::load::GroupPlan;
use super::spec::{Column, Figure, Spec};
use super::workload::nearest_hint;

/// Longest think time, ns: a second, a thousand times what any workload here does in between.
const THINK_NS_MAX: u64 = 1_000_000_000;

/// A think time.
pub(super) fn think_ns<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let ns = u64::deserialize(from)?;
    match ns <= THINK_NS_MAX {
        true => Ok(Some(ns)),
        false => Err(D::Error::custom(format!("at most {THINK_NS_MAX}, a second"))),
    }
}

/// A tolerance: a number from 0 on.
pub(super) fn tolerance<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let within = f64::deserialize(from)?;
    match within.is_finite() && within >= 0.0 {
        true => Ok(Some(within)),
        false => Err(D::Error::custom("a tolerance is a number from 0 on")),
    }
}

/// Adds to the parser's words on an unknown field the name that may have been meant.
pub(super) fn with_nearest(message: &str) -> String {
    // "unknown field `x`, expected one of `a`, `b`": what stands between backticks.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field");
    let hint = quoted.next().filter(|_| is_unknown).map(|name| nearest_hint(name, quoted));
    format!("{message}{}", hint.unwrap_or_default())
}

/// What can be told from the file alone.
pub(super) fn check(spec: &Spec) -> Result<(), Placed> {
    let at_top = |message: &str| Err((message.to_string(), spec.table.span()));
    if spec.group.is_empty() || spec.variant.is_empty() {
        return at_top("needs at least one [[group]], a machine, and one [[variant]], a policy");
    }
    if spec.column.is_empty() && spec.slope.is_empty() {
        return at_top("needs a [[column]] or a [[slope]]: nothing is held against the table");
    }
    for (at, variant) in spec.variant.iter().enumerate() {
        let name = variant.name.get_ref();
        if spec.variant[..at].iter().any(|other| other.name.get_ref() == name) {
            return Err((format!("a variant `{name}` stands above"), variant.name.span()));
        }
    }
    for slope in &spec.slope {
        let is_hold = matches!(slope.is, Figure::AllocHoldUs | Figure::FreeHoldUs);
        if !is_hold && !matches!(slope.is, Figure::Own(_)) {
            let message = "a slope is that of alloc-hold-us, free-hold-us or of a figure of the \
                           workload's own, such as get-ns";
            return Err((message.to_string(), slope.column.span()));
        }
    }
    Ok(())
}

/// What can be told when all names were looked up: every column is held against something.
pub(super) fn check_use(spec: &Spec, groups: &[GroupPlan]) -> Result<(), Placed> {
    let machines = || spec.group.iter().map(|group| group.machine.get_ref().as_str());
    for machine in spec.column.iter().filter_map(|column| column.machine.as_ref()) {
        let name = machine.get_ref();
        if machines().all(|known| known != name) {
            let hint = nearest_hint(name, machines());
            return Err((format!("no [[group]] has the machine `{name}`{hint}"), machine.span()));
        }
    }
    for (at, column) in spec.column.iter().enumerate() {
        if groups.iter().all(|group| group.points.iter().all(|point| point.of != at)) {
            return Err((why_unused(spec, column), column.column.span()));
        }
    }
    for group in groups {
        let Some(figure) = group.fit.and_then(|fit| fit.on.impossible()) else { continue };
        let message = format!("the published figure is {figure}, no time can give that");
        let span = spec.fit.as_ref().map_or(spec.table.span(), |fit| fit.variant.span());
        return Err((message, span));
    }
    for slope in &spec.slope {
        let is_of_workload = |figure| {
            let variants = groups.iter().flat_map(|group| &group.variants);
            variants.map(|v| v.ready.cell.workload).any(|w| w.figures().contains(figure))
        };
        if let Some(own) = slope.is.own().filter(|own| !is_of_workload(own)) {
            let message = format!("no workload here has the figure {}", own.name);
            return Err((message, slope.column.span()));
        }
    }
    Ok(())
}

fn why_unused(spec: &Spec, column: &Column) -> String {
    let has_against = spec.variant.iter().any(|variant| variant.against.is_some());
    match column.is.own() {
        _ if column.is.is_change() && !has_against => {
            "a change is counted from another variant: name it with `against` in a [[variant]]"
                .to_string()
        }
        Some(own) => format!("no workload here has the figure {}", own.name),
        None => "no machine and variant of this file is held against this column".to_string(),
    }
}
