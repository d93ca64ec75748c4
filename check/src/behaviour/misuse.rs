//! Misuse is told before anything changes.

use pageyard::{Allocator, Bug, CpuId, Pfn, Platform, Request};

use super::script::Yard;
use crate::machine::Machine;
use crate::text;

/// Why a free would be refused, without the state of the page.
fn refusal<P: Platform>(allocator: &Allocator<P>, pfn: u64, order: u8) -> &'static str {
    match allocator.check_free(Pfn(pfn), order) {
        Ok(_) => "fine",
        Err(Bug::DoubleFree { .. }) => "double free",
        Err(Bug::WrongOrder { .. }) => "wrong order",
        Err(Bug::NeverAllocated { .. }) => "never allocated",
        Err(Bug::ForeignPage { .. }) => "foreign",
        Err(Bug::ListMismatch { .. }) => "list mismatch",
        Err(Bug::OrderTooLarge { .. }) => "too large",
    }
}

/// Every kind of misuse has its own name, in every era.
pub fn every_kind_of_misuse_is_told_apart<M: Machine>() {
    for era in super::buddy::ERAS {
        let yard = Yard::of(era).caching(1, 8, 8);
        let allocator = yard.build::<M>("blocks MMMM | M0: 20 | M3: 32 | M0@0: 5 | used M2: 8");
        for (pfn, order, expected) in [
            (8, 2, "fine"),
            (0, 0, "fine"),
            (5, 0, "double free"),
            (20, 0, "double free"),
            (8, 0, "wrong order"),
            (8, 3, "wrong order"),
            (9, 0, "never allocated"),
            (9, 2, "foreign"),
            (64, 0, "foreign"),
            (1 << 40, 0, "foreign"),
            (0, 6, "too large"),
        ] {
            assert_eq!(refusal(&allocator, pfn, order), expected, "{era}: {pfn}/{order}");
        }
    }
}

/// A block is free once: from the cache, from the zone, and after it merged.
pub fn a_block_is_freed_once<M: Machine>() {
    for era in super::buddy::ERAS {
        for caches in [[1, 8, 8], [1, 0, 0]] {
            let [batch, min, max] = caches;
            let yard = Yard::of(era).caching(batch, min, max);
            let allocator = yard.build::<M>("blocks MMMM | M5: 0 32");
            M::on(&allocator, CpuId(0), || {
                for order in 0..=5 {
                    let pfn = allocator.alloc(&Request::user(order)).expect("room");
                    assert_eq!(refusal(&allocator, pfn.0, order), "fine", "{era}");
                    allocator.free(pfn, order);
                    let again = refusal(&allocator, pfn.0, order);
                    assert_eq!(again, "double free", "{era}, order {order}");
                }
            });
        }
    }
}

/// Looking for misuse changes nothing.
pub fn refused_frees_change_nothing<M: Machine>() {
    let yard = Yard::of("linux-6.18").caching(1, 8, 8);
    let line = "blocks MMMM | M0: 20 | M3: 32 | M0@0: 5";
    let allocator = yard.build::<M>(line);
    for pfn in 0..80 {
        for order in 0..8 {
            refusal(&allocator, pfn, order);
        }
    }
    assert_eq!(text::write(&allocator, &yard.layout()), line);
}
