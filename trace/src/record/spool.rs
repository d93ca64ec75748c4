//! Reads the trace buffer of each CPU into a file of its own, one thread a CPU.
//!
//! A thread sleeps in poll(2) until its buffer is filled to `buffer_percent`, then takes one
//! ring-buffer page after the other until a page comes out half empty: it has then caught up.
//! (Taking whatever is there, at once, yields pages with a few events each.) Pages are gathered in
//! a buffer that exists before tracing starts, and written past the page cache where the file
//! system can: the recorder would otherwise fill the recording with page allocations of its own.
//! Nothing is decoded here but the byte count in the header of each page.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;

use super::error::RecordError;
use super::instance::Instance;

/// Bytes gathered per CPU before they are written.
const GATHER_BYTES: usize = 512 << 10;
/// Alignment that writing past the page cache asks for.
const ALIGN_BYTES: usize = 4096;
/// Reader threads go before the workload: a late reader loses events.
const READER_NICE: i32 = -10;
/// Upper bound of a sleep, should a kernel forget to wake a poll with `buffer_percent`.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Bits of the count in a page's header that are flags: events were lost before this page.
const COMMIT_FLAGS: u64 = 0xffff_ffff_fff0_0000;
const COMMIT_MISSED: u64 = 1 << 31;

/// Where the byte count stands in a ring-buffer page and how long pages are (`header_page`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes of a page, header included.
    pub page_bytes: usize,
    /// Offset of the byte count.
    pub commit_at: usize,
    /// Size of the byte count, 4 or 8.
    pub commit_bytes: usize,
    /// Offset of the first event.
    pub data_at: usize,
}

impl PageLayout {
    /// Reads the tracefs file `events/header_page`.
    #[must_use]
    pub fn parse(text: &str) -> Option<PageLayout> {
        let number = |line: &str, key: &str| -> Option<usize> {
            line.split(';').find_map(|part| part.trim().strip_prefix(key)?.trim().parse().ok())
        };
        let line = |name: &str| text.lines().find(|line| line.contains(name));
        let (commit, data) = (line(" commit;")?, line(" data;")?);
        let layout = PageLayout {
            page_bytes: number(data, "offset:")? + number(data, "size:")?,
            commit_at: number(commit, "offset:")?,
            commit_bytes: number(commit, "size:")?,
            data_at: number(data, "offset:")?,
        };
        let commit_end = layout.commit_at + layout.commit_bytes;
        let sane = matches!(layout.commit_bytes, 4 | 8)
            && commit_end <= layout.data_at
            && layout.data_at < layout.page_bytes;
        sane.then_some(layout)
    }

    /// Bytes of events in `page`, and whether events were lost before them.
    #[must_use]
    pub fn used(&self, page: &[u8]) -> (usize, bool) {
        let field = &page[self.commit_at..self.commit_at + self.commit_bytes];
        let commit = match field.try_into() {
            Ok(bytes) => u64::from_ne_bytes(bytes),
            Err(_) => u64::from(u32::from_ne_bytes([field[0], field[1], field[2], field[3]])),
        };
        let used = (commit & !COMMIT_FLAGS) as usize;
        (used.min(self.page_bytes - self.data_at), commit & COMMIT_MISSED != 0)
    }
}

/// What one thread brought home.
#[derive(Clone, Debug)]
pub struct CpuSpool {
    /// The CPU.
    pub cpu: usize,
    /// Its file of ring-buffer pages.
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
}

/// What the main thread sees of the readers.
#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    lost: AtomicBool,
    past_cache: AtomicBool,
}

/// A running reader.
#[derive(Debug)]
struct Thread {
    cpu: usize,
    handle: JoinHandle<Result<CpuSpool, RecordError>>,
    /// Its thread id, 0 until it has started to run.
    tid: Arc<AtomicI32>,
}

/// The running readers. Dropping them ends them, so that the instance can be removed.
#[derive(Debug)]
pub struct Spool {
    threads: Vec<Thread>,
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    alarm: Arc<OwnedFd>,
}

