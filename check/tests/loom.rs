//! Small cases under every interleaving: zones of 16 pages, two or three CPUs, a few operations.
//!
//! Each test asserts that nothing was lost once the CPUs are at rest, whatever the order of their
//! steps; on the way, loom ends a test in which an owned word is touched without the lock that owns
//! it. With the default bound of two preemptions all of it takes seconds; without a bound
//! (`PAGEYARD_LOOM_PREEMPTIONS=unbounded`) minutes to hours.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pageyard::platform::{Field, Locks, Owned, Platform, Site, TableId};
use pageyard::watermark::Marks;
use pageyard::{Allocator, CpuId, EventItem, MigrateType, Pfn, Request, ZoneId, ZoneItem};
use pageyard_check::behaviour::script::Yard;
use pageyard_check::layout::{Layout, make_exact, policy, set_caches};
use pageyard_check::loom_platform::{EveryOrder, Loom, explore};
use pageyard_check::machine::{Job, Machine};
use pageyard_check::oracle::model::Model;
use pageyard_check::oracle::walk;
use pageyard_check::text;

const ZONE: ZoneId = ZoneId(0);
/// One release of each way to guard and empty a per-CPU cache.
const GUARDS: [&str; 4] = ["linux-5.13", "linux-5.17", "linux-6.6", "linux-6.19"];
const ALL_FREE: &str = "blocks MM | M3: 0 8";

type Yarded = Arc<Allocator<Loom>>;

fn job(f: impl FnOnce(&Allocator<Loom>) + Send + 'static) -> Job<Loom> {
    Box::new(f)
}

fn take(allocator: &Allocator<Loom>, order: u8) -> Pfn {
    let pfn = allocator.alloc(&Request::user(order));
    pfn.expect("room for all")
}

/// Every page in exactly one place, all counters as the lists say, nothing in use.
fn expect_whole(yard: &Yard, allocator: &Yarded, policy_text: &str) {
    let mut layout = yard.layout();
    layout.memory[0].pages = layout.zones[0].spanned_pages;
    let model = Model::new(&layout, policy(policy_text));
    walk::everything(&model, allocator);
    let free = allocator.zone_count(ZONE, ZoneItem::FreePages);
    let cached: u32 = layout.cpus().map(|cpu| allocator.pcp_pages(ZONE, cpu)).sum();
    assert_eq!(free + i64::from(cached), 16);
    let count = |item| allocator.event_count(ZONE, item);
    assert_eq!(count(EventItem::PagesAllocated), count(EventItem::PagesFreed));
}

/// Runs a case for each guard; says how many interleavings there were.
fn cases(name: &str, jobs: fn(&Yarded) -> Vec<Job<Loom>>) {
    for guard in GUARDS {
        let runs = explore(move || {
            let yard = Yard::small(guard).caching(2, 4, 4);
            let allocator = yard.build::<EveryOrder>(ALL_FREE);
            let jobs = jobs(&allocator);
            EveryOrder::together(&allocator, jobs);
            expect_whole(&yard, &allocator, guard);
        });
        println!("{name}, {guard}: {runs} interleavings");
    }
}

#[test]
fn a_cpu_works_while_another_drains_its_cache() {
    cases("drain", |allocator| {
        EveryOrder::on(allocator, CpuId(1), || {
            let pages = [take(allocator, 0), take(allocator, 0), take(allocator, 0)];
            for pfn in pages {
                allocator.free(pfn, 0);
            }
        });
        vec![
            job(|a| a.drain_cpu(CpuId(1))),
            job(|a| {
                let pfn = take(a, 0);
                a.free(pfn, 0);
            }),
        ]
    });
}

#[test]
fn two_cpus_share_a_cache() {
    cases("shared cache", |_| {
        let work = |a: &Allocator<Loom>| {
            // A CPU number that is stale: both work as CPU 1.
            pageyard_check::loom_platform::run_as(CpuId(1));
            let pfn = take(a, 0);
            a.free(pfn, 0);
        };
        vec![job(work), job(work)]
    });
}

#[test]
fn a_page_is_freed_while_its_buddy_is_drained() {
    cases("buddies", |allocator| {
        set_caches(allocator, 2, [1, 8, 8]);
        let pages = [take(allocator, 0), take(allocator, 0)];
        assert_eq!(pages[0].0 ^ 1, pages[1].0, "buddies");
        // One waits in the cache of CPU 1; the other goes to the zone directly, or to CPU 0.
        EveryOrder::on(allocator, CpuId(1), || allocator.free(pages[1], 0));
        vec![
            job(move |a| {
                a.free(pages[0], 0);
                a.drain_cpu(CpuId(0));
            }),
            job(|a| a.drain_cpu(CpuId(1))),
        ]
    });
}

