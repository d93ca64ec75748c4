//! Writes the head of a `trace.dat` file of version 6, which trace-cmd and KernelShark open.
//!
//! The layout is the one of the manual page `trace-cmd.dat.v6(5)`: everything that a reader needs
//! to decode an event stands in front, the ring-buffer pages of each CPU follow unchanged, each
//! CPU's part at a multiple of the page size. The sizes of these parts are known beforehand, so
//! the file is written from front to back without seeking.

use thiserror::Error;

/// `DONE` ends the list of options.
const OPTION_DONE: u16 = 0;
/// Ring-buffer statistics of one CPU.
const OPTION_CPUSTAT: u16 = 2;
/// The `trace_clock` file of the recorded kernel, its clock in brackets.
const OPTION_TRACECLOCK: u16 = 4;
/// System, node, release and machine of the recorded kernel.
const OPTION_UNAME: u16 = 5;
/// How many CPUs the file has.
const OPTION_CPUCOUNT: u16 = 8;
/// Name and version of the program that wrote the file.
const OPTION_VERSION: u16 = 9;

/// Why no `trace.dat` can be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Part of a CPU would not start at a page.
    #[error(
        "the data of CPU {cpu} is {bytes} bytes long, which is not a multiple of the page size \
         {page_bytes}: give whole ring-buffer pages"
    )]
    NotWholePages {
        /// The CPU.
        cpu: usize,
        /// Length of its data.
        bytes: u64,
        /// Length of a ring-buffer page.
        page_bytes: u32,
    },
    /// A length does not fit its field of the format.
    #[error("{what} is {bytes} bytes long, more than a trace.dat file can say: shorten it")]
    TooLong {
        /// The part.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
}

/// All event formats of one system, such as `kmem`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Name of the system.
    pub name: String,
    /// The `format` file of each event.
    pub formats: Vec<Vec<u8>>,
}

/// What stands before the ring-buffer pages. Texts are copies of the tracefs files of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes of a ring-buffer page (sub-buffer), header included.
    pub page_bytes: u32,
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// `events/ftrace/*/format`.
    pub ftrace_formats: Vec<Vec<u8>>,
    /// `events/SYSTEM/*/format`.
    pub systems: Vec<System>,
    /// `/proc/kallsyms`, or nothing.
    pub kallsyms: Vec<u8>,
    /// `printk_formats`, or nothing.
    pub printk_formats: Vec<u8>,
    /// `saved_cmdlines`: lines of a pid, a blank and a name.
    pub cmdlines: Vec<u8>,
    /// `per_cpu/cpuN/stats`, one a CPU; may be shorter than the CPUs of the file.
    pub cpu_stats: Vec<String>,
    /// `trace_clock`: all clocks, the one used in brackets.
    pub trace_clock: String,
    /// System, node, release and machine, with a blank between.
    pub uname: String,
    /// Who wrote the file.
    pub version: String,
}

/// The bytes in front of the ring-buffer pages, and where the pages of each CPU begin.
#[derive(Debug)]
pub struct Encoded {
    /// First bytes of the file; their length is a multiple of the page size.
    pub bytes: Vec<u8>,
    /// Offset in the file of the data of each CPU, which must follow in this order.
    pub cpu_offsets: Vec<u64>,
}

