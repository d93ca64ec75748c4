//! Per-CPU lists: order, refills, what a bulk free takes, drains, ageing.

use pageyard::sizing::PcpSize;
use pageyard::{Allocator, CpuId, MigrateType, Pfn, Platform, Request, ZoneId};

use super::script::{Yard, check};
use crate::layout::{Layout, make_exact, policy, set_caches};
use crate::machine::Machine;

const ZONE: ZoneId = ZoneId(0);
const CPU: CpuId = CpuId(0);

/// A refill hangs its pages in ascending order behind what is there; the head is taken.
pub fn a_refill_keeps_physical_order<M: Machine>() {
    for policy in ["linux-4.14", "linux-5.17", "linux-6.6"] {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M3: 0 8",
            "alloc M0=0",
            "blocks MM | M2: 4 | M3: 8 | M0@0: 1 2 3",
        );
    }
}

/// The page freed last is the page allocated next.
pub fn a_freed_page_is_taken_next<M: Machine>() {
    for policy in super::buddy::ERAS {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M3: 8 | M0@0: 1 2 3",
            "alloc M0=1; free 0; free 1; alloc M0=1",
            "blocks MM | M3: 8 | M0@0: 0 2 3",
        );
    }
}

/// Since 6.7 refills in a row double: 2, 4, 8.
pub fn refills_in_a_row_double<M: Machine>() {
    let yard = Yard::of("linux-6.18").caching(2, 4, 64);
    let before = "blocks MMMM | M5: 0 32";
    let check = |operations, after| check::<M>(&yard, before, operations, after);
    check("alloc M0=0", "blocks MMMM | M1: 2 | M2: 4 | M3: 8 | M4: 16 | M5: 32 | M0@0: 1");
    check(
        "alloc M0=0; alloc M0=1; alloc M0=2",
        "blocks MMMM | M1: 6 | M3: 8 | M4: 16 | M5: 32 | M0@0: 3 4 5",
    );
    check(
        "alloc M0=0; alloc M0=1; alloc M0=2; alloc M0=3; alloc M0=4; alloc M0=5; alloc M0=6",
        "blocks MMMM | M1: 14 | M4: 16 | M5: 32 | M0@0: 7 8 9 10 11 12 13",
    );
}

/// A refill ends early when the zone has no more.
pub fn a_refill_takes_what_there_is<M: Machine>() {
    for policy in super::buddy::ERAS {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M0: 7 3",
            "alloc M0=7; alloc M0=3; alloc M0=none",
            "blocks MM",
        );
    }
}

/// Since 5.14 orders 1 to 3 are cached: at least two blocks a refill.
pub fn higher_orders_are_cached_since_5_14<M: Machine>() {
    let before = "blocks MMMM | M5: 0 32";
    check::<M>(
        &Yard::of("linux-5.13").caching(4, 16, 16),
        before,
        "alloc M1=0; alloc M1=2",
        "blocks MMMM | M2: 4 | M3: 8 | M4: 16 | M5: 32",
    );
    for policy in ["linux-5.14", "linux-6.6", "linux-6.18"] {
        check::<M>(
            &Yard::of(policy).caching(4, 16, 16),
            before,
            "alloc M1=0; alloc M3=8",
            "blocks MMMM | M2: 4 | M3: 24 | M5: 32 | M1@0: 2 | M3@0: 16",
        );
    }
}

/// Whole pageblocks are cached too, since 6.10 movable ones apart from the others.
pub fn whole_pageblocks_are_cached<M: Machine>() {
    let run = |policy, after| {
        let yard = Yard::of(policy).caching(1, 64, 64);
        let before = "blocks MUMM | used M4: 0 | used U4: 16";
        check::<M>(&yard, before, "free 0; free 16", after);
    };
    run("linux-5.13", "blocks MUMM | U5: 0");
    run("linux-6.6", "blocks MUMM | *4@0: 16 0");
    run("linux-6.18", "blocks MUMM | U4@0: 16 | M4@0: 0");
}

/// A bulk request takes from one list, refilling it as it goes, and leaves with what it got.
pub fn a_bulk_request_is_served_from_one_list<M: Machine>() {
    for policy in ["linux-5.13", "linux-6.6"] {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M3: 0 8",
            "bulk M 6=0 1 2 3 4 5",
            "blocks MM | M3: 8 | M0@0: 6 7",
        );
    }
}

