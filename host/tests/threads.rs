//! Many threads on one allocator: nobody's page is somebody else's, and nothing is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use pageyard::{CpuId, EventItem, MigrateType, Policy, Request, ZoneId, preset};
use pageyard_host::plain::{Plain, set_thread_cpu};
use pageyard_host::{Block, Counters, HostAllocator, PAGE_BYTES};

/// One release of each kind of pcp guard and bulk free: interrupts off, local lock, spin lock,
/// spin lock with automatic limits, and let go between chunks.
const POLICIES: [&str; 5] = ["linux-4.14", "linux-5.17", "linux-6.1", "linux-6.18", "linux-6.19"];
const ZONE: ZoneId = ZoneId(0);
const CPUS: u16 = 8;
/// 64 MiB.
const PAGES: u64 = 1 << 14;

type Host = HostAllocator<Counters>;

fn host(policy: &str) -> Host {
    let policy: Policy = preset::find(policy).expect("a known release");
    let plain = Plain::with_notes(Counters::default());
    HostAllocator::over(plain, PAGES, CPUS, policy).expect("64 MiB")
}

/// Operations of one thread; fewer where an interpreter runs them.
fn operations() -> u64 {
    if cfg!(miri) { 40 } else { 4_000 }
}

/// Marsaglia's xorshift64, seeded by the number of the thread.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    fn request(&mut self) -> Request {
        let order = [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 6, 9][self.below(12) as usize];
        let mobility = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable]
            [self.below(3) as usize];
        Request { mobility, ..Request::kernel(order) }
    }
}

/// What an owner writes at both ends of each of its pages.
fn stamp(owner: u64, page: usize) -> [u8; 8] {
    (owner << 32 | page as u64).to_le_bytes()
}

fn write_stamps(block: &mut Block<'_, Counters>, owner: u64) {
    for (page, bytes) in block.bytes_mut().chunks_exact_mut(PAGE_BYTES).enumerate() {
        bytes[..8].copy_from_slice(&stamp(owner, page));
        bytes[PAGE_BYTES - 8..].copy_from_slice(&stamp(owner, page));
    }
}

fn check_stamps(block: &Block<'_, Counters>, owner: u64) {
    for (page, bytes) in block.bytes().chunks_exact(PAGE_BYTES).enumerate() {
        let ends = [&bytes[..8], &bytes[PAGE_BYTES - 8..]];
        let expected = stamp(owner, page);
        assert_eq!(ends, [&expected; 2], "page {page} of {block:?} was written");
    }
}

/// Allocates, holds and frees at random; returns how many allocations it was granted.
fn churn(host: &Host, thread: u64) -> u64 {
    let mut random = Random::new(thread + 1);
    let mut held: Vec<Block<'_, Counters>> = Vec::new();
    let mut granted = 0;
    for _ in 0..operations() {
        if held.len() < 40 && random.below(2) == 0 {
            if let Ok(mut block) = host.alloc(&random.request()) {
                write_stamps(&mut block, thread);
                held.push(block);
                granted += 1;
            }
        } else if !held.is_empty() {
            let at = random.below(held.len() as u64) as usize;
            let block = held.swap_remove(at);
            check_stamps(&block, thread);
            host.free(block);
        }
    }
    for block in held {
        check_stamps(&block, thread);
        host.free(block);
    }
    granted
}

