//! Events to ftrace text.

use std::io::{self, Write};

use super::Sink;
use crate::event::Event;
use crate::reader::EventReader;
use crate::text::TextWriter;

/// Writes ftrace text.
pub(super) struct TextSink<W> {
    out: W,
    writer: TextWriter,
}

impl<W: Write> TextSink<W> {
    pub(super) fn new(out: W) -> TextSink<W> {
        TextSink { out, writer: TextWriter::default() }
    }

    /// Writes the heading. Binary recordings have nanoseconds, which are kept.
    pub(super) fn start(&mut self, nanos: bool) -> io::Result<()> {
        self.writer = TextWriter { nanos };
        self.writer.heading(&mut self.out)
    }

    pub(super) fn finish(self) -> io::Result<W> {
        Ok(self.out)
    }
}

impl<W: Write> Sink for TextSink<W> {
    fn event(&mut self, event: &Event, reader: &EventReader) -> io::Result<()> {
        self.writer.event(&mut self.out, event, reader.comm(event.pid)).map(|_| ())
    }

    fn lost(&mut self, cpu: Option<u16>, count: u64) -> io::Result<()> {
        match cpu {
            Some(cpu) => writeln!(self.out, "CPU:{cpu} [LOST {count} EVENTS]"),
            // The form in which the kernel tells what no CPU is named for; read back as such.
            None => writeln!(self.out, "# entries-in-buffer/entries-written: 0/{count}   #P:0"),
        }
    }
}