/// Lent pages that a refill took go back to the lists of CMA, in every era.
pub fn lent_pages_go_home<M: Machine>() {
    for policy in super::buddy::ERAS {
        check::<M>(
            &Yard::of(policy).caching(4, 16, 16),
            "blocks CMMM | M0: 16 | C2: 4",
            "alloc M0=4; drain; free 4; drain",
            "blocks CMMM | M0: 16 | C2: 4",
        );
    }
}

/// Up to 5.17 a bulk free goes round the lists, beginning behind the first.
pub fn bulk_frees_went_round_the_lists<M: Machine>() {
    for policy in ["linux-4.14", "linux-5.13"] {
        check::<M>(
            &Yard::of(policy).caching(2, 5, 5),
            "blocks UMRM | U0@0: 0 | M0@0: 16 | R0@0: 32 34",
            "free 36",
            "blocks UMRM | M0: 16 | R0: 34 | U0@0: 0 | R0@0: 36 32",
        );
    }
}

/// Since 5.18 it begins with the list just freed to and empties one after the other.
pub fn bulk_frees_empty_list_after_list<M: Machine>() {
    for policy in ["linux-5.18", "linux-6.6"] {
        check::<M>(
            &Yard::of(policy).caching(2, 5, 5),
            "blocks UMRM | U0@0: 0 | M0@0: 16 | R0@0: 32 34",
            "free 36",
            "blocks UMRM | R0: 32 34 | U0@0: 0 | M0@0: 16 | R0@0: 36",
        );
    }
}

/// Frees `pages` pages one by one; returns how many left the cache each time that some did.
fn drains<P: Platform>(allocator: &Allocator<P>, pages: u64) -> Vec<u32> {
    let mut drains = Vec::new();
    for pfn in 0..pages {
        let before = allocator.pcp_pages(ZONE, CPU);
        allocator.free(Pfn(pfn), 0);
        match before + 1 - allocator.pcp_pages(ZONE, CPU) {
            0 => {}
            drained => drains.push(drained),
        }
    }
    drains
}

/// Sizes of bulk frees in a row: constant, doubling, as many as were freed.
pub fn bulk_frees_grow_by_the_rule_of_their_release<M: Machine>() {
    for (policy, expected) in [
        ("linux-5.13", vec![2; 23]),
        ("linux-5.17", vec![2, 4, 8, 8, 8, 8, 8]),
        ("linux-6.6", vec![2, 4, 8, 8, 8, 8, 8]),
        ("linux-6.18", vec![8; 6]),
    ] {
        let allocator = Yard::of(policy).caching(2, 10, 10).build::<M>("blocks MMMM");
        let got = M::on(&allocator, CPU, || drains(&allocator, 55));
        assert_eq!(got, expected, "{policy}");
    }
}

/// 5.18 to 6.6: a high-order free in a run of frees empties the cache; before, it does not.
pub fn a_run_of_high_order_frees_empties_the_cache<M: Machine>() {
    for (policy, expected) in [
        ("linux-5.17", 10),
        ("linux-5.18", 0),
        ("pcp-high-parent", 10),
        ("pcp-high-zero", 0),
        ("pcp-high-batch", 0),
        ("pcp-high-4batch", 0),
    ] {
        let yard = Yard::of(policy).caching(2, 12, 12);
        let allocator = yard.build::<M>("blocks MMMM | used M1: 40");
        let left = M::on(&allocator, CPU, || {
            assert_eq!(drains(&allocator, 10), []);
            let size = allocator.pcp(ZONE, CPU).size;
            let in_a_run = PcpSize { free_run: 1, ..size };
            allocator.set_pcp_state(ZONE, CPU, in_a_run);
            allocator.free(Pfn(40), 1);
            allocator.pcp_pages(ZONE, CPU)
        });
        // Without the rule two pages more are 12, the limit: s = 4 pages leave at factor 1.
        let expected = if expected == 0 { 0 } else { 12 - 4 };
        assert_eq!(left, expected, "{policy}");
    }
}

/// Background reclaim caps a cache at four batches.
pub fn reclaim_caps_a_cache<M: Machine>() {
    for policy in ["linux-5.17", "linux-6.6", "linux-6.18"] {
        let allocator = Yard::of(policy).caching(2, 20, 20).build::<M>("blocks MMMM");
        allocator.set_reclaim_active(ZONE, true);
        let most = M::on(&allocator, CPU, || {
            (0..40)
                .map(|pfn| {
                    allocator.free(Pfn(pfn), 0);
                    allocator.pcp_pages(ZONE, CPU)
                })
                .max()
        });
        assert_eq!(most, Some(7), "{policy}");
    }
}