impl Head {
    /// Lays the head of a file out whose CPUs have `cpu_bytes` of ring-buffer pages each.
    ///
    /// # Errors
    /// When a CPU's data is not whole pages, or a part is too long for its length field.
    pub fn encode(&self, cpu_bytes: &[u64]) -> Result<Encoded, WriteError> {
        let page_bytes = u64::from(self.page_bytes.max(1));
        if let Some(cpu) = cpu_bytes.iter().position(|bytes| bytes % page_bytes != 0) {
            let (bytes, page_bytes) = (cpu_bytes[cpu], self.page_bytes);
            return Err(WriteError::NotWholePages { cpu, bytes, page_bytes });
        }
        let mut out = Out(Vec::new());
        self.put_formats(&mut out)?;
        self.put_options(&mut out, cpu_bytes.len())?;
        out.raw(b"flyrecord\0");
        let table_at = out.0.len();
        out.raw(&vec![0; cpu_bytes.len() * 16]);
        // The option TRACECLOCK makes readers of version 6 expect the clock once more, here.
        out.data64(chosen_clock(&self.trace_clock).as_bytes());
        let pages = (out.0.len() as u64).div_ceil(page_bytes);
        out.0.resize((pages * page_bytes) as usize, 0);

        let mut at = out.0.len() as u64;
        let mut cpu_offsets = Vec::with_capacity(cpu_bytes.len());
        for (cpu, bytes) in cpu_bytes.iter().enumerate() {
            let entry = table_at + cpu * 16;
            out.0[entry..entry + 8].copy_from_slice(&at.to_ne_bytes());
            out.0[entry + 8..entry + 16].copy_from_slice(&bytes.to_ne_bytes());
            cpu_offsets.push(at);
            at += bytes;
        }
        Ok(Encoded { bytes: out.0, cpu_offsets })
    }

    fn put_formats(&self, out: &mut Out) -> Result<(), WriteError> {
        out.raw(&[0x17, 0x08, 0x44]);
        out.raw(b"tracing6\0");
        out.raw(&[u8::from(cfg!(target_endian = "big")), size_of::<usize>() as u8]);
        out.u32(self.page_bytes);
        out.raw(b"header_page\0");
        out.data64(&self.header_page);
        out.raw(b"header_event\0");
        out.data64(&self.header_event);
        out.count("the list of ftrace formats", self.ftrace_formats.len())?;
        for format in &self.ftrace_formats {
            out.data64(format);
        }
        out.count("the list of event systems", self.systems.len())?;
        for system in &self.systems {
            out.text(&system.name);
            out.count("the list of event formats", system.formats.len())?;
            for format in &system.formats {
                out.data64(format);
            }
        }
        out.count("kallsyms", self.kallsyms.len())?;
        out.raw(&self.kallsyms);
        out.count("printk_formats", self.printk_formats.len())?;
        out.raw(&self.printk_formats);
        out.data64(&self.cmdlines);
        Ok(())
    }

    fn put_options(&self, out: &mut Out, cpus: usize) -> Result<(), WriteError> {
        out.count("the list of CPUs", cpus)?;
        out.raw(b"options  \0");
        out.option(OPTION_TRACECLOCK, &self.trace_clock)?;
        out.option(OPTION_UNAME, &self.uname)?;
        out.option(OPTION_VERSION, &self.version)?;
        for (cpu, stats) in self.cpu_stats.iter().enumerate() {
            out.option(OPTION_CPUSTAT, &format!("CPU: {cpu}\n{stats}"))?;
        }
        out.raw(&OPTION_CPUCOUNT.to_ne_bytes());
        out.u32(4);
        out.u32(cpus as u32);
        out.raw(&OPTION_DONE.to_ne_bytes());
        Ok(())
    }
}

/// `[mono]` of `local [mono] boot`; the whole text when there are no brackets.
fn chosen_clock(trace_clock: &str) -> &str {
    match (trace_clock.find('['), trace_clock.find(']')) {
        (Some(begin), Some(end)) if begin < end => &trace_clock[begin..=end],
        _ => trace_clock.trim(),
    }
}

/// The bytes so far. Numbers are written in the byte order of this machine, as the pages are.
struct Out(Vec<u8>);

impl Out {
    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u32(&mut self, value: u32) {
        self.raw(&value.to_ne_bytes());
    }

    fn count(&mut self, what: &'static str, value: usize) -> Result<(), WriteError> {
        let fits = i32::try_from(value).map_err(|_| WriteError::TooLong { what, bytes: value })?;
        self.raw(&fits.to_ne_bytes());
        Ok(())
    }

    /// A 64-bit length and the bytes.
    fn data64(&mut self, bytes: &[u8]) {
        self.raw(&(bytes.len() as u64).to_ne_bytes());
        self.raw(bytes);
    }

    /// Text up to its first NUL byte, and a NUL byte.
    fn text(&mut self, text: &str) {
        let end = text.find('\0').unwrap_or(text.len());
        self.raw(&text.as_bytes()[..end]);
        self.raw(&[0]);
    }

