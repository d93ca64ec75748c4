//! The container of a `trace.dat`: what stands around the ring-buffer pages, versions 6 and 7.
//!
//! Format: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5). Version 6 lays its parts end to end;
//! version 7 has sections, found through options, which may be compressed.

use super::options::{self, Options};
use super::ring::PageHeader;
use super::scan::{Data, Scan};
use crate::error::{At, Damage, Fault};
use crate::format::EventFormat;
use crate::format::decode::Decoder;

/// First bytes of every trace.dat.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Ring-buffer pages of one CPU in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) cpu: u16,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) page_bytes: u64,
    pub(crate) compressed: bool,
}

/// A trace.dat, opened.
#[derive(Debug)]
pub(crate) struct DatFile {
    pub(crate) data: Data,
    pub(crate) version: u32,
    pub(crate) header: PageHeader,
    pub(crate) decoder: Decoder,
    pub(crate) comms: Vec<(i32, Vec<u8>)>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) options: Options,
    pub(crate) damage: Damage,
}

/// Parts gathered before the header is known to be complete.
pub(super) struct Parts {
    pub(super) header: Option<PageHeader>,
    pub(super) decoder: Decoder,
    pub(super) comms: Vec<(i32, Vec<u8>)>,
    pub(super) lanes: Vec<Lane>,
    pub(super) options: Options,
    pub(super) damage: Damage,
    pub(super) page_bytes: u64,
    pub(super) big_endian: bool,
}

/// Ring-buffer pages may be larger than the machine's: up to 64 KiB pages times 16.
const PAGE_BYTES_MAX: u64 = 1 << 20;
/// Most CPUs of a file; Linux itself stops at 8192.
const CPUS_MAX: u64 = 16 << 10;

/// Reads the formats of events that perf copies in the manner of a trace.dat's head.
///
/// # Errors
/// Damage within.
pub(crate) fn formats(mut scan: Scan, damage: &mut Damage) -> Result<Decoder, Fault> {
    let magic = scan.bytes(MAGIC.len() as u64, "magic bytes of the formats")?;
    if magic != MAGIC {
        return Err(scan.fault("the formats do not begin as they should"));
    }
    scan.string(16, "version of the formats")?;
    let big_endian = scan.u8("byte order")? == 1;
    scan.u8("size of a long")?;
    let page_bytes = u64::from(scan.u32("page size")?);
    let mut parts = Parts::new(page_bytes, big_endian);
    let outcome = parts
        .header_info(&mut scan)
        .and_then(|()| parts.ftrace_formats(&mut scan))
        .and_then(|()| parts.event_formats(&mut scan));
    for fault in parts.damage.faults() {
        damage.add(fault.at, fault.what.clone());
    }
    match outcome {
        // The formats before the damage are good.
        Err(fault) if parts.decoder.events() > 0 => damage.add(fault.at, fault.what),
        outcome => outcome?,
    }
    Ok(parts.decoder)
}

impl DatFile {
    /// Opens a file. What is damaged but not needed is noted in `damage`.
    ///
    /// # Errors
    /// Damage without which no event can be read.
    pub(crate) fn open(data: Data) -> Result<DatFile, Fault> {
        let mut scan = Scan::new(data.clone(), 0, false);
        let magic = scan.bytes(MAGIC.len() as u64, "magic bytes")?;
        if magic != MAGIC {
            scan.at = 0;
            return Err(scan.fault("not a trace.dat"));
        }
        let version = scan.string(16, "file version")?;
        let version: u32 =
            version.parse().map_err(|_| scan.fault(format!("file version {version:?}")))?;
        if !(6..=7).contains(&version) {
            return Err(scan.fault(format!(
                "file version {version}, only 6 and 7 are read: `trace-cmd convert` makes them"
            )));
        }
        let big_endian = scan.u8("byte order")? == 1;
        let _long_bytes = scan.u8("size of a long")?;
        let mut scan = Scan::new(data.clone(), scan.at, big_endian);
        let page_bytes = u64::from(scan.u32("page size")?);
        if !(64..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(scan.fault(format!("page size {page_bytes}")));
        }
        let mut parts = Parts::new(page_bytes, big_endian);
        let outcome = match version {
            6 => parts.version_6(&mut scan),
            _ => super::sections::read(&mut parts, &mut scan, &data),
        };
        if let Err(fault) = outcome {
            // With a header, formats and pages the events can still be read.
            if parts.header.is_none() || parts.lanes.is_empty() || parts.decoder.events() == 0 {
                return Err(fault);
            }
            parts.damage.add(fault.at, fault.what);
        }
        parts.finish(data, version)
    }
}

impl Parts {
    fn new(page_bytes: u64, big_endian: bool) -> Parts {
        Parts {
            header: None,
            decoder: Decoder::new(big_endian),
            comms: Vec::new(),
            lanes: Vec::new(),
            options: Options::default(),
            damage: Damage::default(),
            page_bytes,
            big_endian,
        }
    }

