//! What an allocation and its free cost: single pages, batches, higher orders, bulk; on the
//! plain platform with one and two threads, and on the sequential one.
//!
//! Every iteration gives back what it took, so a bench is also a test: at its end no page may
//! be missing. Nothing here passes or fails by the clock.
//!
//! `cargo bench -p pageyard-host [-- FILTER]`

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pageyard::{
    Allocator, CpuId, EventItem, Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Platform, Request,
    Tuning, ZoneDesc, ZoneId, ZoneKind, preset,
};
use pageyard_host::plain::{Plain, set_thread_cpu};
use pageyard_host::seq::Seq;

const FIRST: Pfn = Pfn(1 << 20);
/// 1 GiB of page frames.
const PAGES: u64 = 1 << 18;
const ZONE: ZoneId = ZoneId(0);
/// Before and after: fixed and automatic limits of the per-CPU caches.
const POLICIES: [&str; 2] = ["linux-5.17", "linux-6.18"];
/// Blocks of a batch.
const BATCH: usize = 64;

fn build<P: Platform>(platform: P, policy: &str) -> Allocator<P> {
    let nodes = [NodeDesc { distance: [10; NODES_MAX], cpus: 2 }];
    let zones = [ZoneDesc {
        node: NodeId(0),
        kind: ZoneKind::Normal,
        start: FIRST,
        spanned_pages: PAGES,
        managed_pages: PAGES,
    }];
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &[NodeId(0); 2],
        nodes: &nodes,
        zones: &zones,
        tuning: Tuning::default(),
    };
    let policy = preset::find(policy).expect("a known release");
    let allocator = Allocator::new(platform, &geometry, policy).expect("a plain machine");
    allocator.add_memory(FIRST, PAGES);
    allocator
}

/// Every page taken came back.
fn check<P: Platform>(allocator: &Allocator<P>) {
    let count = |item| allocator.event_count(ZONE, item);
    let allocated = count(EventItem::PagesAllocated);
    assert!(allocated > 0);
    assert_eq!(allocated, count(EventItem::PagesFreed));
}

/// One unit of work; what is timed is many of them.
type Work<P> = fn(&Allocator<P>);

/// `BLOCKS` blocks of `ORDER` taken, then freed in the order taken.
fn pair<P: Platform, const ORDER: u8, const BLOCKS: usize>(allocator: &Allocator<P>) {
    let request = black_box(Request::user(ORDER));
    let mut blocks = [Pfn(0); BLOCKS];
    for block in &mut blocks {
        *block = allocator.alloc(&request).expect("a free zone");
    }
    for block in black_box(blocks) {
        allocator.free(block, ORDER);
    }
}

/// One bulk allocation, single frees: the core has no bulk free.
fn bulk<P: Platform>(allocator: &Allocator<P>) {
    let request = black_box(Request::user(0));
    let mut blocks = [Pfn(0); BATCH];
    let mut taken = 0;
    while taken < BATCH {
        let got = allocator.alloc_bulk(&request, &mut blocks[taken..]);
        assert!(got > 0, "a free zone");
        taken += got;
    }
    for block in black_box(blocks) {
        allocator.free(block, 0);
    }
}

/// Name, blocks of one unit, and the unit.
fn works<P: Platform>() -> [(&'static str, u64, Work<P>); 5] {
    let batch = BATCH as u64;
    [
        ("order0_pair", 1, pair::<P, 0, 1>),
        ("order0_batch64", batch, pair::<P, 0, BATCH>),
        ("order0_bulk64", batch, bulk::<P>),
        ("order3_pair", 1, pair::<P, 3, 1>),
        ("order9_pair", 1, pair::<P, 9, 1>),
    ]
}

fn one_thread<P: Platform>(c: &mut Criterion, platform: &str, make: fn() -> P) {
    for (name, blocks, work) in works::<P>() {
        let mut group = c.benchmark_group(format!("{platform}/{name}"));
        group.throughput(Throughput::Elements(blocks));
        for policy in POLICIES {
            let allocator = build(make(), policy);
            group.bench_function(BenchmarkId::new("1_thread", policy), |b| {
                b.iter(|| work(&allocator));
            });
            check(&allocator);
        }
        group.finish();
    }
}

/// From the first round of the one thread to the last round of the other, each on a CPU of its
/// own.
fn two_threads(allocator: &Allocator<Plain>, work: Work<Plain>, rounds: u64) -> Duration {
    let start = Barrier::new(2);
    let rounds_as = |cpu| {
        set_thread_cpu(Some(CpuId(cpu)));
        start.wait();
        let began = Instant::now();
        for _ in 0..rounds {
            work(allocator);
        }
        (began, Instant::now())
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| rounds_as(1));
        let one = rounds_as(0);
        (one, other.join().expect("no panic"))
    });
    one.1.max(other.1) - one.0.min(other.0)
}

fn plain(c: &mut Criterion) {
    set_thread_cpu(Some(CpuId(0)));
    one_thread(c, "plain", Plain::new);
    for (name, blocks, work) in works::<Plain>() {
        let mut group = c.benchmark_group(format!("plain/{name}"));
        // Of both together.
        group.throughput(Throughput::Elements(2 * blocks));
        for policy in POLICIES {
            let allocator = build(Plain::new(), policy);
            group.bench_function(BenchmarkId::new("2_threads", policy), |b| {
                b.iter_custom(|rounds| two_threads(&allocator, work, rounds));
            });
            check(&allocator);
        }
        group.finish();
    }
}

fn seq(c: &mut Criterion) {
    one_thread(c, "seq", || Seq::new(()));
}

criterion_group!(benches, plain, seq);
criterion_main!(benches);
