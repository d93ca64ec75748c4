//! Machines named with changes: `skl-4s:core.clock_mhz=2100,latency.hitm_socket_ns=high`.
//!
//! A change sets one figure, to a number, or to an end of its range as the file states it. What the
//! changed machine contradicts is refused as in a file.

use super::check;
use super::figure::{Decimal, Figure, NUMBER_MAX};
use super::load::MachineError;
use super::spec::Spec;

/// Splits a name into that of a machine or file and its changes, which have a `=`.
#[must_use]
pub fn split(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((base, changes)) if changes.contains('=') => (base, Some(changes)),
        _ => (name, None),
    }
}

/// Changes figures of a machine, which is then called by its name and the changes.
///
/// # Errors
/// A change is not `FIGURE=NUMBER`, there is no such figure, or the machine contradicts itself.
pub fn vary(spec: &mut Spec, changes: &str) -> Result<(), MachineError> {
    let refused = |change: &str, why: String| MachineError::Change {
        machine: spec.name.clone(),
        change: change.to_string(),
        why,
    };
    let mut changed = spec.clone();
    for change in changes.split(',') {
        let (path, value) = change.split_once('=').unwrap_or((change, ""));
        let (path, value) = (path.trim(), value.trim());
        let Some(figure) = changed.figure_mut(path) else {
            return Err(refused(change, no_figure(spec, path)));
        };
        figure.value = number(figure, value).ok_or_else(|| {
            refused(
                change,
                format!("'{value}' is neither `low`, `high` nor a number up to {NUMBER_MAX}"),
            )
        })?;
    }
    check::check(&changed)
        .map_err(|(field, problem)| refused(changes, format!("{field}: {problem}")))?;
    changed.name = format!("{}:{changes}", spec.name);
    *spec = changed;
    Ok(())
}

fn number(figure: &Figure, value: &str) -> Option<Decimal> {
    match value {
        "low" => Some(figure.range().0),
        "high" => Some(figure.range().1),
        _ => {
            let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
            if decimals.len() > 3 || !value.chars().all(|c| c.is_ascii_digit() || c == '.') {
                return None;
            }
            let whole: u64 = whole.parse().ok().filter(|&whole| whole <= NUMBER_MAX)?;
            let thousandths: u64 = format!("{decimals:0<3}").parse().ok()?;
            Some(Decimal::from_thousandths(whole * 1000 + thousandths))
        }
    }
}

fn no_figure(spec: &Spec, path: &str) -> String {
    let known: Vec<String> = spec.figures().into_iter().map(|(path, _)| path).collect();
    if path.len() > 64 {
        return "there is no such figure".to_string();
    }
    let nearest = known
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(path, a).total_cmp(&strsim::jaro_winkler(path, b)));
    let nearest = nearest.map_or(String::new(), |nearest| format!("; nearest: {nearest}"));
    format!("there is no such figure{nearest}; `pageyard machines show` lists them")
}

#[cfg(test)]
mod tests {
    use super::super::{Machine, find};

    #[test]
    fn a_change_sets_a_figure_and_the_name() {
        let machine = Machine::named("skl-4s:core.clock_mhz=2100,latency.locked_ns=high").unwrap();
        assert_eq!(machine.clock_khz, 2_100_000);
        assert_eq!(machine.latency.locked_ps, 7_200);
        assert_eq!(machine.name, "skl-4s:core.clock_mhz=2100,latency.locked_ns=high");
        assert_eq!(Machine::named("skl-4s").unwrap().clock_khz, 2_800_000);
    }

    #[test]
    fn every_figure_can_be_named() {
        let spec = find("bdw-4s").unwrap();
        for (path, figure) in spec.figures() {
            let name = format!("bdw-4s:{path}={}", figure.value);
            Machine::named(&name).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn mistakes_are_told() {
        let error = |name: &str| Machine::named(name).unwrap_err().to_string();
        let text = error("skl-4s:core.clock=2100");
        assert!(text.contains("nearest: core.clock_mhz"), "{text}");
        for name in ["skl-4s:core.clock_mhz=fast", "skl-4s:core.clock_mhz=-1", "skl-4s:a,b=1"] {
            assert!(error(name).contains("skl-4s"), "{name}");
        }
        let text = error("skl-4s:latency.l2_ns=500");
        assert!(text.contains("latency"), "{text}");
        assert!(error("skl-5s:core.clock_mhz=2100").contains("skl-4s"));
    }
}
