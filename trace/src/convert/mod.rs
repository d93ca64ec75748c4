//! Writes a recording anew: as ftrace text or trace.dat, whole or a piece of it.
//!
//! Every form is written from decoded events: what those do not hold (page addresses, depth of
//! preemption, uninterpreted events) is not carried over, and the summary counts what was left out.

mod dat;
mod formats;
mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::TraceError;
use crate::event::{Event, Kind};
use crate::reader::EventReader;
use crate::recording::Recording;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// ftrace text.
    Text(Packed),
    /// trace.dat, version 6.
    TraceDat(Packed),
}

/// How it is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Not at all.
    No,
    /// zstd, at a level of 1 to 19.
    Zstd(i32),
    /// gzip.
    Gzip,
}

impl Target {
    /// Tells the target by a file's name: `.dat` is trace.dat, all else text; `.zst` and `.gz`
    /// pack it. `None` for `.xz` and for perf.data, which are read but not written.
    #[must_use]
    pub fn of(path: &Path, zstd_level: i32) -> Option<Target> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let (name, packed) = match (name.strip_suffix(".zst"), name.strip_suffix(".gz")) {
            (Some(name), _) => (name, Packed::Zstd(zstd_level)),
            (_, Some(name)) => (name, Packed::Gzip),
            _ => (name.as_str(), Packed::No),
        };
        if name.ends_with(".dat") {
            Some(Target::TraceDat(packed))
        } else if name.ends_with(".xz") || name.ends_with(".data") {
            None
        } else {
            Some(Target::Text(packed))
        }
    }
}

/// Which events to write.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// From this time on, nanoseconds of the recording's clock.
    pub from_ns: Option<u64>,
    /// Before this time.
    pub to_ns: Option<u64>,
    /// Only these CPUs; all when empty.
    pub cpus: Vec<u16>,
    /// Only events of these names ([`Kind::name`]); all when empty.
    pub events: Vec<String>,
}

impl Filter {
    fn takes(&self, event: &Event) -> bool {
        self.from_ns.is_none_or(|from| event.time_ns >= from)
            && self.to_ns.is_none_or(|to| event.time_ns < to)
            && (self.cpus.is_empty() || self.cpus.contains(&event.cpu))
            && (self.events.is_empty() || self.events.iter().any(|name| name == event.kind.name()))
    }

    /// True when every event passes.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.from_ns.is_none()
            && self.to_ns.is_none()
            && self.cpus.is_empty()
            && self.events.is_empty()
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events read.
    pub read: u64,
    /// Events written.
    pub written: u64,
    /// Events that passed the filter but that Pageyard does not interpret.
    pub left_out: u64,
    /// Events lost, as the output says it.
    pub lost: u64,
    /// Places of the input that could not be read.
    pub damage: u64,
    /// The first of them.
    pub first_fault: Option<String>,
}

/// Receives what passes the filter.
trait Sink {
    fn event(&mut self, event: &Event, reader: &EventReader) -> io::Result<()>;
    /// Events that were lost on a CPU before the next event.
    fn lost(&mut self, cpu: Option<u16>, count: u64) -> io::Result<()>;
}

/// Writes the events of `recording` that pass `filter` to `out`. The file gets its name when it is
/// complete, and replaces one of that name. `progress` is called now and then; when it returns
/// false nothing is left behind, and the error says that it was interrupted.
///
/// # Errors
/// Those of reading and writing.
pub fn write(
    recording: &Recording,
    out: &Path,
    target: Target,
    filter: &Filter,
    mut progress: impl FnMut(&EventReader) -> bool,
) -> Result<Summary, TraceError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".pageyard-").tempfile_in(folder);
    let mut temporary = temporary.map_err(|e| TraceError::io(out, "create a file beside", e))?;
    let fail = |error| TraceError::io(out, "write", error);
    let summary = match target {
        Target::Text(packed) => {
            let mut sink = text::TextSink::new(packed.pack(temporary.as_file_mut()).map_err(fail)?);
            sink.start(recording.format() != crate::recording::Format::Text).map_err(fail)?;
            let summary = pour(recording, out, filter, &mut progress, &mut sink)?;
            sink.finish().and_then(Pack::finish).map_err(fail)?;
            summary
        }
        Target::TraceDat(packed) => {
            let mut sink = dat::DatSink::new().map_err(fail)?;
            let mut reader = None;
            let summary = pour_into(recording, out, filter, &mut progress, &mut sink, &mut reader)?;
            let mut pack = packed.pack(temporary.as_file_mut()).map_err(fail)?;
            let comms = reader.as_ref().map(EventReader::comms).unwrap_or_default();
            sink.finish(recording, &comms, &mut pack)
                .map_err(|what| TraceError::damaged(out, crate::error::At::Byte(0), what))?;
            pack.finish().map_err(fail)?;
            summary
        }
    };
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temporary.as_file().set_permissions(permissions).map_err(fail)?;
    temporary.persist(out).map_err(|e| TraceError::io(out, "rename to", e.error))?;
    Ok(summary)
}

