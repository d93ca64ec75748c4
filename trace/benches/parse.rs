//! How fast recordings are read: `cargo bench -p pageyard-trace`. Throughput is in bytes of the
//! file as the reader sees it (text: decompressed) and in events.

use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pageyard_trace::convert::{self, Filter, Packed, Target};
use pageyard_trace::recording::Recording;

fn read(recording: &Recording) -> u64 {
    let mut reader = recording.events().expect("the file was read before");
    let mut block = Vec::new();
    while reader.read_block(&mut block).expect("the file was read before") {}
    reader.events_read()
}

fn formats(criterion: &mut Criterion) {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/pagefault-6.18-2cpu");
    let bundled = Recording::open(bundled).expect("bundled");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files: [(&str, PathBuf, Target); 3] = [
        ("text", folder.path().join("t.txt"), Target::Text(Packed::No)),
        ("text.zst", folder.path().join("t.txt.zst"), Target::Text(Packed::Zstd(6))),
        ("trace.dat", folder.path().join("t.dat"), Target::TraceDat(Packed::No)),
    ];
    for (name, path, target) in files {
        convert::write(&bundled, &path, target, &Filter::default(), |_| true).expect("written");
        let recording = Recording::open(&path).expect("opened");
        let events = read(&recording);
        let bytes = std::fs::metadata(&path).expect("written").len();
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20);
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function("bytes", |bencher| bencher.iter(|| read(&recording)));
        group.throughput(Throughput::Elements(events));
        group.bench_function("events", |bencher| bencher.iter(|| read(&recording)));
        group.finish();
    }
}

criterion_group!(benches, formats);
criterion_main!(benches);
