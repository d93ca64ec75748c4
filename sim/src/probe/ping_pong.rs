//! Two threads that hand one word to and fro by compare-and-swap, as core-to-core-latency does:
//! each tries until it finds its own turn there.

use std::cell::Cell;
use std::rc::Rc;

use super::PingPong;
use super::bench::Bench;
use crate::costs::Costs;
use crate::memory::Line;
use crate::world::{Job, World};

/// Round trips before the clock runs, and those that are timed.
const WARM: u64 = 20;
const ROUNDS: u64 = 500;

/// The three distances that published tables tell apart.
pub(super) fn measure(costs: &Costs) -> PingPong {
    let has = |is: bool, other: usize| is.then(|| one_way(costs, 0, other));
    PingPong {
        smt_ps: has(costs.threads_per_core > 1, costs.cores()),
        socket_ps: has(costs.cores_per_socket > 1, 1),
        cross_ps: has(costs.sockets > 1, costs.cores_per_socket),
    }
}

/// One way between two CPUs, picoseconds; the word is in memory of the first one's node.
fn one_way(costs: &Costs, a: usize, b: usize) -> u64 {
    let bench = Bench::new(costs, 1);
    let line = bench.line(costs.socket_of(costs.core_of(a)), 0);
    let (turn, times) = (Rc::new(Cell::new(0)), Rc::new(Cell::new((0, 0))));
    let player = |me: usize| -> Job {
        let (world, turn, times) = (Rc::clone(&bench.world), Rc::clone(&turn), Rc::clone(&times));
        Box::new(move || {
            for round in 0..WARM + ROUNDS {
                hand_over(&world, line, &turn, me);
                match (me, round + 1) {
                    (0, WARM) => times.set((world.now(), 0)),
                    (0, done) if done == WARM + ROUNDS => times.set((times.get().0, world.now())),
                    _ => {}
                }
            }
        })
    };
    bench.run(vec![(a, player(0)), (b, player(1))]);
    let (from, to) = times.get();
    (to - from) / (2 * ROUNDS)
}

/// Tries until the word is this player's, and gives it to the other.
fn hand_over(world: &World, line: Line, turn: &Cell<usize>, me: usize) {
    loop {
        world.sync();
        world.locked(line);
        if turn.get() == me {
            turn.set(1 - me);
            return;
        }
    }
}

/// A locked instruction on a line that nobody else wants.
pub(super) fn alone(costs: &Costs) -> u64 {
    let bench = Bench::new(costs, 1);
    let line = bench.line(0, 0);
    bench.on(0, move |world| {
        world.locked(line);
        let from = world.now();
        (0..ROUNDS).for_each(|_| world.locked(line));
        (world.now() - from) / ROUNDS
    })
}
