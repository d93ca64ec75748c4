//! The whole allocator under random schedules: several CPUs, random operations, every kind of
//! policy. At the end each page is in exactly one place and every counter says what happened.
//!
//! `PAGEYARD_SHUTTLE_ITERS` sets the number of schedules, `PAGEYARD_SEED` where they begin. A
//! failure prints the schedule that repeats it (`shuttle::replay`).

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use pageyard::{Allocator, CpuId, EventItem, MigrateType, Pfn, Request, ZoneId};
use pageyard_check::layout::{Layout, make_exact, set_caches};
use pageyard_check::machine::{Job, Machine};
use pageyard_check::oracle::model::Model;
use pageyard_check::oracle::{draw, walk};
use pageyard_check::settings;
use pageyard_check::shuttle_platform::{RandomOrder, Shuttle, sample};
use shuttle::rand::RngCore;

const SCHEDULES: usize = 2000;
const CPUS: usize = 4;
const OPERATIONS: usize = 40;

/// Blocks that wait for whoever frees them: pages change hands between CPUs.
type Pool = Arc<Mutex<Vec<(Pfn, Request)>>>;

/// Two nodes of 64 pages, small caches, a random policy.
fn build(rng: &mut Rng) -> (Arc<Allocator<Shuttle>>, Layout, draw::Drawn) {
    let mut layout = Layout::row(2, 64, 4, 3);
    layout.cpu_nodes = (0..CPUS).map(|cpu| pageyard::NodeId(cpu as u8 % 2)).collect();
    let policy = draw::policy(rng);
    let allocator = layout.build(RandomOrder::platform(), policy.policy);
    if rng.bool() {
        make_exact(&allocator);
    }
    for zone in layout.zone_ids() {
        allocator.set_marks(zone, pageyard::watermark::Marks::default());
    }
    set_caches(&allocator, CPUS, [rng.u32(1..4), 4, rng.u32(4..16)]);
    for memory in &layout.memory {
        allocator.add_memory(Pfn(memory.start), memory.pages);
    }
    (Arc::new(allocator), layout, policy)
}

fn request(rng: &mut Rng) -> Request {
    let kind = rng.usize(..4);
    let base = [
        Request::user(rng.u8(..4)),
        Request::kernel(rng.u8(..4)),
        Request::atomic(rng.u8(..3)),
        Request::user(0),
    ][kind];
    Request { node: rng.bool().then(|| pageyard::NodeId(rng.u8(..2))), ..base }
}

/// What one CPU does; it may move to another CPU in between, as a thread does.
fn work(allocator: &Allocator<Shuttle>, pool: &Pool, mut rng: Rng) {
    for _ in 0..OPERATIONS {
        match rng.u32(..20) {
            0..9 => {
                let request = request(&mut rng);
                if let Ok(pfn) = allocator.alloc(&request) {
                    pool.lock().expect("no panic").push((pfn, request));
                }
            }
            9..16 => {
                let block = {
                    let mut pool = pool.lock().expect("no panic");
                    let at = rng.usize(..pool.len().max(1));
                    (!pool.is_empty()).then(|| pool.swap_remove(at))
                };
                if let Some((pfn, request)) = block {
                    allocator.free(pfn, request.order);
                }
            }
            16 => allocator.drain_all(),
            17 => allocator.drain_cpu(CpuId(rng.u16(..CPUS as u16))),
            18 => allocator.tick(CpuId(rng.u16(..CPUS as u16))),
            _ => pageyard_check::shuttle_platform::run_as(CpuId(rng.u16(..CPUS as u16))),
        }
    }
}

/// Jobs that work on one pool, each with draws of its own.
fn workers(count: usize, pool: &Pool, rng: &mut Rng) -> Vec<Job<Shuttle>> {
    (0..count)
        .map(|_| {
            let (pool, rng) = (Arc::clone(pool), rng.fork());
            let job: Job<Shuttle> = Box::new(move |a| work(a, &pool, rng));
            job
        })
        .collect()
}

