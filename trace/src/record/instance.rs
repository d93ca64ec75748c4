//! A trace instance of our own, so that no setting of another tracer is touched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::error::RecordError;
use super::owner::Owner;
use super::tracefs::{self, Tracefs};

/// Instances of the recorder are named `pageyard-PID-TICKS`, after their owner.
const NAME_PREFIX: &str = "pageyard-";
/// How often, and how long apart, removal is tried while the kernel says busy.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// A folder under `instances/`, removed on drop. Everything that reads from it must end before.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    present: bool,
}

impl Instance {
    /// Makes an instance that does not trace yet.
    ///
    /// # Errors
    /// When tracefs is read-only, or the kernel has no memory for its buffers.
    pub fn create(tracefs: &Tracefs) -> Result<Instance, RecordError> {
        let name = format!("{NAME_PREFIX}{}", Owner::this().text());
        let path = tracefs.root().join("instances").join(name);
        fs::create_dir(&path).map_err(|reason| RecordError::Tracefs {
            doing: "make a trace instance of our own",
            path: path.clone(),
            reason,
        })?;
        let instance = Instance { path, present: true };
        instance.write("tracing_on", "0", "keep tracing off at first")?;
        Ok(instance)
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a setting; `doing` completes the sentence "cannot …".
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn write(&self, file: &str, text: &str, doing: &'static str) -> Result<(), RecordError> {
        let path = self.path.join(file);
        // Not fs::write: a tracefs file is neither created nor truncated.
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|reason| RecordError::Tracefs { doing, path, reason })
    }

    /// Reads a file of the instance; `doing` completes the sentence "cannot …".
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&self, file: &str, doing: &'static str) -> Result<String, RecordError> {
        let path = self.path.join(file);
        match tracefs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(reason) => Err(RecordError::Tracefs { doing, path, reason }),
        }
    }

    /// The numbers of the CPUs that have a buffer, ascending.
    ///
    /// # Errors
    /// When `per_cpu` cannot be listed.
    pub fn cpus(&self) -> Result<Vec<usize>, RecordError> {
        let path = self.path.join("per_cpu");
        let doing = "list the buffers of the CPUs";
        let entries = fs::read_dir(&path).map_err(|reason| RecordError::Tracefs {
            doing,
            path: path.clone(),
            reason,
        })?;
        let mut cpus: Vec<usize> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// When the kernel says that it is still in use.
    pub fn remove(mut self) -> Result<(), RecordError> {
        self.present = false;
        remove(&self.path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.present {
            let _ = remove(&self.path);
        }
    }
}

/// Removes an instance. The kernel turns its events off itself; it says busy for as long as one of
/// its files is open, and a file just closed may still be on its way out.
fn remove(path: &Path) -> Result<(), RecordError> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < REMOVE_TRIES => {
                tries += 1;
                thread::sleep(REMOVE_PAUSE);
            }
            Err(reason) => {
                return Err(RecordError::NotRemoved { path: path.into(), reason });
            }
        }
    }
}

/// Instances that a killed recorder left behind, by name, sorted.
#[must_use]
pub fn stale(tracefs: &Tracefs) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(tracefs.root().join("instances")) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(NAME_PREFIX));
            owner.and_then(Owner::parse).is_some_and(|owner| !owner.alive())
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Removes what [`stale`] finds and returns it.
///
/// # Errors
/// The first that is still in use, such as one whose recorder runs in another pid namespace.
pub fn remove_stale(tracefs: &Tracefs) -> Result<Vec<PathBuf>, RecordError> {
    let found = stale(tracefs);
    for path in &found {
        remove(path)?;
    }
    Ok(found)
}
