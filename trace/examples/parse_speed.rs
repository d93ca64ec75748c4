//! Reads a recording and prints events, seconds, MB/s of text (or bytes of the file as it lies,
//! for other formats) and peak memory: `cargo run --release --example parse_speed -- TRACE`.

use std::time::Instant;

use pageyard_trace::recording::Recording;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: parse_speed TRACE")?;
    let recording = Recording::open(&path)?;
    let mut block = Vec::new();
    let mut best = f64::MAX;
    let (mut events, mut bytes) = (0, 0);
    for _ in 0..5 {
        let start = Instant::now();
        let mut reader = recording.events()?;
        while reader.read_block(&mut block)? {}
        best = best.min(start.elapsed().as_secs_f64());
        (events, bytes) = (reader.events_read(), reader.progress().1);
        for fault in reader.damage().faults() {
            println!("{fault}");
        }
    }
    let rate = bytes as f64 / best / 1e6;
    println!(
        "{events} events, {best:.3} s (best of 5), {rate:.0} MB/s of file, {} kB peak",
        peak_kb()
    );
    Ok(())
}

/// `VmHWM` of this process, in kB; 0 where there is no `/proc`.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
