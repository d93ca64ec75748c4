//! Ticket locks: who wants the lock draws a number, and all who wait look at the one line that says
//! whose turn it is.
//!
//! Drawing a number and letting the next one in both write that line. Either takes it from all who
//! wait, and they fetch it again, one after another, because the agent that keeps a line coherent
//! answers one request for it at a time. The next holder is somewhere among them, half way on
//! average (Boyd-Wickizer and others, Non-scalable locks are dangerous, OLS 2012, section 3), and
//! whoever wants to write the line comes after them all. In which order they are served is not
//! known: here by number, beginning behind the CPU that wrote the line, as requests come round on a
//! ring.

use std::collections::VecDeque;

use crate::memory::{Line, Use};
use crate::world::World;

/// All who wait fetch the line from a time on, because the CPU that runs has drawn a number or let
/// the next one in: when the one with the next ticket has it, the first of them.
pub(crate) fn fetch(world: &World, waiting: &VecDeque<usize>, line: Line, from: u64) -> u64 {
    let (me, cpus) = (world.cpu(), world.costs.cpus());
    let mut order: Vec<usize> = waiting.iter().copied().filter(|&cpu| cpu != me).collect();
    order.sort_unstable_by_key(|&cpu| (cpu + cpus - me) % cpus);
    let (mut at, mut sees) = (from, from);
    for &cpu in &order {
        at += world.seen_by(cpu, line, Use::Read, at);
        if waiting.front() == Some(&cpu) {
            sees = at;
        }
    }
    if let Some(&last) = order.last() {
        world.served(line, last, at);
    }
    sees
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::lock::WorkLock;
    use crate::lock::tests::world;
    use crate::world::Job;

    /// Holds a second of one lock, by so many CPUs that think between two holds.
    fn holds_per_s(cpus: usize, ticket_locks: bool) -> u64 {
        const HOLDS: u64 = 200;
        let world = world(cpus, ticket_locks);
        let lock = Rc::new(WorkLock::new(&world, world.layout.extra(0), "test"));
        let job = |cpu: usize| -> Job {
            let (world, lock) = (Rc::clone(&world), Rc::clone(&lock));
            Box::new(move || {
                for turn in 0..HOLDS {
                    lock.with(|| world.execute(1000));
                    world.execute(1000 + (turn + cpu as u64) % 7 * 100);
                }
            })
        };
        world.run((0..cpus).map(job).collect());
        let took_ps = (0..cpus).map(|cpu| world.time_of(cpu)).max().unwrap_or(1);
        HOLDS * cpus as u64 * 1_000_000_000_000 / took_ps
    }

    #[test]
    fn two_cpus_are_served_alike_and_many_collapse() {
        let [few, many] = [2, 64].map(|cpus| [false, true].map(|kind| holds_per_s(cpus, kind)));
        // Who is let in need not write the line as well: a transfer less at each hand-over.
        assert!(few[1].abs_diff(few[0]) * 100 <= few[0] * 20, "queued, ticket: {few:?}");
        assert!(many[1] * 2 < many[0], "queued, ticket: {many:?}");
        // A queue keeps its pace, however many wait in it; a ticket lock gets slower.
        assert!(many[0] * 100 > few[0] * 70, "{few:?} {many:?}");
        let fewer = holds_per_s(16, true);
        assert!(many[1] * 2 < fewer && fewer < few[1], "{many:?} {fewer} {few:?}");
    }
}
