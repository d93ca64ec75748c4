//! Looks up what an experiment and its published table name, and refuses what does not fit
//! together: before anything runs, with the line and the field.

use std::path::Path;

use toml::{Spanned, Value};

use super::cell::{Cell, CellError, Ready, Workload};
pub use super::form::LoadError;
use super::form::{Form, Placed};
use super::published::{Lookup, Table};
use super::sound;
use super::spec::{Figure, Group, Slope, Spec, Variant};
use super::target::{FitOn, FitPlan};
use super::workload::nearest_hint;
use crate::named::{self, NamedPolicy};

/// An experiment that can be run: every name was looked up, every published figure found.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The published table.
    pub table: Table,
    /// What should come out, and why.
    pub expect: String,
    /// What the mapping supposes.
    pub note: Option<String>,
    /// Machines.
    pub groups: Vec<GroupPlan>,
}

/// What is run on one machine.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// A cell each variant, with the experiment's think time.
    pub variants: Vec<VariantPlan>,
    /// What think time is fitted on.
    pub fit: Option<FitPlan>,
    /// Figures held against published ones.
    pub points: Vec<Point>,
    /// Slopes held against published ones.
    pub slopes: Vec<SlopePlan>,
}

/// A variant on one machine.
#[derive(Clone, Debug)]
pub struct VariantPlan {
    /// Its name.
    pub name: String,
    /// Its cell.
    pub ready: Ready,
    /// Whether `--quick` runs it.
    pub quick: bool,
}

/// A published figure and where its counterpart is found.
#[derive(Clone, Debug)]
pub struct Point {
    /// The `[[column]]` of the file, from 0.
    pub of: usize,
    /// Published row.
    pub row: String,
    /// Published column.
    pub column: String,
    /// What it is.
    pub figure: Figure,
    /// The variant.
    pub variant: usize,
    /// The variant that a change is counted from.
    pub against: Option<usize>,
    /// The published figure.
    pub published: f64,
    /// Largest error that counts as reproduced.
    pub within: Option<f64>,
    /// Whether the sign has to be right as well.
    pub same_sign: bool,
    /// What the reader should know of it.
    pub note: Option<String>,
}

/// A published slope.
#[derive(Clone, Debug)]
pub struct SlopePlan {
    /// What results call it.
    pub name: String,
    /// The figure it is of.
    pub figure: Figure,
    /// Variant, its number, and the published figure there.
    pub over: Vec<(usize, f64, f64)>,
    /// Largest error that counts as reproduced, per cent.
    pub within: Option<f64>,
    /// Where the rise begins, if that is asked for.
    pub knee: Option<KneePlan>,
}

/// Where a slope begins.
#[derive(Clone, Debug)]
pub struct KneePlan {
    /// What results call it.
    pub name: String,
    /// Variant that the line starts from, and its published figure.
    pub from: (usize, f64),
    /// Largest difference that counts as reproduced.
    pub within: Option<f64>,
}

/// Reads the text of an experiment that comes with Pageyard, and of the published table it names.
///
/// # Errors
/// See [`LoadError`].
pub fn parse(text: &str, file: &str, table: &str) -> Result<Experiment, LoadError> {
    let form = Form::read(text, file, Path::new(""))?;
    let table = Table::parse(table).map_err(|error| form.refused(form.at_table(error)))?;
    look_up(&form, table)
}

/// Looks up every name and every published figure of an experiment.
///
/// # Errors
/// See [`LoadError`].
pub(super) fn look_up(form: &Form<'_>, table: Table) -> Result<Experiment, LoadError> {
    looked_up(&form.spec, table).map_err(|placed| form.refused(placed))
}

fn looked_up(spec: &Spec, table: Table) -> Result<Experiment, Placed> {
    if table.id != *spec.table.get_ref() {
        let message = format!("the published table calls itself `{}`", table.id);
        return Err((message, spec.table.span()));
    }
    let groups = spec.group.iter().map(|group| plan(spec, group, &table));
    let groups = groups.collect::<Result<Vec<_>, Placed>>()?;
    sound::check_use(spec, &groups)?;
    Ok(Experiment { expect: spec.expect.clone(), note: spec.note.clone(), groups, table })
}

