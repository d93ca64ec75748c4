//! A policy by name: what stands on the command line or in a TOML file becomes a checked
//! [`Policy`], or an error that says which key, which values and which names there are.
//!
//! Forms: `NAME`, `NAME:key=value,key=value`, a path of a TOML file (see [`mod@file`]), and a path
//! with `:key=value` behind it. `NAME` is a preset of the core (`linux-4.14` to `linux-6.19`,
//! `linux-6.1.N` for a release with its stable fixes, the proposals) or, without the ending, a
//! file of the folder `policies` where the command runs.

pub mod error;
pub mod file;
pub mod manual;

use std::path::{Path, PathBuf};

use pageyard::Policy;
use pageyard::keys::{Accepts, KEYS, SetError};
use pageyard::preset::{self, PROPOSALS, RELEASE_MAX, RELEASE_MIN, Release};

pub use error::{PolicyError, Problem};

/// Where policies of the user's own are looked for by name, relative to the current folder.
pub const FOLDER: &str = "policies";
/// Names that an error suggests at the most.
const NEAREST_MAX: usize = 3;

/// A policy and what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// As given: the preset, the preset with its changes, or the name in the file.
    pub name: String,
    /// The policy, already checked.
    pub policy: Policy,
    /// What the reader of a result should know about the choice; mostly nothing.
    pub remark: Option<String>,
}

impl NamedPolicy {
    /// A policy that is known by this name and needs no remark.
    #[must_use]
    pub fn new(name: impl Into<String>, policy: Policy) -> NamedPolicy {
        NamedPolicy { name: name.into(), policy, remark: None }
    }

    /// Reads `NAME`, `NAME:key=value,…`, `FILE.toml` or `FILE.toml:key=value,…`.
    ///
    /// # Errors
    /// The name, a key or a value is unknown, a file cannot be read or is no policy, or two
    /// settings contradict each other.
    pub fn parse(text: &str) -> Result<NamedPolicy, PolicyError> {
        if is_path(text) && Path::new(text).exists() {
            return file::read(Path::new(text));
        }
        let (name, changes) = split(text);
        let mut named = find(name)?;
        if let Some(changes) = changes {
            apply(&mut named.policy, changes).map_err(|problem| problem.of_command(text))?;
            named.name = text.to_string();
        }
        Ok(named)
    }

    /// The preset of a running or recorded kernel, by `uname -r`.
    ///
    /// A release newer than the newest preset gets the newest, with a remark.
    ///
    /// # Errors
    /// The text names no release, or one older than 4.14.
    pub fn for_kernel(release: &str) -> Result<NamedPolicy, PolicyError> {
        let unknown = || PolicyError::NotARelease { text: release.to_string() };
        let kernel = Release::parse(release.trim()).ok_or_else(unknown)?;
        if kernel.exists() {
            return Ok(NamedPolicy::new(kernel.to_string(), Policy::linux(kernel)));
        }
        if !kernel.since(RELEASE_MIN.major, RELEASE_MIN.minor) {
            return Err(PolicyError::TooOld { text: release.trim().to_string() });
        }
        if !kernel.since(RELEASE_MAX.major, RELEASE_MAX.minor) {
            return Err(unknown());
        }
        let newest = Release { stable: kernel.stable, ..RELEASE_MAX };
        Ok(NamedPolicy {
            name: newest.to_string(),
            policy: Policy::linux(newest),
            remark: Some(format!(
                "{} is newer than the newest preset: {newest} stands in for it",
                release.trim()
            )),
        })
    }
}

/// Files of the folder [`FOLDER`], by name without the ending, in order.
#[must_use]
pub fn own_files() -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(FOLDER) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_string(), path)))
        .collect();
    files.sort();
    files
}

/// Every name that [`NamedPolicy::parse`] knows here, in the order of `pageyard policies list`.
#[must_use]
pub fn names() -> Vec<String> {
    let releases = Release::all().map(|release| release.to_string());
    let proposals = PROPOSALS.iter().map(|proposal| proposal.name.to_string());
    let own = own_files().into_iter().map(|(name, _)| name);
    releases.chain(proposals).chain(own).collect()
}

/// What a key accepts, as a phrase.
#[must_use]
pub fn accepted(accepts: Accepts) -> String {
    match accepts {
        Accepts::Number => "a whole number".to_string(),
        Accepts::Switch => "on, off".to_string(),
        Accepts::Names(name) => {
            let names: Vec<&str> = (0..).map_while(name).collect();
            names.join(", ")
        }
    }
}

/// Whether an argument names a file, and nothing that comes with Pageyard.
#[must_use]
pub fn is_path(text: &str) -> bool {
    text.ends_with(".toml") || text.contains('/')
}

/// A name or path and the changes behind its colon. Folders may have colons, too.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    if text.ends_with(".toml") {
        return (text, None);
    }
    let of_file = text.rfind(".toml:").map(|at| at + ".toml".len());
    match of_file.or_else(|| text.find(':')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn find(name: &str) -> Result<NamedPolicy, PolicyError> {
    if is_path(name) {
        return file::read(Path::new(name));
    }
    if let Some(policy) = preset::find(name) {
        return Ok(NamedPolicy::new(name, policy));
    }
    if let Some((_, path)) = own_files().iter().find(|(own, _)| own == name) {
        return file::read(path);
    }
    let release = format!("linux-{name}");
    Err(PolicyError::UnknownName {
        name: name.to_string(),
        nearest: match preset::find(&release) {
            Some(_) => vec![release],
            None => nearest(name, names().iter().map(String::as_str)),
        },
    })
}

/// Sets `key=value,key=value`, each key once, and checks the whole.
fn apply(policy: &mut Policy, changes: &str) -> Result<(), Problem> {
    let mut seen = Vec::new();
    for change in changes.split(',') {
        let (key, value) = change
            .split_once('=')
            .ok_or_else(|| Problem::NotAChange { text: change.to_string() })?;
        let (key, value) = (key.trim(), value.trim());
        set(policy, key, value)?;
        if seen.contains(&key) {
            return Err(Problem::Twice { key: key.to_string() });
        }
        seen.push(key);
    }
    policy.check().map_err(Problem::Conflict)
}

/// Sets one key.
fn set(policy: &mut Policy, key: &str, value: &str) -> Result<(), Problem> {
    policy.set(key, value).map_err(|error| {
        let known = KEYS.iter().find(|known| known.name == key);
        match (error, known) {
            (SetError::BadValue, Some(known)) => Problem::BadValue {
                key: key.to_string(),
                value: value.to_string(),
                accepted: accepted(known.accepts),
            },
            _ => Problem::UnknownKey {
                key: key.to_string(),
                nearest: nearest(key, KEYS.iter().map(|known| known.name)),
            },
        }
    })
}

/// The names most like `name`, best first: those in which no more than a third differs.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    // A name longer than any is no misprint of one; comparing it would only cost time.
    if name.len() > 64 {
        return Vec::new();
    }
    let mut scored: Vec<(usize, &str)> = known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| distance * 3 <= known.len().max(name.len()))
        .collect();
    // Stable: among equals the older release stands first.
    scored.sort_by_key(|(distance, _)| *distance);
    let best = scored.into_iter().take(NEAREST_MAX);
    best.map(|(_, known)| known.to_string()).collect()
}

#[cfg(test)]
mod tests;
