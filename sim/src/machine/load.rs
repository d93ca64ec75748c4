//! Machine files: found by name or path, read, checked; and what is wrong with one, where.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::builtin::BUILTIN;
use super::check::check;
use super::figure::Decimal;
use super::spec::Spec;
use super::vary;

/// Largest machine file, bytes: ten times the largest bundled one.
pub const FILE_BYTES_MAX: u64 = 256 << 10;

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No bundled machine has the name.
    #[error(
        "no machine is named `{name}`{}; `pageyard machines list` prints the names, \
         a file needs a path that ends in .toml",
        nearest.as_ref().map_or(String::new(), |nearest| format!("; nearest: {nearest}"))
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The name that may have been meant.
        nearest: Option<String>,
    },
    /// A change of a machine's figure that cannot be made.
    #[error("{machine}: cannot change {change}: {why}")]
    Change {
        /// The machine.
        machine: String,
        /// What was asked for.
        change: String,
        /// Why not.
        why: String,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is no machine file by its size.
    #[error("{}: longer than {max_bytes} bytes; is it a machine file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What was read of it.
        max_bytes: u64,
    },
    /// The file is no text.
    #[error("{}: not UTF-8 from byte {offset} on; is it a machine file?", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Where text ends, bytes.
        offset: usize,
    },
    /// Something in the file is wrong.
    #[error("{file}:{line}:{column}: {}{problem}", prefix(field))]
    Line {
        /// The file, or the name of the bundled one.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Path of the field, such as `latency.llc_ns.low`; empty where the text is no TOML.
        field: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

fn prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// What can be wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No TOML, or not of the form of a machine file.
    #[error("{message}")]
    Form {
        /// The parser's words.
        message: String,
    },
    /// A name that commands could not take.
    #[error("`{name}` is no name; use up to 40 small letters, digits and dashes")]
    Name {
        /// What stands there.
        name: String,
    },
    /// A measured figure without its range.
    #[error("a measured figure needs `low` and `high`; state how far the sources differ")]
    NoRange,
    /// The range begins above the value.
    #[error("{low} is above the value {value}; widen the range or correct the value")]
    LowAboveValue {
        /// Low end.
        low: Decimal,
        /// Value.
        value: Decimal,
    },
    /// The range ends below the value.
    #[error("{high} is below the value {value}; widen the range or correct the value")]
    HighBelowValue {
        /// High end.
        high: Decimal,
        /// Value.
        value: Decimal,
    },
    /// A figure that must be positive.
    #[error("must be more than 0")]
    Zero,
    /// Nobody knows where the figure is from.
    #[error(
        "`{key}` is no source; write a key of [sources]{}, `estimate: why` or `measured: how`",
        if known.is_empty() { String::new() } else { format!(" ({known})") }
    )]
    Source {
        /// What stands there.
        key: String,
        /// Keys of `[sources]`.
        known: String,
    },
    /// A count that is none, or too small, or too large.
    #[error("must be {}, is {number}", whole(*min, *max))]
    Count {
        /// What stands there.
        number: Decimal,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// More CPUs than the model takes.
    #[error("{cpus} CPUs in all are more than {max}; take fewer sockets, cores or threads")]
    TooManyCpus {
        /// CPUs of the machine.
        cpus: u64,
        /// Most CPUs.
        max: u64,
    },
    /// A list or row that does not have one entry a socket.
    #[error("has {found} entries for {sockets} socket(s); write one for each")]
    PerSocket {
        /// Entries.
        found: usize,
        /// Sockets.
        sockets: usize,
    },
    /// Not a single node with memory.
    #[error("no node has memory; some may be without (0), but not all")]
    NoMemory,
    /// There and back differ.
    #[error("differs from row {column}, column {row}; there and back must be the same")]
    NotSymmetric {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
    },
    /// A number outside what makes sense.
    #[error("{number} is not from {min} to {max}")]
    Bounds {
        /// What stands there.
        number: Decimal,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A field that this machine has no use for.
    #[error("has no meaning {unless}; remove it")]
    Idle {
        /// On what it depends.
        unless: &'static str,
    },
    /// A field that this machine needs.
    #[error("is missing; this machine needs it")]
    Missing,
    /// Size and ways that make no whole number of sets.
    #[error("{kib} KiB do not divide into {ways} ways of lines of 64 bytes")]
    Sets {
        /// Size.
        kib: u64,
        /// Ways.
        ways: u64,
    },
    /// A list that does not have one figure a number of hops.
    #[error("has {found} figure(s), but the hops between sockets need {expected}: one a hop")]
    PerHop {
        /// Figures.
        found: usize,
        /// Figures needed.
        expected: usize,
    },
    /// Something far that is faster than something near.
    #[error("{value} is faster than {than} = {other}; farther away cannot be faster")]
    Faster {
        /// What stands there.
        value: Decimal,
        /// The nearer field.
        than: String,
        /// Its value.
        other: Decimal,
    },
    /// Loads that do not rise, or go beyond the peak.
    #[error("a load of {load} GB/s is not above {above} and up to the peak of {peak}")]
    Load {
        /// What stands there.
        load: Decimal,
        /// The point before.
        above: Decimal,
        /// Most that the memory gives.
        peak: Decimal,
    },
}

fn whole(min: u64, max: u64) -> String {
    if min == max { format!("{min}") } else { format!("a whole number from {min} to {max}") }
}

/// Names of the bundled machines.
#[must_use]
pub fn names() -> Vec<&'static str> {
    BUILTIN.iter().map(|(name, _)| *name).collect()
}

