//! Who may take whose memory: the four rules, each on the same examples, worked by hand.
//!
//! Pageblocks have 16 pages, so half of one is 8, and blocks of order 2 or more may be claimed
//! for movable requests. Unmovable requests ask Reclaimable, then Movable; Movable ones ask
//! Reclaimable, then Unmovable; Reclaimable ones ask Unmovable, then Movable.

use super::script::{Yard, check};
use crate::machine::Machine;

const A: &str = "linux-6.6";
const B: &str = "linux-6.12";
const C: &str = "linux-6.14";
const D: &str = "linux-6.18";
/// The same without a first look for whole pageblocks, which would grow the refill (6.7 on).
const APART_OFF: [&str; 4] = [
    "linux-6.6:nofragment=off",
    "linux-6.12:nofragment=off",
    "linux-6.14:nofragment=off",
    "linux-6.18:nofragment=off",
];

fn cases<M: Machine>(before: &str, operations: &str, after: [(&[&'static str], &str); 2]) {
    for (policies, after) in after {
        for policy in policies {
            check::<M>(&Yard::of(policy), before, operations, after);
        }
    }
}

/// A free pageblock of another type changes hands as a whole, under every rule.
pub fn whole_pageblocks_change_hands<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks MMMM | M2: 0 | M4: 16",
            "alloc U0=16",
            "blocks MUMM | U0: 17 | U1: 18 | U2: 20 | U3: 24 | M2: 0",
        );
    }
}

/// A pageblock of which half is free is claimed with all its free pages.
pub fn a_pageblock_that_is_half_free_is_claimed<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks MMMM | M0: 5 | M2: 0 8",
            "alloc U0=5",
            "blocks UMMM | U2: 0 8",
        );
    }
}

/// Pages in use that are like the request count as if they were free.
pub fn pages_alike_count_towards_a_claim<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks MMMM | M2: 0 | used U2: 4",
            "alloc U0=0",
            "blocks UMMM | U0: 1 | U1: 2",
        );
    }
}

/// Up to 6.9 free pages move although their pageblock keeps its type; since then never.
pub fn lists_and_block_types_disagree_only_until_6_9<M: Machine>() {
    cases::<M>(
        "blocks MMMM | M2: 0",
        "alloc U0=0",
        [(&[A], "blocks MMMM | U0: 1 | U1: 2"), (&[B, C, D], "blocks MMMM | M0: 1 | M1: 2")],
    );
}

/// When a claim fails, 6.10 takes a page out of the largest block, 6.14 out of the smallest.
pub fn a_failed_claim_takes_the_largest_then_the_smallest<M: Machine>() {
    let before = "blocks MMMM | M1: 16 | M2: 0";
    check::<M>(&Yard::of(B), before, "alloc U0=0", "blocks MMMM | M0: 1 | M1: 2 16");
    for policy in [C, D] {
        let after = "blocks MMMM | M0: 17 | M2: 0";
        check::<M>(&Yard::of(policy), before, "alloc U0=16", after);
    }
}

/// A movable request does not break a small block of others where a smaller one will do.
pub fn movable_requests_take_the_smallest_of_small_blocks<M: Machine>() {
    cases::<M>(
        "blocks URMM | U1: 2 | R1: 16",
        "alloc M0=16",
        [(&[A], "blocks URMM | U1: 2 | M0: 17"), (&[B, C, D], "blocks URMM | U1: 2 | R0: 17")],
    );
}

/// Preferences: Reclaimable before Movable for Unmovable, Unmovable before Movable for
/// Reclaimable, Reclaimable before Unmovable for Movable.
pub fn each_type_has_its_order_of_preference<M: Machine>() {
    for policy in [A, B, C, D] {
        let yard = Yard::of(policy);
        let check = |before, operations, after| check::<M>(&yard, before, operations, after);
        check("blocks RMMM | R4: 0 | M4: 16", "alloc U4=0", "blocks UMMM | M4: 16");
        check("blocks UMMM | U4: 0 | M4: 16", "alloc R4=0", "blocks RMMM | M4: 16");
        check("blocks URMM | U4: 0 | R4: 16", "alloc M4=16", "blocks UMMM | U4: 0");
    }
}

/// Rule D remembers within a refill that pages must be stolen one by one; rule C looks for a
/// pageblock to claim again for each page. Here both end alike, after different searches.
pub fn a_refill_steals_page_by_page<M: Machine>() {
    for policy in &APART_OFF[2..] {
        check::<M>(
            &Yard::of(policy).caching(4, 16, 16),
            "blocks MMMM | M0: 40 | M1: 16 | M2: 0",
            "alloc U0=40",
            "blocks MMMM | M0: 1 | M1: 2 | U0@0: 16 17 0",
        );
    }
}

/// A claimed pageblock serves the rest of the refill from the request's own lists.
pub fn a_refill_goes_on_in_a_claimed_pageblock<M: Machine>() {
    for policy in APART_OFF {
        check::<M>(
            &Yard::of(policy).caching(4, 16, 16),
            "blocks MMMM | M3: 0 | M0: 16",
            "alloc U0=0",
            "blocks UMMM | U2: 4 | M0: 16 | U0@0: 1 2 3",
        );
    }
}

/// Movable requests use what CMA lends before they touch another type; others never do.
pub fn cma_is_for_movable_requests_only<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks CUMM | C0: 3 | U0: 16",
            "alloc U0=16; alloc U0=none; alloc M0=3",
            "blocks CUMM",
        );
    }
}

/// Lent memory is used first while it is more than half of what is free.
pub fn cma_goes_first_while_it_is_the_larger_half<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks CMMM | M0: 16 18 | C0: 1 3 5",
            "alloc M0=1; alloc M0=16; alloc M0=3",
            "blocks CMMM | M0: 18 | C0: 5",
        );
    }
}

/// The high-atomic reserve is never a fallback.
pub fn the_reserve_is_no_fallback<M: Machine>() {
    for policy in [A, B, C, D] {
        check::<M>(
            &Yard::of(policy),
            "blocks HMMM | M0: 16 | H0: 1",
            "alloc M0=16; alloc M0=none",
            "blocks HMMM | H0: 1",
        );
    }
}
