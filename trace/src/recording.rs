//! A recording: one file, or a folder with a trace and what was read around it.

mod extras;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dat::Data;
use crate::dat::feed::DatFeed;
use crate::dat::file::{DatFile, MAGIC};
use crate::error::{At, Damage, Fault, TraceError};
use crate::perf::feed::PerfFeed;
use crate::perf::{MAGICS, PerfFile};
use crate::reader::EventReader;
use crate::snapshot::{BuddyInfo, KPageFlags, NumaStat, PageTypeInfo, Snapshot, VmStat, ZoneInfo};
use crate::source::{self, Consumed, Source};
use crate::text::{self, TextFeed};
pub use extras::{Cache, ReadTime, RingStats};

/// Bytes of a file's start by which its format is told.
const HEAD_BYTES: u64 = 64 << 10;
/// Largest small text file of a folder that is read (zoneinfo of 512 CPUs is about 1 MiB).
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Largest kpageflags that is read, decompressed: 64 TiB of memory at 8 bytes a page. Only a bit
/// a page is kept.
const KPAGEFLAGS_BYTES_MAX: u64 = 128 << 30;

/// What kind of file the trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ftrace text, `trace-cmd report` or `perf script`.
    Text,
    /// `trace.dat` of trace-cmd or of `pageyard record`, version 6 or 7.
    TraceDat,
    /// `perf.data` of `perf record`, from a file or a pipe.
    PerfData,
}

impl Format {
    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::TraceDat => "trace.dat",
            Format::PerfData => "perf.data",
        }
    }
}

/// A recording of a kernel's page allocator.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    trace: PathBuf,
    format: Format,
    dat: Option<Arc<DatFile>>,
    perf: Option<Arc<PerfFile>>,
    kernel: Option<String>,
    clock: Option<String>,
    /// What ran while it was recorded, in its maker's words.
    pub command: Option<String>,
    /// State before the first event (or early in the traced window).
    pub before: Option<Snapshot>,
    /// State after the last event (or late in the traced window).
    pub after: Option<Snapshot>,
    /// Caches per CPU, as the folder's file `caches` lists them.
    pub caches: Vec<Cache>,
    /// The ring buffer's own statistics by CPU.
    pub ring_stats: Vec<RingStats>,
    /// When each snapshot was read; empty where the recording does not say.
    pub read_times: Vec<ReadTime>,
    sysctl: Vec<(String, String)>,
    /// Unreadable parts of the small files: name, and what is wrong.
    pub damage: Vec<(String, Fault)>,
}

