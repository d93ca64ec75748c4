//! What each key of a policy means, value by value, and where it comes from: read by
//! `pageyard policies show` and printed as docs/POLICIES.md.
//!
//! Which releases have which value is not written here: it is computed from the presets.

mod entries;

use std::fmt::Write;

use pageyard::Policy;
#[cfg(test)]
use pageyard::keys::Accepts;
use pageyard::keys::{KEYS, Key};
use pageyard::preset::{PROPOSALS, Release};

pub use entries::ENTRIES;

/// A key of the manual.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the key.
    pub key: &'static str,
    /// What it does, in a sentence or two.
    pub meaning: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// The key and the values of it without which this one changes nothing.
    pub only_with: Option<(&'static str, &'static [&'static str])>,
    /// Commits (with the release they came in) or mails.
    pub source: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// One of these values: name and meaning.
    Values(&'static [(&'static str, &'static str)]),
    /// A whole number from the first to the second.
    Range(u32, u32),
    /// As `Range`, or 0 with this meaning.
    ZeroOr(&'static str, u32, u32),
}

impl Entry {
    /// The meaning of a value where each has its own.
    #[must_use]
    pub fn value_meaning(&self, value: &str) -> Option<&'static str> {
        match self.takes {
            Takes::Values(values) => {
                let named = values.iter().find(|(name, _)| *name == value);
                named.map(|(_, meaning)| *meaning)
            }
            Takes::ZeroOr(zero, ..) if value == "0" => Some(zero),
            _ => None,
        }
    }

    /// What the key takes, as a phrase.
    #[must_use]
    pub fn accepted(&self) -> String {
        let range = |from: u32, to: u32| match to {
            u32::MAX => format!("{from} or more"),
            _ => format!("{from} to {to}"),
        };
        match self.takes {
            Takes::Values(values) => {
                let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
                names.join(", ")
            }
            Takes::Range(from, to) => range(from, to),
            Takes::ZeroOr(_, 1, to) => range(0, to),
            Takes::ZeroOr(_, from, to) => format!("0, or {}", range(from, to)),
        }
    }

    /// True where the key changes what the policy does.
    #[must_use]
    pub fn matters(&self, policy: &Policy) -> bool {
        let Some((other, values)) = self.only_with else {
            return true;
        };
        let mut keys = KEYS.iter().filter(|key| key.name == other);
        keys.any(|key| values.contains(&(key.get)(policy).to_string().as_str()))
    }

    /// `Only with free_high=all.`, or nothing.
    #[must_use]
    pub fn condition(&self) -> Option<String> {
        let (key, values) = self.only_with?;
        let pairs: Vec<String> = values.iter().map(|value| format!("{key}={value}")).collect();
        Some(format!("Only with {}.", pairs.join(" or ")))
    }
}

/// The entry of a key.
///
/// # Panics
/// Never for a key of [`KEYS`]: a test holds the two lists together.
#[must_use]
pub fn entry(key: &Key) -> &'static Entry {
    let found = ENTRIES.iter().find(|entry| entry.key == key.name);
    found.expect("every key has an entry")
}

/// `4.17 to 5.17; stable 6.12, 6.14`: the releases whose preset has this value of a key, as far
/// as the key matters there.
///
/// Stable releases are named where they differ from the release they began as.
#[must_use]
pub fn releases(key: &Key, value: &str) -> String {
    let entry = entry(key);
    let has = |release: Release| {
        let policy = Policy::linux(release);
        (key.get)(&policy).to_string() == value && entry.matters(&policy)
    };
    let plain = |release: Release| has(release);
    let stable = |release: Release| has(Release { stable: true, ..release }) && !has(release);
    let mut parts = Vec::new();
    for (word, runs) in [("", runs(plain)), ("stable ", runs(stable))] {
        let spans: Vec<String> = runs.iter().map(|run| span(*run)).collect();
        if !spans.is_empty() {
            parts.push(format!("{word}{}", spans.join(", ")));
        }
    }
    parts.join("; ")
}

/// Runs of releases in a row for which `has` holds: first and last.
fn runs(has: impl Fn(Release) -> bool) -> Vec<(Release, Release)> {
    let mut runs: Vec<(Release, Release)> = Vec::new();
    let mut open = false;
    for release in Release::all() {
        let holds = has(release);
        match runs.last_mut() {
            Some(run) if holds && open => run.1 = release,
            _ if holds => runs.push((release, release)),
            _ => {}
        }
        open = holds;
    }
    runs
}

fn span((first, last): (Release, Release)) -> String {
    let number = |release: Release| format!("{}.{}", release.major, release.minor);
    match first == last {
        true => number(first),
        false => format!("{} to {}", number(first), number(last)),
    }
}

/// The text of docs/POLICIES.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(PREFACE);
    text.push_str("\n## Keys\n");
    for key in KEYS {
        let entry = entry(key);
        let (name, meaning) = (key.name, entry.meaning);
        let _ = write!(text, "\n### {name}\n\n{}\n\n", filled(meaning));
        match entry.takes {
            Takes::Values(values) => {
                text.push_str("| value | meaning | releases |\n|---|---|---|\n");
                for (value, meaning) in values {
                    let releases = releases(key, value);
                    let releases = if releases.is_empty() { "none" } else { &releases };
                    let _ = writeln!(text, "| `{value}` | {meaning} | {releases} |");
                }
                text.push('\n');
            }
            Takes::Range(..) | Takes::ZeroOr(..) => {
                let _ = writeln!(text, "{}", filled(&number_line(key, entry)));
                text.push('\n');
            }
        }
        let condition = entry.condition().map_or(String::new(), |only| format!("{only} "));
        let _ = writeln!(text, "{}", filled(&format!("{condition}Source: {}.", entry.source)));
    }
    text.push_str("\n## Proposals\n\n| preset | is | source |\n|---|---|---|\n");
    for proposal in PROPOSALS {
        let changes: Vec<String> =
            proposal.changes.iter().map(|(key, value)| format!("`{key}={value}`")).collect();
        let (name, base, source) = (proposal.name, proposal.base, proposal.source);
        let _ = writeln!(text, "| `{name}` | `{base}` with {} | {source} |", changes.join(", "));
    }
    text
}

