//! How far processes of page_fault1 keep step, by a model of queues alone: no machine, no memory.
//!
//! They begin together, as those of will-it-scale do, and pass two fair locks: a hold of the zone
//! lock for each batch of pages taken or given back, one of the LRU lock for 15 pages added and for
//! 32 released. Who stands in a fair queue goes on as fast as the others in it, so that differences
//! of speed drive processes apart slowly. Printed for each difference of speed: how close together
//! their points of the cycle are (1: in step, 0: anywhere) after some time, the mean of five
//! minutes, and the part of the cycle over which they would be as close if evenly spread.
//!
//!     cargo run --release -p pageyard-lab --example drift

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::PI;

use pageyard_lab::cells::dice::Dice;
use pageyard_lab::cells::page_fault1::PAGES;

/// Processes of a node: a socket of `skl-2s`.
const PROCESSES: usize = 56;
/// Pages of a hold of the zone lock.
const BATCH: usize = 31;
/// Pages of a hold of the LRU lock, adding and releasing.
const LRU: [usize; 2] = [15, 32];
/// What a page takes under the zone lock, and under the LRU lock, mapping and unmapping;
/// nanoseconds, as the simulator has it on `skl-2s`.
const ZONE_NS: [u64; 2] = [105, 105];
const LRU_NS: [u64; 2] = [85, 70];
/// What it takes beside both.
const WORK_NS: [u64; 2] = [2600, 600];
/// By how much a stretch of work differs from the next, thousandths.
const NOISE: f64 = 50.0;
const SECONDS: u64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Nothing,
    Zone,
    Lru,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    /// 0 maps, 1 unmaps.
    part: usize,
    /// Pages left of this part, of the batch, and of what goes to the LRU list together.
    pages: usize,
    batch: usize,
    lru: usize,
    wants: Wants,
}

fn fresh(part: usize) -> Process {
    let batch = if part == 0 { 0 } else { BATCH };
    Process { part, pages: PAGES, batch, lru: LRU[part], wants: Wants::Nothing }
}

/// About normally distributed, mean 0, deviation 1.
fn normal(dice: &mut Dice) -> f64 {
    let twelve: f64 = (0..12).map(|_| dice.below(1 << 30) as f64 / f64::from(1 << 30)).sum();
    twelve - 6.0
}

/// Closeness of all points: length of the mean of their directions.
fn closeness(processes: &[Process]) -> f64 {
    // Mapping takes about three fifths of a cycle where both wait.
    let angle = |process: &Process| {
        let done = 1.0 - process.pages as f64 / PAGES as f64;
        2.0 * PI * if process.part == 0 { 0.6 * done } else { 0.6 + 0.4 * done }
    };
    let sum = |of: fn(f64) -> f64| processes.iter().map(|process| of(angle(process))).sum::<f64>();
    sum(f64::cos).hypot(sum(f64::sin)) / processes.len() as f64
}

/// Part of the cycle over which evenly spread processes are as close.
fn part_of_cycle(close: f64) -> f64 {
    let sinc = |part: f64| if part == 0.0 { 1.0 } else { (PI * part).sin() / (PI * part) };
    (0..=1000).map(|part| f64::from(part) / 1000.0).find(|&part| sinc(part) <= close).unwrap_or(1.0)
}

/// Closeness once a second.
fn run(difference: f64) -> Vec<f64> {
    let mut dice = Dice(1);
    let speeds: Vec<f64> = (0..PROCESSES).map(|_| 1.0 + difference * normal(&mut dice)).collect();
    let mut processes = vec![fresh(0); PROCESSES];
    let mut turns: BinaryHeap<Reverse<(u64, usize)>> =
        (0..PROCESSES).map(|at| Reverse((dice.below(1_000_000), at))).collect();
    let (mut zone_free, mut lru_free) = (0, 0);
    let mut seen = Vec::new();
    while let Some(Reverse((mut now, at))) = turns.pop() {
        if now >= (seen.len() as u64 + 1) * 1_000_000_000 {
            seen.push(closeness(&processes));
            if seen.len() as u64 == SECONDS {
                break;
            }
        }
        let process = &mut processes[at];
        let part = process.part;
        match process.wants {
            Wants::Zone => {
                zone_free = now.max(zone_free) + ZONE_NS[part] * BATCH as u64;
                (now, process.batch) = (zone_free, BATCH);
            }
            Wants::Lru => {
                lru_free = now.max(lru_free) + LRU_NS[part] * LRU[part] as u64;
                (now, process.lru) = (lru_free, LRU[part]);
            }
            Wants::Nothing => {}
        }
        if process.pages == 0 {
            *process = fresh(1 - part);
        }
        process.wants = match *process {
            Process { batch: 0, .. } => Wants::Zone,
            Process { lru: 0, .. } => Wants::Lru,
            _ => Wants::Nothing,
        };
        if process.wants == Wants::Nothing {
            let pages = process.batch.min(process.lru).min(process.pages);
            let noise = 1.0 + NOISE / 1000.0 * normal(&mut dice);
            let work = (pages as u64 * WORK_NS[process.part]) as f64 * speeds[at] * noise;
            now += work.max(0.0) as u64;
            process.pages -= pages;
            process.batch -= pages;
            process.lru -= pages;
            // A lock is asked for when the work is done, and not before: others may come first.
            process.wants = match *process {
                Process { lru: 0, .. } => Wants::Lru,
                Process { batch: 0, pages: 1.., .. } => Wants::Zone,
                _ => Wants::Nothing,
            };
        }
        turns.push(Reverse((now, at)));
    }
    seen
}

fn main() {
    println!("difference  15 s  60 s  120 s  300 s  mean  as if spread over");
    for difference in [0.0, 0.003, 0.01, 0.03] {
        let seen = run(difference);
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        println!(
            "{:8.1} %  {:.2}  {:.2}   {:.2}   {:.2}  {mean:.2}  {:.2} of the cycle",
            difference * 100.0,
            seen[14],
            seen[59],
            seen[119],
            seen[seen.len() - 1],
            part_of_cycle(mean),
        );
    }
}
