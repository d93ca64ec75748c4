//! The probe of `cargo xtask golden`: pairs of one allocation and one free of order 0, each
//! served by the list of one CPU.
//!
//! `hit_path PAIRS [POLICY] [NOTES]` with NOTES `off` (events compile to nothing, the default),
//! `switch` (a listener that could be switched on, and is not) or `on` (every event counted).
//! It prints nothing, so that nothing but the pairs is counted.

use std::process::ExitCode;

use pageyard::{
    Allocator, CpuId, Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Policy, Request, Tuning,
    ZoneDesc, ZoneKind, preset,
};
use pageyard_host::plain::{Plain, set_thread_cpu};
use pageyard_host::{Counters, Notes};

const FIRST: Pfn = Pfn(1 << 20);
/// 1 GiB of page frames: an ordinary zone, no memory behind it.
const PAGES: u64 = 1 << 18;

fn build<N: Notes>(plain: Plain<N>, policy: Policy) -> Allocator<Plain<N>> {
    let nodes = [NodeDesc { distance: [10; NODES_MAX], cpus: 2 }];
    let zones = [ZoneDesc {
        node: NodeId(0),
        kind: ZoneKind::Normal,
        start: FIRST,
        spanned_pages: PAGES,
        managed_pages: PAGES,
    }];
    let geometry = Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes: &[NodeId(0); 2],
        nodes: &nodes,
        zones: &zones,
        tuning: Tuning::default(),
    };
    let allocator = Allocator::new(plain, &geometry, policy).expect("a plain machine");
    allocator.add_memory(FIRST, PAGES);
    allocator
}

/// The loop that is counted. Its own cost is a compare and a jump a pair.
fn pairs<N: Notes>(plain: Plain<N>, policy: Policy, pairs: u64) {
    let allocator = build(plain, policy);
    let request = Request::user(0);
    for _ in 0..pairs {
        let pfn = std::hint::black_box(&allocator)
            .alloc(std::hint::black_box(&request))
            .expect("a free zone");
        allocator.free(std::hint::black_box(pfn), 0);
    }
}

fn main() -> ExitCode {
    let usage = "usage: hit_path PAIRS [POLICY] [off|switch|on]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| -> String {
        arguments.get(at).map_or(default, String::as_str).to_owned()
    };
    let Ok(count) = argument(0, "").parse::<u64>() else {
        eprintln!("hit_path: PAIRS must be a number; {usage}");
        return ExitCode::from(2);
    };
    let name = argument(1, "linux-6.18");
    let Some(policy) = preset::find(&name) else {
        eprintln!("hit_path: no policy is named `{name}`; {usage}");
        return ExitCode::from(2);
    };
    // A CPU that does not change: what the kernel does with the thread is not counted.
    set_thread_cpu(Some(CpuId(0)));
    match argument(2, "off").as_str() {
        "off" => pairs(Plain::new(), policy, count),
        "switch" => {
            let none: Option<Counters> = std::hint::black_box(None);
            pairs(Plain::with_notes(none), policy, count);
        }
        "on" => pairs(Plain::with_notes(Counters::default()), policy, count),
        other => {
            eprintln!("hit_path: NOTES cannot be `{other}`; {usage}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
