//! try
use pageyard_lab::twin::*;
use pageyard_trace::recording::Recording;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let rec = Recording::open(&path).unwrap();
    let release = pageyard::preset::Release::parse(rec.kernel().unwrap()).unwrap();
    let policy = pageyard::Policy::linux(release);
    let t = std::time::Instant::now();
    let twin = twin::Twin::of(rec, policy).unwrap();
    println!(
        "{:?} moved {:?} ticks {:?} unseen {:?}",
        t.elapsed(),
        twin.moved,
        twin.ticks,
        twin.assumptions.unseen.len()
    );
    let rep = twin.replay(policy, replay::Placement::Recorded).unwrap();
    for c in &rep.start.caches { println!("{c:?}"); }
    for (k, l) in &twin.history.lists { println!("L {k:?} head {} tail {} empty {}", l.from_head.len(), l.from_tail.len(), l.ran_empty); }
    if let Some(a) = rep.ledger.accounts.get(&(1, 2)) { for x in a.refills.iter().take(8) { println!("R {x:?}"); } for x in a.drains.iter().take(8) { println!("D {x:?}"); } }
    let lb = f64::from(twin.largest_batch());
    for row in score::flow_rows(&twin.world, &twin.observed, &rep.ledger, lb) {
        if row.exercised && (row.cpu.is_none() || !row.within) {
            println!(
                "{:16} {:14} {:?} obs {} pred {} err {:?} {}",
                row.quantity,
                row.zone,
                row.cpu,
                row.observed,
                row.predicted,
                row.error_pct,
                row.within
            );
        }
    }
    for s in twin.sequences(&rep.ledger) {
        println!(
            "{} {} cpu{} {}/{}/{} exc {} {:?}",
            s.what, s.zone, s.cpu, s.agree, s.observed, s.predicted, s.excused, s.first_difference
        );
    }
    println!("{:?}", rep.oddities);
    for z in 0..twin.world.zones.len() {
        println!(
            "free change zone {z}: obs {} pred {}",
            twin.observed.free_change(z),
            rep.ledger.free_change(z)
        );
        for i in pageyard::EVENT_ITEMS {
            print!(
                " {:?} {}",
                i,
                rep.allocator().event_count(pageyard::ZoneId(z as u8), i)
            );
        }
        println!();
    }
    for (c, z, count, high) in twin.printed_caches() {
        let (pc, ph) = twin::Twin::cache_of(&rep, z, c);
        if count > 0 {
            println!("END cpu{c} z{z} count {count} twin {pc} high {high} twin {ph}");
        }
    }
}
