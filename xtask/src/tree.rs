//! The source tree as text: which files there are, and what they say.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories never looked into, beside those whose name begins with a dot.
const SKIPPED_DIRS: [&str; 2] = ["target", "node_modules"];
/// Dot directories that belong to the project all the same.
const KEPT_DOT_DIRS: [&str; 3] = [".cargo", ".ci", ".github"];

/// One text file, its path relative to the root and written with `/`.
#[derive(Clone, Debug)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    /// The part of the name after its last dot, or nothing.
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// The workspace root, which is the parent of this crate.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace root").to_path_buf()
}

/// Paths of all files under `root`, relative to it, sorted.
pub fn list(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        let full = root.join(&dir);
        let entries = fs::read_dir(&full).with_context(|| format!("list {}", full.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", full.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && is_kept_dir(&name) {
                open.push(dir.join(name));
            } else if kind.is_file() {
                paths.push(dir.join(name).to_string_lossy().replace('\\', "/"));
            }
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_kept_dir(name: &str) -> bool {
    let hidden = name.starts_with('.') && !KEPT_DOT_DIRS.contains(&name);
    !hidden && !SKIPPED_DIRS.contains(&name)
}

/// Reads those of `paths` that hold text; `None` when the file is binary or has gone away.
pub fn read(root: &Path, path: &str) -> Result<Option<TextFile>> {
    let full = root.join(path);
    let bytes = match fs::read(&full) {
        Ok(bytes) => bytes,
        // Somebody may be editing while we look.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", full.display())),
    };
    let text = String::from_utf8(bytes).ok();
    Ok(text.map(|text| TextFile { path: path.to_owned(), text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_and_built_directories_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/x.rs", "target/y.rs", ".git/z", ".ci/run", "a/.hidden/q.rs"] {
            let full = dir.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, "x").unwrap();
        }
        assert_eq!(list(dir.path()).unwrap(), [".ci/run", "a/x.rs"]);
    }

    #[test]
    fn an_extension_belongs_to_the_name_not_to_the_folder() {
        let file = TextFile { path: "a.b/run".into(), text: String::new() };
        assert_eq!(file.extension(), "");
    }
}
