//! What can be wrong with a policy, where, and what to do about it.

use std::path::PathBuf;

use pageyard::policy::Conflict;

/// A text or file that is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// No preset and no file of this name.
    #[error("unknown policy '{name}'{}; see `pageyard policies list`", hint(.nearest))]
    UnknownName {
        /// As given.
        name: String,
        /// Known names most like it.
        nearest: Vec<String>,
    },
    /// A part behind the name is wrong.
    #[error("policy '{text}': {problem}")]
    Command {
        /// All that was given.
        text: String,
        /// What is wrong.
        problem: Problem,
    },
    /// A line of a file is wrong.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// A file cannot be read.
    #[error("policy file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is too large to be a policy.
    #[error("policy file {}: larger than {max_bytes} bytes, so not a policy", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Largest accepted size, bytes.
        max_bytes: u64,
    },
    /// A file is not text.
    #[error("policy file {}: byte {offset} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset of the first byte that is not text.
        offset: usize,
    },
    /// A kernel release that cannot be read, or that was never made.
    #[error("'{text}' is not a kernel release such as 6.18.44; name a policy instead")]
    NotARelease {
        /// As given.
        text: String,
    },
    /// A kernel older than every preset.
    #[error("kernel {text} is older than 4.14, the oldest preset; name the policy nearest to it")]
    TooOld {
        /// As given.
        text: String,
    },
}

/// What is wrong with one setting, without the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No such key.
    #[error("unknown key '{key}'{}; see `pageyard policies show`", hint(.nearest))]
    UnknownKey {
        /// As given.
        key: String,
        /// Known keys most like it.
        nearest: Vec<String>,
    },
    /// The key does not take this value.
    #[error("key '{key}' does not take '{value}'; it takes {accepted}")]
    BadValue {
        /// Known key.
        key: String,
        /// As given.
        value: String,
        /// What it takes.
        accepted: String,
    },
    /// A part without `=`.
    #[error("'{text}' is not key=value")]
    NotAChange {
        /// As given.
        text: String,
    },
    /// A key given more than once.
    #[error("key '{key}' is set twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// Settings that cannot go together.
    #[error("{0}")]
    Conflict(Conflict),
    /// A file without `base`.
    #[error("no `base`: add a line such as base = \"linux-6.18\"")]
    NoBase,
    /// `base` names no preset.
    #[error("base '{name}' is not a preset{}; see `pageyard policies list`", hint(.nearest))]
    UnknownBase {
        /// As given.
        name: String,
        /// Known presets most like it.
        nearest: Vec<String>,
    },
    /// Something beside `base`, `name`, `about` and `[set]`.
    #[error("'{key}' is none of base, name, about, [set]; keys of the policy stand under [set]")]
    Stray {
        /// As given.
        key: String,
    },
    /// A value of the wrong kind.
    #[error("'{key}' must be {expected}")]
    Kind {
        /// The key.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
    /// Not TOML.
    #[error("not TOML: {message}")]
    Toml {
        /// What the parser said.
        message: String,
    },
}

impl Problem {
    pub(super) fn of_command(self, text: &str) -> PolicyError {
        PolicyError::Command { text: text.to_string(), problem: self }
    }
}

fn hint(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(" (nearest: {})", names.join(", ")),
    }
}