#[test]
fn two_cpus_free_buddies_past_their_limits() {
    cases("bulk frees", |allocator| {
        set_caches(allocator, 2, [1, 1, 1]);
        let pages = [take(allocator, 0), take(allocator, 0)];
        vec![job(move |a| a.free(pages[0], 0)), job(move |a| a.free(pages[1], 0))]
    });
}

#[test]
fn blocks_of_the_zone_race_with_a_refill() {
    cases("zone lock", |allocator| {
        // A block a refill, so that neither CPU takes all there is and sends the other up the
        // ladder, which would be ten thousands of interleavings.
        set_caches(allocator, 2, [1, 0, 0]);
        let work = |order| {
            job(move |a| {
                let pfn = take(a, order);
                a.free(pfn, order);
            })
        };
        vec![work(2), work(0)]
    });
}

#[test]
fn a_drain_of_all_is_asked_for_while_the_owner_ticks() {
    cases("tick", |allocator| {
        EveryOrder::on(allocator, CpuId(1), || {
            let pfn = take(allocator, 0);
            allocator.free(pfn, 0);
        });
        vec![job(Allocator::drain_all), job(|a| a.tick(CpuId(1)))]
    });
}

/// The request of a drain is not lost: the owner obeys at the tick that follows.
#[test]
fn a_queued_drain_is_obeyed() {
    for guard in ["linux-5.13", "linux-5.17"] {
        let runs = explore(move || {
            let yard = Yard::small(guard).caching(2, 4, 4);
            let allocator = yard.build::<EveryOrder>("blocks MM | M3: 8 | M2: 4 | M0@1: 0 1 2 3");
            let tick = || job(|a| a.tick(CpuId(1)));
            EveryOrder::together(&allocator, vec![job(Allocator::drain_all), tick()]);
            EveryOrder::on(&allocator, CpuId(1), || allocator.tick(CpuId(1)));
            assert_eq!(allocator.pcp_pages(ZONE, CpuId(1)), 0);
        });
        println!("{guard}: {runs} interleavings");
    }
}

/// Folding a CPU's difference races with the zone lock's holder that adds to it, and with a
/// reader: at rest nothing is missing.
#[test]
fn no_difference_is_lost_when_counters_are_folded() {
    for threshold in [0, 1, 3] {
        let runs = explore(move || {
            let layout = Layout::flat(16, 3, 3, 2);
            let allocator = layout.build_full(EveryOrder::platform(), policy("linux-6.18"));
            make_exact(&allocator);
            set_caches(&allocator, 2, [1, 0, 0]);
            allocator.set_counter_threshold(ZONE, threshold, 0);
            let allocator = Arc::new(allocator);
            EveryOrder::together(
                &allocator,
                vec![
                    // Folds what CPU 1 gathers, as a remote fold does.
                    job(|a| a.tick(CpuId(1))),
                    job(|a| {
                        a.alloc(&Request::user(3)).expect("room");
                    }),
                ],
            );
            assert_eq!(allocator.zone_count(ZONE, ZoneItem::FreePages), 8);
            assert_eq!(allocator.zone_count(ZONE, ZoneItem::FreePagesBlocks), 8);
        });
        println!("threshold {threshold}: {runs} interleavings");
    }
}

/// Counts that spill race with a reader: it sees no more than happened, and all of it at rest.
#[test]
fn readers_of_event_counters_see_nothing_that_did_not_happen() {
    for text in ["linux-4.20:numa_threshold=1", "linux-4.20:numa_stat=ordinary", "linux-6.18"] {
        let runs = explore(move || {
            let yard = Yard::small(text).caching(2, 8, 8);
            let allocator = yard.build::<EveryOrder>(ALL_FREE);
            EveryOrder::together(
                &allocator,
                vec![
                    job(|a| {
                        let hits = a.event_count(ZONE, EventItem::NumaHit) as i64;
                        // A spill is two steps, total and difference; between them a reader
                        // may count it twice or not at all, as on Linux.
                        assert!((-4..=4).contains(&hits), "{hits}");
                    }),
                    job(|a| {
                        take(a, 0);
                        take(a, 0);
                    }),
                ],
            );
            assert_eq!(allocator.event_count(ZONE, EventItem::NumaHit), 2);
        });
        println!("{text}: {runs} interleavings");
    }
}

