//! Sections of a version 7 file: options lead to them, compression hides some.

use std::io::Read;

use super::file::Parts;
use super::options::{self, id};
use super::scan::{Data, Scan};
use crate::error::Fault;

/// A section's flag: its data is compressed.
const COMPRESSED: u16 = 1;
/// Largest unpacked section: all formats and kallsyms of a kernel stay below 32 MiB.
const SECTION_BYTES_MAX: u64 = 256 << 20;
/// Sections of options that are followed; a file has one or two.
const OPTION_SECTIONS_MAX: usize = 1024;

/// How sections and chunks of one file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Algorithm {
    #[default]
    None,
    Zstd,
    Zlib,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Algorithm> {
        match name {
            "none" => Some(Algorithm::None),
            "zstd" => Some(Algorithm::Zstd),
            "zlib" => Some(Algorithm::Zlib),
            _ => None,
        }
    }

    /// Unpacks at most `limit` bytes; what unpacked before an error is returned with it.
    pub(crate) fn unpack(self, packed: &[u8], limit: u64) -> (Vec<u8>, Option<String>) {
        let mut bytes = Vec::new();
        let outcome = match self {
            Algorithm::None => packed.take(limit).read_to_end(&mut bytes),
            Algorithm::Zstd => match zstd::Decoder::with_buffer(packed) {
                Ok(decoder) => decoder.take(limit).read_to_end(&mut bytes),
                Err(error) => Err(error),
            },
            Algorithm::Zlib => {
                flate2::bufread::ZlibDecoder::new(packed).take(limit).read_to_end(&mut bytes)
            }
        };
        (bytes, outcome.err().map(|error| error.to_string()))
    }
}

/// Reads a version 7 file behind its page size.
pub(super) fn read(parts: &mut Parts, scan: &mut Scan, data: &Data) -> Result<(), Fault> {
    let name = scan.string(64, "compression algorithm")?;
    scan.string(64, "compression version")?;
    let Some(algorithm) = Algorithm::parse(&name) else {
        return Err(scan.fault(format!(
            "compressed with {name:?}; zstd, zlib and none are read: `trace-cmd convert` makes them"
        )));
    };
    parts.options.algorithm = algorithm;
    let mut next = scan.u64("place of the options")?;
    let mut seen = 0;
    while next != 0 && seen < OPTION_SECTIONS_MAX {
        let mut section = open(scan, data, next, 0, algorithm)?;
        next = options(parts, &mut section, scan, data, algorithm)?;
        seen += 1;
    }
    Ok(())
}

/// Opens the section at `offset`, unpacked.
fn open(
    file: &Scan,
    data: &Data,
    offset: u64,
    expected: u16,
    algorithm: Algorithm,
) -> Result<Scan, Fault> {
    let mut scan = Scan { at: offset, ..file.clone() };
    if offset >= data.len() {
        return Err(scan.fault(format!("section {expected} lies beyond the end of the file")));
    }
    let id = scan.u16("section")?;
    let flags = scan.u16("section flags")?;
    scan.u32("section description")?;
    let size = scan.u64("section size")?;
    if id != expected {
        return Err(scan.fault(format!("expected section {expected}, found {id}")));
    }
    if size > scan.left() {
        return Err(scan.fault(format!("section {id}: {size} bytes, {} left", scan.left())));
    }
    let mut scan = Scan { end: scan.at + size, ..scan };
    if flags & COMPRESSED == 0 {
        return Ok(scan);
    }
    let packed = u64::from(scan.u32("packed size")?);
    let unpacked = u64::from(scan.u32("unpacked size")?);
    let place = scan.at;
    let bytes = scan.bytes(packed, "packed section")?;
    let (bytes, error) = algorithm.unpack(&bytes, unpacked.min(SECTION_BYTES_MAX));
    if let Some(error) = error {
        scan.at = place;
        return Err(scan.fault(format!("section {id} cannot be unpacked: {error}")));
    }
    Ok(Scan::unpacked(bytes, place, scan.big_endian))
}

