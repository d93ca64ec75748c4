//! What can be wrong with a recording, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Line of a text file, from 1.
    Line(u64),
    /// Byte offset in the file (decompressed, where the file is compressed).
    Byte(u64),
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Line(line) => write!(out, "line {line}"),
            At::Byte(byte) => write!(out, "byte {byte}"),
        }
    }
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`, `rename`.
        action: &'static str,
        /// Why not. (Not called `source`: whoever prints the chain of causes would say it twice.)
        reason: std::io::Error,
    },
    /// Not a file that Pageyard reads.
    #[error(
        "{path}: byte 0: {what}; expected ftrace text, trace.dat or perf.data (also zst, gz, xz)"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: String,
    },
    /// The right kind of file, but damaged where nothing can be read without it.
    #[error("{path}: {at}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        at: At,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A folder without a trace in it.
    #[error(
        "{path}: no trace in this folder; expected trace.dat, perf.data or trace.txt \
         (also .zst, .gz, .xz)"
    )]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
}

impl TraceError {
    /// Wraps an I/O error with what was tried on which file.
    pub fn io(path: &Path, action: &'static str, reason: std::io::Error) -> Self {
        TraceError::Io { path: path.to_path_buf(), action, reason }
    }

    /// A damaged file.
    pub fn damaged(path: &Path, at: At, what: impl Into<String>) -> Self {
        TraceError::Damaged { path: path.to_path_buf(), at, what: what.into() }
    }
}

/// One thing that could not be read; what stood before and after it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: At,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.at, self.what)
    }
}

/// Everything unreadable in one file: the first [`Damage::KEPT`] faults in full, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    faults: Vec<Fault>,
    count: u64,
}

impl Damage {
    /// Faults kept in full; the rest is only counted, so that a foreign file cannot fill memory.
    pub const KEPT: usize = 20;

    /// Notes a fault.
    pub fn add(&mut self, at: At, what: impl Into<String>) {
        self.count += 1;
        if self.faults.len() < Self::KEPT {
            self.faults.push(Fault { at, what: what.into() });
        }
    }

    /// Notes a fault whose description is only made when it is kept.
    pub fn add_with(&mut self, at: At, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.faults.len() < Self::KEPT {
            self.faults.push(Fault { at, what: what() });
        }
    }

    /// How many faults there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when nothing was unreadable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first faults, in file order.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}
