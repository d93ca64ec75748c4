//! How each workload is set up on this machine: memory, rings, who starts with what.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pageyard::{CpuId, Request};
use pageyard_host::plain::set_thread_cpu;
use pageyard_host::{Block, BlockRing};

use super::mixed::mixed;
use super::netperf::netperf;
use super::recording::recording;
use super::stage::{Live, Pace, instructions};
use super::watch::{Done, Eye, PARTS};
use super::{LiveError, Plan, Round, cpus};
use crate::cells::file::BLOCK_ORDER;
use crate::cells::page_bench::Kind;
use crate::cells::work::area::Area;
use crate::cells::work::page_bench::{GIVING, TAKING};
use crate::cells::work::page_fault::{Process, Rest};
use crate::cells::work::{self, Stage, Watch};

/// Runs a workload once.
type Run = fn(&Plan) -> Result<Round, LiveError>;

/// Workloads that run on this machine.
pub(super) const RUNS: &[(&str, Run)] = &[
    ("page_fault1", page_fault1),
    ("page_fault2", page_fault2),
    ("page_bench01", page_bench),
    ("page_bench03", page_bench),
    ("page_bench04", page_bench),
    ("page_bench05", page_bench),
    ("bulk", bulk),
    ("free_all", free_all),
    ("mixed", mixed),
    ("netperf_udp_stream", netperf),
    ("netperf_tcp_stream", netperf),
    ("netperf_sctp_stream_many", netperf),
    ("trace", recording),
];

/// Pages that are in use at any time beside those of caches: few.
const FEW: u64 = 1 << 12;
/// A run that ends by itself, not by the clock: an hour is long enough.
pub(super) const UNTIL_DONE: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(3600));

/// Whether one CPU of two sends and the other receives.
pub(super) fn is_in_pairs(workload: &str) -> bool {
    workload == "page_bench05" || is_netperf(workload)
}

/// Whether the score is that of one sender, the mean of all, in 10^6 bits a second.
#[must_use]
pub fn is_netperf(workload: &str) -> bool {
    workload.starts_with("netperf_")
}

/// Whether a parameter says something to this machine. Here the clock ends most workloads, not a
/// number of rounds, and processes are where they are.
pub(super) fn is_known(workload: &str, parameter: &str) -> bool {
    match parameter {
        "warm" | "messages" | "spread" => false,
        "rounds" => workload == "bulk",
        _ => true,
    }
}

/// Units a second of all threads, each in its own time.
pub(super) fn per_second(done: &[Done]) -> u64 {
    let each = |done: &Done| u128::from(done.units) * 1_000_000_000 / u128::from(done.ns.max(1));
    done.iter().map(each).sum::<u128>() as u64
}

/// Picoseconds a page of each part, of all threads together; 0 where there was none.
pub(super) fn parts_ps(done: &[Done]) -> [u64; PARTS] {
    std::array::from_fn(|part| {
        let ps: u64 = done.iter().map(|done| done.parts[part].0).sum();
        let pages: u64 = done.iter().map(|done| done.parts[part].1).sum();
        ps / pages.max(1)
    })
}

/// Notes what parts took, if they were told apart.
pub(super) fn note(round: &mut Round, done: &[Done], names: &[&str]) {
    for (name, ps) in names.iter().zip(parts_ps(done)) {
        if ps > 0 {
            round.own.insert(name.to_string(), ps);
        }
    }
}

pub(super) fn finish(mut round: Round, done: &[Done]) -> Round {
    round.units = done.iter().map(|done| done.units).sum();
    round.score_per_s = per_second(done);
    note_cpu(&mut round, done);
    round
}

/// Notes how much of the CPUs the threads had.
pub(super) fn note_cpu(round: &mut Round, done: &[Done]) {
    let sum = |what: fn(&Done) -> u64| done.iter().map(what).sum::<u64>();
    let (ns, cpu_ns) = (sum(|done| done.ns), sum(|done| done.cpu_ns));
    round.on_cpu_thousandths = cpu_ns * 1000 / ns.max(1);
    round.cpu_ps = cpu_ns * 1000 / round.units.max(1);
}

fn page_bench(plan: &Plan) -> Result<Round, LiveError> {
    let kind = Kind::of(plan.workload.name, |name| plan.parameter(name));
    let pairs = plan.cpus / 2;
    let in_use = match kind {
        Kind::Singly => FEW,
        Kind::Bulk(bulk) => (plan.cpus * bulk.pages) as u64 + FEW,
        Kind::Across { slots } => (pairs * slots) as u64 + FEW,
    };
    let ground = plan.ground(in_use, false)?;
    let think = instructions(plan.think_ps);
    let mut rings = Vec::new();
    if let Kind::Across { slots } = kind {
        let (stage, allowed) = (Live::new(&ground, Pace::take()), cpus()?);
        for pair in 0..pairs {
            let ring = BlockRing::new(&ground.host, slots);
            set_thread_cpu(Some(CpuId(allowed[2 * pair])));
            plan.set_up(|| work::page_bench::prefill(&stage, &ring, slots / 2))?;
            rings.push(ring);
        }
        set_thread_cpu(None);
    }
    let (done, mut round) = plan.timed(&ground, plan.times, |part| {
        let (stage, eye) = (&part.stage, &part.eye);
        match kind {
            Kind::Singly => work::page_bench::singly(stage, eye, think),
            Kind::Bulk(bulk) => work::page_bench::in_bulk(stage, eye, think, bulk),
            Kind::Across { .. } => {
                let ring = &rings[part.cpu / 2];
                match part.cpu % 2 {
                    0 => work::page_bench::send_all(stage, eye, think, ring),
                    _ => work::page_bench::receive_all(stage, eye, think, ring),
                }
            }
        }
    })?;
    note(&mut round, &done, &["get-ns", "put-ns"]);
    drop(rings);
    plan.settle(&ground, &mut round)?;
    Ok(finish(round, &done))
}

