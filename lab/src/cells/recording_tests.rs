//! Recordings on modelled machines.

use std::path::Path;

use super::*;
use crate::twin::testing::{alloc, event, free};
use pageyard::preset;
use pageyard_trace::event::Kind;
use pageyard_trace::recording::Recording;

fn on(machine: &str, program: &Rc<Program>, copies: usize) -> Result<Outcome, RunError> {
    let machine = Machine::named(machine).expect("a machine that comes along");
    let policy = preset::find("linux-6.18").expect("a preset");
    run(&machine, policy, program, &Config { copies, seed: 1 })
}

fn of(events: &[(u16, Kind)]) -> Rc<Program> {
    let events: Vec<_> = events.iter().zip(1..).map(|(&e, at)| event(at * 1000, e)).collect();
    Rc::new(Program::of_events(&events))
}

/// CPU 0 takes pages, CPU 1 frees each a microsecond later.
fn handed_over(pages: u64) -> Rc<Program> {
    let pairs: Vec<_> =
        (0..pages).flat_map(|pfn| [(0, alloc(pfn, 0)), (1, free(pfn, 0))]).collect();
    of(&pairs)
}

#[test]
fn the_same_program_gives_the_same_outcome() {
    let program = handed_over(300);
    let outcome = on("skl-desktop", &program, 2).expect("it fits");
    assert_eq!(outcome, on("skl-desktop", &program, 2).expect("it fits"));
    assert_eq!((outcome.allocs.calls, outcome.frees.calls, outcome.failed), (600, 600, 0));
    assert!(outcome.elapsed_ps.0 >= outcome.recorded_ps);
}

#[test]
fn a_free_waits_for_the_page_of_another_cpu() {
    // Recorded backwards in time, so to say: the free is due when the page is just being taken.
    let events = [event(1000, (0, alloc(1, 0))), event(1000, (1, free(1, 0)))];
    let program = Rc::new(Program::of_events(&events));
    let outcome = on("skl-desktop", &program, 1).expect("it fits");
    assert_eq!((outcome.waits.calls, outcome.frees.calls), (1, 1));
    assert!(outcome.waits.spent_ps > 0);
}

#[test]
fn parts_of_a_block_go_back_one_by_one_and_merge() {
    let mut events = vec![(0, alloc(0, 4))];
    events.extend((0..16).map(|pfn| (0, free(pfn, 0))));
    let outcome = on("skl-desktop", &of(&events), 1).expect("it fits");
    assert_eq!((outcome.allocs.calls, outcome.frees.calls), (1, 16));
}

#[test]
fn lines_of_pages_travel_between_who_takes_and_who_frees() {
    use pageyard_sim::layout::Structure;
    use pageyard_sim::memory::Source;
    let outcome = on("skl-desktop", &handed_over(2000), 1).expect("it fits");
    let moved = outcome.stats.lines.get(&(Structure::Page, Source::Core));
    assert!(moved.is_some_and(|moved| *moved >= 2000), "{moved:?}");
}

#[test]
fn too_many_copies_and_empty_recordings_are_refused() {
    let program = handed_over(3);
    assert!(matches!(on("skl-desktop", &program, 5), Err(RunError::Cpus { has: 8, .. })));
    assert!(matches!(on("skl-desktop", &program, usize::MAX), Err(RunError::Cpus { .. })));
    let empty = Rc::new(Program::default());
    assert!(matches!(on("skl-desktop", &empty, 1), Err(RunError::Empty)));
}

#[test]
fn every_bundled_recording_runs() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let folders = std::fs::read_dir(traces).expect("recordings come along");
    for folder in folders {
        let path = folder.expect("a folder").path();
        let recording = Recording::open(&path).expect("a recording");
        let program = Rc::new(Program::read(&recording).expect("it reads"));
        let outcome = on("skl-2s", &program, 1).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert_eq!(outcome.failed, 0, "{path:?}");
        assert!(outcome.elapsed_ps.1 >= outcome.recorded_ps, "{path:?}");
        let steps: usize = program.cpus.iter().map(Vec::len).sum();
        assert_eq!(outcome.allocs.calls + outcome.frees.calls, steps as u64);
    }
}

#[test]
fn nonsense_is_run_or_left_out_but_breaks_nothing() {
    let mut dice = Dice(1);
    for _ in 0..40 {
        let mut nonsense = || {
            let (cpu, what) = (dice.below(3), dice.below(2));
            let (pfn, order) = (dice.below(64), dice.below(5) as u8);
            (cpu as u16, if what == 0 { alloc(pfn, order) } else { free(pfn, order) })
        };
        let events: Vec<_> = (0..300).map(|_| nonsense()).collect();
        let program = of(&events);
        let outcome = on("skl-desktop", &program, 1).expect("it runs");
        let steps: usize = program.cpus.iter().map(Vec::len).sum();
        assert_eq!(outcome.allocs.calls + outcome.frees.calls, steps as u64);
    }
}