/// The machine file of a bundled name, or of a path that ends in `.toml` or has a `/`; either with
/// changes behind a colon ([`vary`]).
///
/// # Errors
/// See [`MachineError`].
pub fn find(name: &str) -> Result<Spec, MachineError> {
    if let (base, Some(changes)) = vary::split(name) {
        let mut spec = find(base)?;
        vary::vary(&mut spec, changes)?;
        return Ok(spec);
    }
    if let Some((_, text)) = BUILTIN.iter().find(|(builtin, _)| *builtin == name) {
        return parse(text, &format!("{name} (bundled)"));
    }
    if name.ends_with(".toml") || name.contains('/') {
        return read(Path::new(name));
    }
    Err(MachineError::Unknown { name: name.to_string(), nearest: nearest(name) })
}

/// The bundled name that may have been meant.
fn nearest(name: &str) -> Option<String> {
    // A name this long is no misprint, and comparing costs the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let likeness = |candidate: &&str| strsim::jaro_winkler(name, candidate);
    let names = names();
    let best = names.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.7).then(|| best.to_string())
}

/// Reads a machine file.
///
/// # Errors
/// See [`MachineError`].
pub fn read(path: &Path) -> Result<Spec, MachineError> {
    let failed = |source| MachineError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > FILE_BYTES_MAX {
        return Err(MachineError::TooLarge { path: path.to_path_buf(), max_bytes: FILE_BYTES_MAX });
    }
    let text = String::from_utf8(bytes).map_err(|error| MachineError::NotText {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    parse(&text, &path.display().to_string())
}

/// Reads the text of a machine file; `file` is what errors call it.
///
/// # Errors
/// See [`MachineError`].
pub fn parse(text: &str, file: &str) -> Result<Spec, MachineError> {
    let refused = |field: String, at: usize, problem| {
        let (line, column) = place(text, at);
        MachineError::Line { file: file.to_string(), line, column, field, problem }
    };
    let form =
        |message: &str| Problem::Form { message: message.lines().next().unwrap_or("").into() };
    // The parser reports as it understands, not from the top down.
    let (table, errors) = DeTable::parse_recoverable(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(error) = errors.into_iter().min_by_key(start) {
        return Err(refused(String::new(), start(&error), form(error.message())));
    }
    let table = table.get_ref();
    let spec: Spec = toml::from_str(text).map_err(|error| {
        let at = start(&error);
        refused(path_at(table, at), at, form(error.message()))
    })?;
    match check(&spec) {
        Ok(()) => Ok(spec),
        Err((field, problem)) => {
            let at = span_of(table, &field).start;
            Err(refused(field, at, problem))
        }
    }
}

/// Where the value of a path stands; if it does not, the innermost thing around it that does.
fn span_of(table: &DeTable<'_>, path: &str) -> Range<usize> {
    let mut span = 0..0;
    let mut here: Option<&DeValue<'_>> = None;
    for part in path.split(['.', '[']) {
        let found = match (here, part.strip_suffix(']')) {
            (None, _) => table.get(part),
            (Some(DeValue::Table(table)), None) => table.get(part),
            (Some(DeValue::Array(array)), Some(at)) => {
                at.parse().ok().and_then(|at: usize| array.get(at))
            }
            _ => None,
        };
        let Some(value) = found else { break };
        span = value.span();
        here = Some(value.get_ref());
    }
    span
}

/// Path of the innermost key or value that a byte belongs to; empty if there is none.
fn path_at(table: &DeTable<'_>, at: usize) -> String {
    for (key, value) in table {
        // A section's span is its header alone, so what is inside is asked first.
        let inner = path_within(value, at);
        if inner.is_some() || key.span().contains(&at) {
            return format!("{}{}", key.get_ref(), inner.unwrap_or_default());
        }
    }
    String::new()
}

/// The same within a value, with what joins it to the path before; empty for the value itself.
fn path_within(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => Some(path_at(table, at)).filter(|path| !path.is_empty()),
        DeValue::Array(array) => {
            let mut items = array.iter().enumerate();
            let found = items.find_map(|(index, item)| Some((index, path_within(item, at)?)));
            return found
                .map(|(index, path)| format!("[{index}]{path}"))
                .or_else(|| value.span().contains(&at).then(String::new));
        }
        _ => None,
    };
    match inner {
        Some(path) => Some(format!(".{path}")),
        None => value.span().contains(&at).then(String::new),
    }
}

/// Line and column of a byte offset, both from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}
