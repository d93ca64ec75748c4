//! The list of policies: releases in groups that do the same, each with what it changed.

use pageyard::Policy;
use pageyard::keys::KEYS;
use pageyard::preset::{self, PROPOSALS, Release};
use pageyard_lab::named::file::{self, PolicyFile};
use pageyard_lab::named::manual::entry;
use pageyard_lab::named::{FOLDER, PolicyError, own_files};
use serde_json::{Map, Value, json};

use super::layout::hanging;

/// A key whose value differs.
pub struct Change {
    pub key: &'static str,
    pub from: String,
    pub to: String,
}

/// What has to be set in `from` to make it `to`, in the order of the keys.
pub fn changes(from: &Policy, to: &Policy) -> Vec<Change> {
    let pairs = KEYS.iter().map(|key| Change {
        key: key.name,
        from: (key.get)(from).to_string(),
        to: (key.get)(to).to_string(),
    });
    pairs.filter(|change| change.from != change.to).collect()
}

/// The changes that make a difference in what they lead to, as one line.
fn effective(mut changes: Vec<Change>, to: &Policy) -> String {
    let matters = |name: &str| {
        let key = KEYS.iter().find(|key| key.name == name);
        key.is_none_or(|key| entry(key).matters(to))
    };
    changes.retain(|change| matters(change.key));
    settings(&changes)
}

fn settings(changes: &[Change]) -> String {
    let pairs: Vec<String> =
        changes.iter().map(|change| format!("{}={}", change.key, change.to)).collect();
    pairs.join(" ")
}

/// Releases in a row with the same difference to something: first, last, difference.
fn groups(differences: impl Iterator<Item = (Release, String)>) -> Vec<(Release, Release, String)> {
    let mut groups: Vec<(Release, Release, String)> = Vec::new();
    for (release, difference) in differences {
        match groups.last_mut() {
            Some((_, last, same)) if *same == difference => *last = release,
            _ => groups.push((release, release, difference)),
        }
    }
    groups
}

/// Releases that do the same, with what the first of them changed.
fn release_groups() -> Vec<(Release, Release, String)> {
    let mut groups: Vec<(Release, Release, String)> = Vec::new();
    let mut before: Option<Policy> = None;
    for release in Release::all() {
        let policy = Policy::linux(release);
        let changed = before.map_or(Vec::new(), |before| changes(&before, &policy));
        match groups.last_mut() {
            Some((_, last, _)) if changed.is_empty() => *last = release,
            _ => groups.push((release, release, effective(changed, &policy))),
        }
        before = Some(policy);
    }
    groups
}

/// What stable fixes changed, by releases in a row; those without any are left out.
fn stable_groups() -> Vec<(Release, Release, String)> {
    let difference = |release: Release| {
        let stable = Release { stable: true, ..release };
        let fixed = Policy::linux(stable);
        (stable, effective(changes(&Policy::linux(release), &fixed), &fixed))
    };
    let mut found = groups(Release::all().map(difference));
    found.retain(|(_, _, difference)| !difference.is_empty());
    found
}

fn span(first: Release, last: Release) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first} to {}", last.to_string().trim_start_matches("linux-")),
    }
}

/// Files of the user's own; one that is no policy hides neither itself nor the others.
fn files() -> Vec<(String, Result<PolicyFile, PolicyError>)> {
    let files = own_files().into_iter();
    files.map(|(name, path)| (name, file::load(&path))).collect()
}

fn file_changes(file: &PolicyFile) -> Vec<Change> {
    preset::find(&file.base).map_or(Vec::new(), |base| changes(&base, &file.named.policy))
}

/// Columns of the names.
const INDENT: usize = 26;

/// The list as text.
pub fn list() -> String {
    let mut text = String::from("Releases, and what the first of each group changed\n");
    for (at, (first, last, difference)) in release_groups().into_iter().enumerate() {
        let difference = if at == 0 { "the oldest preset".to_string() } else { difference };
        text.push_str(&hanging(&format!("  {}", span(first, last)), INDENT, &difference));
    }
    text.push_str("\nReleases with their stable fixes, against the same release without\n");
    for (first, last, difference) in stable_groups() {
        text.push_str(&hanging(&format!("  {}", span(first, last)), INDENT, &difference));
    }
    text.push_str("\nParents and proposals of the mails of 2017 to 2022\n");
    for proposal in PROPOSALS {
        let pairs: Vec<String> =
            proposal.changes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let what = format!("{} with {}: {}", proposal.base, pairs.join(" "), proposal.source);
        text.push_str(&hanging(&format!("  {}", proposal.name), INDENT, &what));
    }
    let files = files();
    if !files.is_empty() {
        text.push_str(&format!("\nFiles of the folder {FOLDER}\n"));
    }
    for (name, file) in files {
        let what = match file {
            Ok(file) => {
                let about = file.about.as_ref().map_or(String::new(), |about| format!("{about}: "));
                format!("{about}{} with {}", file.base, settings(&file_changes(&file)))
            }
            Err(error) => format!("cannot be used: {error}"),
        };
        text.push_str(&hanging(&format!("  {name}"), INDENT, &what));
    }
    text
}

fn object(changes: &[Change]) -> Value {
    let pairs = changes.iter().map(|change| (change.key.to_string(), json!(change.to)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// The list as JSON: every name by itself, with what it changes in what.
pub fn list_json() -> Value {
    let mut policies = Vec::new();
    let mut before: Option<Release> = None;
    for release in Release::all() {
        let stable = Release { stable: true, ..release };
        let (policy, fixed) = (Policy::linux(release), Policy::linux(stable));
        let changed = before.map_or(Vec::new(), |b| changes(&Policy::linux(b), &policy));
        policies.push(json!({
            "name": release.to_string(),
            "kind": "release",
            "base": before.map(|release| release.to_string()),
            "changes": object(&changed),
        }));
        policies.push(json!({
            "name": stable.to_string(),
            "kind": "stable",
            "base": release.to_string(),
            "changes": object(&changes(&policy, &fixed)),
        }));
        before = Some(release);
    }
    for proposal in PROPOSALS {
        let pairs = proposal.changes.iter().map(|(key, value)| (key.to_string(), json!(value)));
        policies.push(json!({
            "name": proposal.name,
            "kind": "proposal",
            "base": proposal.base.to_string(),
            "changes": Value::Object(pairs.collect()),
            "about": proposal.source,
        }));
    }
    for (name, file) in files() {
        policies.push(match file {
            Ok(file) => json!({
                "name": name,
                "kind": "file",
                "base": file.base,
                "changes": object(&file_changes(&file)),
                "about": file.about,
            }),
            Err(error) => json!({ "name": name, "kind": "file", "error": error.to_string() }),
        });
    }
    json!({ "policies": policies })
}
