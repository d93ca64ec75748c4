//! Puts a `trace.dat` together from the spool files and the kernel's descriptions of its events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::capture::Shot;
use super::error::RecordError;
use super::events::Choice;
use super::instance::Instance;
use super::spool::CpuSpool;
use super::tracefs;
use crate::dat::write::{Head, System};

/// Bytes copied between two looks at the signals.
const COPY_BYTES: u64 = 16 << 20;

/// Reads the texts that describe the events. The instance must still be there.
///
/// # Errors
/// When the kernel does not give them.
pub fn describe(
    root: &Path,
    instance: &Instance,
    choice: &Choice,
    page_bytes: usize,
) -> Result<Head, RecordError> {
    let mut systems: BTreeMap<&str, System> = BTreeMap::new();
    for event in &choice.events {
        let Some((system, name)) = event.split_once(':') else {
            continue;
        };
        let format = read(&root.join("events").join(system).join(name).join("format"))?;
        let entry = systems.entry(system).or_default();
        entry.name = system.to_string();
        entry.formats.push(format);
    }
    let mut ftrace: Vec<_> = fs::read_dir(root.join("events/ftrace"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("format"))
        .filter(|path| path.exists())
        .collect();
    ftrace.sort();
    let uname = rustix::system::uname();
    // The name of the host is nobody's business: recordings are passed on.
    let uname = format!(
        "{} - {} {}",
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy()
    );
    Ok(Head {
        page_bytes: page_bytes as u32,
        header_page: read(&root.join("events/header_page"))?,
        header_event: read(&root.join("events/header_event"))?,
        ftrace_formats: ftrace.iter().map(|path| read(path)).collect::<Result<_, _>>()?,
        systems: systems.into_values().collect(),
        trace_clock: instance.read("trace_clock", "read the trace clock")?,
        uname,
        version: format!("pageyard {}", env!("CARGO_PKG_VERSION")),
        ..Head::default()
    })
}

fn read(path: &Path) -> Result<Vec<u8>, RecordError> {
    tracefs::read(path).map_err(|reason| {
        let doing = "read the description of an event";
        RecordError::Tracefs { doing, path: path.into(), reason }
    })
}

/// The number of each event of `head`, by `SYSTEM:EVENT`.
#[must_use]
pub fn event_ids(head: &Head) -> BTreeMap<u16, String> {
    let mut ids = BTreeMap::new();
    let ftrace = System { name: "ftrace".to_string(), formats: head.ftrace_formats.clone() };
    for system in head.systems.iter().chain([&ftrace]) {
        for format in &system.formats {
            let text = String::from_utf8_lossy(format);
            let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
            let id = field("ID:").and_then(|id| id.trim().parse().ok());
            if let (Some(id), Some(name)) = (id, field("name:")) {
                ids.insert(id, format!("{}:{}", system.name, name.trim()));
            }
        }
    }
    ids
}

/// Names of tasks, by pid.
pub type Names = BTreeMap<i32, String>;

/// Adds the names of all tasks that live now; a name known already is kept.
pub fn add_living(names: &mut Names) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let is_process = process.file_name().as_encoded_bytes()[0].is_ascii_digit();
        let tasks = is_process.then(|| fs::read_dir(process.path().join("task")));
        for task in tasks.into_iter().flatten().flatten().flatten() {
            let pid = task.file_name().to_str().and_then(|pid| pid.parse().ok());
            if let (Some(pid), Ok(name)) = (pid, fs::read(task.path().join("comm"))) {
                let name = String::from_utf8_lossy(&name).trim_end_matches('\n').to_string();
                names.entry(pid).or_insert(name);
            }
        }
    }
}

/// Adds the names that the kernel noted at task switches, which are newer than any known.
pub fn add_saved(names: &mut Names, root: &Path) {
    let saved = tracefs::read(&root.join("saved_cmdlines")).unwrap_or_default();
    for line in String::from_utf8_lossy(&saved).lines() {
        if let Some((pid, name)) = line.split_once(' ')
            && let Ok(pid) = pid.parse()
            && name != "<...>"
        {
            names.insert(pid, name.to_string());
        }
    }
}

/// Copies the head and the spool files, each removed once it is copied, into `path`.
/// `watch` is told the bytes done, and stops the copy by an error.
///
/// # Errors
/// When the disk is full, or `watch` said so.
pub fn write(
    path: &Path,
    head: &Head,
    spools: &[CpuSpool],
    zstd_level: Option<i32>,
    watch: &mut dyn FnMut(u64) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let cpus = spools.iter().map(|spool| spool.cpu + 1).max().unwrap_or(0);
    let mut cpu_bytes = vec![0; cpus];
    for spool in spools {
        cpu_bytes[spool.cpu] = spool.bytes;
    }
    let total: u64 = cpu_bytes.iter().sum();
    let failed = |reason| RecordError::file("write", path, total, reason);
    let encoded = head.encode(&cpu_bytes)?;
    let mut file = File::create_new(path).map_err(failed)?;
    let Some(level) = zstd_level else {
        file.write_all(&encoded.bytes).map_err(failed)?;
        return copy(&mut file, path, spools, total, watch);
    };
    let mut encoder =
        zstd::stream::write::Encoder::new(BufWriter::new(file), level).map_err(failed)?;
    // Far apart in time, near in content: look further back than the level would.
    encoder.long_distance_matching(true).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    encoder.write_all(&encoded.bytes).map_err(failed)?;
    copy(&mut encoder, path, spools, total, watch)?;
    let buffered = encoder.finish().map_err(failed)?;
    buffered.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(())
}

/// The bytes of a file of a snapshot. Compressed ones were made in haste: with a level given, they
/// are compressed once more.
///
/// # Errors
/// When zstd fails, as for want of memory.
pub fn repack(shot: &Shot, zstd_level: Option<i32>) -> io::Result<Cow<'_, [u8]>> {
    let Some(level) = zstd_level.filter(|_| shot.name.ends_with(".zst")) else {
        return Ok(Cow::Borrowed(&shot.bytes));
    };
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
    encoder.include_checksum(true)?;
    io::copy(&mut zstd::stream::read::Decoder::new(shot.bytes.as_slice())?, &mut encoder)?;
    encoder.finish().map(Cow::Owned)
}

fn copy<W: Write>(
    out: &mut W,
    path: &Path,
    spools: &[CpuSpool],
    total: u64,
    watch: &mut dyn FnMut(u64) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let mut done = 0;
    for spool in spools {
        let file = File::open(&spool.path);
        let file = file.map_err(|reason| RecordError::file("open", &spool.path, total, reason))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut left = spool.bytes;
        while left > 0 {
            watch(done)?;
            let copied = io::copy(&mut reader.by_ref().take(left.min(COPY_BYTES)), out)
                .map_err(|reason| RecordError::file("write", path, total, reason))?;
            if copied == 0 {
                let reason = io::ErrorKind::UnexpectedEof.into();
                return Err(RecordError::file("read all of", &spool.path, total, reason));
            }
            left -= copied;
            done += copied;
        }
        fs::remove_file(&spool.path)
            .map_err(|reason| RecordError::file("remove", &spool.path, total, reason))?;
    }
    Ok(())
}
