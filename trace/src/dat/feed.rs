//! Events of a trace.dat, merged over its CPUs by time.

use std::sync::Arc;

use super::file::{DatFile, Lane};
use super::ring::{Cursor, Missed, Step};
use crate::error::{At, TraceError};
use crate::event::{Context, Event, Kind};
use crate::reader::{BLOCK_EVENTS, Feed, Pass};
use crate::source::Consumed;

/// Memory of all read-ahead buffers together.
const WINDOWS_BYTES: u64 = 8 << 20;
/// Largest unpacked chunk: trace-cmd's own hold 10 pages.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Reads the pages of one CPU in turn.
struct LaneReader {
    lane: Lane,
    /// Next unread byte of the lane, from its start.
    next: u64,
    /// Chunks still to come, of a packed lane; `None` before the first.
    chunks: Option<u32>,
    /// Unpacked pages read ahead.
    window: Vec<u8>,
    /// Where the window's first byte lies in the file (of a packed chunk: the chunk).
    window_at: u64,
    window_bytes: usize,
    /// The current page within the window, and the walk over it.
    page: std::ops::Range<usize>,
    cursor: Option<Cursor>,
    /// Decoded event that is next in this lane.
    head: Option<Event>,
    lost_before: bool,
}

/// All lanes of a file.
pub(crate) struct DatFeed {
    file: Arc<DatFile>,
    lanes: Vec<LaneReader>,
    consumed: Consumed,
    read: u64,
    started: bool,
}

impl DatFeed {
    pub(crate) fn new(file: Arc<DatFile>, consumed: Consumed) -> DatFeed {
        let share = WINDOWS_BYTES / file.lanes.len().max(1) as u64;
        let reader = |lane: &Lane| LaneReader {
            window_bytes: (share.min(256 << 10) / lane.page_bytes * lane.page_bytes)
                .max(lane.page_bytes) as usize,
            lane: lane.clone(),
            next: 0,
            chunks: None,
            window: Vec::new(),
            window_at: lane.offset,
            page: 0..0,
            cursor: None,
            head: None,
            lost_before: false,
        };
        let lanes = file.lanes.iter().map(reader).collect();
        DatFeed { file, lanes, consumed, read: 0, started: false }
    }

    fn start(&mut self, pass: &mut Pass) {
        for fault in self.file.damage.faults() {
            pass.damage.add(fault.at, fault.what.clone());
        }
        for (pid, comm) in &self.file.comms {
            pass.comm(*pid, comm);
        }
        for lane in &mut self.lanes {
            self.read += lane.advance(&self.file, pass);
        }
    }
}

impl Feed for DatFeed {
    fn fill(&mut self, out: &mut Vec<Event>, pass: &mut Pass) -> Result<bool, TraceError> {
        if !std::mem::replace(&mut self.started, true) {
            self.start(pass);
        }
        while out.len() < BLOCK_EVENTS {
            // The lane with the earliest event goes on until another's is earlier; of equal times
            // the lower lane (CPU) comes first.
            let key = |index: usize| self.lanes[index].head.map(|event| (event.time_ns, index));
            let mut heads: [Option<(u64, usize)>; 2] = [None, None];
            for found in (0..self.lanes.len()).filter_map(key) {
                if heads[0].is_none_or(|first| found < first) {
                    heads = [Some(found), heads[0]];
                } else if heads[1].is_none_or(|second| found < second) {
                    heads[1] = Some(found);
                }
            }
            let Some((_, index)) = heads[0] else { break };
            let lane = &mut self.lanes[index];
            while let Some(event) = lane.head {
                let turn_over = heads[1].is_some_and(|second| (event.time_ns, index) > second);
                if turn_over || out.len() >= BLOCK_EVENTS {
                    break;
                }
                out.push(event);
                self.read += lane.advance(&self.file, pass);
            }
        }
        self.consumed.set(self.read);
        Ok(!out.is_empty())
    }
}

impl LaneReader {
    /// Decodes the next event into `head`; returns the bytes read from the file for it.
    fn advance(&mut self, file: &DatFile, pass: &mut Pass) -> u64 {
        let before = self.next;
        self.head = None;
        while self.head.is_none() {
            let Some(cursor) = &mut self.cursor else {
                if !self.next_page(file, pass) {
                    break;
                }
                continue;
            };
            let page = &self.window[self.page.clone()];
            match cursor.step(page) {
                Step::End => self.cursor = None,
                Step::Damaged(at, what) => {
                    let at = self.window_at + (self.page.start + at) as u64;
                    pass.damage.add_with(At::Byte(at), || {
                        format!("CPU {}: {what}; the rest of its page is skipped", self.lane.cpu)
                    });
                    self.cursor = None;
                }
                Step::Record { time, record } => {
                    let time_ns = file.options.nanos(time);
                    let at = self.window_at + self.page.start as u64;
                    self.head = event(file, record, time_ns, self.lane.cpu, at, pass);
                }
            }
        }
        if let (Some(event), true) = (self.head, self.lost_before) {
            pass.lost.mark(event.time_ns, event.cpu);
            self.lost_before = false;
        }
        self.next - before
    }

