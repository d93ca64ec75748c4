//! Records the page allocator of the running kernel into a folder.
//!
//! [`record`] reads from top to bottom as it happens: everything that needs memory is prepared,
//! tracing is turned on, the state before is read, the workload runs, the state after is read,
//! tracing is turned off; only then is anything decoded, put together and written. All tracing
//! goes on in an instance of our own, so that other tracers and their settings are not touched.
//! Guards undo each step when a later one fails: readers end, the instance goes, the unfinished
//! folder goes, a tracefs mounted here is unmounted, in this order.

mod assemble;
mod capture;
mod census;
mod clock;
mod error;
mod events;
mod folder;
mod instance;
mod machine;
pub mod meta;
mod owner;
mod ringstats;
mod session;
mod spool;
mod stop;
mod tracefs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use clock::Clock;
pub use error::RecordError;
pub use events::{GROUPS_DEFAULT, LOCK_EVENTS, PAGE_EVENTS, RECLAIM_EVENTS};
use meta::Meta;
pub use ringstats::RingStats;
use session::Session;
use tracefs::Tracefs;

/// Ring buffer of a CPU in KB: a quarter of a second at a million page events a second.
pub const BUFFER_KB_DEFAULT: u32 = 8192;
/// The kernel's own default of `buffer_percent`.
pub const BUFFER_PERCENT_DEFAULT: u8 = 50;

/// When to stop by itself. A signal stops any recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Never: a signal does.
    Signal,
    /// After this time.
    Duration(Duration),
    /// When this program, given with its arguments, has ended.
    Command(Vec<OsString>),
}

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder to be made.
    pub out: PathBuf,
    /// When to stop.
    pub until: Until,
    /// Ring buffer of each CPU, in KB, at least 64.
    pub buffer_kb: u32,
    /// How full a buffer gets before its reader is woken, 1 to 100.
    pub buffer_percent: u8,
    /// Groups (`page`, `lock`, `compaction`, `reclaim`), systems, or `SYSTEM:EVENT`.
    pub events: Vec<String>,
    /// Trace clock.
    pub clock: Clock,
    /// Read `/proc/kpageflags` before and after.
    pub kpageflags: bool,
    /// Write `trace.dat.zst` with this level instead of `trace.dat`.
    pub zstd_level: Option<i32>,
}

/// What a recording tells whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Something worth a line of its own.
    Note(&'a str),
    /// Recording: bytes read so far and whether events were lost.
    Recording {
        /// Time since tracing began.
        elapsed: Duration,
        /// Bytes of ring-buffer pages.
        bytes: u64,
        /// Events were lost.
        lost: bool,
    },
    /// Putting the file together.
    Writing {
        /// Bytes done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// A finished recording.
#[derive(Debug)]
pub struct Summary {
    /// The folder.
    pub folder: PathBuf,
    /// What its file `meta` says.
    pub meta: Meta,
    /// False when the command ended with another status than 0, or by a signal.
    pub command_succeeded: bool,
}

/// Records. `progress` is called with [`Progress::Recording`] only when `watched`: otherwise the
/// recorder sleeps until the end.
///
/// # Errors
/// See [`RecordError`]; nothing is left behind then, but what [`clean`] removes after a SIGKILL.
pub fn record(
    options: &Options,
    watched: bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Summary, RecordError> {
    require_root()?;
    Session::prepare(options, progress)?.run(watched, progress)
}

fn require_root() -> Result<(), RecordError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(RecordError::NotRoot) }
}

/// Removes what killed recordings left: their trace instances and, for a recording into `out`, its
/// unfinished folder. Returns what was removed.
///
/// # Errors
/// When something cannot be removed, such as an instance that is still read.
pub fn clean(out: Option<&Path>) -> Result<Vec<PathBuf>, RecordError> {
    require_root()?;
    let tracefs = Tracefs::find_or_mount()?;
    let mut removed = instance::remove_stale(&tracefs)?;
    if let Some(out) = out {
        removed.extend(folder::remove_partial(out)?);
    }
    Ok(removed)
}
