//! Why a recording could not be made, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::dat::write::WriteError;

/// Why a recording could not be made. Every message says what to do.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Tracing needs root.
    #[error(
        "recording reads kernel trace buffers and /proc/kpageflags, which takes root: use sudo"
    )]
    NotRoot,
    /// The output folder is there already.
    #[error("{} exists already: choose another folder with -o, or remove it", path.display())]
    OutExists {
        /// The folder.
        path: PathBuf,
    },
    /// A recording that was killed left its unfinished folder, or one is running.
    #[error(
        "{} is there: another recording into it is running, or was killed; if it was, run \
         `pageyard record --clean -o {}`",
        partial.display(), out.display()
    )]
    PartialExists {
        /// The unfinished folder.
        partial: PathBuf,
        /// The folder it would have become.
        out: PathBuf,
    },
    /// An unfinished folder belongs to a recording that runs.
    #[error("{} belongs to process {pid}, which is still recording", partial.display())]
    PartialInUse {
        /// The unfinished folder.
        partial: PathBuf,
        /// The recorder.
        pid: u32,
    },
    /// A folder that `--clean` was pointed at was not made by the recorder.
    #[error("{} has no file `owner`, so no recorder made it: not removed", partial.display())]
    PartialForeign {
        /// The folder.
        partial: PathBuf,
    },
    /// No tracefs, and none could be mounted.
    #[error(
        "no tracefs on /sys/kernel/tracing and none can be mounted there ({reason}): the kernel \
         needs CONFIG_TRACING and CONFIG_EVENT_TRACING, a container needs the host's tracefs"
    )]
    NoTracefs {
        /// What mount(2) said.
        reason: io::Error,
    },
    /// Kernel lockdown forbids tracing.
    #[error(
        "the kernel is locked down ({mode}) and refuses tracefs: boot without \
         lockdown=confidentiality, or turn secure boot's lockdown off"
    )]
    LockedDown {
        /// The mode in force.
        mode: String,
    },
    /// The kernel has none of the page events.
    #[error(
        "the kernel has no event kmem:mm_page_alloc under {}: it needs CONFIG_EVENT_TRACING",
        events.display()
    )]
    NoPageEvents {
        /// The `events` folder that was searched.
        events: PathBuf,
    },
    /// `--events` named something that is not there.
    #[error(
        "the kernel has no event {name:?}: give page, lock, compaction, reclaim, SYSTEM or \
         SYSTEM:EVENT as listed in {}",
        list.display()
    )]
    UnknownEvent {
        /// What was asked for.
        name: String,
        /// The `available_events` file.
        list: PathBuf,
    },
    /// The kernel does not know the trace clock.
    #[error("the kernel has no trace clock {clock:?}; it has: {known}")]
    UnknownClock {
        /// The clock asked for.
        clock: &'static str,
        /// The kernel's list.
        known: String,
    },
    /// A tracefs file could not be read or written.
    #[error("cannot {doing} ({}): {reason}", path.display())]
    Tracefs {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// The instance is still there.
    #[error(
        "cannot remove the trace instance {}: {reason}; once nothing reads it, run `pageyard \
         record --clean`",
        path.display()
    )]
    NotRemoved {
        /// The instance.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// The command to be recorded does not start.
    #[error("cannot start {program:?}: {reason}")]
    Command {
        /// Its name.
        program: String,
        /// The reason.
        reason: io::Error,
    },
    /// No room for the recording.
    #[error(
        "the disk of {} is full after {bytes} bytes of trace; nothing was kept. Put -o on a \
         larger file system (a recording needs twice its size while it is put together), record \
         for a shorter time or fewer --events",
        path.display()
    )]
    DiskFull {
        /// The file that had no room.
        path: PathBuf,
        /// Bytes of trace read up to then.
        bytes: u64,
    },
    /// A file of ours could not be read or written.
    #[error("cannot {doing} {}: {reason}", path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// Signals could not be caught, so nothing was started that they could not stop.
    #[error("cannot catch signals or wait for them: {0}")]
    Signals(io::Error),
    /// A second signal came before the recording was complete.
    #[error("stopped by a second signal: nothing was kept")]
    Aborted,
    /// A bug: a thread of the recorder panicked.
    #[error("the thread that read CPU {cpu} panicked (its message is above): please report it")]
    Panicked {
        /// Its CPU.
        cpu: usize,
    },
    /// The pieces do not make a trace.dat.
    #[error(transparent)]
    Dat(#[from] WriteError),
}

impl RecordError {
    /// An error of a file of ours; a full disk is told apart, `bytes` being the trace so far.
    pub(super) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
        bytes: u64,
        reason: io::Error,
    ) -> RecordError {
        let path = path.into();
        match reason.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                RecordError::DiskFull { path, bytes }
            }
            _ => RecordError::File { doing, path, reason },
        }
    }
}