    /// Steps to the next page; false at the lane's end.
    fn next_page(&mut self, file: &DatFile, pass: &mut Pass) -> bool {
        let page_bytes = self.lane.page_bytes as usize;
        loop {
            let start = self.page.end;
            let end = (start + page_bytes).min(self.window.len());
            if start >= end {
                if !self.next_window(file, pass) {
                    return false;
                }
                continue;
            }
            self.page = start..end;
            match Cursor::new(&file.header, &self.window[start..end]) {
                Ok((cursor, missed)) => {
                    let cpu = Some(self.lane.cpu);
                    match missed {
                        Missed::No => {}
                        Missed::Some => pass.lost.add(cpu, None),
                        Missed::Count(count) => pass.lost.add(cpu, Some(count)),
                    }
                    self.lost_before |= missed != Missed::No;
                    self.cursor = Some(cursor);
                    return true;
                }
                Err((at, what)) => {
                    let at = self.window_at + (start + at) as u64;
                    pass.damage.add_with(At::Byte(at), || {
                        format!("CPU {}: {what}; the page is skipped", self.lane.cpu)
                    });
                }
            }
        }
    }

    /// Reads ahead; false at the lane's end.
    fn next_window(&mut self, file: &DatFile, pass: &mut Pass) -> bool {
        self.page = 0..0;
        self.window_at = self.lane.offset + self.next;
        let outcome = if self.lane.compressed {
            self.next_chunk(file, pass)
        } else {
            let left = self.lane.size - self.next;
            self.fetch(file, left.min(self.window_bytes as u64))
        };
        match outcome {
            Ok(more) => more,
            Err(what) => {
                let cpu = self.lane.cpu;
                pass.damage.add(At::Byte(self.window_at), format!("CPU {cpu}: {what}"));
                self.next = self.lane.size;
                self.window.clear();
                false
            }
        }
    }

    /// Reads the next `length` bytes of the lane into the window.
    fn fetch(&mut self, file: &DatFile, length: u64) -> Result<bool, String> {
        if length > self.lane.size - self.next {
            return Err("the file is cut short".to_string());
        }
        self.window.resize(length as usize, 0);
        let at = self.lane.offset + self.next;
        let count = file.data.read_at(at, &mut self.window).map_err(|e| e.to_string())?;
        self.window.truncate(count);
        self.next += length;
        Ok(count > 0)
    }

    fn number(&mut self, file: &DatFile) -> Result<u32, String> {
        self.fetch(file, 4)?;
        let bytes: [u8; 4] =
            self.window[..].try_into().map_err(|_| "the file is cut short".to_string())?;
        let big = file.header.big_endian;
        Ok(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Unpacks the next chunk of a packed lane.
    fn next_chunk(&mut self, file: &DatFile, pass: &mut Pass) -> Result<bool, String> {
        let left = match self.chunks {
            Some(left) => left,
            None => self.number(file)?,
        };
        if left == 0 {
            return Ok(false);
        }
        self.chunks = Some(left - 1);
        let packed = u64::from(self.number(file)?);
        let unpacked = u64::from(self.number(file)?);
        self.window_at = self.lane.offset + self.next;
        if unpacked > CHUNK_BYTES_MAX {
            return Err(format!("a chunk of {unpacked} bytes: the file is damaged"));
        }
        self.fetch(file, packed)?;
        let (bytes, error) = file.options.algorithm.unpack(&self.window, unpacked);
        self.window = bytes;
        if let Some(error) = error {
            // The chunks stand on their own: those after it can still be read.
            let what = format!("CPU {}: chunk cannot be unpacked: {error}", self.lane.cpu);
            pass.damage.add(At::Byte(self.window_at), what);
        }
        Ok(true)
    }
}

/// Decodes a record; damage is noted.
fn event(
    file: &DatFile,
    record: &[u8],
    time_ns: u64,
    cpu: u16,
    at: u64,
    pass: &mut Pass,
) -> Option<Event> {
    match file.decoder.decode(record) {
        Ok(decoded) => {
            if let Some(name) = decoded.other {
                pass.other(name.as_bytes());
            }
            let (pid, context, kind): (i32, Context, Kind) =
                (decoded.pid, decoded.context, decoded.kind);
            Some(Event { time_ns, cpu, pid, context, kind })
        }
        Err(what) => {
            pass.damage.add_with(At::Byte(at), || format!("CPU {cpu}: in the page here: {what}"));
            None
        }
    }
}
