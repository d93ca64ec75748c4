//! `cargo xtask tidy`: the rules of docs/STYLE.md that a machine can count.
//!
//! It runs as a test too, so that nobody has to remember it.

mod docs;
mod manifest;
mod reach;
mod size;
mod source;
mod unsafety;
mod words;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::Verdict;
use crate::tree::{self, TextFile};
use source::Source;

/// A rule that a file may break, and why. Keep it empty; an entry that nothing needs is found.
const EXCEPTIONS: &[Exception] = &[];

struct Exception {
    rule: &'static str,
    path: &'static str,
    reason: &'static str,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

/// All broken rules.
#[derive(Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one; `line` counts from 1.
    fn add(&mut self, rule: &'static str, path: &str, line: usize, message: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, rule, message: message.into() });
    }

    /// Takes out what is excepted, and finds exceptions without use or reason.
    fn except(&mut self, exceptions: &[Exception]) {
        for exception in exceptions {
            let before = self.0.len();
            self.0.retain(|found| found.rule != exception.rule || found.path != exception.path);
            if before == self.0.len() || exception.reason.is_empty() {
                let message = format!("exception from {} without use or reason", exception.rule);
                self.add("stale-exception", exception.path, 1, message);
            }
        }
    }
}

#[cfg(test)]
impl Findings {
    fn rules(&self) -> Vec<&str> {
        self.0.iter().map(|finding| finding.rule).collect()
    }
    fn messages(&self) -> Vec<String> {
        self.0.iter().map(|finding| finding.message.clone()).collect()
    }
    fn paths(&self) -> Vec<String> {
        self.0.iter().map(|finding| finding.path.clone()).collect()
    }
    fn lines(&self) -> Vec<usize> {
        self.0.iter().map(|finding| finding.line).collect()
    }
}

/// Prints each broken rule below `root` as `path:line: rule: message`.
pub fn run(root: &Path) -> Result<Verdict> {
    let (findings, files) = examine(root)?;
    for finding in &findings {
        let Finding { path, line, rule, message } = finding;
        println!("{path}:{line}: {rule}: {message}");
    }
    println!("tidy: {files} files, {} findings", findings.len());
    Ok(if findings.is_empty() { Verdict::Pass } else { Verdict::Fail })
}

/// All broken rules, sorted by place, and the number of text files looked at.
fn examine(root: &Path) -> Result<(Vec<Finding>, usize)> {
    let paths = tree::list(root)?;
    let mut files = Vec::new();
    for path in paths.iter().filter(|path| is_ours(path)) {
        files.extend(tree::read(root, path)?);
    }
    let packages = manifest::load(root)?;
    let mut findings = Findings::default();

    let mut sources: BTreeMap<String, Source> = files
        .iter()
        .filter(|file| file.extension() == "rs")
        .map(|file| (file.path.clone(), Source::new(file)))
        .collect();
    reach::check(&packages, &mut sources, &mut findings);
    for source in sources.values() {
        size::check(source, &mut findings);
        words::check(source, &mut findings);
        unsafety::check(source, &mut findings);
        if source.path == "core/src/lib.rs" {
            words::check_core_root(source, &mut findings);
        }
    }
    let prose: Vec<&TextFile> = files.iter().filter(|file| file.extension() == "md").collect();
    docs::check(&prose, &paths, &mut findings);
    for file in &files {
        if file.extension() == "md" {
            for (index, line) in file.text.lines().enumerate() {
                words::check_homes(&file.path, index + 1, line, &mut findings);
            }
        } else {
            words::check_text(file, &mut findings);
        }
    }
    let reasons = files.iter().find(|file| file.path == manifest::REASONS);
    manifest::check(&packages, reasons.map(|file| file.text.as_str()), &mut findings);

    findings.except(EXCEPTIONS);
    findings.0.sort();
    Ok((findings.0, files.len()))
}

/// Text that we write ourselves; recordings and test data speak for themselves.
fn is_ours(path: &str) -> bool {
    const EXTENSIONS: [&str; 7] = ["rs", "toml", "md", "sh", "yml", "py", "h"];
    let name = path.rsplit('/').next().unwrap_or_default();
    let known = name.rsplit_once('.').is_some_and(|(_, e)| EXTENSIONS.contains(&e));
    let data = path.starts_with("traces/") && !path.ends_with(".md");
    (known || path.starts_with(".ci/")) && !data && !path.contains("/tests/data/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let (findings, files) = examine(&tree::root()).unwrap();
        assert!(files > 20, "only {files} files seen: is this the right folder?");
        let shown: Vec<String> = findings
            .iter()
            .map(|f| format!("{}:{}: {}: {}", f.path, f.line, f.rule, f.message))
            .collect();
        assert!(findings.is_empty(), "run `cargo xtask tidy`:\n{}", shown.join("\n"));
    }

    #[test]
    fn recordings_and_test_data_are_not_judged() {
        assert!(is_ours("core/src/lib.rs") && is_ours(".ci/run") && is_ours("traces/README.md"));
        assert!(!is_ours("traces/x/command.sh") && !is_ours("trace/tests/data/x.md"));
        assert!(!is_ours("traces/x/kernel") && !is_ours("Cargo.lock"));
    }

    #[test]
    fn an_exception_hides_what_it_names_and_must_be_needed() {
        let exception = |path| Exception { rule: "links", path, reason: "shown" };
        let mut findings = Findings::default();
        findings.add("links", "a.md", 3, "x");
        findings.add("unfinished", "a.md", 3, "y");
        findings.except(&[exception("a.md"), exception("b.md")]);
        assert_eq!(findings.rules(), ["unfinished", "stale-exception"]);
    }
}