/// The boost flag wakes reclaim at least once, and the boost is never above its bound.
#[test]
fn boosts_and_their_settling_race() {
    let runs = explore(|| {
        let yard = Yard::of("linux-6.18");
        let before = "blocks MMMM | M2: 0 4 16 20 | M3: 8 24";
        let allocator = yard.build::<EveryOrder>(before);
        let low = Marks { high: 1, ..Marks::default() };
        allocator.set_marks(ZONE, low);
        let mix = || {
            job(|a| {
                a.alloc(&Request { no_marks: true, ..Request::kernel(0) }).expect("room");
            })
        };
        EveryOrder::together(&allocator, vec![mix(), mix()]);
        assert!(allocator.boost(ZONE) <= 16);
        allocator.settle_boost(ZONE, 16);
        assert_eq!(allocator.boost(ZONE), 0);
    });
    println!("boost: {runs} interleavings");
}

/// A pageblock is isolated while a page of it is freed: the page ends on the list of the type the
/// block has now, from 6.10 on.
#[test]
fn a_page_is_freed_while_its_pageblock_is_isolated() {
    for text in ["linux-6.6", "linux-6.12", "linux-6.19"] {
        let runs = explore(move || {
            let yard = Yard::small(text).caching(1, 1, 1);
            let allocator = yard.build::<EveryOrder>("blocks MM | M2: 4 | M3: 8");
            EveryOrder::together(
                &allocator,
                vec![
                    job(|a| a.set_pageblock_type(Pfn(0), MigrateType::Isolate)),
                    job(|a| a.free(Pfn(0), 0)),
                ],
            );
            allocator.drain_all();
            let state = text::write(&allocator, &yard.layout());
            assert_eq!(state, "blocks IM | M3: 8 | I0: 0 | I2: 4", "{text}");
        });
        println!("{text}: {runs} interleavings");
    }
}

/// See `Atomics` of the platform: without the companions only one order is tried here.
#[test]
fn a_load_before_a_store_hides_nothing() {
    use pageyard::platform::{Ordering::Relaxed, Shared};
    let seen = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let found = Arc::clone(&seen);
    explore(move || {
        let spec = pageyard::platform::TableSpec { id: TableId::Zones, records: 1, fields: 1 };
        let table = Arc::new(Loom::default().shared(spec));
        let other = Arc::clone(&table);
        let writer = loom::thread::spawn(move || {
            let before = other.peek(0, Field(0));
            other.store(0, Field(0), before + 1, Relaxed);
        });
        let read = table.load(0, Field(0), Relaxed);
        writer.join().expect("joined");
        found.lock().expect("no panic").insert(read);
    });
    let seen: Vec<u32> = seen.lock().expect("no panic").iter().copied().collect();
    assert_eq!(seen, [0, 1]);
}

/// What loom says of an execution that it refuses.
fn refusal(test: impl Fn() + Send + Sync + 'static) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| explore(test))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

/// The check works: a write to an owned word that no lock orders is caught.
#[test]
fn an_unlocked_write_to_an_owned_word_is_caught() {
    let write = |is_locked: bool| {
        refusal(move || {
            let platform = Loom::default();
            let spec = |id| pageyard::platform::TableSpec { id, records: 1, fields: 1 };
            let table = Arc::new((
                platform.owned(spec(TableId::Areas)),
                platform.locks(spec(TableId::ZoneLocks)),
            ));
            let other = Arc::clone(&table);
            let set = |table: &(<Loom as Platform>::Owned, <Loom as Platform>::Locks), lock| {
                let set = || table.0.set(0, Field(0), 1);
                if lock {
                    table.1.with(0, Site::Direct, set);
                } else {
                    set();
                }
            };
            let thread = loom::thread::spawn(move || set(&other, true));
            set(&table, is_locked);
            thread.join().expect("joined");
        })
    };
    assert_eq!(write(true), None);
    let said = write(false).expect("a race");
    assert!(said.contains("Concurrent write accesses"), "{said}");
}

/// And so is every lock of the allocator: without the pcp locks, or without the zone locks, a case
/// that passes above is refused.
#[test]
fn an_allocator_without_its_locks_is_caught() {
    let run = |broken: Option<TableId>| {
        refusal(move || {
            let yard = Yard::small("linux-6.6");
            let allocator = yard.layout().build(Loom { broken }, policy("linux-6.6"));
            make_exact(&allocator);
            set_caches(&allocator, 2, [2, 4, 4]);
            text::read(&allocator, &yard.layout(), "blocks MM | M3: 8 | M2: 4 | M0@1: 0 1 2 3");
            let jobs = vec![
                job(|a| a.drain_cpu(CpuId(1))),
                job(|a| {
                    take(a, 0);
                }),
            ];
            EveryOrder::together(&Arc::new(allocator), jobs);
        })
    };
    assert_eq!(run(None), None);
    for broken in [TableId::PcpLocks, TableId::ZoneLocks] {
        let said =
            run(Some(broken)).unwrap_or_else(|| panic!("without {broken:?} nothing was seen"));
        let is_race = said.contains("Causality violation") || said.contains("Concurrent");
        assert!(is_race, "{broken:?}: {said}");
    }
}
