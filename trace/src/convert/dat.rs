//! Events to trace.dat: pages are spooled as they fill, then laid behind a head.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::{Sink, formats};
use crate::dat::pages::PageWriter;
use crate::dat::write::{Head, System};
use crate::event::Event;
use crate::reader::EventReader;
use crate::recording::Recording;

/// Bytes of a page: x86's.
const PAGE_BYTES: usize = 4096;

/// Layout of the pages that [`PageWriter`] fills, in the words of the kernel's `header_page`.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

/// The kernel's `header_event`, which tells how events lie in a page.
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

#[derive(Default)]
struct Cpu {
    writer: Option<PageWriter>,
    /// Places of its pages in the spool.
    pages: Vec<u64>,
    events: u64,
    lost: u64,
}

/// Gathers pages in a temporary file without a name.
pub(super) struct DatSink {
    spool: File,
    spooled: u64,
    cpus: BTreeMap<u16, Cpu>,
    record: Vec<u8>,
    last_ns: u64,
}

impl DatSink {
    pub(super) fn new() -> io::Result<DatSink> {
        let spool = tempfile::tempfile()?;
        Ok(DatSink { spool, spooled: 0, cpus: BTreeMap::new(), record: Vec::new(), last_ns: 0 })
    }

    fn put_page(&mut self, cpu: u16, page: &[u8]) -> io::Result<()> {
        self.spool.write_all_at(page, self.spooled)?;
        self.cpus.entry(cpu).or_default().pages.push(self.spooled);
        self.spooled += page.len() as u64;
        Ok(())
    }

    /// Writes the file; what is wrong otherwise.
    pub(super) fn finish(
        mut self,
        recording: &Recording,
        comms: &[(i32, &str)],
        out: &mut impl Write,
    ) -> Result<(), String> {
        let numbers: Vec<u16> = self.cpus.keys().copied().collect();
        for cpu in &numbers {
            let writer = self.cpus.get_mut(cpu).and_then(|cpu| cpu.writer.take());
            if let Some(page) = writer.and_then(PageWriter::finish) {
                self.put_page(*cpu, &page).map_err(|error| error.to_string())?;
            }
        }
        let count = numbers.last().map_or(1, |last| usize::from(*last) + 1);
        let empty = Cpu::default();
        let cpus: Vec<&Cpu> =
            (0..count).map(|cpu| self.cpus.get(&(cpu as u16)).unwrap_or(&empty)).collect();
        let bytes: Vec<u64> =
            cpus.iter().map(|cpu| (cpu.pages.len() * PAGE_BYTES) as u64).collect();
        let head = head(recording, comms, &cpus);
        let encoded = head.encode(&bytes).map_err(|error| error.to_string())?;
        out.write_all(&encoded.bytes).map_err(|error| error.to_string())?;
        let mut page = vec![0; PAGE_BYTES];
        for at in cpus.iter().flat_map(|cpu| &cpu.pages) {
            self.spool.read_exact_at(&mut page, *at).map_err(|error| error.to_string())?;
            out.write_all(&page).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Sink for DatSink {
    fn event(&mut self, event: &Event, _reader: &EventReader) -> io::Result<()> {
        self.record.clear();
        if !formats::record(event, &mut self.record) {
            return Ok(());
        }
        // Text tells microseconds: nanoseconds are added so that readers, who merge CPUs by time,
        // find the events in the order in which they stood.
        let mut time_ns = event.time_ns;
        if (time_ns..time_ns.saturating_add(1000)).contains(&self.last_ns) {
            time_ns = self.last_ns + 1;
        }
        self.last_ns = time_ns;
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.events += 1;
        let writer = cpu.writer.get_or_insert_with(|| PageWriter::new(PAGE_BYTES));
        // Records of our own formats have at most 40 bytes: they fit every page.
        let full = writer.push(time_ns, &self.record);
        let full = full.map_err(|bytes| io::Error::other(format!("a record of {bytes} bytes")))?;
        match full {
            Some(page) => self.put_page(event.cpu, &page),
            None => Ok(()),
        }
    }

    fn lost(&mut self, cpu: Option<u16>, count: u64) -> io::Result<()> {
        // The format has no place for losses of no CPU: they are told with the first.
        self.cpus.entry(cpu.unwrap_or(0)).or_default().lost += count;
        Ok(())
    }
}

fn head(recording: &Recording, comms: &[(i32, &str)], cpus: &[&Cpu]) -> Head {
    let systems = formats::systems().into_iter().map(|(name, formats)| System {
        name: name.to_string(),
        formats: formats.into_iter().map(String::into_bytes).collect(),
    });
    let mut cmdlines = Vec::new();
    for (pid, comm) in comms.iter().filter(|(pid, _)| *pid > 0) {
        let line: String = comm.chars().filter(|c| *c != '\n').collect();
        cmdlines.extend_from_slice(format!("{pid} {line}\n").as_bytes());
    }
    let stats = |cpu: &&Cpu| {
        format!(
            "entries: {}\noverrun: {}\ncommit overrun: 0\ndropped events: 0\n",
            cpu.events, cpu.lost
        )
    };
    let release = recording.kernel().unwrap_or("unknown");
    let clock = recording.clock().unwrap_or("local");
    Head {
        page_bytes: PAGE_BYTES as u32,
        header_page: HEADER_PAGE.into(),
        header_event: HEADER_EVENT.into(),
        ftrace_formats: Vec::new(),
        systems: systems.collect(),
        kallsyms: Vec::new(),
        printk_formats: Vec::new(),
        cmdlines,
        cpu_stats: cpus.iter().map(stats).collect(),
        trace_clock: format!("[{clock}]\n"),
        uname: format!("Linux - {release} -"),
        version: concat!("pageyard ", env!("CARGO_PKG_VERSION")).to_string(),
    }
}
