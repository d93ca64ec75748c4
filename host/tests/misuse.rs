//! Misuse panics before anything changes: what the allocator holds stays whole.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use pageyard::{Allocator, Bug, CpuId, Pfn, Request, preset};
use pageyard_host::HostAllocator;
use pageyard_host::plain::{Plain, set_thread_cpu};

const PAGES: u64 = 1 << 12;

static HOOKED: AtomicU32 = AtomicU32::new(0);

fn hook(bug: &Bug) {
    assert!(!bug.to_string().is_empty());
    HOOKED.fetch_add(1, Ordering::Relaxed);
}

/// What the panic said.
#[track_caller]
fn complaint(frames: &Allocator<Plain>, pfn: Pfn, order: u8) -> String {
    let before = HOOKED.load(Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| frames.free(pfn, order)));
    let payload = outcome.expect_err("misuse panics");
    assert_eq!(HOOKED.load(Ordering::Relaxed), before + 1, "the hook first");
    let text = payload.downcast_ref::<String>();
    text.expect("a formatted message").clone()
}

#[test]
fn every_misuse_is_named_and_leaves_the_lists_whole() {
    set_thread_cpu(Some(CpuId(0)));
    let policy = preset::find("linux-6.18").expect("a known release");
    let plain = Plain::new().on_bug(hook);
    let host = HostAllocator::over(plain, PAGES, 2, policy).expect("16 MiB");
    // SAFETY: no `Block` is made; every frame below is allocated and freed by hand.
    let frames = unsafe { host.frames() };
    let single = frames.alloc(&Request::user(0)).expect("room");
    let block = frames.alloc(&Request::user(3)).expect("room");
    let large = frames.alloc(&Request::user(10)).expect("room");
    assert!(complaint(frames, block, 2).contains("freed with order 2, but CPU 0 allocated it"));
    assert!(complaint(frames, Pfn(block.0 + 1), 0).contains("never allocated"));
    assert!(complaint(frames, Pfn(single.0 - PAGES * 2), 0).contains("no zone"));
    assert!(complaint(frames, Pfn(large.0 + 1), 1).contains("not aligned"));
    assert!(complaint(frames, large, 11).contains("above the largest"));
    for (pfn, order) in [(single, 0), (block, 3), (large, 10)] {
        frames.free(pfn, order);
        assert!(complaint(frames, pfn, order).contains("double free"));
    }
    host.drain_all();
    assert!(complaint(frames, single, 0).contains("double free"));
    assert_eq!(host.free_pages(), PAGES, "nothing was lost or gained");
    // Whole means usable: everything above the marks can be had, and each page once.
    let mut taken = Vec::new();
    while let Ok(pfn) = frames.alloc(&Request::user(0)) {
        taken.push(pfn);
    }
    assert!(taken.len() as u64 > PAGES / 2);
    taken.sort();
    taken.dedup();
    for pfn in &taken {
        frames.free(*pfn, 0);
    }
    host.drain_all();
    assert_eq!(host.free_pages(), PAGES);
}

#[test]
#[should_panic(expected = "freed by an allocator that does not own it")]
fn a_block_of_another_allocator_is_refused() {
    let policy = preset::find("linux-6.18").expect("a known release");
    let make = || HostAllocator::new(PAGES, policy).expect("16 MiB");
    let (one, other) = (make(), make());
    let block = one.alloc(&Request::user(0)).expect("room");
    other.free(block);
}
