//! Events of a perf.data, brought into time order.
//!
//! perf writes what it drains from each CPU in turn. After each turn over all CPUs comes a
//! FINISHED_ROUND: whatever was recorded before the turn began has then been written, so events
//! up to the latest time of the round before can be delivered.

use std::sync::Arc;

use super::record::{self, Words};
use super::{Layout, PerfFile};
use crate::dat::{Data, Scan};
use crate::error::{At, Damage, TraceError};
use crate::event::Event;
use crate::reader::{BLOCK_EVENTS, Feed, Pass};
use crate::source::Consumed;

/// Record types (include/uapi/linux/perf_event.h, tools/lib/perf/include/perf/event.h).
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED_2: u32 = 83;
}

/// Largest result of one packed record: it packs what perf drained at once from one buffer.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// The zstd stream of `perf record -z`, which runs through all packed records.
#[derive(Default)]
struct Unpacker {
    decoder: Option<zstd::stream::raw::Decoder<'static>>,
    /// Unpacked bytes not yet taken.
    bytes: Vec<u8>,
}

impl Unpacker {
    fn push(&mut self, packed: &[u8]) -> Result<(), String> {
        use zstd::stream::raw::{Decoder, Operation};
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(|error| error.to_string())?),
        };
        let mut rest = packed;
        let mut buffer = vec![0; 128 << 10];
        loop {
            let status = decoder.run_on_buffers(rest, &mut buffer);
            let status = status.map_err(|error| format!("packed records broken: {error}"))?;
            rest = &rest[status.bytes_read..];
            self.bytes.extend_from_slice(&buffer[..status.bytes_written]);
            if self.bytes.len() > UNPACKED_BYTES_MAX {
                return Err("a packed record unpacks to more than 64 MiB".to_string());
            }
            let full = status.bytes_written == buffer.len();
            if !full && (rest.is_empty() || status.bytes_read + status.bytes_written == 0) {
                return Ok(());
            }
        }
    }
}

/// Bytes read at a time; a record has at most 65,535.
const WINDOW_BYTES: usize = 256 << 10;
/// Events held back at most while a round is not finished: 40 MB. Beyond that they are delivered
/// as they are; those out of order are counted.
const PENDING_MAX: usize = 1 << 20;

/// Reads records in turn.
pub(crate) struct PerfFeed {
    file: Arc<PerfFile>,
    /// A copy: in a pipe it grows by records.
    layout: Layout,
    window: Vec<u8>,
    start: usize,
    /// Offset in the file of `window[start]`.
    at: u64,
    pending: Vec<Event>,
    delivered: usize,
    ready: usize,
    round_max_ns: u64,
    previous_max_ns: u64,
    /// Sum of LOST_SAMPLES, which perf writes at the end and which counts the LOST records again.
    lost_samples: u64,
    zstd: Unpacker,
    ended: bool,
    opened: bool,
    consumed: Consumed,
}

impl PerfFeed {
    pub(crate) fn new(file: Arc<PerfFile>, consumed: Consumed) -> PerfFeed {
        PerfFeed {
            layout: file.layout.clone(),
            at: file.records.start,
            file,
            window: Vec::new(),
            start: 0,
            pending: Vec::new(),
            delivered: 0,
            ready: 0,
            round_max_ns: 0,
            previous_max_ns: 0,
            lost_samples: 0,
            zstd: Unpacker::default(),
            ended: false,
            opened: false,
            consumed,
        }
    }

    /// Makes `count` bytes available; false when the records end before.
    fn need(&mut self, count: usize) -> Result<bool, String> {
        if self.window.len() - self.start >= count {
            return Ok(true);
        }
        self.window.drain(..self.start);
        self.start = 0;
        let have = self.window.len();
        let from = self.at + have as u64;
        let left = self.file.records.end.saturating_sub(from);
        let room = (WINDOW_BYTES.max(count) - have) as u64;
        self.window.resize(have + left.min(room) as usize, 0);
        let read = self.file.data.read_at(from, &mut self.window[have..]);
        let read = read.map_err(|error| error.to_string())?;
        self.window.truncate(have + read);
        Ok(self.window.len() >= count)
    }

    fn skip(&mut self, count: usize) {
        self.start += count;
        self.at += count as u64;
    }

