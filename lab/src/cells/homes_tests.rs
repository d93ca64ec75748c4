//! Machines with nodes without memory.

use pageyard::{Request, preset};

use super::*;
use crate::cells::page_fault1::{self, Config, Outcome};
use crate::cells::points::Around;
use crate::cells::yard::Yard;

/// A bundled machine whose nodes have so many GiB.
fn machine(name: &str, gib: &[u64]) -> Machine {
    let mut machine = Machine::named(name).expect("a machine that comes along");
    assert_eq!(machine.node_memory_bytes.len(), gib.len());
    machine.node_memory_bytes = gib.iter().map(|gib| gib << 30).collect();
    machine
}

fn homes(name: &str, gib: &[u64]) -> Vec<u8> {
    of(&machine(name, gib)).expect("a plain machine").iter().map(|node| node.0).collect()
}

#[test]
fn a_node_with_memory_is_its_own_home_and_one_without_has_the_nearest() {
    assert_eq!(homes("skl-4s", &[32, 32, 32, 32]), [0, 1, 2, 3]);
    assert_eq!(homes("skl-2s", &[0, 32]), [1, 1]);
    assert_eq!(homes("skl-4s", &[32, 0, 0, 0]), [0, 0, 0, 0]);
    let mut ring = machine("skl-4s", &[32, 32, 0, 32]);
    // Node 2 is nearest to node 3.
    ring.distances = vec![10, 21, 31, 21, 21, 10, 31, 21, 31, 31, 10, 21, 21, 21, 21, 10];
    assert_eq!(of(&ring).expect("a plain machine")[2], NodeId(3));
}

#[test]
fn its_cpus_take_pages_of_their_home_and_records_of_the_others_stay_apart() {
    let machine = machine("skl-4s", &[32, 0, 32, 32]);
    let policy = preset::find("linux-4.18").expect("a preset");
    let yard = Yard::new(&machine, policy, 1 << 16).expect("a plain machine");
    let per_socket = machine.topology.cores_per_socket as usize;
    let home = of(&machine).expect("a plain machine")[1];
    let mut records = Vec::new();
    for (node, expected) in [(0, 0), (1, home.0), (2, 2), (3, 3)] {
        yard.world.set_up_as(node * per_socket);
        let pfn = yard.take(&Request::user(0));
        assert_eq!(yard.node_of(pfn), expected, "CPU of node {node}");
        // The workload's line of a page record is the allocator's, in the page's own memory.
        let record = yard.record(pfn);
        assert_eq!(yard.world.layout.home(yard.world.layout.page(record).0), expected);
        records.push(record);
    }
    records.sort_unstable();
    records.dedup();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|&record| record < yard.records()));
}

/// Two CPUs of node 0 that fault.
fn faults(gib: &[u64]) -> Outcome {
    let config = Config {
        cpus: 2,
        think_ps: 1_000_000,
        unmapping: 300,
        around: Around { middle: 0, spread: 1000 },
        see_both: true,
        holds: (3, 10),
        pages: 32768,
        seed: 1,
        lru_kernel: 418,
    };
    let policy = preset::find("linux-4.18").expect("a preset");
    page_fault1::run(&machine("skl-2s", gib), policy, &config).expect("a plain machine")
}

#[test]
fn faults_on_a_node_without_memory_work_and_cost_the_way_to_the_other() {
    let (near, far) = (faults(&[64, 64]), faults(&[0, 64]));
    let page_ps =
        |outcome: &Outcome| outcome.spent.map(|(ps, pages)| ps / pages.max(1)).iter().sum::<u64>();
    assert!(far.measured.work > 0 && page_ps(&near) > 0);
    assert!(page_ps(&far) > page_ps(&near), "{} {}", page_ps(&far), page_ps(&near));
    assert_eq!(faults(&[0, 64]), far);
}
