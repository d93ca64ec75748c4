//! A recording on this machine: a thread for each recorded CPU, with its think times.

use std::sync::{Mutex, PoisonError};

use pageyard::CpuId;
use pageyard_host::plain::set_thread_cpu;

use super::runs::{UNTIL_DONE, finish};
use super::stage::{Live, Pace};
use super::watch::Done;
use super::{LiveError, Plan, Round, cpus};
use crate::cells::program::Program;
use crate::cells::recording::{Config, beginnings};
use crate::cells::work::Stage;
use crate::cells::work::recording::{ALLOC, AWAITED, FAILED, FREE, Recall, run, set_up};
use crate::experiment::cell::CellError;
use crate::experiment::workloads::trace;

/// Looks at the clock by which its own cost is taken.
const CLOCK_LOOKS: u64 = 1 << 14;

/// When a thread began and ended, picoseconds.
type Stretch = (u64, u64);

fn program_of(plan: &Plan) -> Result<Program, LiveError> {
    let refused = |message: String| {
        let (name, argument) = (plan.workload.name, plan.argument.clone());
        LiveError::Cell(CellError::Refused { name, argument, message })
    };
    if plan.think_ps != 0 {
        return Err(refused("think times are the recorded ones, none can be given".to_string()));
    }
    let program = trace::read(&plan.argument).map_err(refused)?;
    let (longest, recorded) = (UNTIL_DONE.1.as_secs() / 2, program.recorded_ns / 1_000_000_000);
    if recorded > longest {
        return Err(refused(format!(
            "it is {recorded} seconds long, and here it takes as long as it is, at most {longest}; \
             a modelled machine needs no such time"
        )));
    }
    Ok(program)
}

/// What a look at the clock takes, picoseconds.
fn clock_ps(stage: &Live<'_>) -> u64 {
    let from = stage.now_ps();
    let end = (0..CLOCK_LOOKS).fold(from, |_, _| stage.now_ps());
    (end - from) / CLOCK_LOOKS
}

/// Runs it once, from its first event to its last. What finds no memory is counted and left out, as
/// on modelled machines.
pub(super) fn recording(plan: &Plan) -> Result<Round, LiveError> {
    measure(plan, &program_of(plan)?)
}

fn measure(plan: &Plan, program: &Program) -> Result<Round, LiveError> {
    let recorded = program.cpus.len();
    let copies = plan.cpus / recorded;
    let held = program.peak_pages.saturating_mul(copies as u64);
    let ground = plan.ground(held + held / 4, false)?;
    let (allowed, stage) = (cpus()?, Live::new(&ground, Pace::take()));
    let mut failed = 0;
    let mut shelves = Vec::new();
    for copy in 0..copies {
        let shelf = stage.shelf(program.blocks as usize);
        let set_up_as = |cpu| set_thread_cpu(Some(CpuId(allowed[copy * recorded + cpu])));
        failed += plan.set_up(|| set_up(&stage, set_up_as, program, &shelf))?;
        shelves.push(shelf);
    }
    set_thread_cpu(None);
    let late = beginnings(program, &Config { copies, seed: plan.seed });
    let stretches: Mutex<Vec<Vec<Stretch>>> = Mutex::new(vec![Vec::new(); copies]);
    let (done, mut round) = plan.timed(&ground, UNTIL_DONE, |part| {
        let (stage, copy) = (&part.stage, part.cpu / recorded);
        stage.spend(late[copy]);
        let from = stage.now_ps();
        run(stage, &part.eye, program, part.cpu % recorded, &shelves[copy]);
        let mut all = stretches.lock().unwrap_or_else(PoisonError::into_inner);
        all[copy].push((from, stage.now_ps()));
    })?;
    let clock_ps = clock_ps(&stage);
    drop(shelves);
    plan.settle(&ground, &mut round)?;
    let mut round = finish(round, &done);
    note_calls(&mut round, &done, failed, clock_ps);
    let stretches = stretches.into_inner().unwrap_or_else(PoisonError::into_inner);
    note_lengths(&mut round, program, &stretches);
    note_supposed(&mut round, program);
    Ok(round)
}

fn count(round: &mut Round, name: &str, times: u64) {
    round.own.insert(name.to_string(), times.saturating_mul(1000));
}

/// Notes calls and what one took, without what the clock took that it was timed by.
fn note_calls(round: &mut Round, done: &[Done], failed_first: u64, clock_ps: u64) {
    let names = [
        (ALLOC, "allocs", "alloc-call-ns"),
        (FREE, "frees", "free-call-ns"),
        (AWAITED, "awaited", "awaited-ns"),
    ];
    for (part, calls, time) in names {
        let of = done.iter().map(|done| done.parts[part]);
        let (ps, times) = of.fold((0, 0), |(ps, n), (more, times)| (ps + more, n + times));
        count(round, calls, times);
        let mean_ps = ps / times.max(1);
        round.own.insert(time.to_string(), mean_ps.saturating_sub(clock_ps));
    }
    let failed: u64 = done.iter().map(|done| done.notes[FAILED]).sum();
    count(round, "failed", failed + failed_first);
}

