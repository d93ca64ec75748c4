//! Manifests: which crate may use which, and why each foreign crate is here.
//!
//! The direction is that of docs/adr/0001: `cli → lab → {host, sim, trace} → core`,
//! `capi → host`, `check → core`. What follows from it by several steps is allowed in one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Findings;
use crate::tree;

/// Each crate and those directly below it. A new crate or edge needs a decision record and a line.
const BELOW: [(&str, &[&str]); 9] = [
    ("pageyard", &[]),
    ("pageyard-host", &["pageyard"]),
    ("pageyard-sim", &["pageyard"]),
    ("pageyard-trace", &["pageyard"]),
    ("pageyard-check", &["pageyard-host"]),
    ("pageyard-capi", &["pageyard-host"]),
    ("pageyard-lab", &["pageyard-host", "pageyard-sim", "pageyard-trace"]),
    ("pageyard-cli", &["pageyard-lab"]),
    ("xtask", &[]),
];
/// The crate without any dependency.
const CORE: &str = "pageyard";
/// The record in which each foreign crate has its line.
pub const REASONS: &str = "docs/adr/0002-dependencies.md";

/// One package of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Package {
    pub name: String,
    /// Relative to the root.
    pub dir: String,
    /// Names of the crates it uses, and whether only tests do.
    pub uses: BTreeMap<String, bool>,
    /// Targets with a path of their own, relative to `dir`, and whether they are tests.
    pub named_targets: Vec<(String, bool)>,
}

/// Reads the manifests of the workspace at `root`.
pub fn load(root: &Path) -> Result<Vec<Package>> {
    let workspace = parse(root, "Cargo.toml")?;
    let members = workspace
        .get("workspace")
        .and_then(|table| table.get("members"))
        .and_then(Value::as_array)
        .context("Cargo.toml has no `workspace.members`")?;
    let shared = workspace.get("workspace").and_then(|table| table.get("dependencies"));
    let shared = shared.and_then(Value::as_table).cloned().unwrap_or_default();
    let mut packages = Vec::new();
    for member in members {
        let dir = member.as_str().context("a workspace member is no string")?;
        let manifest = parse(root, &format!("{dir}/Cargo.toml"))?;
        packages.push(package(dir, &manifest, &shared)?);
    }
    Ok(packages)
}

fn parse(root: &Path, path: &str) -> Result<Table> {
    let file = tree::read(root, path)?.with_context(|| format!("{path} is missing"))?;
    file.text.parse().with_context(|| format!("cannot read {path}"))
}

fn package(dir: &str, manifest: &Table, shared: &Table) -> Result<Package> {
    let name = manifest.get("package").and_then(|table| table.get("name")).and_then(Value::as_str);
    let name = name.with_context(|| format!("{dir}/Cargo.toml has no package name"))?.to_owned();
    let mut package = Package { name, dir: dir.to_owned(), ..Package::default() };
    dependencies(manifest, shared, &mut package.uses);
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        for table in targets.values().filter_map(Value::as_table) {
            dependencies(table, shared, &mut package.uses);
        }
    }
    for kind in ["lib", "bin", "example", "test", "bench"] {
        let is_test = matches!(kind, "test" | "bench");
        let entry = manifest.get(kind);
        let many = entry.and_then(Value::as_array).map(Vec::as_slice);
        for target in many.or(entry.map(std::slice::from_ref)).unwrap_or_default() {
            if let Some(path) = target.get("path").and_then(Value::as_str) {
                package.named_targets.push((path.to_owned(), is_test));
            }
        }
    }
    Ok(package)
}

fn dependencies(table: &Table, shared: &Table, uses: &mut BTreeMap<String, bool>) {
    for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let Some(entries) = table.get(kind).and_then(Value::as_table) else {
            continue;
        };
        for (key, value) in entries {
            let of_workspace = value.get("workspace").and_then(Value::as_bool) == Some(true);
            let value = if of_workspace { shared.get(key).unwrap_or(value) } else { value };
            let name = value.get("package").and_then(Value::as_str).unwrap_or(key);
            let only_tests = kind == "dev-dependencies";
            uses.entry(name.to_owned()).and_modify(|dev| *dev &= only_tests).or_insert(only_tests);
        }
    }
}

/// Checks the edges between our crates, and that each foreign crate has its reason.
pub fn check(packages: &[Package], reasons: Option<&str>, findings: &mut Findings) {
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let rows = rows(reasons.unwrap_or_default());
    let mut foreign = BTreeSet::new();
    for package in packages {
        let path = format!("{}/Cargo.toml", package.dir);
        if !BELOW.iter().any(|(name, _)| *name == package.name) {
            let message = format!("crate {} has no decision record and no place", package.name);
            findings.add("crate-edges", &path, 1, message);
        }
        for (used, only_tests) in &package.uses {
            if package.name == CORE && !only_tests {
                findings.add("crate-edges", &path, 1, format!("the core may not use {used}"));
            }
            if ours.contains(used.as_str()) {
                edge(package, used, &path, findings);
                continue;
            }
            foreign.insert(used.as_str());
            if !rows.contains_key(used.as_str()) {
                let message = format!("{used} has no line `| crate | used by | reason |`");
                findings.add("dependency-reasons", &path, 1, format!("{message} in {REASONS}"));
            }
        }
    }
    for (name, line) in rows {
        if !foreign.contains(name.as_str()) {
            let message = format!("no crate of ours uses {name}");
            findings.add("dependency-reasons", REASONS, line, message);
        }
    }
}