    fn option(&mut self, id: u16, text: &str) -> Result<(), WriteError> {
        self.raw(&id.to_ne_bytes());
        let end = text.find('\0').unwrap_or(text.len());
        self.count("an option", end + 1)?;
        self.text(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            page_bytes: 4096,
            header_page: b"page".to_vec(),
            header_event: b"event".to_vec(),
            ftrace_formats: vec![b"one".to_vec()],
            systems: vec![System { name: "kmem".into(), formats: vec![b"two".to_vec()] }],
            cmdlines: b"1 init\n".to_vec(),
            cpu_stats: vec!["entries: 3\n".into()],
            trace_clock: "local [mono] boot\n".into(),
            uname: "Linux - 6.18 x86_64".into(),
            version: "pageyard 0".into(),
            ..Head::default()
        }
    }

    fn find(haystack: &[u8], needle: &[u8]) -> usize {
        haystack.windows(needle.len()).position(|window| window == needle).expect("present")
    }

    #[test]
    fn the_head_begins_with_magic_version_and_machine() {
        let bytes = head().encode(&[0]).unwrap().bytes;
        assert_eq!(&bytes[..12], b"\x17\x08\x44tracing6\0");
        assert_eq!(bytes[12], u8::from(cfg!(target_endian = "big")));
        assert_eq!(usize::from(bytes[13]), size_of::<usize>());
        assert_eq!(bytes[14..18], 4096_u32.to_ne_bytes());
        assert_eq!(&bytes[18..30], b"header_page\0");
        assert_eq!(bytes[30..38], 4_u64.to_ne_bytes());
        assert_eq!(&bytes[38..42], b"page");
    }

    #[test]
    fn each_cpu_starts_at_a_page_behind_the_one_before() {
        let encoded = head().encode(&[8192, 0, 4096]).unwrap();
        let start = encoded.bytes.len() as u64;
        assert_eq!(start % 4096, 0);
        assert_eq!(encoded.cpu_offsets, [start, start + 8192, start + 8192]);
        let table = find(&encoded.bytes, b"flyrecord\0") + 10;
        let word = |at: usize| {
            let at = table + at * 8;
            u64::from_ne_bytes(encoded.bytes[at..at + 8].try_into().unwrap())
        };
        let words: Vec<u64> = (0..6).map(word).collect();
        assert_eq!(words, [start, 8192, start + 8192, 0, start + 8192, 4096]);
        assert_eq!(word(6), 6, "length of the clock");
        assert_eq!(&encoded.bytes[table + 56..table + 62], b"[mono]");
    }

    #[test]
    fn options_carry_clock_and_statistics_and_end_with_zero() {
        let bytes = head().encode(&[0, 0]).unwrap().bytes;
        let options = find(&bytes, b"options  \0") + 10;
        assert_eq!(bytes[options..options + 2], OPTION_TRACECLOCK.to_ne_bytes());
        assert_eq!(bytes[options + 2..options + 6], 19_u32.to_ne_bytes());
        assert_eq!(&bytes[options + 6..options + 25], b"local [mono] boot\n\0");
        let stats = find(&bytes, b"CPU: 0\nentries: 3\n\0");
        assert_eq!(bytes[stats - 6..stats - 4], OPTION_CPUSTAT.to_ne_bytes());
        let end = find(&bytes, b"flyrecord\0");
        assert_eq!(bytes[end - 6..end - 2], 2_u32.to_ne_bytes(), "CPU count");
        assert_eq!(bytes[end - 2..end], [0, 0]);
    }

    #[test]
    fn half_a_page_is_refused_and_names_its_cpu() {
        let error = head().encode(&[4096, 100]).unwrap_err();
        assert!(error.to_string().contains("CPU 1 is 100 bytes"), "{error}");
    }

    #[test]
    fn a_nul_byte_in_a_text_ends_it() {
        let strange = Head { version: "a\0b".into(), ..head() };
        let bytes = strange.encode(&[]).unwrap().bytes;
        let at = find(&bytes, b"a\0");
        assert_eq!(bytes[at - 4..at], 2_u32.to_ne_bytes());
    }
}
