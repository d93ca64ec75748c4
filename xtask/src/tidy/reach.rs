//! Dead files: each `.rs` file is reached by `mod` from a target of its package, or it is found.
//!
//! Targets are those that cargo discovers by itself and those that the manifest names. What is
//! reached only from tests and benches, or below `#[cfg(test)]`, counts as a test.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use super::Findings;
use super::manifest::Package;
use super::source::{Source, attribute, group, is_cfg_test, is_mark, is_word};

/// A file to be visited.
struct Visit {
    path: String,
    /// The folder where its `mod x;` are looked for.
    children: String,
    is_test: bool,
}

/// Marks tests in `sources` and finds dead files.
pub fn check(
    packages: &[Package],
    sources: &mut BTreeMap<String, Source>,
    findings: &mut Findings,
) {
    let mut open: Vec<Visit> = Vec::new();
    for package in packages {
        for (path, is_test) in targets(package, sources.keys()) {
            open.push(Visit { children: parent(&path).to_owned(), path, is_test });
        }
    }
    // Production code first: a file that both reach is no test.
    open.sort_by_key(|visit| visit.is_test);
    let mut live: BTreeSet<String> = BTreeSet::new();
    let mut tests: BTreeSet<String> = BTreeSet::new();
    while !open.is_empty() {
        let visit = open.remove(0);
        let Some(source) = sources.get(&visit.path) else {
            continue;
        };
        if live.contains(&visit.path) || (visit.is_test && tests.contains(&visit.path)) {
            continue;
        }
        let seen = if visit.is_test { &mut tests } else { &mut live };
        seen.insert(visit.path.clone());
        let mut children = Vec::new();
        modules(&source.tokens, &visit, &|path| sources.contains_key(path), &mut children);
        open.extend(children);
        open.sort_by_key(|visit| visit.is_test);
    }
    for (path, source) in sources {
        source.is_test = !live.contains(path) && tests.contains(path);
        if !live.contains(path) && !tests.contains(path) {
            findings.add("dead-file", path, 1, "no `mod` leads here from any target");
        }
    }
}

/// The root file of each target of `package`, and whether it is a test or a bench.
fn targets<'a>(
    package: &Package,
    paths: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    let prefix = format!("{}/", package.dir);
    for path in paths {
        let Some(inside) = path.strip_prefix(&prefix) else {
            continue;
        };
        let parts: Vec<&str> = inside.split('/').collect();
        let is_test = match parts.as_slice() {
            ["build.rs"] | ["src", "lib.rs" | "main.rs"] => false,
            ["src", "bin", _] | ["src", "bin", _, "main.rs"] => false,
            ["examples", _] | ["examples", _, "main.rs"] => false,
            ["tests" | "benches", _] | ["tests" | "benches", _, "main.rs"] => true,
            _ => continue,
        };
        found.insert(path.clone(), is_test);
    }
    for (path, is_test) in &package.named_targets {
        found.insert(join(&package.dir, path), *is_test);
    }
    found
}

/// The files that `mod x;` and `include!("x")` in these tokens lead to.
fn modules(
    tokens: &[TokenTree],
    at: &Visit,
    exists: &dyn Fn(&str) -> bool,
    found: &mut Vec<Visit>,
) {
    let mut path_attribute = None;
    let mut test_attribute = false;
    for index in 0..tokens.len() {
        if let Some(inside) = attribute(tokens, index) {
            test_attribute |= is_cfg_test(&inside);
            if is_word(&inside, 0, "path") && is_mark(&inside, 1, '=') {
                path_attribute = inside.get(2).map(unquoted);
            }
        }
        let is_test = at.is_test || test_attribute;
        if is_word(tokens, index, "mod")
            && let Some(TokenTree::Ident(name)) = tokens.get(index + 1)
        {
            let name = name.to_string();
            let name = name.strip_prefix("r#").unwrap_or(&name);
            if is_mark(tokens, index + 2, ';') {
                found.extend(file_of(name, path_attribute.take(), at, exists, is_test));
            } else if let Some(inside) = group(tokens, index + 2, Delimiter::Brace) {
                let children = join(&at.children, name);
                let nested = Visit { path: at.path.clone(), children, is_test };
                modules(&inside, &nested, exists, found);
            }
        }
        if is_word(tokens, index, "include")
            && is_mark(tokens, index + 1, '!')
            && let Some(TokenTree::Group(arguments)) = tokens.get(index + 2)
            && let Some(argument) = arguments.stream().into_iter().next()
        {
            let path = join(parent(&at.path), &unquoted(&argument));
            found.push(Visit { path, children: at.children.clone(), is_test });
        }
        if is_mark(tokens, index, ';') || group(tokens, index, Delimiter::Brace).is_some() {
            path_attribute = None;
            test_attribute = false;
        }
    }
}