/// `Takes 4 to 65536. 128 in 4.14 to 4.18; 256 in 4.19 to 6.19.`
fn number_line(key: &Key, entry: &Entry) -> String {
    let mut values: Vec<String> = Vec::new();
    for release in Release::all() {
        let value = (key.get)(&Policy::linux(release)).to_string();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let spans = values.iter().map(|value| format!("{value} in {}", releases(key, value)));
    let spans: Vec<String> = spans.collect();
    let zero = match entry.takes {
        Takes::ZeroOr(zero, ..) => format!(" 0: {zero}."),
        _ => String::new(),
    };
    format!("Takes {}.{zero} Presets: {}.", entry.accepted(), spans.join("; "))
}

/// Breaks a paragraph into lines of at most 100 columns.
fn filled(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// What a key accepts by its type; the manual must agree.
#[cfg(test)]
fn names(accepts: Accepts) -> Option<Vec<&'static str>> {
    match accepts {
        Accepts::Number => None,
        Accepts::Switch => Some(vec!["on", "off"]),
        Accepts::Names(name) => Some((0..).map_while(name).collect()),
    }
}

const PREFACE: &str = "\
# Policies

A policy is a list of settings, nothing more: every way in which one release of Linux differs from
another, as data. This page is made from the tables of the program by a test, so it says what the
program does.

Wherever a command takes a policy:

| form | example |
|---|---|
| a release | `linux-6.18` |
| a release with the fixes that were carried back to it | `linux-6.1.N` (or `linux-6.1.140`) |
| a proposal, see the end of this page | `pcp-high-4batch` |
| a policy with some keys changed | `linux-6.18:batch_pages=15,scale_max=1` |
| a file | `my/policy.toml` |
| a file of the folder `policies` | `short-hold` |

`pageyard policies list` prints what each release changed, `pageyard policies show NAME` every key
of one policy, `pageyard policies diff A B` where two differ. A running or recorded kernel gets the
preset of its release; a number behind the release, or a distribution's suffix, stands for its
stable fixes. Kernels newer than 6.19 get 6.19, and the result says so.

A file names its base and what it changes:

```toml
base = \"linux-6.18\"
about = \"zone-lock holds of 30 pages at the most, for tail latency\"

[set]
batch_pages = 15
scale_max = 1
free_chunk = \"batch\"
drain_chunk = \"batch\"
```

`name` (what results call it, otherwise the file's name) and `about` are optional. Settings that
contradict each other are refused, with the names of both keys.
";

#[cfg(test)]
mod tests;
