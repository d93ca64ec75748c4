//! Text that tracers print: `trace`, `trace_pipe`, `trace-cmd report`, `perf script`.

mod fields;
mod line;
mod write;

use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memchr;

use crate::error::{At, TraceError};
use crate::event::Event;
use crate::reader::{BLOCK_EVENTS, Feed, Pass};
use crate::source::{Packing, Source};
pub(crate) use line::{Line, Parser};
pub use write::TextWriter;

/// Bytes of text kept at once, and thereby the longest line that is read.
const WINDOW_BYTES: usize = 512 << 10;

/// Reads text a window at a time.
pub(crate) struct TextFeed {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    packing: Packing,
    window: Box<[u8]>,
    /// Unparsed bytes are `window[start..end]`.
    start: usize,
    end: usize,
    at_end: bool,
    /// The rest of an overlong line is being skipped.
    skipping: bool,
    line: u64,
    bytes: u64,
    parser: Parser,
}

impl TextFeed {
    pub(crate) fn new(path: &Path, source: Source) -> TextFeed {
        TextFeed {
            path: path.to_path_buf(),
            reader: source.reader,
            packing: source.packing,
            window: vec![0; WINDOW_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            at_end: false,
            skipping: false,
            line: 0,
            bytes: 0,
            parser: Parser::default(),
        }
    }

    /// Moves what is left to the front and reads on. A read error of a packed file is damage (the
    /// text before it is good); one of a plain file is the system's.
    fn refill(&mut self, pass: &mut Pass) -> Result<(), TraceError> {
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < self.window.len() && !self.at_end {
            match self.reader.read(&mut self.window[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => {
                    self.end += count;
                    self.bytes += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if self.packing == Packing::Plain => {
                    return Err(TraceError::io(&self.path, "read", error));
                }
                Err(error) => {
                    self.at_end = true;
                    let what = format!("{} data broken: {error}", self.packing.name());
                    pass.damage.add(At::Byte(self.bytes), what);
                }
            }
        }
        Ok(())
    }

    /// Parses the complete lines of the window; true when it stopped because `out` is full.
    fn lines(&mut self, out: &mut Vec<Event>, pass: &mut Pass) -> bool {
        while out.len() < BLOCK_EVENTS {
            let rest = &self.window[self.start..self.end];
            let Some(length) = memchr(b'\n', rest) else {
                if self.at_end && !rest.is_empty() {
                    self.unfinished(pass);
                }
                return false;
            };
            let line = &rest[..length];
            self.start += length + 1;
            self.line += 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            match self.parser.line(line, pass) {
                Line::Event(event) => out.push(event),
                Line::Nothing => {}
                Line::Bad(what) => {
                    pass.damage.add_with(At::Line(self.line), || describe(what, line));
                }
            }
        }
        true
    }
}

impl TextFeed {
    /// The end without a newline: a number in it may lack digits, so it is no event.
    fn unfinished(&mut self, pass: &mut Pass) {
        self.line += 1;
        let rest = &self.window[self.start..self.end];
        if !self.skipping && !rest.trim_ascii().is_empty() && rest[0] != b'#' {
            pass.unfinished = Some(self.line);
        }
        self.start = self.end;
    }
}

impl Feed for TextFeed {
    fn fill(&mut self, out: &mut Vec<Event>, pass: &mut Pass) -> Result<bool, TraceError> {
        out.reserve(BLOCK_EVENTS);
        loop {
            if self.lines(out, pass) {
                return Ok(true);
            }
            if self.at_end && self.start == self.end {
                return Ok(!out.is_empty());
            }
            let full = self.end - self.start == self.window.len();
            if full {
                if !self.skipping {
                    let what = format!("line longer than {WINDOW_BYTES} bytes, skipped");
                    pass.damage.add(At::Line(self.line + 1), what);
                }
                self.skipping = true;
                self.start = self.end;
            }
            self.refill(pass)?;
        }
    }
}

/// A message with at most 60 characters of the line.
fn describe(what: &str, line: &[u8]) -> String {
    let cut = &line[..line.len().min(60)];
    let text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let more = if line.len() > 60 { "…" } else { "" };
    format!("{what}: {text}{more}")
}

/// True when text looks like a tracer's: a header that they print, or a line that parses.
pub(crate) fn looks_like_trace(head: &[u8]) -> bool {
    let mut parser = Parser::default();
    let mut pass = Pass::default();
    let known = |line: &[u8]| {
        line.starts_with(b"# tracer:")
            || line.starts_with(b"# entries-in-buffer")
            || line.starts_with(b"#           TASK-PID")
    };
    head.split(|byte| *byte == b'\n')
        .take(2000)
        .any(|line| known(line) || matches!(parser.line(line, &mut pass), Line::Event(_)))
}
