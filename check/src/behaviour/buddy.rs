//! Free lists: smallest fit, halving, merging, placement. Worked by hand after the kernel's rules;
//! the same for every release unless a test says otherwise.

use pageyard::{MigrateType, Pfn};

use super::script::{Yard, check};
use crate::layout::{Layout, policy};
use crate::machine::Machine;
use crate::text;

/// One release of each fallback rule and each kind of per-CPU cache.
pub(crate) const ERAS: [&str; 6] =
    ["linux-4.14", "linux-5.17", "linux-6.6", "linux-6.12", "linux-6.14", "linux-6.19"];

fn every_era<M: Machine>(before: &str, operations: &str, after: &str) {
    for policy in ERAS {
        check::<M>(&Yard::of(policy), before, operations, after);
    }
}

/// A split block gives its pages in ascending physical order.
pub fn pages_of_a_split_block_come_out_in_ascending_order<M: Machine>() {
    every_era::<M>(
        "blocks MMMM | M5: 0 32",
        "alloc M0=0; alloc M0=1; alloc M0=2",
        "blocks MMMM | M0: 3 | M2: 4 | M3: 8 | M4: 16 | M5: 32",
    );
}

/// The smallest block that will do is taken, and from the head of its list.
pub fn the_smallest_fit_is_taken_from_the_head<M: Machine>() {
    every_era::<M>(
        "blocks MMMM | M1: 4 8 | M2: 24 | M5: 32",
        "alloc M0=4; alloc M1=8; alloc M1=24",
        "blocks MMMM | M0: 5 | M1: 26 | M5: 32",
    );
}

/// A freed block that will hardly merge is the next to be used.
pub fn a_freed_block_is_reused_first<M: Machine>() {
    every_era::<M>(
        "blocks MMMM | M0: 9",
        "free 0; alloc M0=0; free 0; free 20",
        "blocks MMMM | M0: 20 0 9",
    );
}

/// A freed block joins its buddies as far as they are free.
pub fn buddies_merge_as_far_as_they_are_free<M: Machine>() {
    every_era::<M>("blocks MMMM | M0: 1 | M1: 2 | M3: 8", "free 0", "blocks MMMM | M2: 0 | M3: 8");
}

/// Where merging is put off, single pages stay apart and are reused first; larger blocks join.
pub fn merging_put_off_leaves_single_pages_apart<M: Machine>() {
    for policy in ["linux-4.19:prefetch=none,merge=deferred", "linux-6.19:merge=deferred"] {
        let yard = Yard::of(policy);
        let before = "blocks MMMM | M0: 1 | M1: 2 | M3: 8";
        check::<M>(&yard, before, "free 0", "blocks MMMM | M0: 0 1 | M1: 2 | M3: 8");
        let before = "blocks MMMM | M1: 2 | M2: 4 | used M1: 0";
        check::<M>(&yard, before, "free 0", "blocks MMMM | M3: 0");
    }
}

/// They join once a larger block is wanted and none is there: pageblock by pageblock, that of the
/// page freed longest ago first, and no further than needed. Without one nothing moves.
pub fn pages_left_apart_join_when_a_larger_block_is_wanted<M: Machine>() {
    for policy in ["linux-4.19:prefetch=none,merge=deferred", "linux-6.19:merge=deferred"] {
        let yard = Yard::of(policy);
        check::<M>(
            &yard,
            "blocks MMMM | M0: 40 41 5 1 0",
            "alloc M1=0; alloc M1=40; alloc M1=none",
            "blocks MMMM | M0: 5",
        );
        check::<M>(
            &yard,
            "blocks MMMM | M0: 0 1 | M2: 8",
            "alloc M1=8",
            "blocks MMMM | M0: 0 1 | M1: 10",
        );
    }
}

