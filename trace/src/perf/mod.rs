//! `perf.data`: what stands around the records, in files and in pipes.
//!
//! Format: tools/perf/Documentation/perf.data-file-format.txt of Linux, and the perf_event_open(2)
//! manual for records. Read here rather than by a crate, so that damage is found by byte offset
//! and nothing is allocated on the word of a damaged length.

pub(crate) mod feed;
mod record;

use std::collections::HashMap;

use crate::dat::{self, Data, Scan};
use crate::error::{At, Damage, Fault};
use crate::format::decode::Decoder;

/// First bytes of a file, by byte order.
pub(crate) const MAGICS: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Bytes of the header of a file; a pipe's has 16.
const FILE_HEADER_BYTES: u64 = 104;
/// Features of the header that are read (bit numbers).
const FEATURE_TRACING_DATA: u32 = 1;
const FEATURE_OSRELEASE: u32 = 4;
/// Features have 256 bits.
const FEATURES: u32 = 256;
/// Most events a file may have; `perf record` itself is limited by file descriptors.
const ATTRS_MAX: u64 = 1 << 16;

/// How the samples of one event are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) sample_id_all: bool,
}

/// What is needed to read the records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) big_endian: bool,
    pub(crate) attrs: Vec<Attr>,
    /// Index into `attrs` by the id that samples carry.
    pub(crate) ids: HashMap<u64, usize>,
    pub(crate) decoder: Decoder,
}

/// A perf.data, opened.
#[derive(Debug)]
pub(crate) struct PerfFile {
    pub(crate) data: Data,
    pub(crate) layout: Layout,
    pub(crate) release: Option<String>,
    /// Where the records lie.
    pub(crate) records: std::ops::Range<u64>,
    pub(crate) damage: Damage,
}

impl PerfFile {
    /// Opens a file or what was written by a pipe.
    ///
    /// # Errors
    /// Damage without which no record can be read.
    pub(crate) fn open(data: Data) -> Result<PerfFile, Fault> {
        let mut scan = Scan::new(data.clone(), 0, false);
        let magic = scan.bytes(8, "magic bytes")?;
        let big_endian = magic == MAGICS[1];
        if !big_endian && magic != MAGICS[0] {
            scan.at = 0;
            return Err(scan.fault("not a perf.data"));
        }
        let mut scan = Scan::new(data.clone(), 8, big_endian);
        let header_bytes = scan.u64("size of the header")?;
        let layout = Layout { big_endian, decoder: Decoder::new(big_endian), ..Layout::default() };
        let records = header_bytes..data.len();
        let damage = Damage::default();
        let mut file = PerfFile { data, layout, release: None, records, damage };
        match header_bytes {
            // A pipe: attributes and formats come as records.
            16 => Ok(file),
            FILE_HEADER_BYTES => {
                file.header(&mut scan)?;
                Ok(file)
            }
            _ => Err(scan.fault(format!("header of {header_bytes} bytes: neither file nor pipe"))),
        }
    }

    fn header(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        let attr_bytes = scan.u64("size of an attribute")?;
        let attrs = section(scan, "attributes")?;
        let records = section(scan, "records")?;
        let _event_types = section(scan, "event types")?;
        let features: [u64; 4] = [
            scan.u64("features")?,
            scan.u64("features")?,
            scan.u64("features")?,
            scan.u64("features")?,
        ];
        self.attributes(scan, attrs, attr_bytes)?;
        let end = self.data.len();
        self.records = records.clone();
        if records.start > end || records.end > end || records.is_empty() {
            // `perf record` writes the size last: without it the records reach to the end.
            let what = if records.is_empty() {
                "the size of the records is 0: perf was killed; they are read up to the end"
            } else {
                "the records reach beyond the end: the file is cut short"
            };
            self.damage.add(At::Byte(40), what);
            self.records = records.start.min(end)..end;
        }
        let mut at = Scan { at: records.end, ..scan.clone() };
        for bit in (0..FEATURES).filter(|bit| features[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
        {
            let outcome =
                section(&mut at, "feature").and_then(|place| self.feature(&at, bit, place));
            if let Err(fault) = outcome {
                self.damage.add(fault.at, fault.what);
                if at.left() == 0 {
                    break;
                }
            }
        }
        if self.layout.decoder.events() == 0 {
            return Err(Fault {
                at: At::Byte(records.end),
                what:
                    "no format of any event (TRACING_DATA): recorded without tracepoints, or the \
                       file is cut short"
                        .to_string(),
            });
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        scan: &Scan,
        place: std::ops::Range<u64>,
        attr_bytes: u64,
    ) -> Result<(), Fault> {
        // The smallest attribute ever was 64 bytes; the place of its ids follows it.
        if !(80..=4096).contains(&attr_bytes) {
            return Err(scan.fault(format!("attributes of {attr_bytes} bytes")));
        }
        let count = ((place.end - place.start) / attr_bytes).min(ATTRS_MAX);
        for index in 0..count {
            let start = place.start + index * attr_bytes;
            let mut at = Scan { at: start, ..scan.clone() };
            let attr = record::attr(&mut at)?;
            at.at = start + attr_bytes - 16;
            let ids = section(&mut at, "ids of an event")?;
            let mut at = Scan { at: ids.start, ..scan.clone() };
            let count = ((ids.end - ids.start) / 8).min(at.left() / 8);
            for _ in 0..count {
                self.layout.ids.insert(at.u64("id of an event")?, self.layout.attrs.len());
            }
            self.layout.attrs.push(attr);
        }
        Ok(())
    }

    fn feature(&mut self, scan: &Scan, bit: u32, place: std::ops::Range<u64>) -> Result<(), Fault> {
        if place.end > self.data.len() {
            return Err(scan.fault(format!("feature {bit} reaches beyond the end of the file")));
        }
        let mut at = Scan { at: place.start, end: place.end, ..scan.clone() };
        match bit {
            FEATURE_TRACING_DATA => self.layout.tracing_data(at, &mut self.damage),
            FEATURE_OSRELEASE => {
                let length = u64::from(at.u32("length of the release")?);
                let text = at.bytes(length.min(at.left()), "release")?;
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                self.release = Some(String::from_utf8_lossy(&text[..end]).into_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Layout {
    /// Learns the formats of the events, which perf copies in the manner of a trace.dat's head.
    fn tracing_data(&mut self, scan: Scan, damage: &mut Damage) -> Result<(), Fault> {
        self.decoder = dat::file::formats(scan, damage)?;
        Ok(())
    }
}

/// Reads the place of a section: offset and size.
fn section(scan: &mut Scan, what: &str) -> Result<std::ops::Range<u64>, Fault> {
    let offset = scan.u64(what)?;
    let size = scan.u64(what)?;
    let end = offset.checked_add(size);
    let end = end.ok_or_else(|| scan.fault(format!("{what}: an impossible place in the file")))?;
    Ok(offset..end)
}