/// A cache that is switched off gives everything back, and every later free at once.
pub fn a_disabled_cache_holds_nothing<M: Machine>() {
    for policy in super::buddy::ERAS {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M0@0: 1 2 | M0@1: 3",
            "off; free 0; cpu 1; free 4; alloc M0=4",
            "blocks MM | M2: 0",
        );
    }
}

/// Up to 5.19 a drain of all asks the other CPUs, which obey at their next tick.
pub fn drains_of_others_were_queued<M: Machine>() {
    let before = "blocks MM | M0@0: 0 | M0@1: 1";
    for policy in ["linux-4.14", "linux-5.13", "linux-5.19"] {
        let yard = Yard::small(policy).caching(4, 8, 8);
        let check = |operations, after| check::<M>(&yard, before, operations, after);
        check("drain all", "blocks MM | M0: 0 | M0@1: 1");
        check("drain all; cpu 1; tick", "blocks MM | M1: 0");
        check("cpu 1; tick", "blocks MM | M0@0: 0 | M0@1: 1");
    }
}

/// Since 6.0 they are emptied from afar.
pub fn drains_of_others_are_immediate_since_6_0<M: Machine>() {
    for policy in ["linux-6.0", "linux-6.6", "linux-6.19"] {
        check::<M>(
            &Yard::small(policy).caching(4, 8, 8),
            "blocks MM | M0@0: 0 | M0@1: 1",
            "drain all",
            "blocks MM | M1: 0",
        );
    }
}

/// Since 6.7 the tick lowers the limit by an eighth, and frees what is above it.
pub fn an_idle_cache_decays<M: Machine>() {
    let run = |policy| {
        let yard = Yard::of(policy).caching(1, 2, 16);
        let allocator = yard.build::<M>("blocks MMMM | M0@0: 0 1 2 3 4 5 6 7 8 9");
        let size = allocator.pcp(ZONE, CPU).size;
        allocator.set_pcp_state(ZONE, CPU, PcpSize { high: 16, ..size });
        M::on(&allocator, CPU, || {
            let counts = (0..9).map(|_| {
                allocator.tick(CPU);
                allocator.pcp_pages(ZONE, CPU)
            });
            counts.collect::<Vec<_>>()
        })
    };
    assert_eq!(run("linux-6.18"), [10, 10, 10, 10, 10, 9, 8, 7, 7]);
    assert_eq!(run("linux-6.19"), [10, 10, 10, 10, 10, 9, 8, 7, 7]);
    assert_eq!(run("linux-6.6"), [10; 9]);
}

/// A quiet cache of a remote node gives back a batch at the third tick; a local one never.
pub fn a_quiet_remote_cache_expires<M: Machine>() {
    for release in ["linux-4.14", "linux-5.17", "linux-6.6"] {
        let layout = Layout::row(2, 16, 3, 3);
        let allocator = layout.build_full(M::platform(), policy(release));
        make_exact(&allocator);
        set_caches(&allocator, 2, [2, 8, 8]);
        let counts = |node: u8| {
            let zone = ZoneId(node);
            allocator.set_counter_threshold(zone, 100, 0);
            M::on(&allocator, CPU, || {
                let request = Request {
                    node: Some(pageyard::NodeId(node)),
                    mobility: MigrateType::Movable,
                    ..Request::kernel(0)
                };
                let pages: Vec<Pfn> =
                    (0..6).map(|_| allocator.alloc(&request).expect("room")).collect();
                for pfn in pages {
                    allocator.free(pfn, 0);
                }
                let counts = (0..5).map(|_| {
                    allocator.tick(CPU);
                    allocator.pcp_pages(zone, CPU)
                });
                counts.collect::<Vec<_>>()
            })
        };
        assert_eq!(counts(0), [6, 6, 6, 6, 6], "{release}");
        assert_eq!(counts(1)[..3], [6, 6, 4], "{release}");
    }
}

/// `percpu_pagelist_high_fraction` fixes the limit at its part of the zone, shared by the CPUs.
pub fn a_high_fraction_fixes_the_limit<M: Machine>() {
    for (text, expected) in [
        ("linux-6.6:high_fraction=8", (16, 16)),
        ("linux-6.18:high_fraction=8", (16, 16)),
        ("linux-5.13:high_fraction=8", (32, 32)),
    ] {
        let allocator = Layout::flat(256, 5, 4, 2).build_full(M::platform(), policy(text));
        let size = allocator.pcp(ZONE, CPU).size;
        assert_eq!((size.high_min, size.high_max), expected, "{text}");
        let batch = if text.contains("5.13") { 8 } else { 1 };
        assert_eq!(size.batch, batch, "{text}");
    }
}
