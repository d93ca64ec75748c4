//! Lists of records that another core wrote last, as `host/examples/two_transfers.rs` measures
//! them: taking one costs one transfer of its line while the core can run ahead over several
//! records, and two once the instructions between records fill its window.
//!
//! Measured on a Cascade Lake server (two cores of a socket, no sibling at work): 57 ns a record
//! with no or few instructions between, 124 to 148 ns with 100 to 430.

use std::cell::Cell;
use std::rc::Rc;

use pageyard::platform::{Field, Owned, TableId, TableSpec};
use pageyard::{Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Tuning, ZoneDesc, ZoneKind};
use pageyard_sim::costs::Costs;
use pageyard_sim::instructions::Kernel;
use pageyard_sim::layout::{Era, Layout, NumaLines};
use pageyard_sim::machine::Machine;
use pageyard_sim::tables::SimTable;
use pageyard_sim::world::{Job, World};

const RECORDS: usize = 1024;
/// Records between two that are used: no prefetcher helps.
const APART: usize = 4;
const NEXT: Field = Field(0);
const PREV: Field = Field(1);

fn world(costs: Costs) -> Rc<World> {
    let pages = ((RECORDS + 2) * APART) as u64;
    let zone = ZoneDesc {
        node: NodeId(0),
        kind: ZoneKind::Normal,
        start: Pfn(1 << 10),
        spanned_pages: pages,
        managed_pages: pages,
    };
    let node = NodeDesc { distance: [10; NODES_MAX], cpus: 2 };
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &vec![NodeId(0); costs.cpus()],
        nodes: &[node],
        zones: &[zone],
        tuning: Tuning::default(),
    };
    let era = Era {
        lock_on_area_line: false,
        pcp_irq_off: false,
        ticket_locks: false,
        numa_lines: NumaLines::Behind,
        kernel: Kernel::V5_10,
    };
    World::new(costs, Layout::new(&geometry, era, 0))
}

fn record(word: u32) -> usize {
    word as usize - 1
}

fn word(record: usize) -> u32 {
    record as u32 + 1
}

/// Nanoseconds that taking a record off costs, with so many instructions between two.
fn pop_ns(machine: &str, between: u64) -> u64 {
    let world = world(Costs::of(&Machine::named(machine).expect("a bundled machine")));
    let spec = TableSpec { id: TableId::Pages, records: (RECORDS + 2) * APART, fields: 4 };
    let table = Rc::new(SimTable::<u32>::new(Rc::clone(&world), spec));
    // An order of chance: multiples of a number that shares no factor with how many there are.
    let order = |at: usize| APART * (1 + at * 619 % RECORDS);
    let taken = Rc::new(Cell::new(0));
    let reader: Job = {
        let (world, table, taken) = (Rc::clone(&world), Rc::clone(&table), Rc::clone(&taken));
        Box::new(move || {
            // The other core is done by then.
            world.spend(1_000_000_000);
            world.sync();
            let begun = world.now();
            let mut first = word(order(0));
            for _ in 0..RECORDS - 1 {
                let page = record(first);
                let next = table.get(page, NEXT);
                table.relink(record(next), PREV, 0);
                table.set(page, Field(3), 1);
                world.execute(between);
                first = next;
            }
            taken.set((world.visible() - begun) / 1000 / (RECORDS as u64 - 1));
        })
    };
    let writer: Job = {
        let table = Rc::clone(&table);
        Box::new(move || {
            for at in 0..RECORDS {
                table.set(order(at), NEXT, word(order((at + 1) % RECORDS)));
                table.set(order(at), PREV, word(order((at + RECORDS - 1) % RECORDS)));
            }
        })
    };
    world.run(vec![reader, writer]);
    taken.get()
}

#[test]
fn a_record_costs_one_transfer_or_two() {
    let one = Machine::named("clx-2s").expect("a bundled machine").latency.hitm_socket_ps / 1000;
    let (few, many) = (pop_ns("clx-2s", 0), pop_ns("clx-2s", 300));
    assert!((one..one * 5 / 4).contains(&few), "{few} ns where a transfer is {one}");
    assert!((one * 2..one * 5 / 2).contains(&many), "{many} ns where a transfer is {one}");
}