/// Notes how long copies took, from the first of their threads' beginnings to the last one's end,
/// and the score, over all of them.
fn note_lengths(round: &mut Round, program: &Program, copies: &[Vec<Stretch>]) {
    let ends = |stretches: &mut dyn Iterator<Item = &Stretch>| {
        stretches
            .fold((u64::MAX, 0), |(first, last), &(from, end)| (first.min(from), last.max(end)))
    };
    let length = |(first, last): Stretch| last.saturating_sub(first);
    let lengths: u64 = copies.iter().map(|copy| length(ends(&mut copy.iter()))).sum();
    let (mean_ps, recorded_ps) =
        (lengths / copies.len().max(1) as u64, program.recorded_ns.saturating_mul(1000));
    let longer = u128::from(mean_ps.saturating_sub(recorded_ps)) * 100_000;
    let own = [
        ("recorded-ns", recorded_ps),
        ("length-ns", mean_ps),
        ("longer-pct", (longer / u128::from(recorded_ps.max(1))) as u64),
    ];
    own.into_iter().for_each(|(name, value)| {
        round.own.insert(name.to_string(), value);
    });
    let total_ps = length(ends(&mut copies.iter().flatten())).max(1);
    round.score_per_s = (u128::from(round.units) * 1_000_000_000_000 / u128::from(total_ps)) as u64;
}

fn note_supposed(round: &mut Round, program: &Program) {
    let supposed = program.supposed;
    count(round, "in-use-first", supposed.in_use);
    count(round, "unseen", supposed.allocs_unseen + supposed.frees_unseen);
    count(round, "impossible", supposed.impossible);
    count(round, "damage", program.damage);
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;
    use crate::twin::testing::{alloc, event, free};
    use pageyard_trace::event::Kind;

    /// What came of these events, a microsecond apart; nothing where the host has too few CPUs.
    fn of(events: &[(u16, Kind)], memory_mib: u64, copies: usize) -> Option<Round> {
        let events: Vec<_> = events.iter().zip(1..).map(|(&e, at)| event(at * 1000, e)).collect();
        let program = Program::of_events(&events);
        let (recorded_cpus, has) = (program.cpus.len(), cpus().expect("the system tells").len());
        let cpus = recorded_cpus * copies;
        if cpus > has {
            println!("skipped: {cpus} CPUs, and this process may use {has}");
            return None;
        }
        let memory_mib = Some(memory_mib);
        let plan = Plan { recorded_cpus, cpus, memory_mib, ..plan("trace", "linux-6.18", 1) };
        plan.check().expect("it can be run");
        Some(measure(&plan, &program).expect("it runs and gives all pages back"))
    }

    fn own(round: &Round, name: &str) -> u64 {
        round.own[name] / 1000
    }

    #[test]
    fn pages_that_another_cpu_frees_are_waited_for_and_all_come_back() {
        // The free is due with the page, or before: threads begin when they begin.
        let pairs: Vec<_> =
            (0..3000).flat_map(|pfn| [(0, alloc(pfn, 0)), (1, free(pfn, 0))]).collect();
        if let Some(round) = of(&pairs, 256, 1) {
            assert_eq!((own(&round, "allocs"), own(&round, "frees")), (3000, 3000));
            assert_eq!((round.units, own(&round, "failed")), (6000, 0));
            assert!(round.own["length-ns"] >= round.own["recorded-ns"], "{round:?}");
        }
    }

    #[test]
    fn parts_of_a_block_go_back_one_by_one_and_what_is_never_freed_at_the_end() {
        let mut events = vec![(0, alloc(0, 4)), (0, alloc(1024, 10)), (0, free(99, 0))];
        events.extend((3..16).map(|pfn| (0, free(pfn, 0))));
        events.extend([(0, free(1024, 9)), (0, free(1536, 3))]);
        for copies in [1, 2] {
            let Some(round) = of(&events, 256, copies) else { continue };
            let copies = copies as u64;
            assert_eq!((own(&round, "allocs"), own(&round, "frees")), (2 * copies, 16 * copies));
            // Only counted once: it is the recording's.
            assert_eq!(own(&round, "in-use-first"), 1);
        }
    }

    #[test]
    fn what_finds_no_memory_is_counted_and_not_freed() {
        let pfns = (0..64).map(|n| n << 10);
        let mut events: Vec<_> = pfns.clone().map(|pfn| (0, alloc(pfn, 10))).collect();
        events.extend(pfns.map(|pfn| (0, free(pfn, 10))));
        let round = of(&events, 64, 1).expect("one CPU");
        let failed = own(&round, "failed");
        assert!((1..64).contains(&failed), "256 MiB of 64: {failed} failed");
        assert_eq!((own(&round, "allocs"), own(&round, "frees")), (64, 64 - failed));
    }
}