    /// Takes the next record; false at the end. What is wrong ends the pass.
    fn record(&mut self, pass: &mut Pass) -> Result<bool, String> {
        if !self.need(8)? {
            let left = self.window.len() - self.start;
            return if left == 0 { Ok(false) } else { Err(format!("{left} bytes of a record")) };
        }
        let head = header(&self.window[self.start..], self.layout.big_endian);
        let (kind, size) = head.ok_or("a record without a head")?;
        if size < 8 {
            return Err(format!("a record of {size} bytes: the rest cannot be read"));
        }
        if !self.need(size)? {
            return Err(format!("a record of {size} bytes is cut short"));
        }
        let body = self.start + 8..self.start + size;
        match kind {
            kind::TRACING_DATA => return self.piped_formats(size, pass),
            kind::AUXTRACE => return self.skip_hardware_trace(size),
            _ => {}
        }
        // Taken out, so that what the record says can be noted while its body is read.
        let window = std::mem::take(&mut self.window);
        let outcome = match kind {
            kind::COMPRESSED => self.unpack(&window[body], pass),
            kind::COMPRESSED_2 => self.unpack(window[body].get(8..).unwrap_or(&[]), pass),
            _ => {
                self.take(kind, &window[body], pass);
                Ok(())
            }
        };
        self.window = window;
        self.skip(size);
        outcome.map(|()| true)
    }

    fn take(&mut self, kind: u32, body: &[u8], pass: &mut Pass) {
        match kind {
            kind::SAMPLE => match sample(&self.layout, body, pass) {
                Ok(event) => {
                    self.round_max_ns = self.round_max_ns.max(event.time_ns);
                    self.pending.push(event);
                }
                Err(what) => pass.damage.add(At::Byte(self.at), what),
            },
            kind::FINISHED_ROUND => self.finish_round(),
            kind::HEADER_ATTR => header_attr(&mut self.layout, body),
            kind::LOST_SAMPLES => {
                let mut words = Words { rest: body, big_endian: self.layout.big_endian };
                let count = words.u64().unwrap_or(0);
                self.lost_samples = self.lost_samples.saturating_add(count);
            }
            _ => note(&self.layout, kind, body, pass),
        }
    }

    fn skip_hardware_trace(&mut self, size: usize) -> Result<bool, String> {
        let body = &self.window[self.start + 8..self.start + size];
        let mut words = Words { rest: body, big_endian: self.layout.big_endian };
        let length = words.u64().unwrap_or(0);
        let next = self.at.checked_add(size as u64).and_then(|at| at.checked_add(length));
        self.at = next.ok_or("hardware trace of an impossible length")?;
        self.window.clear();
        self.start = 0;
        Ok(true)
    }

    /// Unpacks a part of the zstd stream that `perf record -z` writes, and takes the records that
    /// are complete in it; one may reach into the next part.
    fn unpack(&mut self, packed: &[u8], pass: &mut Pass) -> Result<(), String> {
        self.zstd.push(packed)?;
        let unpacked = std::mem::take(&mut self.zstd.bytes);
        let mut at = 0;
        while let Some((kind, size)) = header(&unpacked[at..], self.layout.big_endian) {
            if size < 8 {
                return Err(format!("a packed record of {size} bytes: the rest cannot be read"));
            }
            let Some(record) = unpacked.get(at..at + size) else {
                break;
            };
            self.take(kind, &record[8..], pass);
            at += size;
        }
        self.zstd.bytes.extend_from_slice(&unpacked[at..]);
        Ok(())
    }

    /// In a pipe the formats follow their record.
    fn piped_formats(&mut self, size: usize, pass: &mut Pass) -> Result<bool, String> {
        let body = &self.window[self.start + 8..self.start + size];
        let mut words = Words { rest: body, big_endian: self.layout.big_endian };
        let length = words.u32().ok_or("formats without a length")? as usize;
        self.skip(size);
        // The stream is padded to 8 bytes after them.
        let padded = length.next_multiple_of(8);
        if length as u64 > self.file.records.end.saturating_sub(self.at) || !self.need(length)? {
            return Err(format!("formats of {length} bytes are cut short"));
        }
        let bytes: Arc<[u8]> = self.window[self.start..self.start + length].into();
        let scan = Scan::new(Data::Memory(bytes), 0, self.layout.big_endian);
        let mut damage = Damage::default();
        let outcome = self.layout.tracing_data(scan, &mut damage);
        let faults = damage.faults().iter().cloned().chain(outcome.err());
        for fault in faults {
            pass.damage.add(At::Byte(self.at), format!("formats: {fault}"));
        }
        let padded = if self.need(padded)? { padded } else { length };
        self.skip(padded);
        Ok(true)
    }

