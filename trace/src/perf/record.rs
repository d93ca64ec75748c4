//! One record of a perf.data: attributes and samples, field by field.

use super::{Attr, Layout};
use crate::dat::Scan;
use crate::error::Fault;

/// Bits of `sample_type` (perf_event_open(2)).
mod sample {
    pub(super) const IP: u64 = 1;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bit of the attribute's flags: every record ends with the sample's identity.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Reads a `perf_event_attr` up to its flags.
pub(super) fn attr(scan: &mut Scan) -> Result<Attr, Fault> {
    let _type = scan.u32("attribute")?;
    let _size = scan.u32("attribute")?;
    let _config = scan.u64("attribute")?;
    let _period = scan.u64("attribute")?;
    let sample_type = scan.u64("sample type")?;
    let read_format = scan.u64("read format")?;
    let sample_id_all = scan.u64("attribute flags")? & SAMPLE_ID_ALL != 0;
    Ok(Attr { sample_type, read_format, sample_id_all })
}

/// Takes integers off a record's body.
pub(super) struct Words<'a> {
    pub(super) rest: &'a [u8],
    pub(super) big_endian: bool,
}

impl<'a> Words<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        if count > self.rest.len() {
            return None;
        }
        let (bytes, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}

/// What is needed of a sample.
pub(super) struct Sample<'a> {
    pub(super) tid: i32,
    pub(super) time_ns: u64,
    pub(super) cpu: u16,
    pub(super) raw: &'a [u8],
}

impl Layout {
    /// The attribute by which a record is laid out: all the same, or found by the id that then
    /// comes first in a sample.
    fn attr_of(&self, words: &Words<'_>) -> Option<Attr> {
        let first = *self.attrs.first()?;
        if self.attrs.iter().all(|attr| *attr == first) {
            return Some(first);
        }
        if first.sample_type & sample::IDENTIFIER == 0 {
            return None;
        }
        let mut peek = Words { rest: words.rest, big_endian: words.big_endian };
        let index = self.ids.get(&peek.u64()?)?;
        self.attrs.get(*index).copied()
    }

    /// Parses the body of a `PERF_RECORD_SAMPLE`.
    pub(super) fn sample<'a>(&self, body: &'a [u8]) -> Option<Sample<'a>> {
        let mut words = Words { rest: body, big_endian: self.big_endian };
        let attr = self.attr_of(&words)?;
        let has = |bit: u64| attr.sample_type & bit != 0;
        let mut found = Sample { tid: 0, time_ns: 0, cpu: 0, raw: &[] };
        for bit in [sample::IDENTIFIER, sample::IP] {
            if has(bit) {
                words.u64()?;
            }
        }
        if has(sample::TID) {
            words.u32()?;
            found.tid = words.u32()? as i32;
        }
        if has(sample::TIME) {
            found.time_ns = words.u64()?;
        }
        for bit in [sample::ADDR, sample::ID, sample::STREAM_ID] {
            if has(bit) {
                words.u64()?;
            }
        }
        if has(sample::CPU) {
            found.cpu = u16::try_from(words.u32()?).ok()?;
            words.u32()?;
        }
        if has(sample::PERIOD) {
            words.u64()?;
        }
        if has(sample::READ) {
            skip_read(&mut words, attr.read_format)?;
        }
        if has(sample::CALLCHAIN) {
            let count = usize::try_from(words.u64()?).ok()?;
            words.bytes(count.checked_mul(8)?)?;
        }
        if has(sample::RAW) {
            let length = words.u32()? as usize;
            found.raw = words.bytes(length)?;
        }
        Some(found)
    }

    /// The CPU in the identity that ends every other record, where there is one.
    pub(super) fn trailing_cpu(&self, body: &[u8]) -> Option<u16> {
        let attr = self.attrs.first().filter(|attr| attr.sample_id_all)?;
        if attr.sample_type & sample::CPU == 0 {
            return None;
        }
        let after = if attr.sample_type & sample::IDENTIFIER == 0 { 8 } else { 16 };
        let start = body.len().checked_sub(after)?;
        let mut words = Words { rest: &body[start..], big_endian: self.big_endian };
        u16::try_from(words.u32()?).ok()
    }
}

/// Steps over counter values; bits of `read_format`: times enabled and running, id, group, lost.
fn skip_read(words: &mut Words<'_>, format: u64) -> Option<()> {
    let times = u64::from(format & 1 != 0) + u64::from(format & 2 != 0);
    let each = 1 + u64::from(format & 4 != 0) + u64::from(format & 16 != 0);
    let count = if format & 8 != 0 { words.u64()?.checked_mul(each)? } else { each };
    let bytes = count.checked_add(times)?.checked_mul(8)?;
    words.bytes(usize::try_from(bytes).ok()?)?;
    Some(())
}
