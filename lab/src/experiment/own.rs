//! Experiments of the user's own: a file like those of `experiments/`, about a published table that
//! comes with Pageyard or stands in a file of the user's.
//!
//! Paths in the file (of the table, of machines, policies and recordings) begin at its folder, so
//! that it can be run from anywhere.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::catalogue;
use super::form::{Form, LoadError};
use super::load::{Experiment, look_up};
use super::published::{Table, Unusable};
use super::workload::nearest_hint;

/// Longest file of an experiment or a published table, bytes: ten times the longest bundled one.
pub const FILE_BYTES_MAX: u64 = 256 << 10;

/// Why there is no experiment.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is too long for what it should be.
    #[error(
        "{}: longer than {FILE_BYTES_MAX} bytes; is it an experiment or a published table?",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A file is no text.
    #[error("{}: not UTF-8 from byte {offset} on; is it an experiment?", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Where text ends, bytes.
        offset: usize,
    },
    /// The experiment is wrong.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The published table is no JSON, or lacks a field.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Table {
        /// Its file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The parser's words.
        message: String,
    },
    /// The published table names something twice.
    #[error("{}: {unusable}", path.display())]
    Unusable {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and where.
        unusable: Unusable,
    },
}

/// Reads an experiment's file and the table that it is about: that of `published`, else that of its
/// field `published`, else the bundled one of its name.
///
/// # Errors
/// See [`OwnError`].
pub fn read(path: &Path, published: Option<&Path>) -> Result<Experiment, OwnError> {
    let text = text_of(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = path.display().to_string();
    let form = Form::read(&text, &file, folder)?;
    let beside = form.spec.published.as_ref().map(|name| folder.join(name.get_ref()));
    let table = match published.map(Path::to_path_buf).or(beside) {
        Some(path) => table_of(&path)?,
        None => bundled(&form)?,
    };
    Ok(look_up(&form, table)?)
}

fn bundled(form: &Form<'_>) -> Result<Table, LoadError> {
    let name = form.spec.table.get_ref();
    let refused = |message: String| form.refused(form.at_table(message));
    let text = catalogue::published(name).ok_or_else(|| {
        let hint = nearest_hint(name, catalogue::names());
        refused(format!(
            "no published table `{name}` comes with Pageyard{hint}; give yours by \
             published = \"FILE.json\" here or --published FILE.json"
        ))
    })?;
    Table::parse(text).map_err(|error| refused(error.to_string()))
}

fn table_of(path: &Path) -> Result<Table, OwnError> {
    let path = || path.to_path_buf();
    let table = Table::parse(&text_of(&path())?).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // The parser says the place at the end of its message, too.
        let mut message = error.to_string();
        message.truncate(message.rfind(" at line ").unwrap_or(message.len()));
        OwnError::Table { path: path(), line, column, message }
    })?;
    table.check().map_err(|unusable| OwnError::Unusable { path: path(), unusable })?;
    Ok(table)
}

fn text_of(path: &Path) -> Result<String, OwnError> {
    let failed = |source| OwnError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > FILE_BYTES_MAX {
        return Err(OwnError::TooLong { path: path.to_path_buf() });
    }
    String::from_utf8(bytes).map_err(|error| OwnError::NotText {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
