//! The file `meta` of a recording: how it was made, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the folder's format. Raised when a reader of the version before would err.
pub const FORMAT: u32 = 1;

/// How a recording was made. Times are nanoseconds of [`Self::clock`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of Pageyard.
    pub pageyard: String,
    /// Kernel release, version and machine.
    pub kernel: [String; 3],
    /// Bytes of a memory page.
    pub page_bytes: u64,
    /// Name of the trace clock.
    pub clock: String,
    /// When tracing was turned on and off.
    pub window_ns: [u64; 2],
    /// When the recorded part itself began and ended: behind the snapshots before it, ahead of
    /// those after it.
    pub workload_ns: [u64; 2],
    /// Program and arguments that were recorded, if there was a program.
    pub command: Vec<String>,
    /// Its process id.
    pub command_pid: Option<u32>,
    /// How it ended.
    pub command_end: Option<String>,
    /// Why the recording ended.
    pub stopped: String,
    /// Thread ids of the recorder, to tell its own page traffic apart.
    pub recorder_tids: Vec<i32>,
    /// Events that were recorded, how often each happened.
    pub events: BTreeMap<String, u64>,
    /// Events of the recorder's own threads, counted in `events` too.
    pub recorder_events: u64,
    /// Events wanted by default that this kernel does not have.
    pub events_missing: Vec<String>,
    /// Files that could not be read, with the reason.
    pub files_missing: Vec<String>,
    /// Size of the ring buffer of each CPU, in KB.
    pub buffer_kb: u32,
    /// How full it got before its reader was woken, in per cent.
    pub buffer_percent: u8,
    /// CPUs with a buffer.
    pub cpus: Vec<usize>,
    /// Bytes of ring-buffer pages.
    pub trace_bytes: u64,
    /// Bytes of them that hold events.
    pub event_bytes: u64,
    /// Events lost, by the kernel's count: overwritten, dropped, or not committed.
    pub lost_events: u64,
    /// Ring-buffer pages before which events were lost.
    pub pages_after_loss: u64,
    /// False when the spool files went through the page cache and so caused page traffic.
    pub past_page_cache: bool,
}
