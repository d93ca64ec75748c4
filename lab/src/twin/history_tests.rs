//! What the first reading makes of small recordings.

use pageyard_trace::event::Kind;

use super::testing::{alloc, batch, drain, free, policy, read, refill};

#[test]
fn a_page_freed_in_the_buddy_lists_was_taken_from_there() {
    let history = read(&policy("linux-6.1"), &[(0, drain(5)), (0, free(5, 0)), (0, free(6, 0))]);
    let taken: Vec<bool> = history.frees.iter().map(|note| note.was_taken_from_zone()).collect();
    assert_eq!((taken, history.taken_from_zone), (vec![true, false], 1));
}

#[test]
fn a_block_that_was_drained_and_never_refilled_is_handed_over_past_the_lists() {
    let events = [(0, drain(512)), (0, alloc(512, 9)), (0, refill(1024, 9)), (0, alloc(1024, 9))];
    let history = read(&policy("linux-6.1"), &events);
    assert_eq!(history.direct_allocs, [true, false], "one pageblock is an ordinary refill");
}

#[test]
fn one_small_block_for_one_allocation_passed_the_list() {
    let events = [(0, refill(8, 0)), (0, alloc(8, 0)), (0, refill(9, 0)), (0, refill(10, 0))];
    let history = read(&policy("linux-6.1"), &events);
    assert_eq!(history.direct_allocs, [true]);
}

#[test]
fn a_pageblock_begins_as_what_it_was_seen_first() {
    let mut events = vec![(0, drain(5))];
    events.push((0, Kind::PcpuDrain { pfn: 6, order: 0, migratetype: 0 }));
    let fallback = Kind::Extfrag {
        pfn: 1024,
        alloc_order: 0,
        fallback_order: 9,
        alloc_migratetype: 1,
        fallback_migratetype: 2,
        change_ownership: true,
    };
    events.extend([(0, fallback), (0, drain(1025))]);
    let history = read(&policy("linux-6.1"), &events);
    assert_eq!((history.first_block_types[&(0, 0)], history.block_types[&(0, 0)]), (1, 0));
    assert_eq!((history.first_block_types[&(0, 2)], history.block_types[&(0, 2)]), (2, 1));
}

#[test]
fn pages_in_a_row_beyond_a_batch_are_the_next_refill() {
    let policy = policy("linux-6.1");
    let batch = u64::from(batch(&policy));
    let mut events: Vec<(u16, Kind)> = (0..2 * batch).map(|pfn| (0, refill(pfn, 0))).collect();
    events.push((0, alloc(batch, 0)));
    let history = read(&policy, &events);
    let silent: Vec<(u64, u64)> = history.silent_refills.iter().map(|s| (s.from, s.at)).collect();
    assert_eq!(silent, [(0, batch - 1)], "the second served the allocation");
}

#[test]
fn a_policy_that_doubles_refills_keeps_them_whole() {
    let policy = policy("linux-6.18");
    let batch = u64::from(batch(&policy));
    let mut events: Vec<(u16, Kind)> = (0..2 * batch).map(|pfn| (0, refill(pfn, 0))).collect();
    events.push((0, alloc(0, 0)));
    assert_eq!(read(&policy, &events).silent_refills, []);
}

#[test]
fn a_refill_whose_first_page_is_allocated_is_one_whatever_the_policy() {
    let policy = policy("linux-6.1");
    let batch = u64::from(batch(&policy));
    let mut events: Vec<(u16, Kind)> = (0..2 * batch).map(|pfn| (0, refill(pfn, 0))).collect();
    events.push((0, alloc(0, 0)));
    let history = read(&policy, &events);
    assert_eq!(history.silent_refills, []);
    assert_eq!(history.first_refills[&(0, 0)].blocks, 2 * batch as u32);
}

#[test]
fn compaction_ends_the_drain_of_a_free() {
    let works = Kind::Compaction { id: 0, a: 0, b: 0 };
    let events = [(0, free(1, 0)), (0, drain(1)), (0, works), (0, drain(2)), (0, drain(3))];
    let history = read(&policy("linux-6.1"), &events);
    let unasked: Vec<(u64, u32)> = history.unasked.iter().map(|d| (d.event, d.pages)).collect();
    assert_eq!(unasked, [(3, 2)]);
}

#[test]
fn a_round_of_drains_is_booked_to_the_owners_of_the_pages() {
    let mut events = vec![(0, free(1, 0)), (1, free(2, 0)), (3, free(3, 0)), (3, free(4, 0))];
    events.push((2, alloc(99, 0)));
    events.extend([1, 2, 3, 4].map(|pfn| (2, drain(pfn))));
    let of = |name| -> Vec<(u16, u16, u32, bool)> {
        let history = read(&policy(name), &events);
        history.unasked.iter().map(|d| (d.cpu, d.by, d.pages, d.whole)).collect()
    };
    assert_eq!(of("linux-6.1"), [(0, 2, 1, true), (1, 2, 1, true), (3, 2, 2, true)]);
    assert_eq!(of("linux-5.17"), [(2, 2, 4, false)], "there each CPU drains its own");
}

#[test]
fn an_early_block_that_empties_its_cache_tells_of_frees_before() {
    // 100 pages were held, one is taken, a block of four is freed: 103, of which most leave.
    let mut events = vec![(0, alloc(1, 0)), (0, free(4, 2))];
    events.extend((100..180).map(|pfn| (0, drain(pfn))));
    events.push((0, free(2, 0)));
    let runs = |name, events: &[(u16, Kind)]| {
        let history = read(&policy(name), events);
        history.first_free_runs.get(&(0, 0)).copied()
    };
    assert_eq!(runs("linux-6.1", &events), Some(2), "one allocation halves it to 1");
    assert_eq!(runs("linux-6.18", &events), None, "counted otherwise there");
    events[1] = (0, free(4, 0));
    assert_eq!(runs("linux-6.1", &events), None, "only blocks of order 1 to 3 empty a cache so");
}
