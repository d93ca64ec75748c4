//! A recording of any length: the events of a short one again and again, with later time stamps.
//!
//! Between two rounds the memory in use is brought back to what it was at the first event, page
//! by page, so that every round frees and allocates what the events before it leave behind.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use pageyard_trace::event::{Context, Event, Gfp, Kind, PFN_NONE};
use pageyard_trace::recording::Recording;
use pageyard_trace::text::TextWriter;

/// Silence between a round and what brings memory back, and before the next round.
const PAUSE_NS: u64 = 1_000_000;

/// A block at the first and at the last event.
#[derive(Clone, Copy, Default)]
struct Block {
    seen: bool,
    /// Order and CPU of its first free, if it was in use at the first event.
    at_first: Option<(u8, u16)>,
    /// Order and CPU of its last allocation, if it is in use at the last event.
    at_last: Option<(u8, u16)>,
    migratetype: u8,
}

/// What a round of the events does to memory.
#[derive(Default)]
struct Round {
    blocks: BTreeMap<u64, Block>,
    window_ns: (u64, u64),
    events: u64,
}

impl Round {
    fn of(recording: &Recording) -> Result<Round, Box<dyn Error>> {
        let mut round = Round::default();
        let mut reader = recording.events()?;
        let mut block = Vec::new();
        while reader.read_block(&mut block)? {
            for event in &block {
                round.on_event(event);
            }
        }
        Ok(round)
    }

    fn on_event(&mut self, event: &Event) {
        if self.events == 0 {
            self.window_ns.0 = event.time_ns;
        }
        self.events += 1;
        self.window_ns.1 = self.window_ns.1.max(event.time_ns);
        match event.kind {
            Kind::PageAlloc { pfn, .. } if pfn == PFN_NONE => {}
            Kind::PageAlloc { pfn, order, migratetype, .. } => {
                let block = self.blocks.entry(pfn).or_default();
                block.seen = true;
                block.at_last = Some((order, event.cpu));
                block.migratetype = migratetype;
            }
            Kind::PageFree { pfn, order } => {
                let block = self.blocks.entry(pfn).or_insert(Block {
                    at_first: Some((order, event.cpu)),
                    migratetype: 1,
                    ..Block::default()
                });
                block.seen = true;
                block.at_last = None;
            }
            Kind::ZoneLocked { pfn, .. } | Kind::PcpuDrain { pfn, .. } => {
                self.blocks.entry(pfn).or_default().seen = true;
            }
            _ => {}
        }
    }

    /// What turns the memory of the last event into that of the first: frees, then allocations.
    fn way_back(&self) -> Vec<(u16, Kind)> {
        let differing = |(_, block): &(&u64, &Block)| {
            block.at_first.map(|at| at.0) != block.at_last.map(|at| at.0)
        };
        let frees = self.blocks.iter().filter(differing).filter_map(|(&pfn, block)| {
            let (order, cpu) = block.at_last?;
            Some((cpu, Kind::PageFree { pfn, order }))
        });
        let allocs = self.blocks.iter().filter(differing).filter_map(|(&pfn, block)| {
            let (order, cpu) = block.at_first?;
            let migratetype = block.migratetype;
            let gfp = if migratetype == 1 { Gfp::HIGHUSER_MOVABLE } else { Gfp::KERNEL };
            Some((cpu, Kind::PageAlloc { pfn, order, migratetype, gfp }))
        });
        frees.chain(allocs).collect()
    }
}

/// Writes a recording of at least `bytes` bytes of text to `folder`, with the snapshots of the
/// short one. Returns bytes and rounds written.
pub fn repeat(
    recording: &Recording,
    folder: &Path,
    bytes: u64,
) -> Result<(u64, u64), Box<dyn Error>> {
    copy_snapshots(recording, folder)?;
    let round = Round::of(recording)?;
    let way_back = round.way_back();
    let way_back_ns = 2 * PAUSE_NS + 1000 * way_back.len() as u64;
    let period_ns = round.window_ns.1 - round.window_ns.0 + way_back_ns;
    let mut out = Counted {
        inner: BufWriter::with_capacity(1 << 20, File::create(folder.join("trace.txt"))?),
        bytes: 0,
    };
    let text = TextWriter { nanos: false };
    text.heading(&mut out)?;
    let mut rounds = 0;
    while out.bytes < bytes {
        let shift_ns = rounds * period_ns;
        let mut reader = recording.events()?;
        let mut block = Vec::new();
        while reader.read_block(&mut block)? {
            for event in &mut block {
                event.time_ns += shift_ns;
                text.event(&mut out, event, reader.comm(event.pid))?;
            }
        }
        let mut time_ns = round.window_ns.1 + shift_ns + PAUSE_NS;
        for &(cpu, kind) in &way_back {
            time_ns += 1000;
            let context = Context::default();
            let event = Event { time_ns, cpu, pid: 1, context, kind };
            text.event(&mut out, &event, Some("way-back"))?;
        }
        rounds += 1;
    }
    out.inner.flush()?;
    Ok((out.bytes, rounds))
}

fn copy_snapshots(recording: &Recording, folder: &Path) -> Result<(), Box<dyn Error>> {
    if !recording.path().is_dir() {
        return Err("a recording to be repeated must be a folder with snapshots".into());
    }
    for entry in fs::read_dir(recording.path())? {
        let entry = entry?;
        if entry.path() != recording.trace_path() && entry.file_type()?.is_file() {
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    // When the snapshots were read, against one round's events, says nothing of many rounds.
    match fs::remove_file(folder.join("snapshots")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
