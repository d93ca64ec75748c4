//! Options of a trace.dat: clock, kernel, ring statistics, further buffers.

use super::file::Parts;
use super::scan::Scan;
use super::sections::Algorithm;
use crate::error::Fault;

/// What the options say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `uname`: system, node, release, machine.
    pub(crate) uname: Option<String>,
    /// The clock in brackets of `trace_clock`.
    pub(crate) clock: Option<String>,
    /// `per_cpu/cpuN/stats`, in turn.
    pub(crate) cpu_stats: Vec<String>,
    pub(crate) cpu_count: Option<u32>,
    /// Multiplier, shift and offset from TSC ticks to nanoseconds.
    pub(crate) tsc: Option<(u32, u32, u64)>,
    /// How packed parts are packed (version 7).
    pub(crate) algorithm: Algorithm,
    /// Offsets of the data of instances (version 6).
    pub(super) buffers_6: Vec<u64>,
}

impl Options {
    /// Release of the recorded kernel.
    pub(crate) fn release(&self) -> Option<&str> {
        self.uname.as_deref()?.split_ascii_whitespace().nth(2)
    }

    /// A time stamp of the file in nanoseconds (or in its clock's own unit, where it has one).
    pub(crate) fn nanos(&self, stamp: u64) -> u64 {
        match self.tsc {
            None => stamp,
            Some((multiplier, shift, offset)) => {
                let scaled = (u128::from(stamp) * u128::from(multiplier)) >> shift.min(127);
                (scaled as u64).wrapping_sub(offset)
            }
        }
    }
}

/// Option ids of trace-cmd.dat.v7(5); version 6 has the first 14 of them.
pub(super) mod id {
    pub(crate) const DONE: u16 = 0;
    pub(crate) const CPUSTAT: u16 = 2;
    pub(crate) const BUFFER: u16 = 3;
    pub(crate) const TRACECLOCK: u16 = 4;
    pub(crate) const UNAME: u16 = 5;
    pub(crate) const CPUCOUNT: u16 = 8;
    pub(crate) const TSC2NSEC: u16 = 14;
    pub(crate) const HEADER_INFO: u16 = 16;
    pub(crate) const FTRACE_EVENTS: u16 = 17;
    pub(crate) const EVENT_FORMATS: u16 = 18;
    pub(crate) const CMDLINES: u16 = 21;
}

/// Reads the options of version 6, which end with id 0.
pub(super) fn read_6(parts: &mut Parts, scan: &mut Scan) -> Result<(), Fault> {
    loop {
        let id = scan.u16("option")?;
        if id == id::DONE {
            return Ok(());
        }
        let size = u64::from(scan.u32("size of an option")?);
        let start = scan.at;
        if size > scan.left() {
            return Err(scan.fault(format!("option {id}: {size} bytes, {} left", scan.left())));
        }
        let mut inner = Scan { end: start + size, ..scan.clone() };
        if id == id::BUFFER {
            parts.options.buffers_6.push(inner.u64("place of a buffer")?);
        } else {
            common(&mut parts.options, id, &mut inner)?;
        }
        scan.at = start + size;
    }
}

/// Options that both versions have.
pub(super) fn common(options: &mut Options, id: u16, scan: &mut Scan) -> Result<(), Fault> {
    match id {
        id::CPUSTAT => options.cpu_stats.push(text(scan)?),
        id::TRACECLOCK => options.clock = Some(clock(&text(scan)?)),
        id::UNAME => options.uname = Some(text(scan)?),
        id::CPUCOUNT => options.cpu_count = Some(scan.u32("number of CPUs")?),
        id::TSC2NSEC => {
            let multiplier = scan.u32("TSC multiplier")?;
            let shift = scan.u32("TSC shift")?;
            options.tsc = Some((multiplier, shift, scan.u64("TSC offset")?));
        }
        _ => {}
    }
    Ok(())
}

/// The rest of an option as a string, without its zero byte.
fn text(scan: &mut Scan) -> Result<String, Fault> {
    let bytes = scan.bytes(scan.left(), "option")?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Of `[local] global counter` the name in brackets.
pub(super) fn clock(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text.trim(), |(name, _)| name).to_string()
}