impl Spool {
    /// Opens every buffer and starts its reader. The spool files are made in `folder`.
    ///
    /// # Errors
    /// When a buffer or a file cannot be opened, or a thread not started.
    pub fn start(
        instance: &Instance,
        folder: &Path,
        layout: PageLayout,
    ) -> Result<Spool, RecordError> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let failed = |errno| RecordError::Signals(io::Error::from(errno));
        let mut spool = Spool {
            threads: Vec::new(),
            shared: Arc::default(),
            stop: Arc::new(event().map_err(failed)?),
            alarm: Arc::new(event().map_err(failed)?),
        };
        for cpu in instance.cpus()? {
            let mut reader = Reader::open(instance, folder, layout, cpu, &spool)?;
            let tid = Arc::new(AtomicI32::new(0));
            let (tid_out, alarm) = (Arc::clone(&tid), Arc::clone(&spool.alarm));
            let body = move || {
                tid_out.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
                // On failure the default priority remains: more events may be lost, and are shown.
                let _ = rustix::process::setpriority_process(None, READER_NICE);
                let result = reader.run();
                if result.is_err() {
                    ring(&alarm);
                }
                result
            };
            let handle = std::thread::Builder::new()
                .name(format!("pageyard-{cpu}"))
                .stack_size(128 << 10)
                .spawn(body)
                .map_err(RecordError::Signals)?;
            spool.threads.push(Thread { cpu, handle, tid });
        }
        Ok(spool)
    }

    /// Becomes readable when a reader failed.
    #[must_use]
    pub fn alarm(&self) -> &OwnedFd {
        &self.alarm
    }

    /// Bytes of ring-buffer pages read so far, all CPUs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// True once a page said that events before it were lost.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.shared.lost.load(Relaxed)
    }

    /// True when the files are written past the page cache.
    #[must_use]
    pub fn past_cache(&self) -> bool {
        self.shared.past_cache.load(Relaxed)
    }

    /// Thread ids of the readers that have started to run.
    #[must_use]
    pub fn tids(&self) -> Vec<i32> {
        let tids = self.threads.iter().map(|thread| thread.tid.load(Relaxed));
        tids.filter(|tid| *tid != 0).collect()
    }

    /// Lets the readers take what is left and waits for them. Turn tracing off before.
    ///
    /// # Errors
    /// The first failure of a reader, by CPU number.
    pub fn finish(mut self) -> Result<Vec<CpuSpool>, RecordError> {
        ring(&self.stop);
        // All are waited for, even when one failed: the instance is free only then.
        let ended: Vec<_> = self
            .threads
            .drain(..)
            .map(|Thread { cpu, handle, .. }| {
                handle.join().unwrap_or(Err(RecordError::Panicked { cpu }))
            })
            .collect();
        ended.into_iter().collect()
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        ring(&self.stop);
        for thread in self.threads.drain(..) {
            let _ = thread.handle.join();
        }
    }
}

