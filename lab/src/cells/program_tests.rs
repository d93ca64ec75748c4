//! What programs are made of.

use super::*;
use crate::twin::testing::{alloc, event, free};

fn of(events: &[(u16, Kind)]) -> Program {
    let events: Vec<Event> = events.iter().zip(1..).map(|(&e, at)| event(at * 1000, e)).collect();
    Program::of_events(&events)
}

fn freed(program: &Program, cpu: usize) -> Vec<(u32, u16, u8)> {
    let steps = program.cpus[cpu].iter().filter_map(|&(_, step)| match step {
        Step::Free { block, offset, order } => Some((block, offset, order)),
        Step::Alloc { .. } => None,
    });
    steps.collect()
}

#[test]
fn a_cpu_thinks_from_event_to_event() {
    let program = of(&[(3, alloc(8, 0)), (1, alloc(9, 0)), (3, free(8, 0)), (1, free(9, 0))]);
    let gaps = |cpu: usize| program.cpus[cpu].iter().map(|step| step.0).collect::<Vec<_>>();
    // By recorded number: CPU 1 comes first. Both think from the first event on.
    assert_eq!((gaps(0), gaps(1)), (vec![1000, 2000], vec![0, 2000]));
    assert_eq!((program.blocks, program.peak_pages, program.recorded_ns), (2, 2, 3000));
    assert_eq!(program.supposed, Supposed::default());
}

#[test]
fn whoever_frees_names_the_block_that_another_took() {
    let program = of(&[(0, alloc(8, 3)), (1, free(8, 3))]);
    assert_eq!(freed(&program, 1), [(0, 0, 3)]);
}

#[test]
fn a_block_freed_in_parts_is_split() {
    let program = of(&[(0, alloc(8, 2)), (0, free(10, 0)), (0, free(8, 1)), (0, free(11, 0))]);
    assert_eq!(freed(&program, 0), [(0, 2, 0), (0, 0, 1), (0, 3, 0)]);
    assert_eq!(program.supposed, Supposed::default());
}

#[test]
fn what_is_freed_first_was_there() {
    let program = of(&[(0, free(8, 1)), (0, free(8, 1))]);
    assert_eq!(program.held, [(0, 1, 0), (1, 1, 0)]);
    assert_eq!((program.supposed.in_use, program.supposed.allocs_unseen), (2, 1));
}

#[test]
fn a_frame_taken_twice_was_freed_between() {
    let program = of(&[(0, alloc(8, 0)), (0, alloc(9, 0)), (1, alloc(8, 1))]);
    assert_eq!(freed(&program, 1), [(0, 0, 0), (1, 0, 0)]);
    assert_eq!((program.supposed.frees_unseen, program.peak_pages), (2, 2));
}

#[test]
fn what_cannot_be_is_left_out() {
    let program = of(&[
        (0, alloc(9, 1)),
        (0, alloc(8, 11)),
        (0, free(u64::MAX, 0)),
        (0, free(u64::MAX - 1, 255)),
        (0, alloc(PFN_NONE, 0)),
    ]);
    assert_eq!((program.supposed.impossible, program.cpus.len()), (4, 0));
}

#[test]
fn clocks_that_run_backwards_add_no_time() {
    let at = |time, kind| event(time, (0, kind));
    let program =
        Program::of_events(&[at(5000, alloc(1, 0)), at(3000, alloc(2, 0)), at(6000, alloc(3, 0))]);
    let gaps: Vec<u64> = program.cpus[0].iter().map(|step| step.0).collect();
    assert_eq!((gaps, program.recorded_ns), (vec![0, 0, 1000], 1000));
}
