//! One side in a file: results of a build, to be held against those of another.

use std::path::{Path, PathBuf};

use super::run::Side;

/// Number of the format.
pub const FORMAT: u32 = 1;
/// Longest file that is read, bytes: a cell with its seeds has some ten thousand.
const BYTES_MAX: u64 = 64 << 20;

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It is longer than any that was written.
    #[error("{}: longer than {BYTES_MAX} bytes; no file that --save wrote is", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
    /// It is not what `--save` writes.
    #[error(
        "{}:{}:{}: not results as --save writes them: {error}",
        path.display(), error.line(), error.column()
    )]
    Form {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        error: serde_json::Error,
    },
    /// Another version wrote it.
    #[error("{}: format {found}, this version reads {FORMAT}; save it anew", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its number.
        found: u32,
    },
}

/// Whether a side is named by a file of results and not by a policy.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.ends_with(".json")
}

/// Reads a side.
///
/// # Errors
/// See [`KeptError`].
pub fn read(path: &Path) -> Result<Side, KeptError> {
    let path_buf = || path.to_path_buf();
    let failed = |error| KeptError::Read { path: path_buf(), error };
    if std::fs::metadata(path).map_err(failed)?.len() > BYTES_MAX {
        return Err(KeptError::Long { path: path_buf() });
    }
    let text = std::fs::read(path).map_err(failed)?;
    let side: Side = serde_json::from_slice(&text)
        .map_err(|error| KeptError::Form { path: path_buf(), error })?;
    match side.format {
        FORMAT => Ok(side),
        found => Err(KeptError::Format { path: path_buf(), found }),
    }
}

/// A side as text for a file.
///
/// # Errors
/// None in practice: every value has a form in JSON.
pub fn write(side: &Side) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(side)? + "\n")
}
