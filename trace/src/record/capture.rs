//! Snapshots of the allocator's state from /proc and /sys, each with the time it was read.
//!
//! Both sets are read while the events are being recorded. In a set the small files come first;
//! `zoneinfo`, `buddyinfo` and `/proc/kpageflags`, which must agree with each other, follow one
//! another at the end. The flags take a tenth of a second for 10 GB of memory; each piece of them
//! has a time of its own. Everything stays in memory, touched before tracing began, until tracing
//! is off.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use zstd::bulk::Compressor;

use super::clock::Clock;
use super::instance::Instance;

/// The text files of a set, in the order in which they are read.
const TEXT_FILES: &[(&str, &str)] = &[
    ("pagetypeinfo", "/proc/pagetypeinfo"),
    ("vmstat", "/proc/vmstat"),
    ("zoneinfo", "/proc/zoneinfo"),
    ("buddyinfo", "/proc/buddyinfo"),
];
const NODES: &str = "/sys/devices/system/node";
const KPAGEFLAGS: &str = "/proc/kpageflags";
/// Bytes of a read, and thus of one timed piece: the flags of 131072 pages.
const PIECE_BYTES: usize = 1 << 20;
/// Fast enough not to stretch the reading: 50 MB take 0.05 s and become 0.12 MB.
const ZSTD_LEVEL: i32 = 3;
/// Room touched beforehand for a text file and for compressed flags; both may grow.
const TEXT_BYTES: usize = 256 << 10;
const FLAGS_BYTES: usize = 1 << 20;

/// When a piece of a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    file: String,
    first_byte: u64,
    bytes: u64,
    begin_ns: u64,
    end_ns: u64,
}

/// A file of a snapshot: its name in the recording and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Such as `zoneinfo.before`.
    pub name: String,
    /// As the kernel wrote it; flags are compressed.
    pub bytes: Vec<u8>,
}

/// Takes the snapshots and holds them.
pub struct Capture {
    clock: Clock,
    kpageflags: bool,
    nodes: Vec<(String, PathBuf)>,
    scratch: Vec<u8>,
    packer: Compressor<'static>,
    packed: Vec<u8>,
    spare: Vec<Vec<u8>>,
    marker: Option<File>,
    readings: Vec<Reading>,
    shots: Vec<Shot>,
    missing: Vec<String>,
}