/// One execution; returns a line that tells of everything that the schedule decided.
fn execution() -> String {
    let mut rng = Rng::with_seed(shuttle::rand::thread_rng().next_u64());
    let (allocator, layout, policy) = build(&mut rng);
    let pool = Pool::default();
    RandomOrder::together(&allocator, workers(CPUS, &pool, &mut rng));
    let held = std::mem::take(&mut *pool.lock().expect("no panic"));
    let line = format!("{policy} {:?}", held.iter().map(|(pfn, _)| pfn.0).collect::<Vec<_>>());
    let mut model = Model::new(&layout, policy.policy);
    // High-atomic reserves may have come and gone.
    model.has_scars.fill(true);
    for (pfn, request) in held {
        let state = allocator.inspect(pfn).expect("in a zone");
        assert_eq!((state.order, state.migratetype), (request.order, request.mobility));
        model.hold(pfn, &request);
    }
    walk::everything(&model, &allocator);
    model.compare_pages(&allocator);
    for zone in layout.zone_ids() {
        let count = |item| allocator.event_count(zone, item);
        let in_use = count(EventItem::PagesAllocated) - count(EventItem::PagesFreed);
        assert_eq!(in_use, model.pages_in_use(zone), "{policy}: {zone:?}");
    }
    line
}

#[test]
fn nothing_is_lost_under_random_schedules() {
    sample(settings::seed(), settings::schedules(SCHEDULES), || {
        execution();
    });
}

#[test]
fn the_same_seed_gives_the_same_schedules() {
    let lines = |seed| {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        sample(seed, 5, move || into.lock().expect("no panic").push(execution()));
        let lines = lines.lock().expect("no panic");
        lines.clone()
    };
    assert_eq!(lines(7), lines(7));
    assert_ne!(lines(7), lines(8));
}

/// A pageblock is taken out of service while CPUs work in it: in the end no page of it is on a
/// list from which anybody is served.
#[test]
fn an_isolated_pageblock_empties_while_cpus_work() {
    sample(settings::seed(), settings::schedules(SCHEDULES / 3), || {
        let mut rng = Rng::with_seed(shuttle::rand::thread_rng().next_u64());
        let (allocator, layout, policy) = build(&mut rng);
        let pool = Pool::default();
        let mut jobs = workers(CPUS - 1, &pool, &mut rng);
        jobs.insert(0, Box::new(|a| a.set_pageblock_type(Pfn(8), MigrateType::Isolate)));
        RandomOrder::together(&allocator, jobs);
        for (pfn, request) in pool.lock().expect("no panic").drain(..) {
            allocator.free(pfn, request.order);
        }
        for cpu in layout.cpus() {
            RandomOrder::on(&allocator, cpu, || allocator.drain_cpu(cpu));
        }
        let mut model = Model::new(&layout, policy.policy);
        model.has_scars.fill(true);
        walk::everything(&model, &allocator);
        let mut isolated = 0;
        for order in 0..=layout.max_order {
            let mut count = |_| isolated += 1 << order;
            allocator.visit_free(ZoneId(0), order, MigrateType::Isolate, &mut count);
        }
        let block_type = allocator.pageblock_type(Pfn(8));
        assert_eq!(block_type, Some(MigrateType::Isolate), "{policy}");
        assert_eq!(isolated, 8, "{policy}: pages out of service");
    });
}

/// A pageblock changes its type again and again while CPUs allocate and free in it: where lists and
/// types must agree they do, whenever a free read the type before it had the lock.
#[test]
fn a_pageblock_changes_its_type_while_cpus_free() {
    sample(settings::seed(), settings::schedules(SCHEDULES / 3), || {
        let mut rng = Rng::with_seed(shuttle::rand::thread_rng().next_u64());
        let (allocator, layout, policy) = build(&mut rng);
        let pool = Pool::default();
        let mut jobs = workers(CPUS - 1, &pool, &mut rng);
        jobs.insert(
            0,
            Box::new(|a| {
                let types =
                    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
                for at in 0..24 {
                    a.set_pageblock_type(Pfn(8 * (at % 8)), types[at as usize % 3]);
                }
            }),
        );
        RandomOrder::together(&allocator, jobs);
        let mut model = Model::new(&layout, policy.policy);
        model.has_scars.fill(true);
        for (pfn, request) in pool.lock().expect("no panic").drain(..) {
            model.hold(pfn, &request);
        }
        walk::everything(&model, &allocator);
    });
}