/// What is run on one machine.
fn plan(spec: &Spec, group: &Group, table: &Table) -> Result<GroupPlan, Placed> {
    let variants = spec.variant.iter().map(|variant| ready(spec, group, variant));
    let variants = variants.collect::<Result<Vec<_>, Placed>>()?;
    let points = points(spec, group, table)?;
    let fit = match &spec.fit {
        None => None,
        Some(fit) => {
            let variant = variant_named(spec, &fit.variant)?;
            let is_asked = |point: &&Point| match &fit.column {
                Some(column) => point.column == *column.get_ref(),
                None => point.figure == Figure::Score,
            };
            let of_variant = || points.iter().filter(|point| point.variant == variant);
            let score = of_variant().find(|point| point.figure == Figure::Score);
            let score = score.map(|point| point.published);
            let point = of_variant().find(is_asked);
            let on = point.and_then(|point| FitOn::of(point.figure, point.published, score));
            let on = on.ok_or_else(|| {
                let message = match &fit.column {
                    Some(column) => format!(
                        "`{}` is no time of a unit of work, nor all waiting beside a score",
                        column.get_ref()
                    ),
                    None => format!("no column is the score of this on {}", name_of(group)),
                };
                (message, fit.column.as_ref().unwrap_or(&fit.variant).span())
            })?;
            Some(FitPlan { variant, on })
        }
    };
    let slopes = spec.slope.iter().map(|slope| slope_of(spec, slope, table));
    Ok(GroupPlan { variants, fit, points, slopes: slopes.collect::<Result<_, Placed>>()? })
}

fn name_of(group: &Group) -> &str {
    group.machine.get_ref()
}

fn variant_named(spec: &Spec, name: &Spanned<String>) -> Result<usize, Placed> {
    let at = spec.variant.iter().position(|variant| variant.name.get_ref() == name.get_ref());
    at.ok_or_else(|| {
        let known: Vec<&str> =
            spec.variant.iter().map(|variant| variant.name.get_ref().as_str()).collect();
        let hint = nearest_hint(name.get_ref(), known.iter().copied());
        let known = known.join(", ");
        (format!("no variant `{}`{hint}; variants: {known}", name.get_ref()), name.span())
    })
}

/// The workload of a variant on a machine.
fn workload_of(spec: &Spec, group: &Group, variant: &Variant) -> Result<Workload, Placed> {
    let named = variant.workload.as_ref().or(group.workload.as_ref()).unwrap_or(&spec.workload);
    let parsed = Workload::parse(named.get_ref());
    Ok(parsed.map_err(|error| (error.to_string(), named.span()))?.0)
}

/// The cell of a variant on a machine.
fn ready(spec: &Spec, group: &Group, variant: &Variant) -> Result<VariantPlan, Placed> {
    let base = variant.policy.as_ref().unwrap_or(&spec.policy);
    let mut policy = base.get_ref().clone();
    for (at, (key, value)) in variant.set.iter().enumerate() {
        let first = at == 0 && named::split(base.get_ref()).1.is_none();
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        policy.push_str(&format!("{}{key}={value}", if first { ':' } else { ',' }));
    }
    let workload = variant.workload.as_ref().or(group.workload.as_ref()).unwrap_or(&spec.workload);
    let (workload, argument) = Workload::parse(workload.get_ref())
        .map_err(|error| (error.to_string(), workload.span()))?;
    let given = [&group.params, &variant.params].into_iter().flatten();
    let parameters = given.flat_map(|params| params.get_ref().clone()).collect();
    let cell = Cell {
        machine: name_of(group).to_string(),
        workload,
        argument,
        parameters,
        policy,
        cpus: if variant.cpus == 0 { group.cpus } else { variant.cpus },
        think_ps: spec.think_ns.map_or(workload.think_ps, |ns| ns * 1000),
        seed: 1,
        quick: false,
    };
    let ready = Ready::of(&cell).map_err(|error| {
        let span = match &error {
            CellError::Policy(_) if NamedPolicy::parse(base.get_ref()).is_err() => base.span(),
            CellError::Policy(_) => variant.name.span(),
            CellError::Parameter { .. } | CellError::Range { .. } => {
                let params = variant.params.as_ref().or(group.params.as_ref());
                params.map_or(group.machine.span(), Spanned::span)
            }
            CellError::Cpus { .. } if variant.cpus != 0 => variant.name.span(),
            _ => group.machine.span(),
        };
        (error.to_string(), span)
    })?;
    Ok(VariantPlan { name: variant.name.get_ref().clone(), ready, quick: variant.quick })
}