impl Capture {
    /// Prepares the memory. Notes in the event stream, by the instance's `trace_marker`, are left
    /// out where the kernel has none.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn prepare(instance: &Instance, clock: Clock, kpageflags: bool) -> io::Result<Capture> {
        let text_files = (TEXT_FILES.len() + 1) * 2;
        let mut spare: Vec<Vec<u8>> = (0..text_files).map(|_| touched(TEXT_BYTES)).collect();
        if kpageflags {
            // Taken from the end, as [`Self::take`] does: flags come last in a set.
            spare.insert(0, touched(FLAGS_BYTES));
            spare.insert(text_files / 2 + 1, touched(FLAGS_BYTES));
        }
        let marker = OpenOptions::new().write(true).open(instance.path().join("trace_marker"));
        let scratch = vec![1; PIECE_BYTES];
        let mut packed = vec![1; zstd::zstd_safe::compress_bound(PIECE_BYTES)];
        let mut packer = Compressor::new(ZSTD_LEVEL)?;
        // Once for nothing: the compressor gets its memory at its first use.
        packer.compress_to_buffer(&scratch, &mut packed)?;
        Ok(Capture {
            clock,
            kpageflags,
            nodes: nodes(),
            scratch,
            packer,
            packed,
            spare,
            marker: marker.ok(),
            readings: Vec::with_capacity(4096),
            shots: Vec::with_capacity(16),
            missing: Vec::new(),
        })
    }

    /// Takes one set. A file that cannot be read is left out and named by [`Self::missing`].
    pub fn take(&mut self, when: &str) {
        if !self.nodes.is_empty() {
            self.shot(format!("numastat.{when}"), Capture::read_numastat);
        }
        for (name, path) in TEXT_FILES {
            let name = format!("{name}.{when}");
            self.shot(name, |capture, name, out| capture.read_text(name, path, out));
        }
        if self.kpageflags {
            self.shot(format!("kpageflags.{when}.zst"), Capture::read_flags);
        }
    }

    fn shot(
        &mut self,
        name: String,
        read: impl FnOnce(&mut Capture, &str, Vec<u8>) -> io::Result<Vec<u8>>,
    ) {
        let out = self.spare.pop().unwrap_or_default();
        self.mark(&name, "begins");
        let readings = self.readings.len();
        match read(self, &name, out) {
            Ok(bytes) => {
                self.mark(&name, "ends");
                self.shots.push(Shot { name, bytes });
            }
            Err(error) => {
                self.readings.truncate(readings);
                self.missing.push(format!("{name}: {error}"));
            }
        }
    }

    fn mark(&mut self, name: &str, what: &str) {
        if let Some(marker) = &mut self.marker {
            // A note for readers of the events; the times themselves are in `snapshots`.
            let _ = marker.write_all(format!("pageyard: {name} {what}\n").as_bytes());
        }
    }

    fn read_text(&mut self, name: &str, path: &str, mut out: Vec<u8>) -> io::Result<Vec<u8>> {
        let begin_ns = self.clock.now_ns();
        append(&mut self.scratch, path.as_ref(), &mut out)?;
        self.note(name, 0, out.len() as u64, begin_ns);
        Ok(out)
    }

    fn read_numastat(&mut self, name: &str, mut out: Vec<u8>) -> io::Result<Vec<u8>> {
        let begin_ns = self.clock.now_ns();
        for (node, path) in &self.nodes {
            out.extend_from_slice(node.as_bytes());
            out.push(b'\n');
            append(&mut self.scratch, path, &mut out)?;
        }
        self.note(name, 0, out.len() as u64, begin_ns);
        Ok(out)
    }

    /// Each piece becomes a zstd frame of its own; frames in a row are a zstd file.
    fn read_flags(&mut self, name: &str, mut out: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut file = File::open(KPAGEFLAGS)?;
        let name = name.trim_end_matches(".zst");
        let mut at = 0;
        loop {
            let begin_ns = self.clock.now_ns();
            let read = file.read(&mut self.scratch)?;
            if read == 0 {
                return Ok(out);
            }
            self.note(name, at, read as u64, begin_ns);
            let packed = self.packer.compress_to_buffer(&self.scratch[..read], &mut self.packed)?;
            out.extend_from_slice(&self.packed[..packed]);
            at += read as u64;
        }
    }

    fn note(&mut self, file: &str, first_byte: u64, bytes: u64, begin_ns: u64) {
        let (file, end_ns) = (file.to_string(), self.clock.now_ns());
        self.readings.push(Reading { file, first_byte, bytes, begin_ns, end_ns });
    }

    /// Lets go of the instance, which could not be removed otherwise.
    pub fn close(&mut self) {
        self.marker = None;
    }

    /// The files of all sets.
    #[must_use]
    pub fn shots(&self) -> &[Shot] {
        &self.shots
    }

    /// What could not be read, with the reason.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The text of the file `snapshots`: when each piece was read.
    #[must_use]
    pub fn times(&self) -> String {
        let clock = self.clock.name();
        let mut text = format!("# file first_byte bytes begin_ns end_ns (trace clock {clock})\n");
        for Reading { file, first_byte, bytes, begin_ns, end_ns } in &self.readings {
            let _ = writeln!(text, "{file} {first_byte} {bytes} {begin_ns} {end_ns}");
        }
        text
    }
}

/// Memory that the kernel has already given: zeroed memory comes at its first use only.
fn touched(bytes: usize) -> Vec<u8> {
    let mut memory = vec![1; bytes];
    memory.clear();
    memory
}

fn append(scratch: &mut [u8], path: &std::path::Path, out: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::open(path)?;
    loop {
        match file.read(scratch) {
            Ok(0) => return Ok(()),
            Ok(read) => out.extend_from_slice(&scratch[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The nodes and their counter files, by number.
fn nodes() -> Vec<(String, PathBuf)> {
    let mut nodes: Vec<(u32, PathBuf)> = fs::read_dir(NODES)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((number, entry.path().join("numastat")))
        })
        .collect();
    nodes.sort();
    nodes.into_iter().map(|(number, path)| (format!("node{number}"), path)).collect()
}
