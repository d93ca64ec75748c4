//! The test binaries of a package and the tests in them, as cargo builds and libtest lists them.
//!
//! Binaries are run without cargo, so that one whose time is over can be stopped for good.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// One built test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestBinary {
    /// Name of the target, unique within its package.
    pub target: String,
    pub path: PathBuf,
    /// Where cargo would run it.
    pub package_dir: PathBuf,
    /// Paths of its tests, as `--list` names them.
    pub tests: Vec<String>,
}

/// Builds the tests of `package` in release and lists them.
pub fn build(root: &Path, package: &str) -> Result<Vec<TestBinary>> {
    let mut command = process::cargo(root);
    command
        .args(["test", "--release", "--no-run", "--package", package])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    let messages = process::stdout(&mut command)?;
    let mut binaries: Vec<TestBinary> = messages.lines().filter_map(binary).collect();
    for binary in &mut binaries {
        let mut list = Command::new(&binary.path);
        list.args(["--list", "--format", "terse"]).current_dir(&binary.package_dir);
        let text = process::stdout(&mut list).context("list tests")?;
        binary.tests = tests(&text);
    }
    binaries.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(binaries)
}

/// The test binary that a message of cargo tells of.
fn binary(line: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    let path = message.get("executable")?.as_str().filter(|_| is_test)?;
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    Some(TestBinary {
        target: message.get("target")?.get("name")?.as_str()?.to_owned(),
        path: path.into(),
        package_dir: manifest.parent()?.to_path_buf(),
        tests: Vec::new(),
    })
}

fn tests(list: &str) -> Vec<String> {
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_count() {
        let message = |test: bool, path: &str| {
            format!(
                r#"{{"target":{{"name":"t"}},"profile":{{"test":{test}}},
                "executable":{path},"manifest_path":"/p/check/Cargo.toml"}}"#
            )
        };
        let found = binary(&message(true, "\"/x/t-1\"")).unwrap();
        assert_eq!((found.target.as_str(), found.package_dir.to_str()), ("t", Some("/p/check")));
        assert_eq!(binary(&message(false, "\"/x/t\"")), None);
        assert_eq!(binary(&message(true, "null")), None);
        assert_eq!(binary("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn benches_in_a_list_are_no_tests() {
        assert_eq!(tests("a::b: test\nc: benchmark\n"), ["a::b"]);
    }
}