/// Blocks of the largest order do not merge.
pub fn merging_ends_at_the_largest_order<M: Machine>() {
    every_era::<M>("blocks MMMM | M5: 0 | used M5: 32", "free 32", "blocks MMMM | M5: 32 0");
}

/// A block whose larger buddy is free is left alone at the tail of its list.
pub fn a_block_that_will_soon_merge_goes_to_the_tail<M: Machine>() {
    every_era::<M>("blocks MMMM | M0: 9 | M1: 2", "free 0", "blocks MMMM | M0: 9 0 | M1: 2");
}

/// From the second largest order on there is no such hope.
pub fn large_blocks_go_to_the_head<M: Machine>() {
    every_era::<M>("blocks MMMM | M4: 0 | used M4: 32", "free 32", "blocks MMMM | M4: 32 0");
}

/// Two pageblocks of different types merge; since 6.10 both then have the type that was freed.
pub fn pageblocks_of_different_types_merge<M: Machine>() {
    let before = "blocks MUMM | M4: 0 | used U4: 16";
    for policy in ["linux-4.14", "linux-5.17", "linux-6.6"] {
        let after = "blocks MUMM | U5: 0";
        check::<M>(&Yard::of(policy), before, "free 16", after);
    }
    for policy in ["linux-6.12", "linux-6.14", "linux-6.19"] {
        let after = "blocks UUMM | U5: 0";
        check::<M>(&Yard::of(policy), before, "free 16", after);
    }
}

/// Memory that is out of service merges with none that is not, and is handed to nobody.
pub fn isolated_blocks_stay_apart<M: Machine>() {
    every_era::<M>(
        "blocks MIMM | M4: 0 | used I4: 16",
        "free 16; alloc M4=0; alloc M4=none; free 0",
        "blocks MIMM | M4: 0 | I4: 16",
    );
}

/// Isolation takes a free pageblock out of service, its undoing brings it back.
pub fn isolation_moves_free_pages<M: Machine>() {
    every_era::<M>(
        "blocks MMMM | M2: 4 | M3: 8 | M4: 32",
        "retype I 0; alloc M2=32; retype M 0; alloc M3=40",
        "blocks MMMM | M2: 36 4 | M3: 8",
    );
}

/// A pageblock is isolated out of a larger free block, and joins it again afterwards.
pub fn isolation_cuts_larger_blocks<M: Machine>() {
    every_era::<M>(
        "blocks MMMM | M5: 0 32",
        "retype I 16; alloc M5=32; alloc M5=none; free 32",
        "blocks MIMM | M4: 0 | M5: 32 | I4: 16",
    );
    every_era::<M>(
        "blocks MMMM | M5: 0 32",
        "retype I 16; retype I 32; retype M 16; retype M 32",
        "blocks MMMM | M5: 0 32",
    );
}

/// A zone may begin and end inside of a pageblock: what it holds of it changes type all the same.
pub fn isolation_reaches_pageblocks_at_the_edge<M: Machine>() {
    for era in ERAS {
        let mut layout = Layout::flat(40, 5, 4, 1);
        layout.zones[0].start = Pfn(4);
        layout.memory[0].start = 4;
        let allocator = layout.build_full(M::platform(), policy(era));
        allocator.set_pageblock_type(Pfn(5), MigrateType::Isolate);
        allocator.set_pageblock_type(Pfn(40), MigrateType::Isolate);
        let state = text::write(&allocator, &layout);
        assert_eq!(state, "blocks IMI | M4: 16 | I2: 4 40 | I3: 8 32", "{era}");
    }
}

/// A page of a pageblock that was isolated meanwhile bypasses the per-CPU lists.
pub fn pages_of_isolated_blocks_bypass_the_caches<M: Machine>() {
    for policy in ERAS {
        check::<M>(
            &Yard::of(policy).caching(2, 8, 8),
            "blocks MMMM",
            "retype I 0; free 1; free 17",
            "blocks IMMM | I0: 1 | M0@0: 17",
        );
    }
}
