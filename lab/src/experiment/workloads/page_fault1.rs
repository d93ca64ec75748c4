//! page_fault1 and page_fault2 in a cell: run twice, to learn the mixture of mapping and unmapping
//! and to measure.

use super::super::cell::{CellError, Ready};
use super::super::outcome::CellResult;
use super::super::workload::{Adapter, Cpus, Parameter};
use super::{stretches, unbuilt};
use crate::cells::lru::KERNEL;
use crate::cells::meets::Meets;
use crate::cells::page_fault1::{Config, Outcome, Touch, run_touching};
use crate::cells::points::{Around, CYCLE};

/// Think time where nothing says more: in the order of a fault's page tables and exceptions.
const THINK_PS: u64 = 1_000_000;
/// Time of a page where locks are full, picoseconds: about what comes out on servers, whose nodes
/// have 44 to 56 CPUs.
const PAGE_FULL_PS: u64 = 11_000_000;
/// What mapping and unmapping a page take beside think time where nobody waits, picoseconds.
const PAGE_OWN_PS: [u64; 2] = [1_200_000, 500_000];
/// Holds of zone locks a CPU in the first pass: to warm up, to measure.
const HOLDS_FIRST: (u32, u32) = (5, 10);
/// The same in the second pass, on several CPUs.
const HOLDS: (u32, u32) = (10, 30);
/// The same with `--quick`, and the fewest to measure, of all CPUs together: few are measured for
/// longer.
const HOLDS_QUICK: (u32, u32) = (1, 6);
const HOLDS_QUICK_ALL: u32 = 600;
/// Pages of each CPU that are enough at the least if caches are so large that zone locks are hardly
/// met: a quarter of what a process maps.
const PAGES_LEAST: u64 = 8192;
/// Points of the cycle at which processes are looked at: nodes are at different ones, and machines
/// with few nodes have several stretches.
const POINTS: usize = 4;
/// CPUs that are too few to stand for all parts of the cycle: they are seen mapping and unmapping
/// in one stretch.
const FEW: usize = 8;
/// Per cent of their cycle over which processes are spread, which begin together: what 0.3 to 1 %
/// of difference in their speeds make of it in five minutes (lab/examples/drift.rs).
const SPREAD_PCT: u64 = 50;
/// Pages that pass a zone lock while one process maps and unmaps everything, and some.
const CYCLE_PAGES: u32 = 70_000;

/// The adapter.
pub const ADAPTER: Adapter = Adapter {
    name: "page_fault1",
    about: "will-it-scale page_fault1, a process a CPU: map 128 MiB, touch it, unmap it",
    unit: "fault",
    cpus: Cpus::All,
    think_ps: THINK_PS,
    argument: None,
    parameters: &[
        Parameter {
            name: "lru-kernel",
            about: "release of the kernel whose LRU list it is, in hundreds: 416 for 4.16",
            default: KERNEL,
            quick: KERNEL,
            range: 400..=KERNEL,
        },
        Parameter {
            name: "spread",
            about: "per cent of their cycle over which processes are spread; 100: anywhere",
            default: SPREAD_PCT,
            quick: SPREAD_PCT,
            range: 25..=100,
        },
    ],
    figures: &[],
    run: |ready| run(ready, Touch::Clear),
};

/// page_fault2: what a fault does with its page is all that differs.
pub const OF_FILE: Adapter = Adapter {
    name: "page_fault2",
    about: "will-it-scale page_fault2: the same, with a private mapping of a file that is copied",
    run: |ready| run(ready, Touch::CopyOfFile),
    ..ADAPTER
};

/// Thousandths of processes that unmap, supposed before anything was measured: with `--quick`
/// nothing is measured before. What a page takes longer than its work, it waits for locks: as much
/// of it unmapping as the zone lock is met there.
fn unmapping_first(think_ps: u64, meets: Meets) -> u64 {
    let [map, unmap] = PAGE_OWN_PS;
    let work = think_ps + map + unmap;
    let page = PAGE_FULL_PS.max(work);
    (unmap + (page - work) * meets.unmapping() / 1000) * 1000 / page
}

/// Holds of each CPU in a quick cell.
fn holds_quick(cpus: usize) -> (u32, u32) {
    let (warm, measure) = HOLDS_QUICK;
    (warm, measure.max(HOLDS_QUICK_ALL / cpus as u32))
}

fn run(ready: &Ready, touch: Touch) -> Result<CellResult, CellError> {
    let cell = &ready.cell;
    let sockets = ready.machine().topology.sockets as usize;
    let is_seen_whole = cell.cpus < FEW;
    let spread = if cell.cpus == 1 { 1000 } else { ready.parameter("spread") * 10 };
    let stretches = if is_seen_whole { 1 } else { POINTS.div_ceil(sockets) };
    let points = (stretches * sockets) as u64;
    // Three seeds see three times as many points; with `--quick` all see the same, and differ less.
    let of_seed = if cell.quick { 0 } else { cell.seed % 3 * CYCLE / (3 * points) };
    let pass = |unmapping, holds: (u32, u32)| {
        let (cpus, think_ps, seed) = (cell.cpus, cell.think_ps, cell.seed);
        let lru_kernel = ready.parameter("lru-kernel");
        let holds = (holds.0, holds.1.div_ceil(stretches as u32));
        // Far more than so many holds take, unless caches hold everything.
        let pages = 4 * u64::from(holds.1) * u64::from(ready.batch_pages());
        let pages = if cell.quick { pages } else { pages.max(PAGES_LEAST) };
        let of_stretch = |stretch: usize| {
            let apart = stretch as u64 * CYCLE / points;
            let config = Config {
                cpus,
                think_ps,
                unmapping,
                around: Around { middle: (CYCLE / 8 + of_seed + apart) % CYCLE, spread },
                see_both: is_seen_whole,
                holds,
                pages,
                seed,
                lru_kernel,
            };
            let outcome = run_touching(ready.machine(), ready.policy(), &config, touch);
            outcome.map_err(|error| unbuilt(ready, &error))
        };
        (0..stretches).map(of_stretch).collect::<Result<Vec<Outcome>, CellError>>()
    };
    let holds = if cell.quick { holds_quick(cell.cpus) } else { HOLDS };
    let meets =
        Meets::of(ready.machine(), ready.policy()).map_err(|error| unbuilt(ready, &error))?;
    let first = unmapping_first(cell.think_ps, meets);
    let parts = if cell.cpus == 1 {
        let cycle = (CYCLE_PAGES / ready.batch_pages()).max(2);
        // It begins in memory in steady state: what its caches hold is there after a quarter.
        pass(first, if cell.quick { (cycle.div_ceil(4), cycle) } else { (cycle, cycle) })?
    } else if cell.quick {
        pass(first, holds)?
    } else {
        let page = stretches::page_ps(&pass(first, HOLDS_FIRST)?);
        pass(page.map_or(first, stretches::unmapping), holds)?
    };
    Ok(stretches::together(&parts))
}
