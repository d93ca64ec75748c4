//! Scratch: one cell.
use pageyard::platform::Site;
use pageyard_lab::cells::page_fault1::{self, Config};
use pageyard_sim::machine::Machine;
use pageyard_sim::stats::LockAt;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let machine = Machine::named(&a[1]).expect("machine");
    let (name, sets) = a[2].split_once(':').unwrap_or((&a[2], ""));
    let mut policy = pageyard::preset::find(name).expect("policy");
    for s in sets.split(',').filter(|s| !s.is_empty()) {
        let (k, v) = s.split_once('=').unwrap();
        policy.set(k, v).unwrap();
    }
    let cpus = a[3].parse().unwrap();
    let think_ps = a[4].parse::<u64>().unwrap() * 1000;
    let measure = a.get(5).map_or(30, |x| x.parse().unwrap());
    let mut unmapping = 300;
    for pass in 0..2 {
        let t = std::time::Instant::now();
        let holds = if pass == 0 {
            (5, 10)
        } else {
            (std::env::var("WARM").map_or(10, |w| w.parse().unwrap()), measure)
        };
        let config = Config { cpus, think_ps, unmapping, holds, seed: 1 };
        let out = page_fault1::run(&machine, policy, &config).unwrap();
        let m = &out.measured;
        let zone = m.stats.lock(|at| matches!(at, LockAt::Zone(_)));
        let alloc = m.stats.lock(|at| matches!(at, LockAt::Zone(Site::Refill | Site::Direct)));
        let free = m.stats.lock(|at| matches!(at, LockAt::Zone(Site::BulkFree | Site::DirectFree)));
        let lru = m.stats.lock(|at| matches!(at, LockAt::Workload("lru")));
        println!(
            "pass {pass}: score {} zone wait {:.1} % (alloc {:.1} free {:.1}) lru {:.1} % hold alloc {} free {} lru {} ns; unmapping {unmapping} -> {}; {} ms simulated, {} M events, {:.1} s",
            m.per_second(),
            m.share(zone.wait_ps) as f64 / 10.0,
            m.share(alloc.wait_ps) as f64 / 10.0,
            m.share(free.wait_ps) as f64 / 10.0,
            m.share(lru.wait_ps) as f64 / 10.0,
            alloc.hold_ps / alloc.taken.max(1) / 1000,
            free.hold_ps / free.taken.max(1) / 1000,
            lru.hold_ps / lru.taken.max(1) / 1000,
            out.unmapping,
            m.elapsed_ps / 1_000_000_000,
            m.stats.events / 1_000_000,
            t.elapsed().as_secs_f64()
        );
        if pass == 1 && std::env::var("LINES").is_ok() {
            for (k, v) in &m.stats.lines {
                println!("{k:?} {v}");
            }
            for (k, v) in &m.stats.locks {
                println!("{k:?} {v:?}");
            }
        }
        unmapping = out.unmapping;
    }
}