/// Where `mod name;` lies: at its `#[path]`, in `name.rs`, or in `name/mod.rs`.
fn file_of(
    name: &str,
    path_attribute: Option<String>,
    at: &Visit,
    exists: &dyn Fn(&str) -> bool,
    is_test: bool,
) -> Option<Visit> {
    if let Some(path) = path_attribute {
        let path = join(parent(&at.path), &path);
        return Some(Visit { children: parent(&path).to_owned(), path, is_test });
    }
    let children = join(&at.children, name);
    let paths = [format!("{children}.rs"), format!("{children}/mod.rs")];
    let path = paths.into_iter().find(|path| exists(path))?;
    Some(Visit { path, children, is_test })
}

fn unquoted(token: &TokenTree) -> String {
    token.to_string().trim_matches('"').to_owned()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Joins two relative paths and takes `.` and `..` out.
pub fn join(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    /// Returns the dead files and the test files of package `a`.
    fn reach(files: &[(&str, &str)], named: &[(&str, bool)]) -> (Vec<String>, Vec<String>) {
        let mut sources: BTreeMap<String, Source> =
            files.iter().map(|(path, text)| (path.to_string(), source(path, text))).collect();
        let named_targets = named.iter().map(|(path, test)| (path.to_string(), *test)).collect();
        let package = Package { dir: "a".into(), named_targets, ..Package::default() };
        let mut findings = Findings::default();
        check(&[package], &mut sources, &mut findings);
        let tests = sources.into_values().filter(|source| source.is_test).map(|s| s.path);
        (findings.paths(), tests.collect())
    }

    #[test]
    fn modules_are_followed_into_files_and_folders() {
        let files = [
            ("a/src/lib.rs", "mod b; mod c; mod d { mod e; }"),
            ("a/src/b.rs", "mod f;"),
            ("a/src/b/f.rs", ""),
            ("a/src/c/mod.rs", "mod g;"),
            ("a/src/c/g.rs", ""),
            ("a/src/d/e.rs", ""),
        ];
        assert_eq!(reach(&files, &[]), (vec![], vec![]));
    }

    #[test]
    fn a_file_without_mod_is_dead() {
        let files = [("a/src/lib.rs", "// mod b;\n"), ("a/src/b.rs", ""), ("z.rs", "")];
        assert_eq!(reach(&files, &[]).0, ["a/src/b.rs", "z.rs"]);
    }

    #[test]
    fn path_attributes_and_includes_lead_somewhere() {
        let files = [
            ("a/src/lib.rs", "#[path = \"x/y.rs\"] mod b; include!(\"../data/z.rs\");"),
            ("a/src/x/y.rs", "mod w;"),
            ("a/src/x/w.rs", ""),
            ("a/data/z.rs", ""),
        ];
        assert_eq!(reach(&files, &[]), (vec![], vec![]));
    }

    #[test]
    fn tests_benches_and_test_modules_are_tests() {
        let files = [
            ("a/benches/b.rs", ""),
            ("a/examples/e.rs", ""),
            ("a/src/lib.rs", "#[cfg(test)] mod tests; mod both;"),
            ("a/src/both.rs", ""),
            ("a/src/tests.rs", "mod more;"),
            ("a/src/tests/more.rs", ""),
            ("a/tests/common/mod.rs", ""),
            ("a/tests/t.rs", "mod common; #[path = \"../src/both.rs\"] mod both;"),
        ];
        let tests = ["a/benches/b.rs", "a/src/tests.rs", "a/src/tests/more.rs"];
        let tests = [&tests[..], &["a/tests/common/mod.rs", "a/tests/t.rs"]].concat();
        assert_eq!(reach(&files, &[]), (vec![], tests.into_iter().map(String::from).collect()));
    }

    #[test]
    fn targets_named_in_the_manifest_are_roots() {
        let files = [("a/odd/main.rs", "mod b;"), ("a/odd/b.rs", "")];
        assert_eq!(reach(&files, &[("odd/main.rs", false)]).0, [""; 0]);
    }

    #[test]
    fn dots_are_taken_out_of_paths() {
        assert_eq!(join("a/b", "../c/./d.md"), "a/c/d.md");
        assert_eq!(join("", "../x"), "../x");
    }
}
