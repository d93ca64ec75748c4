//! Prints a recording's events as ftrace text: `cargo run --example events -- TRACE`.

use std::io::{BufWriter, Write};

use pageyard_trace::recording::Recording;
use pageyard_trace::text::TextWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: events TRACE")?;
    let recording = Recording::open(&path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut reader = recording.events()?;
    let mut block = Vec::new();
    while reader.read_block(&mut block)? {
        for event in &block {
            TextWriter { nanos: true }.event(&mut out, event, reader.comm(event.pid))?;
        }
    }
    out.flush()?;
    for fault in reader.damage().faults() {
        eprintln!("{fault}");
    }
    eprintln!("{} events, {:?}", reader.events_read(), reader.lost());
    Ok(())
}