/// Where threads wait for each other, unless the run ends.
struct Meeting {
    arrived: AtomicUsize,
    threads: usize,
}

impl Meeting {
    fn new(threads: usize) -> Meeting {
        Meeting { arrived: AtomicUsize::new(0), threads }
    }

    /// The `nth` meeting, from 1.
    fn meet(&self, nth: usize, eye: &Eye<'_>) {
        // Relaxed: it tells that others are here, and nothing of what they did.
        self.arrived.fetch_add(1, Ordering::Relaxed);
        while self.arrived.load(Ordering::Relaxed) < nth * self.threads && !eye.is_over() {
            spin_loop();
        }
    }
}

/// Rounds after the first are measured, each half by each thread's own time, as in the benchmark.
fn bulk(plan: &Plan) -> Result<Round, LiveError> {
    let pages = plan.parameter("pages") as usize;
    let rounds = (plan.parameter("rounds") as usize).max(2);
    let ground = plan.ground((plan.cpus * pages) as u64, false)?;
    let think = instructions(plan.think_ps);
    let meeting = Meeting::new(plan.cpus);
    let (done, mut round) = plan.timed(&ground, UNTIL_DONE, |part| {
        let (stage, eye) = (&part.stage, &part.eye);
        for round in 0..rounds {
            let half = |nth: usize, which: usize, work: &mut dyn FnMut()| {
                meeting.meet(2 * round + nth, eye);
                let from = stage.now_ps();
                work();
                if round > 0 {
                    eye.spent(which, stage.now_ps() - from, pages as u64);
                }
            };
            let mut held = Vec::new();
            half(1, TAKING, &mut || held = work::bulk::get(stage, think, pages));
            half(2, GIVING, &mut || work::bulk::put(stage, think, std::mem::take(&mut held)));
            eye.did(pages as u64);
        }
    })?;
    note(&mut round, &done, &["get-ns", "put-ns"]);
    plan.settle(&ground, &mut round)?;
    let [get_ps, put_ps, _] = parts_ps(&done);
    // Time on the CPU is that of all rounds.
    round.units = (plan.cpus * pages * rounds) as u64;
    round.score_per_s = plan.cpus as u64 * 1_000_000_000_000 / (get_ps + put_ps).max(1);
    note_cpu(&mut round, &done);
    Ok(round)
}

fn free_all(plan: &Plan) -> Result<Round, LiveError> {
    let share = (plan.parameter("pages") / plan.cpus as u64) as usize;
    let ground = plan.ground((plan.cpus * share) as u64, false)?;
    let allowed = cpus()?;
    let stage = Live::new(&ground, Pace::take());
    let set_up_as = |cpu: usize| set_thread_cpu(Some(CpuId(allowed[cpu])));
    let held = plan.set_up(|| work::free_all::fault_in(&stage, set_up_as, plan.cpus, share))?;
    set_thread_cpu(None);
    let held: Vec<Mutex<Vec<Block<'_>>>> = held.into_iter().map(Mutex::new).collect();
    let (done, mut round) = plan.timed(&ground, UNTIL_DONE, |part| {
        let mine = &held[part.cpu];
        let mine = std::mem::take(&mut *mine.lock().unwrap_or_else(PoisonError::into_inner));
        work::free_all::unmap_all(&part.stage, &part.eye, mine, Rest::default(), plan.think_ps);
    })?;
    plan.settle(&ground, &mut round)?;
    Ok(finish(round, &done))
}

fn page_fault1(plan: &Plan) -> Result<Round, LiveError> {
    page_fault(plan, 0)
}

fn page_fault2(plan: &Plan) -> Result<Round, LiveError> {
    page_fault(plan, plan.process_pages)
}

/// Processes begin with nothing; the time to warm up is several times that of mapping it all.
fn page_fault(plan: &Plan, file_pages: usize) -> Result<Round, LiveError> {
    let size = plan.process_pages;
    let in_use = plan.cpus * (size + file_pages.next_multiple_of(1 << BLOCK_ORDER));
    let ground = plan.ground(in_use as u64, true)?;
    let host = &ground.host;
    let block = || host.alloc(&Request::user(BLOCK_ORDER));
    let file = |_| (0..file_pages.div_ceil(1 << BLOCK_ORDER)).map(|_| block()).collect();
    let files: Result<Vec<Vec<Block<'_>>>, _> = (0..plan.cpus).map(file).collect();
    let files = files
        .map_err(|_| LiveError::OutOfMemory { workload: plan.workload.name, order: BLOCK_ORDER })?;
    let (done, mut round) = plan.timed(&ground, plan.times, |part| {
        let (stage, file) = (&part.stage, &files[part.cpu]);
        let (held, think_ps) = (Vec::with_capacity(size), plan.think_ps);
        let area = Area { stage, file, size, think_ps, held, waiting: 0 };
        let left = Process { area, rest: Rest::default() }.run(&part.eye);
        stage.unlist(&left);
    })?;
    note(&mut round, &done, &["map-ns", "unmap-ns"]);
    drop(files);
    plan.settle(&ground, &mut round)?;
    Ok(finish(round, &done))
}
