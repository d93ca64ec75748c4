//! CPUs at the same time: whatever their order, memory comes back as it was and nothing is lost
//! from a count.

use std::sync::Arc;

use pageyard::{Allocator, CpuId, EventItem, Pfn, Platform, Request, ZoneId, ZoneItem};

use super::buddy::ERAS;
use super::numa::{DESIGNS, expected, numa};
use super::script::Yard;
use crate::layout::{Layout, make_exact, policy};
use crate::machine::{Job, Machine};
use crate::text;

const ALL_FREE: &str = "blocks MM | M3: 0 8";

/// Empties the caches and compares with the state before anybody worked. The order of the two
/// blocks tells of the schedule, so it is left out.
fn expect_all_free<M: Machine>(yard: &Yard, allocator: &Allocator<M::Platform>) {
    for cpu in yard.layout().cpus() {
        M::on(allocator, cpu, || allocator.drain_cpu(cpu));
    }
    let state = text::write(allocator, &yard.layout());
    assert_eq!(state.replace("M3: 8 0", "M3: 0 8"), ALL_FREE);
}

fn take_and_free<P: Platform>(allocator: &Allocator<P>, order: u8) {
    let pfn = allocator.alloc(&Request::user(order)).expect("room for all");
    allocator.free(pfn, order);
}

/// Two CPUs allocate and free.
pub fn two_cpus_take_and_free<M: Machine>() {
    for era in ERAS {
        M::run(move || {
            let yard = Yard::small(era).caching(2, 4, 4);
            let allocator = yard.build::<M>(ALL_FREE);
            let job = |order| -> Job<M::Platform> { Box::new(move |a| take_and_free(a, order)) };
            M::together(&allocator, vec![job(0), job(1)]);
            expect_all_free::<M>(&yard, &allocator);
        });
    }
}

/// One CPU frees what another allocated.
pub fn pages_come_home_from_another_cpu<M: Machine>() {
    for era in ERAS {
        M::run(move || {
            let yard = Yard::small(era).caching(2, 4, 4);
            let allocator = yard.build::<M>(ALL_FREE);
            let take = || allocator.alloc(&Request::user(0)).expect("room");
            let pages = M::on(&allocator, CpuId(1), || [take(), take()]);
            let job = |pfn: Pfn| -> Job<M::Platform> { Box::new(move |a| a.free(pfn, 0)) };
            M::together(&allocator, pages.map(job).into());
            expect_all_free::<M>(&yard, &allocator);
        });
    }
}

/// One CPU works while another empties all caches.
pub fn drains_do_not_lose_pages_of_a_working_cpu<M: Machine>() {
    for era in ERAS {
        M::run(move || {
            let yard = Yard::small(era).caching(2, 4, 4);
            let allocator: Arc<Allocator<M::Platform>> = yard.build::<M>(ALL_FREE);
            M::on(&allocator, CpuId(1), || take_and_free(&allocator, 0));
            let drain: Job<M::Platform> = Box::new(Allocator::drain_all);
            let work: Job<M::Platform> = Box::new(|a| take_and_free(a, 0));
            M::together(&allocator, vec![drain, work]);
            expect_all_free::<M>(&yard, &allocator);
        });
    }
}

/// Nothing is lost when CPUs count at the same time, in every design of the counters.
pub fn no_count_is_lost_when_cpus_work_together<M: Machine>() {
    for text in DESIGNS {
        M::run(move || {
            let layout = Layout::flat(16, 3, 3, 2);
            let allocator = Arc::new(layout.build_full(M::platform(), policy(text)));
            make_exact(&allocator);
            allocator.set_counter_threshold(ZoneId(0), 2, 0);
            let job = || -> Job<M::Platform> { Box::new(|a| take_and_free(a, 0)) };
            M::together(&allocator, vec![job(), job()]);
            let count = |item| allocator.event_count(ZoneId(0), item);
            assert_eq!(count(EventItem::PagesAllocated), 2, "{text}");
            assert_eq!(count(EventItem::PagesFreed), 2, "{text}");
            let counts = numa(&allocator, 0);
            assert_eq!(counts, expected(text, [2, 0, 0, 0, 2, 0]), "{text}");
            let cached = |cpu| allocator.pcp_pages(ZoneId(0), CpuId(cpu));
            let free = allocator.zone_count(ZoneId(0), ZoneItem::FreePages);
            assert_eq!(free + i64::from(cached(0) + cached(1)), 16, "{text}");
        });
    }
}
