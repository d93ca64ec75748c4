//! Small runs of each test.

use super::*;
use pageyard::preset;

fn cell(machine: &str, policy: &str, test: Test, think_ps: u64) -> Outcome {
    let machine = Machine::named(machine).expect("a machine that comes along");
    let policy = preset::find(policy).expect("a preset");
    let config = Config { test, pairs: 1, think_ps, holes: 0, messages: (300, 300), seed: 1 };
    run(&machine, policy, &config).expect("a machine")
}

#[test]
fn the_same_cell_gives_the_same_outcome() {
    for test in [Test::Udp, Test::Tcp, Test::Sctp] {
        let outcome = || cell("skl-desktop", "linux-5.18", test, 2_000_000);
        assert_eq!(outcome(), outcome());
    }
}

#[test]
fn a_smaller_limit_makes_fewer_pages_go_round() {
    let distinct = |policy| {
        let outcome = cell("skl-desktop", policy, Test::Udp, 2_000_000);
        assert!(outcome.taken > 500, "two blocks of order 3 a message: {}", outcome.taken);
        outcome.distinct
    };
    let (zero, batch) = (distinct("pcp-high-zero"), distinct("pcp-high-batch"));
    let (four, parent) = (distinct("pcp-high-4batch"), distinct("pcp-high-parent"));
    assert!(zero < batch && batch < four && four < parent, "{zero} {batch} {four} {parent}");
}

#[test]
fn only_datagrams_are_dropped() {
    // Without think time the receiver, which has nothing to allocate, keeps up.
    assert_eq!(cell("icx-2s", "linux-5.18", Test::Tcp, 0).dropped, 0);
    assert_eq!(cell("icx-2s", "linux-5.18", Test::Sctp, 0).dropped, 0);
}