fn pour(
    recording: &Recording,
    out: &Path,
    filter: &Filter,
    progress: &mut impl FnMut(&EventReader) -> bool,
    sink: &mut impl Sink,
) -> Result<Summary, TraceError> {
    pour_into(recording, out, filter, progress, sink, &mut None)
}

fn pour_into(
    recording: &Recording,
    out: &Path,
    filter: &Filter,
    progress: &mut impl FnMut(&EventReader) -> bool,
    sink: &mut impl Sink,
    keep: &mut Option<EventReader>,
) -> Result<Summary, TraceError> {
    let fail = |error| TraceError::io(out, "write", error);
    let mut reader = recording.events()?;
    let mut summary = Summary::default();
    let mut told: BTreeMap<Option<u16>, u64> = BTreeMap::new();
    let mut block = Vec::new();
    loop {
        let more = reader.read_block(&mut block)?;
        // A loss counts for the piece when any event of its block does: better one too many.
        let touched = filter.takes_all() || block.iter().any(|event| filter.takes(event));
        let lost = reader.lost();
        let now = lost.per_cpu.iter().map(|(cpu, count)| (Some(*cpu), *count));
        let now: Vec<_> = now.chain([(None, lost.elsewhere)]).collect();
        for (cpu, count) in now {
            let before = told.insert(cpu, count).unwrap_or(0);
            let wanted = cpu.is_none_or(|cpu| filter.cpus.is_empty() || filter.cpus.contains(&cpu));
            if count > before && touched && wanted {
                sink.lost(cpu, count - before).map_err(fail)?;
                summary.lost += count - before;
            }
        }
        for event in block.iter().filter(|event| filter.takes(event)) {
            if event.kind == Kind::Other {
                summary.left_out += 1;
            } else {
                sink.event(event, &reader).map_err(fail)?;
                summary.written += 1;
            }
        }
        if !more {
            break;
        }
        if !progress(&reader) {
            let error = io::Error::new(io::ErrorKind::Interrupted, "interrupted");
            return Err(TraceError::io(out, "write", error));
        }
    }
    summary.read = reader.events_read();
    summary.damage = reader.damage().count();
    summary.first_fault = reader.damage().faults().first().map(ToString::to_string);
    *keep = Some(reader);
    Ok(summary)
}

/// A file that packs what is written to it.
enum Pack<'a> {
    No(io::BufWriter<&'a mut File>),
    Zstd(zstd::Encoder<'static, io::BufWriter<&'a mut File>>),
    Gzip(flate2::write::GzEncoder<io::BufWriter<&'a mut File>>),
}

impl Packed {
    fn pack(self, file: &mut File) -> io::Result<Pack<'_>> {
        let file = io::BufWriter::with_capacity(256 << 10, file);
        Ok(match self {
            Packed::No => Pack::No(file),
            Packed::Zstd(level) => Pack::Zstd(zstd::Encoder::new(file, level)?),
            Packed::Gzip => {
                Pack::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
            }
        })
    }
}

impl Pack<'_> {
    fn finish(self) -> io::Result<()> {
        match self {
            Pack::No(mut file) => file.flush(),
            Pack::Zstd(encoder) => encoder.finish()?.flush(),
            Pack::Gzip(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for Pack<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Pack::No(file) => file.write(bytes),
            Pack::Zstd(encoder) => encoder.write(bytes),
            Pack::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Pack::No(file) => file.flush(),
            Pack::Zstd(encoder) => encoder.flush(),
            Pack::Gzip(encoder) => encoder.flush(),
        }
    }
}