    fn finish(mut self, data: Data, version: u32) -> Result<DatFile, Fault> {
        let end = data.len();
        let missing = |what: &str| Fault {
            at: At::Byte(end),
            what: format!("the file has no {what}: no event can be read"),
        };
        let header = self.header.ok_or_else(|| missing("header_page"))?;
        for lane in &mut self.lanes {
            let kept = end.saturating_sub(lane.offset).min(lane.size);
            if kept < lane.size {
                let what = format!(
                    "data of CPU {} ends after {kept} of {} bytes: the file is cut short",
                    lane.cpu, lane.size
                );
                self.damage.add(At::Byte(end), what);
                lane.size = kept;
            }
        }
        self.lanes.retain(|lane| lane.size > 0);
        self.lanes.sort_by_key(|lane| (lane.cpu, lane.offset));
        Ok(DatFile {
            data,
            version,
            header,
            decoder: self.decoder,
            comms: self.comms,
            lanes: self.lanes,
            options: self.options,
            damage: self.damage,
        })
    }

    fn version_6(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        self.header_info(scan)?;
        self.ftrace_formats(scan)?;
        self.event_formats(scan)?;
        let kallsyms = u64::from(scan.u32("size of kallsyms")?);
        self.skip(scan, kallsyms, "kallsyms")?;
        let printk = u64::from(scan.u32("size of printk formats")?);
        self.skip(scan, printk, "printk formats")?;
        let size = scan.u64("size of the command lines")?;
        let cmdlines = scan.bytes(size, "command lines")?;
        self.cmdlines(&cmdlines);
        let cpus = u64::from(scan.u32("number of CPUs")?);
        if cpus > CPUS_MAX {
            return Err(scan.fault(format!("{cpus} CPUs: the file is damaged")));
        }
        self.data_6(scan, cpus)?;
        for offset in std::mem::take(&mut self.options.buffers_6) {
            let mut buffer = Scan { at: offset, ..scan.clone() };
            self.data_6(&mut buffer, cpus)?;
        }
        Ok(())
    }

    /// `options`, then `flyrecord` and the places of each CPU's pages.
    fn data_6(&mut self, scan: &mut Scan, cpus: u64) -> Result<(), Fault> {
        let mut kind = scan.bytes(10, "kind of data")?;
        if kind == b"options  \0" {
            options::read_6(self, scan)?;
            kind = scan.bytes(10, "kind of data")?;
        }
        if kind == b"latency  \0" {
            return Err(scan.fault("latency data (text) instead of events: not read"));
        }
        if kind != b"flyrecord\0" {
            return Err(scan.fault("expected `flyrecord`, the file is damaged"));
        }
        let cpus = self.options.cpu_count.map_or(cpus, |count| u64::from(count).min(CPUS_MAX));
        for cpu in 0..cpus {
            let offset = scan.u64("place of a CPU's data")?;
            let size = scan.u64("size of a CPU's data")?;
            self.lane(scan, cpu, offset, size, self.page_bytes, false);
        }
        Ok(())
    }

    pub(super) fn lane(
        &mut self,
        scan: &Scan,
        cpu: u64,
        offset: u64,
        size: u64,
        page_bytes: u64,
        compressed: bool,
    ) {
        let Ok(cpu) = u16::try_from(cpu) else {
            let fault = scan.fault(format!("CPU {cpu}: no such CPU"));
            return self.damage.add(fault.at, fault.what);
        };
        if !(64..=PAGE_BYTES_MAX).contains(&page_bytes) {
            let fault = scan.fault(format!("CPU {cpu}: page size {page_bytes}"));
            return self.damage.add(fault.at, fault.what);
        }
        if size > 0 {
            self.lanes.push(Lane { cpu, offset, size, page_bytes, compressed });
        }
    }

    pub(super) fn header_info(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        scan.expect("header_page\0")?;
        let size = scan.u64("size of header_page")?;
        let text = scan.bytes(size, "header_page")?;
        let header = PageHeader::parse(&String::from_utf8_lossy(&text), self.big_endian);
        self.header = Some(header.map_err(|what| scan.fault(what))?);
        scan.expect("header_event\0")?;
        let size = scan.u64("size of header_event")?;
        self.skip(scan, size, "header_event")
    }

    pub(super) fn ftrace_formats(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        let count = scan.u32("number of ftrace formats")?;
        (0..count).try_for_each(|_| self.format(scan))
    }

    pub(super) fn event_formats(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        let systems = scan.u32("number of event systems")?;
        for _ in 0..systems {
            scan.string(1024, "name of an event system")?;
            let events = scan.u32("number of events")?;
            (0..events).try_for_each(|_| self.format(scan))?;
        }
        Ok(())
    }

    fn format(&mut self, scan: &mut Scan) -> Result<(), Fault> {
        let size = scan.u64("size of an event format")?;
        let at = scan.fault("").at;
        let text = scan.bytes(size, "event format")?;
        let format = EventFormat::parse(&String::from_utf8_lossy(&text));
        if let Err(what) = format.and_then(|format| self.decoder.learn(&format)) {
            self.damage.add(at, what);
        }
        Ok(())
    }

    /// Lines of a pid, a blank and a name.
    pub(super) fn cmdlines(&mut self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n') {
            let Some(blank) = line.iter().position(|byte| *byte == b' ') else {
                continue;
            };
            let pid = std::str::from_utf8(&line[..blank]).ok().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid {
                self.comms.push((pid, line[blank + 1..].to_vec()));
            }
        }
    }

    pub(super) fn skip(&mut self, scan: &mut Scan, size: u64, what: &str) -> Result<(), Fault> {
        if size > scan.left() {
            return Err(scan.fault(format!(
                "{what}: {size} bytes expected, {} left: the file is cut short or damaged",
                scan.left()
            )));
        }
        scan.at += size;
        Ok(())
    }
}