fn edge(package: &Package, used: &str, path: &str, findings: &mut Findings) {
    let mut open = vec![package.name.as_str()];
    // Bounded: the table has no cycle, which a test below asserts.
    while let Some(name) = open.pop() {
        let below = BELOW.iter().find(|(upper, _)| *upper == name).map_or(&[][..], |(_, b)| b);
        if below.contains(&used) {
            return;
        }
        open.extend(below);
    }
    let message = format!("{} may not use {used}: the edge is not in docs/adr/0001", package.name);
    findings.add("crate-edges", path, 1, message);
}

/// The crates in the first cell of each row of the table, and the line of the row.
fn rows(text: &str) -> BTreeMap<String, usize> {
    let mut rows = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = line.trim().strip_prefix('|') else {
            continue;
        };
        let Some((first, rest)) = cells.split_once('|') else {
            continue;
        };
        let name = first.trim().trim_matches('`');
        let filled = rest.split('|').filter(|cell| !cell.trim().is_empty()).count() >= 2;
        if filled && name != "crate" && name.chars().any(char::is_alphanumeric) {
            rows.insert(name.to_owned(), index + 1);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(name: &str, used: &[(&str, bool)]) -> Package {
        let uses = used.iter().map(|(name, dev)| (name.to_string(), *dev)).collect();
        Package { name: name.into(), dir: "d".into(), uses, ..Package::default() }
    }

    #[track_caller]
    fn check_rules(packages: &[Package], reasons: &str, rules: &[&str]) {
        let mut findings = Findings::default();
        check(packages, Some(reasons), &mut findings);
        assert_eq!(findings.rules(), rules, "{:?}", findings.messages());
    }

    #[test]
    fn edges_lead_down_in_one_or_more_steps() {
        let core = uses("pageyard", &[]);
        let trace = uses("pageyard-trace", &[("pageyard", false)]);
        let cli = uses("pageyard-cli", &[("pageyard", false), ("pageyard-trace", false)]);
        check_rules(&[core, trace, cli], "", &[]);
    }

    #[test]
    fn edges_that_lead_up_or_aside_are_found() {
        let core = uses("pageyard", &[("pageyard-trace", true)]);
        let trace = uses("pageyard-trace", &[("pageyard-check", false)]);
        let check = uses("pageyard-check", &[]);
        check_rules(&[core, trace, check], "", &["crate-edges", "crate-edges"]);
    }

    #[test]
    fn an_unknown_crate_needs_a_place() {
        check_rules(&[uses("pageyard-extra", &[])], "", &["crate-edges"]);
    }

    #[test]
    fn the_core_has_no_dependency_but_its_tests_may() {
        let reasons = "| loom | core | models |\n";
        check_rules(&[uses("pageyard", &[("loom", false)])], reasons, &["crate-edges"; 1]);
        check_rules(&[uses("pageyard", &[("loom", true)])], reasons, &[]);
    }

    #[test]
    fn each_foreign_crate_has_one_reason_and_no_reason_is_stale() {
        let lab = uses("pageyard-lab", &[("serde", false)]);
        let header = "| crate | used by | reason |\n|---|---|---|\n";
        let row = "| `serde` | lab | reports |\n";
        check_rules(std::slice::from_ref(&lab), &format!("{header}{row}"), &[]);
        check_rules(std::slice::from_ref(&lab), header, &["dependency-reasons"]);
        let empty = "| serde | lab |  |\n";
        check_rules(std::slice::from_ref(&lab), empty, &["dependency-reasons"]);
        check_rules(&[uses("pageyard-lab", &[])], row, &["dependency-reasons"]);
    }

    #[test]
    fn renamed_shared_and_target_dependencies_are_seen() {
        let shared: Table = "a = { package = \"real\", version = \"1\" }".parse().unwrap();
        let manifest = "[package]\nname = \"p\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\nc = \"1\"\n\
            [dev-dependencies]\nb = \"1\"\nd = \"1\"\n\
            [[bench]]\nname = \"x\"\npath = \"odd/x.rs\"\n[lib]\npath = \"l.rs\"\n";
        let package = package("p", &manifest.parse().unwrap(), &shared).unwrap();
        let found: Vec<(&str, bool)> =
            package.uses.iter().map(|(name, dev)| (name.as_str(), *dev)).collect();
        assert_eq!(found, [("b", false), ("c", false), ("d", true), ("real", false)]);
        let targets = [("l.rs".to_owned(), false), ("odd/x.rs".to_owned(), true)];
        assert_eq!(package.named_targets, targets);
    }

    #[test]
    fn the_table_of_edges_has_no_cycle() {
        // Each crate stands after all those below it, but for the order of the table itself.
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        for _ in BELOW {
            for (name, below) in BELOW {
                if below.iter().all(|name| placed.contains(name)) {
                    placed.insert(name);
                }
            }
        }
        assert_eq!(placed.len(), BELOW.len());
    }
}
