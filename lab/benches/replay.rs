//! How fast decoded events are replayed, and how fast they are read for the first time:
//! `cargo bench -p pageyard-lab`. Throughput is in events of the recording.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pageyard_lab::named::NamedPolicy;
use pageyard_lab::twin::history::Historian;
use pageyard_lab::twin::infer::Twin;
use pageyard_lab::twin::replay::Placement;
use pageyard_trace::event::Event;
use pageyard_trace::recording::Recording;

const RECORDINGS: [&str; 3] = ["exit-6.18-2cpu", "numa-6.1-8cpu-2node", "udpstream-6.18-2cpu"];

fn twin(name: &str) -> Twin {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces").join(name);
    let recording = Recording::open(path).expect("a bundled recording");
    let own = NamedPolicy::for_kernel(recording.kernel().expect("a release")).expect("a preset");
    Twin::of(recording, own.policy).expect("a bundled recording has a twin")
}

fn replays(criterion: &mut Criterion) {
    for name in RECORDINGS {
        let twin = twin(name);
        let mut events: Vec<Event> = Vec::new();
        twin.each_event(|event| events.push(*event)).expect("it was read before");
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function("first reading", |bencher| {
            let begin = || Historian::new(&twin.world, &twin.policy, twin.snapshot_ns.0);
            let read = |mut historian: Historian<'_>| {
                historian.on_block(&events, |_| None);
                historian.finish()
            };
            bencher.iter_batched(begin, read, BatchSize::PerIteration);
        });
        for (how, placement) in [("recorded", Placement::Recorded), ("own", Placement::Own)] {
            group.bench_function(format!("replay, {how} placement"), |bencher| {
                let begin = || twin.begin(twin.policy, placement);
                bencher.iter_batched(
                    begin,
                    |mut replay| {
                        events.iter().for_each(|event| replay.on_event(event));
                        black_box(replay)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, replays);
criterion_main!(benches);
