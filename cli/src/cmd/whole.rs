//! Files that appear whole under their name, or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// Writes a file by way of a temporary name beside it.
///
/// # Errors
/// It cannot be written; what was there before is as it was.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let Some(name) = path.file_name() else {
        bail!("{}: names no file", path.display());
    };
    if path.is_dir() {
        bail!("{}: is a folder; name a file", path.display());
    }
    // Its own name for each process, and the user's own rights: others may read a report.
    let mut partial = name.to_os_string();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(partial);
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // What is left of it is of no use; the error that matters is the first.
        let _ = fs::remove_file(&partial);
    }
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("none/page.html"), "x").unwrap_err();
        assert!(error.to_string().contains("none/page.html"), "{error}");
        assert!(write(folder.path(), "x").unwrap_err().to_string().contains("is a folder"));
    }
}
