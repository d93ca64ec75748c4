//! Files as they lie on disk: plain, zstd, gzip or xz, told apart by their first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::TraceError;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Zstd,
    Gzip,
    Xz,
}

/// Largest dictionary an xz file may ask for: `xz -9` uses 64 MiB, and memory must stay bounded
/// whatever a damaged header says.
const XZ_DICT_BYTES_MAX: usize = 64 << 20;
/// Largest zstd window, as a power of two: `zstd --long` uses 27, the library's own limit too.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Bytes read from disk at a time.
const READ_BYTES: usize = 128 << 10;

impl Packing {
    /// Tells the packing by the file's first bytes (RFC 8878, RFC 1952, the .xz format 2.1.1.1).
    pub(crate) fn of(head: &[u8]) -> Packing {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A skippable frame may come first (pzstd, seekable zstd).
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            _ => Packing::Plain,
        }
    }

    /// Name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Zstd => "zstd",
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
        }
    }
}

/// Bytes of the packed file that were read so far; shared with whoever shows progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumed(Arc<AtomicU64>);

impl Consumed {
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a number for a progress line, ordered with nothing.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64) {
        // Relaxed: as in `bytes`.
        self.0.store(bytes, Ordering::Relaxed);
    }
}

struct Counting<R> {
    inner: R,
    consumed: Consumed,
    sum: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sum += count as u64;
        self.consumed.set(self.sum);
        Ok(count)
    }
}

/// An opened file, unpacked as it is read.
pub(crate) struct Source {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) packing: Packing,
    pub(crate) consumed: Consumed,
    /// Length of the packed file.
    pub(crate) total: u64,
}

impl Source {
    /// Opens a file from its start.
    pub(crate) fn open(path: &Path) -> Result<Source, TraceError> {
        let file = File::open(path).map_err(|e| TraceError::io(path, "open", e))?;
        let total = file.metadata().map_err(|e| TraceError::io(path, "open", e))?.len();
        let consumed = Consumed::default();
        let counting = Counting { inner: file, consumed: consumed.clone(), sum: 0 };
        let (packing, reader) =
            unpack(counting).map_err(|error| TraceError::io(path, "read", error))?;
        Ok(Source { reader, packing, consumed, total })
    }
}

/// Unpacks a stream by its first bytes.
pub(crate) fn unpack(
    mut reader: impl Read + Send + 'static,
) -> io::Result<(Packing, Box<dyn Read + Send>)> {
    let mut head = Vec::with_capacity(8);
    reader.by_ref().take(6).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    let whole = io::Cursor::new(head).chain(reader);
    let unpacked: Box<dyn Read + Send> = match packing {
        Packing::Plain => Box::new(whole),
        Packing::Zstd => {
            let buffered = io::BufReader::with_capacity(READ_BYTES, whole);
            let mut decoder = zstd::Decoder::with_buffer(buffered)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Packing::Gzip => {
            let buffered = io::BufReader::with_capacity(READ_BYTES, whole);
            Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
        }
        Packing::Xz => {
            let size = NonZeroUsize::new(READ_BYTES).unwrap_or(NonZeroUsize::MIN);
            let decoder = xz4rust::XzDecoder::in_heap_with_alloc_dict_size(0, XZ_DICT_BYTES_MAX);
            Box::new(xz4rust::XzReader::new_with_buffer_size_and_decoder(whole, size, decoder))
        }
    };
    Ok((packing, unpacked))
}

/// Reads a small file whole, unpacked; `limit` bytes at most. The flag says that more followed or
/// that the file broke off: what came before is returned.
pub(crate) fn read_limited(
    path: &Path,
    limit: u64,
) -> Result<(Vec<u8>, Option<String>), TraceError> {
    let source = Source::open(path)?;
    let packing = source.packing;
    let mut bytes = Vec::new();
    let outcome = source.reader.take(limit + 1).read_to_end(&mut bytes);
    let problem = match outcome {
        Err(error) => Some(format!("{} data broken: {error}", packing.name())),
        Ok(_) if bytes.len() as u64 > limit => {
            bytes.truncate(limit as usize);
            Some(format!("longer than {limit} bytes; the rest is not read"))
        }
        Ok(_) => None,
    };
    Ok((bytes, problem))
}

/// Opens a file for reading at any place, with its length. A packed one is unpacked into a
/// temporary file without a name, which vanishes with its last user; what unpacks before the
/// data breaks is kept.
pub(crate) fn seekable(path: &Path) -> Result<(File, u64), TraceError> {
    let mut source = Source::open(path)?;
    if source.packing == Packing::Plain {
        let file = File::open(path).map_err(|e| TraceError::io(path, "open", e))?;
        return Ok((file, source.total));
    }
    let mut file = tempfile::tempfile().map_err(|e| TraceError::io(path, "unpack", e))?;
    let mut buffer = vec![0; READ_BYTES];
    let mut length = 0u64;
    loop {
        match source.reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let written = io::Write::write_all(&mut file, &buffer[..count]);
                written.map_err(|e| TraceError::io(path, "unpack", e))?;
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The reader finds out by itself that the end is missing, and says where.
            Err(_) if length > 0 => break,
            Err(error) => return Err(TraceError::io(path, "unpack", error)),
        }
    }
    Ok((file, length))
}
