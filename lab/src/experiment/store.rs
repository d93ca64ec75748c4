//! Results that were computed before, one small file each.
//!
//! A file is named by the hash of the cell's key and holds that key: a result is used only if its
//! key is the one asked for and its sum is right. Anything else is computed anew, written over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::outcome::CellResult;
use crate::fnv;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    sum: String,
    result: CellResult,
}

/// Longest entry that is read, bytes; ten times what one has.
const ENTRY_BYTES_MAX: u64 = 256 << 10;

impl Store {
    /// The store in a folder, which need not exist yet.
    #[must_use]
    pub fn at(folder: &Path) -> Store {
        Store { folder: folder.to_path_buf() }
    }

    /// Where results are kept unless told otherwise: `$XDG_CACHE_HOME/pageyard`, else
    /// `~/.cache/pageyard`; nowhere without a home.
    #[must_use]
    pub fn default_folder() -> Option<PathBuf> {
        let absolute = |name| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Some(cache?.join("pageyard"))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// File of a key.
    #[must_use]
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:032x}.json", fnv::hash(key.as_bytes())))
    }

    /// The stored result of a key; `None` also if the entry is damaged or of another key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<CellResult> {
        let path = self.path(key);
        if fs::metadata(&path).ok()?.len() > ENTRY_BYTES_MAX {
            return None;
        }
        let entry: Entry = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let is_whole = entry.key == key && sum(&entry.result).ok()? == entry.sum;
        is_whole.then_some(entry.result)
    }

    /// Stores a result, all or nothing.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn put(&self, key: &str, result: &CellResult) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let entry = Entry { key: key.to_string(), sum: sum(result)?, result: result.clone() };
        let path = self.path(key);
        // Its own name for each process: two may store the same cell.
        let partial = path.with_extension(format!("{}.partial", std::process::id()));
        let text = serde_json::to_vec_pretty(&entry)?;
        let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            // What is left of it is of no use; the error that matters is the first.
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

fn sum(result: &CellResult) -> io::Result<String> {
    Ok(format!("{:032x}", fnv::hash(&serde_json::to_vec(result)?)))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
