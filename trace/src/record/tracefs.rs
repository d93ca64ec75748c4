//! Finds tracefs, or mounts it for as long as the recording lasts.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use super::error::RecordError;

/// Where Linux expects tracefs (`Documentation/trace/ftrace.rst`).
const USUAL: &str = "/sys/kernel/tracing";

/// A mounted tracefs. One that was mounted here is unmounted on drop, if nobody else uses it.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    mounted_here: bool,
}

impl Tracefs {
    /// Finds the tracefs in use or mounts one on `/sys/kernel/tracing`.
    ///
    /// # Errors
    /// When there is none and none can be mounted, or the kernel is locked down.
    pub fn find_or_mount() -> Result<Tracefs, RecordError> {
        if let Some(mode) = lockdown_confidential() {
            return Err(RecordError::LockedDown { mode });
        }
        if let Some(root) = mounted() {
            return Ok(Tracefs { root, mounted_here: false });
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("nodev", USUAL, "tracefs", flags, None)
            .map_err(|errno| RecordError::NoTracefs { reason: io::Error::from(errno) })?;
        Ok(Tracefs { root: USUAL.into(), mounted_here: true })
    }

    /// Its top folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// True when it was not mounted before.
    #[must_use]
    pub fn mounted_here(&self) -> bool {
        self.mounted_here
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.mounted_here {
            // Busy means that somebody else has begun to use it: then it is theirs now.
            let _ = rustix::mount::unmount(&self.root, UnmountFlags::empty());
        }
    }
}

/// Contents of a tracefs file. Some of them, such as `events/header_page`, answer the first read(2)
/// only, so that it must be a large one.
///
/// # Errors
/// As open(2) and read(2).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The mode in force when it forbids tracefs. Integrity mode allows it.
fn lockdown_confidential() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    text.contains("[confidentiality]").then(|| text.trim().to_string())
}

/// The first tracefs of the mount table, the usual place before others.
fn mounted() -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    mounted_in(&table)
}

fn mounted_in(table: &str) -> Option<PathBuf> {
    let mut found = None;
    for line in table.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some("tracefs")) = (words.next(), words.next()) else {
            continue;
        };
        if place == USUAL {
            return Some(place.into());
        }
        // The table writes a blank in a path as \040: such a place is not ours to decode.
        if found.is_none() && !place.contains('\\') {
            found = Some(place.into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::mounted_in;

    #[test]
    fn the_usual_place_wins_over_the_one_below_debugfs() {
        let debug = "tracefs /sys/kernel/debug/tracing tracefs rw 0 0\n";
        let usual = "nodev /sys/kernel/tracing tracefs rw 0 0\n";
        let other = "proc /proc proc rw 0 0\n";
        assert_eq!(mounted_in(other), None);
        assert_eq!(mounted_in(debug).unwrap().to_str(), Some("/sys/kernel/debug/tracing"));
        let both = format!("{debug}{other}{usual}");
        assert_eq!(mounted_in(&both).unwrap().to_str(), Some("/sys/kernel/tracing"));
    }
}
