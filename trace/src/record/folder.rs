//! The folder of a recording: unfinished under another name, complete under its own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::RecordError;
use super::owner::Owner;

/// Tells whose an unfinished folder is; not part of a complete one.
const OWNER_FILE: &str = "owner";

/// A folder in the making: `DIR.partial`, removed on drop unless it was completed.
#[derive(Debug)]
pub struct Folder {
    out: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl Folder {
    /// Makes `out.partial`.
    ///
    /// # Errors
    /// When either name is taken or the folder cannot be made.
    pub fn create(out: &Path) -> Result<Folder, RecordError> {
        if out.symlink_metadata().is_ok() {
            return Err(RecordError::OutExists { path: out.into() });
        }
        let partial = partial_of(out);
        if partial.symlink_metadata().is_ok() {
            return Err(RecordError::PartialExists { partial, out: out.into() });
        }
        fs::create_dir(&partial)
            .map_err(|reason| RecordError::file("create", &partial, 0, reason))?;
        let folder = Folder { out: out.into(), partial, done: false };
        folder.write(OWNER_FILE, Owner::this().text().as_bytes())?;
        Ok(folder)
    }

    /// Where the files go for now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        let path = self.partial.join(name);
        fs::write(&path, bytes).map_err(|reason| RecordError::file("write", &path, 0, reason))
    }

    /// Gives the folder its own name.
    ///
    /// # Errors
    /// When somebody else took that name meanwhile.
    pub fn complete(mut self) -> Result<PathBuf, RecordError> {
        let _ = fs::remove_file(self.partial.join(OWNER_FILE));
        // rename(2) would replace an empty folder.
        if self.out.symlink_metadata().is_ok() {
            return Err(RecordError::OutExists { path: self.out.clone() });
        }
        fs::rename(&self.partial, &self.out)
            .map_err(|reason| RecordError::file("rename", &self.partial, 0, reason))?;
        self.done = true;
        Ok(self.out.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Removes the unfinished folder that a killed recording into `out` left, if there is one.
///
/// # Errors
/// When its recorder still runs, when no recorder made it, or when it cannot be removed.
pub fn remove_partial(out: &Path) -> Result<Option<PathBuf>, RecordError> {
    let partial = partial_of(out);
    if partial.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = fs::read_to_string(partial.join(OWNER_FILE)).unwrap_or_default();
    let Some(owner) = Owner::parse(&text) else {
        return Err(RecordError::PartialForeign { partial });
    };
    if owner.alive() {
        return Err(RecordError::PartialInUse { partial, pid: owner.pid });
    }
    fs::remove_dir_all(&partial)
        .map_err(|reason| RecordError::file("remove", &partial, 0, reason))?;
    Ok(Some(partial))
}

fn partial_of(out: &Path) -> PathBuf {
    // A trailing slash would put the suffix inside the folder.
    let plain: PathBuf = out.components().collect();
    let mut name: OsString = plain.into_os_string();
    name.push(".partial");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("pageyard-folder-{}-{name}", Owner::this().pid));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn an_unfinished_folder_vanishes_and_a_complete_one_stays() {
        let base = scratch("stays");
        let out = base.join("out");
        let folder = Folder::create(&out).unwrap();
        folder.write("kernel", b"6\n").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);

        let folder = Folder::create(&out).unwrap();
        folder.write("kernel", b"6\n").unwrap();
        assert!(!out.exists());
        assert_eq!(folder.complete().unwrap(), out);
        let names: Vec<_> = fs::read_dir(&out).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["kernel"]);
        assert!(matches!(Folder::create(&out), Err(RecordError::OutExists { .. })));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn clean_removes_only_what_a_dead_recorder_left() {
        let base = scratch("clean");
        let out = base.join("out/");
        let partial = base.join("out.partial");
        assert_eq!(remove_partial(&out).unwrap(), None);
        let folder = Folder::create(&out).unwrap();
        assert!(matches!(Folder::create(&out), Err(RecordError::PartialExists { .. })));
        assert!(matches!(remove_partial(&out), Err(RecordError::PartialInUse { .. })));
        let dead = Owner { start_ticks: u64::MAX, ..Owner::this() };
        folder.write(OWNER_FILE, dead.text().as_bytes()).unwrap();
        assert_eq!(remove_partial(&out).unwrap(), Some(partial.clone()));
        fs::create_dir(&partial).unwrap();
        assert!(matches!(remove_partial(&out), Err(RecordError::PartialForeign { .. })));
        fs::remove_dir_all(base).unwrap();
    }
}
