//! Policies in TOML files.
//!
//! ```toml
//! base = "linux-6.18"      # a preset
//! name = "small-batch"     # what results call it; without it, the file's name
//! about = "one line for `pageyard policies list`"
//!
//! [set]
//! batch_pages = 15
//! ```

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use pageyard::{Policy, preset};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{NamedPolicy, PolicyError, Problem, names, nearest, set};

/// Largest policy file, bytes: twenty times what all keys with comments need.
pub const FILE_BYTES_MAX: u64 = 64 << 10;

/// A policy file as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// The policy; its name is `name`, or the file's name without the ending.
    pub named: NamedPolicy,
    /// The preset that it changes.
    pub base: String,
    /// One line about it.
    pub about: Option<String>,
}

/// Reads a policy file.
///
/// # Errors
/// See [`load`].
pub fn read(path: &Path) -> Result<NamedPolicy, PolicyError> {
    Ok(load(path)?.named)
}

/// Reads a policy file with what it says about itself.
///
/// # Errors
/// It cannot be read, is not TOML, or is no policy: with line and column.
pub fn load(path: &Path) -> Result<PolicyFile, PolicyError> {
    let failed = |source| PolicyError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > FILE_BYTES_MAX {
        return Err(PolicyError::TooLarge { path: path.to_path_buf(), max_bytes: FILE_BYTES_MAX });
    }
    let text = String::from_utf8(bytes).map_err(|error| PolicyError::NotText {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    let fallback = path.file_stem().map(|stem| stem.to_string_lossy());
    parse(&text, fallback.as_deref().unwrap_or("policy")).map_err(|(problem, at)| {
        let (line, column) = place(&text, at.start);
        PolicyError::Line { path: path.to_path_buf(), line, column, problem }
    })
}

type Placed = (Problem, Range<usize>);

fn parse(text: &str, fallback: &str) -> Result<PolicyFile, Placed> {
    // The parser reports as it understands, not from the top down.
    let (table, errors) = DeTable::parse_recoverable(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(error) = errors.into_iter().min_by_key(start) {
        let message = error.message().lines().next().unwrap_or("").to_string();
        return Err((Problem::Toml { message }, error.span().unwrap_or(0..0)));
    }
    let table = table.get_ref();
    let known = ["base", "name", "about", "set"];
    if let Some(key) = table.keys().find(|key| !known.contains(&&**key.get_ref())) {
        let stray = key.get_ref().to_string();
        return Err((Problem::Stray { key: stray }, key.span()));
    }
    let base = string(table, "base")?.ok_or((Problem::NoBase, 0..0))?;
    let policy = preset::find(base.get_ref()).ok_or_else(|| {
        let name = base.get_ref().clone();
        let nearest = nearest(&name, names().iter().map(String::as_str));
        (Problem::UnknownBase { name, nearest }, base.span())
    })?;
    let name = string(table, "name")?.map_or(fallback.to_string(), Spanned::into_inner);
    let about = string(table, "about")?.map(Spanned::into_inner);
    let mut named = NamedPolicy::new(name, policy);
    if let Some(changes) = table.get("set") {
        let at = changes.span();
        let DeValue::Table(changes) = changes.get_ref() else {
            let key = "set".to_string();
            let expected = "a table of keys and values";
            return Err((Problem::Kind { key, expected }, at));
        };
        apply(&mut named.policy, changes, at)?;
    }
    Ok(PolicyFile { named, base: base.into_inner(), about })
}

/// Sets each key of `[set]`, then checks the whole; a conflict is shown at the later key.
fn apply(policy: &mut Policy, changes: &DeTable<'_>, at: Range<usize>) -> Result<(), Placed> {
    for (key, value) in changes {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(on) => if *on { "on" } else { "off" }.to_string(),
            // A number beyond u32 goes on as written and is refused like any other bad value.
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string(), |number| number.to_string()),
            _ => {
                let key = key.get_ref().to_string();
                let expected = "a number, a string or true/false";
                return Err((Problem::Kind { key, expected }, value.span()));
            }
        };
        set(policy, key.get_ref(), &text).map_err(|problem| {
            let span = match problem {
                Problem::BadValue { .. } => value.span(),
                _ => key.span(),
            };
            (problem, span)
        })?;
    }
    policy.check().map_err(|conflict| {
        let involved =
            changes.keys().filter(|key| [conflict.key, conflict.other].contains(&&**key.get_ref()));
        let span = involved.map(Spanned::span).max_by_key(|span| span.start);
        (Problem::Conflict(conflict), span.unwrap_or(at))
    })
}

fn string(table: &DeTable<'_>, key: &str) -> Result<Option<Spanned<String>>, Placed> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    match value.get_ref() {
        DeValue::String(text) => Ok(Some(Spanned::new(value.span(), text.to_string()))),
        _ => {
            let key = key.to_string();
            let expected = "a string";
            Err((Problem::Kind { key, expected }, value.span()))
        }
    }
}

/// Line and column of a byte offset, both from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}
