//! Small scanners that the snapshot parsers share.

use crate::error::{At, Damage, Fault};

/// Splits `Node 0, zone   Normal…` into node, zone name and what follows the name.
pub(super) fn node_zone(line: &str) -> Option<(u16, &str, &str)> {
    let rest = line.strip_prefix("Node")?.trim_start();
    let (node, rest) = rest.split_once(',')?;
    let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return None;
    }
    Some((node.trim().parse().ok()?, name, rest))
}

/// Parses `name value`.
pub(super) fn name_value(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?;
    let value = words.next()?.parse().ok()?;
    words.next().is_none().then_some((name, value))
}

/// The strict form of a tolerant reader: its first fault, when there is one.
pub(super) fn strict<T>(read: impl FnOnce(&mut Damage) -> T) -> Result<T, Fault> {
    let mut damage = Damage::default();
    let value = read(&mut damage);
    match damage.faults().first() {
        Some(fault) => Err(fault.clone()),
        None => Ok(value),
    }
}

/// The place of the line with this index.
pub(super) fn line_at(index: usize) -> At {
    At::Line(index as u64 + 1)
}

/// At most 60 characters of a line, for messages.
pub(super) fn excerpt(line: &str) -> String {
    let mut text: String =
        line.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect();
    if line.chars().count() > 60 {
        text.push('…');
    }
    text
}