impl Recording {
    /// Opens a file of any format, or a folder.
    ///
    /// # Errors
    /// When there is no trace, it cannot be read, or it is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Recording, TraceError> {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path).map_err(|e| TraceError::io(path, "open", e))?;
        let trace = if metadata.is_dir() { trace_in(path)? } else { path.to_path_buf() };
        let format = detect(&trace)?;
        let mut recording = Recording {
            path: path.to_path_buf(),
            trace,
            format,
            dat: None,
            perf: None,
            kernel: None,
            clock: None,
            command: None,
            before: None,
            after: None,
            caches: Vec::new(),
            ring_stats: Vec::new(),
            read_times: Vec::new(),
            sysctl: Vec::new(),
            damage: Vec::new(),
        };
        match format {
            Format::Text => {}
            Format::TraceDat => recording.open_dat()?,
            Format::PerfData => recording.open_perf()?,
        }
        if metadata.is_dir() {
            recording.read_folder(path);
        }
        Ok(recording)
    }

    /// The file's or folder's name.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.path.canonicalize().ok();
        let name = name.as_deref().unwrap_or(&self.path).file_name().map(|n| n.to_string_lossy());
        name.map_or_else(|| self.path.display().to_string(), |name| name.into_owned())
    }

    /// The path given to [`Recording::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that holds the events.
    #[must_use]
    pub fn trace_path(&self) -> &Path {
        &self.trace
    }

    /// The trace's format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The format with its version, for people.
    #[must_use]
    pub fn format_name(&self) -> String {
        match &self.dat {
            Some(dat) => format!("{} version {}", self.format.name(), dat.version),
            None => self.format.name().to_string(),
        }
    }

    /// Release of the recorded kernel (`uname -r`), where the recording says it.
    #[must_use]
    pub fn kernel(&self) -> Option<&str> {
        self.kernel.as_deref()
    }

    /// The trace clock, where the recording says it (`mono`, `local`, …).
    #[must_use]
    pub fn clock(&self) -> Option<&str> {
        self.clock.as_deref()
    }

    /// A kernel setting by name, as `vm.min_free_kbytes`.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        self.sysctl.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// When a file of a snapshot, as `vmstat.before`, was read: from before its first piece to
    /// after its last, by the recording's clock. `None` where the recording does not say.
    #[must_use]
    pub fn read_time(&self, file: &str) -> Option<std::ops::RangeInclusive<u64>> {
        let pieces = self.read_times.iter().filter(|time| time.file == file);
        let ends = |range: Option<(u64, u64)>, time: &ReadTime| {
            let (begin, end) = range.unwrap_or((time.begin_ns, time.end_ns));
            Some((begin.min(time.begin_ns), end.max(time.end_ns)))
        };
        pieces.fold(None, ends).map(|(begin, end)| begin..=end)
    }

    /// Another small file of the folder by name, as `meta` or `cmdline`; `None` where it is not
    /// there or the recording is a lone file.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<String> {
        if self.path == self.trace || name.contains(['/', '\\']) {
            return None;
        }
        let (bytes, _) = source::read_limited(&self.path.join(name), TEXT_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A fresh pass over the events.
    ///
    /// # Errors
    /// When the file cannot be opened, or not even its first part can be read.
    pub fn events(&self) -> Result<EventReader, TraceError> {
        match self.format {
            Format::Text => {
                let source = Source::open(&self.trace)?;
                let (consumed, total) = (source.consumed.clone(), source.total);
                let feed = TextFeed::new(&self.trace, source);
                Ok(EventReader::new(Box::new(feed), consumed, total))
            }
            Format::TraceDat => {
                let file = self.dat.clone().ok_or_else(|| self.no_container())?;
                let total = file.lanes.iter().map(|lane| lane.size).sum();
                let consumed = Consumed::default();
                let feed = DatFeed::new(file, consumed.clone());
                Ok(EventReader::new(Box::new(feed), consumed, total))
            }
            Format::PerfData => {
                let file = self.perf.clone().ok_or_else(|| self.no_container())?;
                let total = file.records.end.saturating_sub(file.records.start);
                let consumed = Consumed::default();
                let feed = PerfFeed::new(file, consumed.clone());
                Ok(EventReader::new(Box::new(feed), consumed, total))
            }
        }
    }

    fn no_container(&self) -> TraceError {
        TraceError::damaged(&self.trace, At::Byte(0), "opened without its head")
    }

    fn open_dat(&mut self) -> Result<(), TraceError> {
        let (file, length) = source::seekable(&self.trace)?;
        let data = Data::File(Arc::new(file), length);
        let dat = DatFile::open(data)
            .map_err(|fault| TraceError::damaged(&self.trace, fault.at, fault.what))?;
        self.kernel = dat.options.release().map(str::to_string);
        self.clock = dat.options.clock.clone();
        self.ring_stats = extras::ring_stats_by_cpu(&dat.options.cpu_stats);
        self.dat = Some(Arc::new(dat));
        Ok(())
    }

    fn open_perf(&mut self) -> Result<(), TraceError> {
        let (file, length) = source::seekable(&self.trace)?;
        let perf = PerfFile::open(Data::File(Arc::new(file), length))
            .map_err(|fault| TraceError::damaged(&self.trace, fault.at, fault.what))?;
        self.kernel.clone_from(&perf.release);
        self.perf = Some(Arc::new(perf));
        Ok(())
    }

    fn read_folder(&mut self, folder: &Path) {
        self.kernel = self.small(folder, "kernel").map(|text| text.trim().to_string());
        self.command = self.small(folder, "command").map(|text| text.trim().to_string());
        for (name, value) in self.parsed(folder, "sysctl", extras::sysctl).unwrap_or_default() {
            self.sysctl.push((name, value));
        }
        self.caches = self.parsed(folder, "caches", extras::caches).unwrap_or_default();
        if let Some(stats) = self.parsed(folder, "ringstats", extras::ring_stats) {
            self.ring_stats = stats;
        }
        let times = self.parsed(folder, "snapshots", extras::read_times);
        self.read_times = times.unwrap_or_default();
        self.before = self.snapshot(folder, "before");
        self.after = self.snapshot(folder, "after");
    }

    fn snapshot(&mut self, folder: &Path, when: &str) -> Option<Snapshot> {
        let known = self.damage.len();
        let file = |kind: &str| format!("{kind}.{when}");
        let mut snapshot = Snapshot {
            zoneinfo: self.parsed(folder, &file("zoneinfo"), ZoneInfo::read),
            buddyinfo: self.parsed(folder, &file("buddyinfo"), BuddyInfo::read),
            pagetypeinfo: self.parsed(folder, &file("pagetypeinfo"), PageTypeInfo::read),
            vmstat: self.parsed(folder, &file("vmstat"), VmStat::read),
            numastat: self.parsed(folder, &file("numastat"), NumaStat::read),
            kpageflags: self.kpageflags(folder, &file("kpageflags")),
            damage: Vec::new(),
        };
        snapshot.damage = self.damage[known..].to_vec();
        (!snapshot.is_empty()).then_some(snapshot)
    }

    /// Reads a small file, plain or packed, if it is there.
    fn small(&mut self, folder: &Path, name: &str) -> Option<String> {
        let path = packed_or_plain(folder, name)?;
        match source::read_limited(&path, TEXT_BYTES_MAX) {
            Ok((bytes, problem)) => {
                if let Some(what) = problem {
                    let at = At::Byte(bytes.len() as u64);
                    self.damage.push((name.to_string(), Fault { at, what }));
                }
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(error) => {
                let fault = Fault { at: At::Byte(0), what: error.to_string() };
                self.damage.push((name.to_string(), fault));
                None
            }
        }
    }

    fn parsed<T>(
        &mut self,
        folder: &Path,
        name: &str,
        read: impl FnOnce(&str, &mut Damage) -> T,
    ) -> Option<T> {
        let text = self.small(folder, name)?;
        let mut damage = Damage::default();
        let value = read(&text, &mut damage);
        self.damage.extend(damage.faults().iter().map(|fault| (name.to_string(), fault.clone())));
        Some(value)
    }

    /// kpageflags is streamed: of its 8 bytes a page only one bit is kept.
    fn kpageflags(&mut self, folder: &Path, name: &str) -> Option<KPageFlags> {
        let path = packed_or_plain(folder, name)?;
        let mut damage = Damage::default();
        let flags = Source::open(&path)
            .map(|source| KPageFlags::stream(source.reader, KPAGEFLAGS_BYTES_MAX, &mut damage));
        if let Err(error) = &flags {
            damage.add(At::Byte(0), error.to_string());
        }
        self.damage.extend(damage.faults().iter().map(|fault| (name.to_string(), fault.clone())));
        flags.ok()
    }
}

/// The plain file, else the packed one of the same name.
fn packed_or_plain(folder: &Path, name: &str) -> Option<PathBuf> {
    let candidates = ["", ".zst", ".gz", ".xz"].map(|end| folder.join(format!("{name}{end}")));
    candidates.into_iter().find(|path| path.is_file())
}

/// The trace of a folder: the binary forms first, since they hold more.
fn trace_in(folder: &Path) -> Result<PathBuf, TraceError> {
    let names = ["trace.dat", "perf.data", "trace.txt", "trace"];
    let found = names.iter().find_map(|name| packed_or_plain(folder, name));
    found.ok_or_else(|| TraceError::EmptyFolder { path: folder.to_path_buf() })
}

/// Tells the format by the (unpacked) first bytes.
fn detect(path: &Path) -> Result<Format, TraceError> {
    let (head, problem) = source::read_limited(path, HEAD_BYTES)?;
    if head.starts_with(MAGIC) {
        return Ok(Format::TraceDat);
    }
    if MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return Ok(Format::PerfData);
    }
    if text::looks_like_trace(&head) {
        return Ok(Format::Text);
    }
    let what = match (&head[..], problem) {
        ([], Some(problem)) => problem,
        ([], None) => "the file is empty".to_string(),
        (head, _) => format!("starts with {}", printable(&head[..head.len().min(24)])),
    };
    Err(TraceError::Foreign { path: path.to_path_buf(), what })
}

fn printable(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ' || *byte == b'\n') {
        return format!("{:?}", String::from_utf8_lossy(bytes));
    }
    let hex: Vec<String> = bytes.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    hex.join(" ")
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