/// Reads one section of options; returns the offset of the next, 0 for none.
fn options(
    parts: &mut Parts,
    scan: &mut Scan,
    file: &Scan,
    data: &Data,
    algorithm: Algorithm,
) -> Result<u64, Fault> {
    let mut later = Vec::new();
    let next = loop {
        let id = scan.u16("option")?;
        let size = u64::from(scan.u32("size of an option")?);
        let start = scan.at;
        if size > scan.left() {
            return Err(scan.fault(format!("option {id}: {size} bytes, {} left", scan.left())));
        }
        let mut inner = Scan { end: start + size, ..scan.clone() };
        match id {
            id::DONE => {
                break if size >= 8 { inner.u64("next options")? } else { 0 };
            }
            id::HEADER_INFO | id::FTRACE_EVENTS | id::EVENT_FORMATS | id::CMDLINES => {
                later.push((id, inner.u64("place of a section")?));
            }
            id::BUFFER => buffer(parts, &mut inner, file)?,
            _ => options::common(&mut parts.options, id, &mut inner)?,
        }
        scan.at = start + size;
    };
    for (id, offset) in later {
        let mut section = open(file, data, offset, id, algorithm)?;
        match id {
            id::HEADER_INFO => parts.header_info(&mut section)?,
            id::FTRACE_EVENTS => parts.ftrace_formats(&mut section)?,
            id::EVENT_FORMATS => parts.event_formats(&mut section)?,
            _ => {
                let size = section.u64("size of the command lines")?;
                let text = section.bytes(size, "command lines")?;
                parts.cmdlines(&text);
            }
        }
    }
    Ok(next)
}

/// A buffer's option names the place of each CPU's data; its section says whether it is packed.
fn buffer(parts: &mut Parts, scan: &mut Scan, file: &Scan) -> Result<(), Fault> {
    let section = scan.u64("place of a buffer")?;
    scan.string(4096, "name of a buffer")?;
    let clock = scan.string(4096, "clock of a buffer")?;
    if parts.options.clock.is_none() && !clock.is_empty() {
        parts.options.clock = Some(options::clock(&clock));
    }
    let page_bytes = u64::from(scan.u32("page size of a buffer")?);
    let cpus = scan.u32("number of CPUs of a buffer")?;
    let mut head = Scan { at: section, ..file.clone() };
    let id = head.u16("buffer section")?;
    if id != id::BUFFER {
        return Err(head.fault(format!("expected section {}, found {id}", id::BUFFER)));
    }
    let compressed = head.u16("buffer flags")? & COMPRESSED != 0;
    for _ in 0..cpus {
        let cpu = u64::from(scan.u32("CPU of a buffer")?);
        let offset = scan.u64("place of a CPU's data")?;
        let size = scan.u64("size of a CPU's data")?;
        // The size of packed data does not count the number of chunks before it (seen with
        // trace-cmd 3.1.6, though its manual does not say so).
        let size = if compressed && size > 0 { size.saturating_add(4) } else { size };
        parts.lane(scan, cpu, offset, size, page_bytes, compressed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn every_algorithm_unpacks_up_to_its_limit_and_says_where_data_breaks() {
        let text = b"ring-buffer pages".repeat(400);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let packed = [
            (Algorithm::None, text.clone()),
            (Algorithm::Zstd, zstd::encode_all(&text[..], 1).unwrap()),
            (Algorithm::Zlib, zlib.finish().unwrap()),
        ];
        for (algorithm, bytes) in packed {
            assert_eq!(algorithm.unpack(&bytes, u64::MAX), (text.clone(), None));
            let (part, error) = algorithm.unpack(&bytes, 100);
            assert_eq!((&part[..], error), (&text[..100], None), "{algorithm:?}");
            let (part, error) = algorithm.unpack(&bytes[..bytes.len() / 2], u64::MAX);
            assert!(part.len() < text.len(), "{algorithm:?}");
            assert_eq!(error.is_none(), algorithm == Algorithm::None, "{algorithm:?}");
        }
    }
}
