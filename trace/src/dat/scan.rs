//! Bytes of a file, read at any place, with numbers in the byte order of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::error::{At, Fault};

/// The bytes of a `trace.dat`: a file that stays on disk, or memory.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    File(Arc<File>, u64),
    Memory(Arc<[u8]>),
}

impl Data {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Data::File(_, length) => *length,
            Data::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads up to the buffer's length at `at`; fewer bytes only at the end.
    pub(crate) fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Data::Memory(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
            Data::File(file, _) => {
                let mut have = 0;
                while have < buffer.len() {
                    match file.read_at(&mut buffer[have..], at + have as u64) {
                        Ok(0) => break,
                        Ok(count) => have += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(have)
            }
        }
    }
}

/// A place in the data from which numbers and strings are read in turn.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) data: Data,
    /// Next byte.
    pub(crate) at: u64,
    /// One past the last byte that may be read.
    pub(crate) end: u64,
    pub(crate) big_endian: bool,
    /// Where these bytes lie in the file, for messages (decompressed sections lie elsewhere).
    pub(crate) base: u64,
}

impl Scan {
    pub(crate) fn new(data: Data, at: u64, big_endian: bool) -> Scan {
        let end = data.len();
        Scan { data, at, end, big_endian, base: 0 }
    }

    /// Scans memory that was unpacked from the file's byte `base`.
    pub(crate) fn unpacked(bytes: Vec<u8>, base: u64, big_endian: bool) -> Scan {
        let mut scan = Scan::new(Data::Memory(bytes.into()), 0, big_endian);
        scan.base = base;
        scan
    }

    pub(crate) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault { at: At::Byte(self.base + self.at), what: what.into() }
    }

    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Reads `length` bytes, never reserving more than the file still has.
    pub(crate) fn bytes(&mut self, length: u64, what: &str) -> Result<Vec<u8>, Fault> {
        if length > self.left() {
            return Err(self.fault(format!(
                "{what}: {length} bytes expected, {} left: the file is cut short or damaged",
                self.left()
            )));
        }
        let mut bytes = vec![0; length as usize];
        let count =
            self.data.read_at(self.at, &mut bytes).map_err(|e| self.fault(e.to_string()))?;
        if count < bytes.len() {
            return Err(self.fault(format!("{what}: the file is cut short")));
        }
        self.at += length;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes(N as u64, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Fault> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Fault> {
        let bytes = self.array(what)?;
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        let bytes = self.array(what)?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        let bytes = self.array(what)?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A string up to its zero byte, at most `limit` bytes.
    pub(crate) fn string(&mut self, limit: u64, what: &str) -> Result<String, Fault> {
        let have = self.left().min(limit);
        let start = self.at;
        let bytes = self.bytes(have, what)?;
        let Some(length) = bytes.iter().position(|byte| *byte == 0) else {
            self.at = start;
            return Err(self.fault(format!("{what}: no end within {have} bytes")));
        };
        self.at = start + length as u64 + 1;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// The string that the file must have here, its zero byte included.
    pub(crate) fn expect(&mut self, text: &str) -> Result<(), Fault> {
        let start = self.at;
        let found = self.bytes(text.len() as u64, text.trim_end_matches('\0'))?;
        if found != text.as_bytes() {
            self.at = start;
            let expected = text.trim_end_matches('\0').trim_end();
            return Err(self.fault(format!("expected `{expected}`, the file is damaged")));
        }
        Ok(())
    }
}