    fn finish_round(&mut self) {
        self.sort();
        let limit = self.previous_max_ns;
        self.ready = self.pending.partition_point(|event| event.time_ns <= limit);
        self.previous_max_ns = self.round_max_ns;
    }

    fn sort(&mut self) {
        self.pending.drain(..self.delivered);
        self.delivered = 0;
        // Stable, and fast on the sorted runs that each CPU's part is.
        self.pending.sort_by_key(|event| event.time_ns);
    }
}

impl Feed for PerfFeed {
    fn fill(&mut self, out: &mut Vec<Event>, pass: &mut Pass) -> Result<bool, TraceError> {
        if !std::mem::replace(&mut self.opened, true) {
            for fault in self.file.damage.faults() {
                pass.damage.add(fault.at, fault.what.clone());
            }
        }
        while out.len() < BLOCK_EVENTS {
            if self.delivered < self.ready {
                let count = (self.ready - self.delivered).min(BLOCK_EVENTS - out.len());
                out.extend_from_slice(&self.pending[self.delivered..self.delivered + count]);
                self.delivered += count;
                continue;
            }
            if self.ended {
                break;
            }
            let more = self.record(pass).unwrap_or_else(|what| {
                pass.damage.add(At::Byte(self.at), what);
                false
            });
            if !more {
                self.ended = true;
                let more_lost = self.lost_samples.saturating_sub(pass.lost.total());
                if more_lost > 0 {
                    pass.lost.add(None, Some(more_lost));
                }
            }
            if !more || self.pending.len() - self.delivered >= PENDING_MAX {
                self.sort();
                self.ready = self.pending.len();
            }
        }
        self.consumed.set(self.at - self.file.records.start);
        Ok(!out.is_empty())
    }
}

/// Type and size of the record that begins here.
fn header(bytes: &[u8], big_endian: bool) -> Option<(u32, usize)> {
    let mut words = Words { rest: bytes, big_endian };
    let kind = words.u32()?;
    let size: [u8; 2] = words.bytes(4)?[2..].try_into().ok()?;
    let size = if big_endian { u16::from_be_bytes(size) } else { u16::from_le_bytes(size) };
    Some((kind, usize::from(size)))
}

fn sample(layout: &Layout, body: &[u8], pass: &mut Pass) -> Result<Event, &'static str> {
    let sample = layout.sample(body).ok_or("a sample that its attribute does not describe")?;
    let decoded = layout.decoder.decode(sample.raw)?;
    if let Some(name) = decoded.other {
        pass.other(name.as_bytes());
    }
    // The record's own pid counts in the first namespace, as the tracer's text does.
    Ok(Event {
        time_ns: sample.time_ns,
        cpu: sample.cpu,
        pid: if decoded.pid == 0 { 0 } else { sample.tid },
        context: decoded.context,
        kind: decoded.kind,
    })
}

/// An attribute that a pipe sends; its ids follow it.
fn header_attr(layout: &mut Layout, body: &[u8]) {
    let mut scan = Scan::new(Data::Memory(body.into()), 0, layout.big_endian);
    let Ok(attr) = record::attr(&mut scan) else {
        return;
    };
    let mut words = Words { rest: &body[4..], big_endian: layout.big_endian };
    let size = words.u32().unwrap_or(0) as usize;
    let mut words = Words { rest: body.get(size..).unwrap_or(&[]), big_endian: layout.big_endian };
    while let Some(id) = words.u64() {
        layout.ids.insert(id, layout.attrs.len());
    }
    layout.attrs.push(attr);
}

/// Losses and names of tasks.
fn note(layout: &Layout, kind: u32, body: &[u8], pass: &mut Pass) {
    let mut words = Words { rest: body, big_endian: layout.big_endian };
    match kind {
        kind::LOST => {
            let _id = words.u64();
            pass.lost.add(layout.trailing_cpu(body), words.u64());
        }
        kind::FORK => {
            let _pids = words.u64();
            if let (Some(tid), Some(parent)) = (words.u32(), words.u32()) {
                pass.comm_inherited(tid as i32, parent as i32);
            }
        }
        kind::COMM => {
            let _pid = words.u32();
            if let Some(tid) = words.u32() {
                let end = words.rest.iter().position(|byte| *byte == 0);
                pass.comm(tid as i32, &words.rest[..end.unwrap_or(words.rest.len())]);
            }
        }
        _ => {}
    }
}
