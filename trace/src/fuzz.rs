//! Fuzz targets: every reader on any bytes. Each must return, and never panic.
//!
//! Plain functions, so that any fuzzer can call them; `tests/fuzz.rs` drives them on the corpus
//! under `fuzz/corpus`. Each returns how much it understood, so that a driver can tell a reader
//! that works on its seeds from one that gives up at once.

use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use crate::dat::Data;
use crate::dat::feed::DatFeed;
use crate::dat::file::DatFile;
use crate::error::Damage;
use crate::perf::PerfFile;
use crate::perf::feed::PerfFeed;
use crate::reader::{EventReader, Feed};
use crate::snapshot::{BuddyInfo, BuddyRow, KPageFlags, NumaStat, PageTypeInfo, VmStat};
use crate::snapshot::{Zone, ZoneInfo};
use crate::source::{self, Consumed, Source};
use crate::text::TextFeed;

/// Reads a pass to its end; the number of events.
fn drain(feed: Box<dyn Feed>) -> u64 {
    let mut reader = EventReader::new(feed, Consumed::default(), 0);
    let mut block = Vec::new();
    while reader.read_block(&mut block).unwrap_or(false) {}
    reader.events_read()
}

/// Text of any tracer, plain or packed; events read.
pub fn text(bytes: &[u8]) -> u64 {
    let Ok((packing, reader)) = source::unpack(Cursor::new(bytes.to_vec())) else {
        return 0;
    };
    let source =
        Source { reader, packing, consumed: Consumed::default(), total: bytes.len() as u64 };
    drain(Box::new(TextFeed::new(Path::new("fuzz"), source)))
}

/// `trace.dat`; events read.
pub fn dat(bytes: &[u8]) -> u64 {
    let Ok(file) = DatFile::open(Data::Memory(bytes.into())) else {
        return 0;
    };
    drain(Box::new(DatFeed::new(Arc::new(file), Consumed::default())))
}

/// `perf.data`; events read.
pub fn perf(bytes: &[u8]) -> u64 {
    let Ok(file) = PerfFile::open(Data::Memory(bytes.into())) else {
        return 0;
    };
    drain(Box::new(PerfFeed::new(Arc::new(file), Consumed::default())))
}

/// `/proc/zoneinfo`; zones read.
pub fn zoneinfo(bytes: &[u8]) -> u64 {
    let info = ZoneInfo::read(&String::from_utf8_lossy(bytes), &mut Damage::default());
    // What users ask of it must hold for any zone, too.
    black_box((info.zone_of(u64::MAX / 2), info.zones.iter().map(Zone::populated).count()));
    info.zones.len() as u64
}

/// `/proc/buddyinfo`; rows read.
pub fn buddyinfo(bytes: &[u8]) -> u64 {
    let info = BuddyInfo::read(&String::from_utf8_lossy(bytes), &mut Damage::default());
    black_box(info.rows.iter().map(BuddyRow::pages).max());
    info.rows.len() as u64
}

/// `/proc/pagetypeinfo`; rows read.
pub fn pagetypeinfo(bytes: &[u8]) -> u64 {
    let info = PageTypeInfo::read(&String::from_utf8_lossy(bytes), &mut Damage::default());
    (info.free.len() + info.pageblocks.len()) as u64
}

/// `/proc/vmstat`; counters read.
pub fn vmstat(bytes: &[u8]) -> u64 {
    let stat = VmStat::read(&String::from_utf8_lossy(bytes), &mut Damage::default());
    black_box(stat.sum("pgalloc_"));
    stat.values.len() as u64
}

/// `numastat` of every node; nodes read.
pub fn numastat(bytes: &[u8]) -> u64 {
    let stat = NumaStat::read(&String::from_utf8_lossy(bytes), &mut Damage::default());
    stat.nodes.len() as u64
}

/// `/proc/kpageflags`; page frames read.
pub fn kpageflags(bytes: &[u8]) -> u64 {
    let flags = KPageFlags::read(bytes, &mut Damage::default());
    let blocks = flags.blocks(0..flags.pages(), 10);
    let pages: u64 = blocks.iter().map(|block| 1 << block.order).sum();
    let buddy = (0..flags.pages()).filter(|pfn| flags.is_buddy(*pfn)).count() as u64;
    assert_eq!(pages, buddy, "blocks cover the free pages exactly");
    flags.pages()
}