/// Every published figure of a machine that has a counterpart.
fn points(spec: &Spec, group: &Group, table: &Table) -> Result<Vec<Point>, Placed> {
    let mut points = Vec::new();
    for (at, variant) in spec.variant.iter().enumerate() {
        let against = match &variant.against {
            Some(name) => Some(variant_named(spec, name)?),
            None => None,
        };
        for (of, column) in spec.column.iter().enumerate() {
            let of_other = |wanted: &Option<Spanned<String>>, is: &str| {
                wanted.as_ref().is_some_and(|wanted| wanted.get_ref() != is)
            };
            if let Some(wanted) = &column.variant {
                variant_named(spec, wanted)?;
            }
            let is_change = column.is.is_change();
            if of_other(&column.machine, name_of(group))
                || of_other(&column.variant, variant.name.get_ref())
                || (is_change && against.is_none())
            {
                continue;
            }
            let row = group.row.as_ref().or(variant.row.as_ref()).unwrap_or(&variant.name);
            if let Some(own) = column.is.own()
                && !workload_of(spec, group, variant)?.figures().contains(own)
            {
                continue;
            }
            let published = published(table, row, &column.column)?;
            if published == 0.0 && !column.is.is_pct() {
                let message = format!(
                    "row `{}` is 0 there: an error in per cent of it has no meaning",
                    row.get_ref()
                );
                return Err((message, column.column.span()));
            }
            points.push(Point {
                of,
                row: row.get_ref().clone(),
                column: column.column.get_ref().clone(),
                figure: column.is,
                variant: at,
                against: against.filter(|_| is_change),
                published,
                within: column.within,
                same_sign: column.same_sign,
                note: column.note.clone(),
            });
        }
    }
    Ok(points)
}

/// A published figure, or what is wrong at the name of its row or column.
fn published(
    table: &Table,
    row: &Spanned<String>,
    column: &Spanned<String>,
) -> Result<f64, Placed> {
    table.figure(row.get_ref(), column.get_ref()).map_err(|error| {
        let span = if matches!(error, Lookup::Row { .. }) { row.span() } else { column.span() };
        (error.to_string(), span)
    })
}

fn slope_of(spec: &Spec, slope: &Slope, table: &Table) -> Result<SlopePlan, Placed> {
    let mut over = Vec::new();
    for name in &slope.variants {
        let variant = variant_named(spec, name)?;
        let number = name.get_ref().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| {
            let name_is = name.get_ref();
            (format!("a slope needs variants named by numbers, not `{name_is}`"), name.span())
        })?;
        if over.iter().any(|&(_, other, _)| other == number) {
            return Err((format!("a slope has `{}` twice", name.get_ref()), name.span()));
        }
        let published = published(table, name, &slope.column)?;
        over.push((variant, number, published));
    }
    let knee = match &slope.knee {
        None => None,
        Some(knee) => {
            let variant = variant_named(spec, &knee.from)?;
            let published = published(table, &knee.from, &slope.column)?;
            let (name, from) = (knee.name.clone(), (variant, published));
            Some(KneePlan { name, from, within: knee.within })
        }
    };
    if over.len() < 2 {
        return Err(("a slope needs two variants".to_string(), slope.column.span()));
    }
    let (name, figure) = (slope.name.clone(), slope.is);
    Ok(SlopePlan { name, figure, over, within: slope.within, knee })
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