/// Makes an event descriptor readable. It cannot fail: the counter is far from its end.
fn ring(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// The reader of one CPU.
struct Reader {
    cpu: usize,
    layout: PageLayout,
    raw: File,
    raw_path: PathBuf,
    file: File,
    path: PathBuf,
    past_cache: bool,
    buffer: Vec<u8>,
    /// First aligned byte of `buffer`.
    begin: usize,
    /// End of the gathered pages in `buffer`.
    end: usize,
    written_bytes: u64,
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
}

impl Reader {
    fn open(
        instance: &Instance,
        folder: &Path,
        layout: PageLayout,
        cpu: usize,
        spool: &Spool,
    ) -> Result<Reader, RecordError> {
        let raw_path = instance.path().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let raw = OpenOptions::new().read(true).custom_flags(nonblock).open(&raw_path);
        let doing = "open the trace buffer of a CPU";
        let raw =
            raw.map_err(|reason| RecordError::Tracefs { doing, path: raw_path.clone(), reason })?;
        let path = folder.join(format!("spool.{cpu}"));
        let (file, past_cache) = create(&path, layout.page_bytes.is_multiple_of(ALIGN_BYTES))
            .map_err(|reason| RecordError::file("create", &path, 0, reason))?;
        spool.shared.past_cache.store(past_cache, Relaxed);
        let pages = (GATHER_BYTES / layout.page_bytes).max(1);
        // Ones, not zeroes: zeroed memory would be given by the kernel at its first use only.
        let buffer = vec![1; pages * layout.page_bytes + ALIGN_BYTES];
        let begin = buffer.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        Ok(Reader {
            cpu,
            layout,
            raw,
            raw_path,
            file,
            path,
            past_cache,
            buffer,
            begin,
            end: begin,
            written_bytes: 0,
            shared: Arc::clone(&spool.shared),
            stop: Arc::clone(&spool.stop),
        })
    }

    fn run(&mut self) -> Result<CpuSpool, RecordError> {
        loop {
            let mut fds =
                [PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.raw, PollFlags::IN)];
            match poll(&mut fds, Some(&POLL_TIMEOUT)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(RecordError::Signals(errno.into())),
            }
            let stopping = !fds[0].revents().is_empty();
            let ready = !fds[1].revents().is_empty();
            if stopping {
                while self.take_page()?.is_some() {}
                self.write_out()?;
                return Ok(CpuSpool {
                    cpu: self.cpu,
                    path: self.path.clone(),
                    bytes: self.written_bytes,
                });
            }
            while ready && self.take_page()?.is_some_and(|page| page == Page::Full) {}
        }
    }

    /// Takes one page from the ring buffer; nothing when it is empty.
    fn take_page(&mut self) -> Result<Option<Page>, RecordError> {
        let page_bytes = self.layout.page_bytes;
        if self.end + page_bytes > self.buffer.len() - (ALIGN_BYTES - self.begin) {
            self.write_out()?;
        }
        let page = &mut self.buffer[self.end..self.end + page_bytes];
        let read = loop {
            match self.raw.read(page) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                Err(reason) => {
                    let (doing, path) = ("read the trace buffer of a CPU", self.raw_path.clone());
                    return Err(RecordError::Tracefs { doing, path, reason });
                }
                Ok(read) => break read,
            }
        };
        if read < self.layout.data_at {
            return Ok(None);
        }
        page[read..].fill(0);
        let (used, lost) = self.layout.used(page);
        if lost {
            self.shared.lost.store(true, Relaxed);
        }
        self.end += page_bytes;
        self.shared.bytes.fetch_add(page_bytes as u64, Relaxed);
        let full = used >= (page_bytes - self.layout.data_at) / 4 * 3;
        Ok(Some(if full { Page::Full } else { Page::Partial }))
    }

    fn write_out(&mut self) -> Result<(), RecordError> {
        let bytes = &self.buffer[self.begin..self.end];
        let mut result = self.file.write_all(bytes);
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
        if self.past_cache && result.as_ref().is_err_and(refused) {
            // Some file systems take the flag and refuse the write.
            self.past_cache = false;
            self.shared.past_cache.store(false, Relaxed);
            result = rustix::fs::fcntl_setfl(self.file.as_fd(), OFlags::empty())
                .map_err(io::Error::from)
                .and_then(|()| self.file.write_all(bytes));
        }
        let total = self.shared.bytes.load(Relaxed);
        result.map_err(|reason| RecordError::file("write", &self.path, total, reason))?;
        self.written_bytes += bytes.len() as u64;
        self.end = self.begin;
        Ok(())
    }
}

/// How much a page held.
#[derive(PartialEq, Eq)]
enum Page {
    Full,
    Partial,
}

/// Makes a spool file, past the page cache when the file system can.
fn create(path: &Path, aligned: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if aligned {
        let direct = OFlags::DIRECT.bits() as i32;
        match options.clone().custom_flags(direct).open(path) {
            Ok(file) => return Ok((file, true)),
            // The refusal may come after the file was made.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let _ = std::fs::remove_file(path);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((options.open(path)?, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn the_page_layout_is_read_from_the_kernel() {
        let layout = PageLayout::parse(HEADER_PAGE).unwrap();
        let expected = PageLayout { page_bytes: 4096, commit_at: 8, commit_bytes: 8, data_at: 16 };
        assert_eq!(layout, expected);
        assert_eq!(PageLayout::parse("nothing"), None);
        assert_eq!(PageLayout::parse(&HEADER_PAGE.replace("size:8", "size:3")), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn lost_events_are_a_flag_beside_the_byte_count() {
        let layout = PageLayout::parse(HEADER_PAGE).unwrap();
        let mut page = vec![0; 4096];
        page[8..12].copy_from_slice(&(1 << 31 | 1234_u32).to_ne_bytes());
        assert_eq!(layout.used(&page), (1234, true));
        page[8..12].copy_from_slice(&0x000f_ffff_u32.to_ne_bytes());
        assert_eq!(layout.used(&page), (4080, false), "never more than a page holds");
    }
}