/// With every block freed: nothing is lost, every count agrees, and all merges again.
fn check_at_rest(host: &Host, granted: u64) {
    let seen = host.platform().notes().counts();
    assert_eq!(seen.pcp_hits + seen.direct_allocs, granted);
    // SAFETY: no block is alive; frames are looked at and drained, none is freed by hand.
    let frames = unsafe { host.frames() };
    let cached: u32 = (0..CPUS).map(|cpu| frames.pcp_pages(ZONE, CpuId(cpu))).sum();
    assert_eq!(host.free_pages() + u64::from(cached), PAGES, "none is lost");
    let count = |item| frames.event_count(ZONE, item);
    let allocated = count(EventItem::PagesAllocated);
    assert_eq!(allocated, count(EventItem::PagesFreed));
    assert!(allocated >= granted);
    assert_eq!(count(EventItem::NumaHit), granted);
    assert_eq!(count(EventItem::NumaLocal), granted);
    // Up to 5.19 the owners of caches are only asked: each obeys at its tick.
    host.drain_all();
    for cpu in (0..CPUS).map(CpuId) {
        set_thread_cpu(Some(cpu));
        frames.tick(cpu);
    }
    set_thread_cpu(None);
    assert_eq!(host.free_pages(), PAGES, "every cache is empty");
    let largest: u64 = MigrateType::ALL.iter().map(|&t| frames.free_blocks(ZONE, 10, t)).sum();
    assert_eq!(largest, PAGES >> 10, "every block merged");
}

/// Runs `threads` threads, thread i as the CPU that `cpu_of` says; `None` is where the kernel
/// runs it.
fn hammer(policy: &str, threads: u64, cpu_of: impl Fn(u64) -> Option<CpuId> + Sync) {
    let host = host(policy);
    let granted = std::thread::scope(|scope| {
        let work = |thread| {
            set_thread_cpu(cpu_of(thread));
            churn(&host, thread)
        };
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let granted = threads.into_iter().map(|t| t.join().expect("no panic"));
        granted.sum()
    });
    assert!(granted > 0);
    check_at_rest(&host, granted);
}

#[test]
fn threads_on_cpus_of_their_own_share_no_page() {
    for policy in POLICIES {
        for threads in [2, 8] {
            hammer(policy, threads, |thread| Some(CpuId(thread as u16)));
        }
    }
}

#[test]
fn threads_on_one_cpu_share_its_cache_and_no_page() {
    for policy in POLICIES {
        hammer(policy, 4, |_| Some(CpuId(3)));
    }
}

#[test]
fn a_cpu_number_that_is_stale_or_too_large_is_not_wrong() {
    hammer("linux-6.18", 4, |_| None);
    hammer("linux-6.18", 4, |thread| Some(CpuId(1000 + thread as u16)));
}

#[test]
fn consumers_free_what_producers_allocated_while_a_third_drains() {
    for policy in POLICIES {
        let host = host(policy);
        let (host, done) = (&host, &AtomicBool::new(false));
        let (sender, receiver) = channel::<(u64, Block<'_, Counters>)>();
        let granted = std::thread::scope(|scope| {
            let producers: Vec<_> = (0..2)
                .map(|thread| {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        set_thread_cpu(Some(CpuId(thread as u16)));
                        let mut random = Random::new(thread + 100);
                        let mut granted = 0;
                        for _ in 0..operations() {
                            let Ok(mut block) = host.alloc(&random.request()) else {
                                std::thread::yield_now();
                                continue;
                            };
                            write_stamps(&mut block, thread);
                            sender.send((thread, block)).expect("a consumer listens");
                            granted += 1;
                        }
                        granted
                    })
                })
                .collect();
            drop(sender);
            scope.spawn(move || {
                set_thread_cpu(Some(CpuId(2)));
                // Relaxed: only ends the loop; joining orders the rest.
                while !done.load(Ordering::Relaxed) {
                    host.drain_all();
                    std::thread::yield_now();
                }
            });
            let consumer = scope.spawn(move || {
                set_thread_cpu(Some(CpuId(3)));
                for (owner, block) in receiver {
                    check_stamps(&block, owner);
                    host.free(block);
                }
            });
            let granted: u64 = producers.into_iter().map(|p| p.join().expect("fine")).sum();
            consumer.join().expect("every stamp is intact");
            done.store(true, Ordering::Relaxed);
            granted
        });
        assert!(granted > 0);
        check_at_rest(host, granted);
    }
}
