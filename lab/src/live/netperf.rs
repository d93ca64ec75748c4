//! netperf on this machine: pairs of threads with a socket each.

use super::runs::{finish, note, per_second};
use super::stage::{Live, Pace};
use super::watch::Done;
use super::{LiveError, Plan, Round};
use crate::cells::netperf::late;
use crate::cells::work::Stage;
use crate::cells::work::netperf::path::{Pair, leave_holes, message_bytes};
use crate::cells::work::netperf::socket::Socket;
use crate::cells::work::netperf::{DROPPED, Test};

/// Pages that a pair has in use at the most: what TCP lets a receiver hold, 3 MiB, of which each
/// message may keep a block of order 3 that is half empty.
const PAIR_PAGES: u64 = 1 << 12;
/// Pages of a hole and of the block beside it.
const HOLE_PAGES: u64 = 16;

fn test_of(workload: &str) -> Test {
    match workload {
        "netperf_tcp_stream" => Test::Tcp,
        "netperf_sctp_stream_many" => Test::Sctp,
        _ => Test::Udp,
    }
}

/// Runs it once. A unit of work is a message, whichever way it goes.
pub(super) fn netperf(plan: &Plan) -> Result<Round, LiveError> {
    let (test, think_ps, pairs) = (test_of(plan.workload.name), plan.think_ps, plan.cpus / 2);
    let holes = plan.parameter("holes");
    let ground = plan.ground(pairs as u64 * PAIR_PAGES + holes * HOLE_PAGES, true)?;
    let stage = Live::new(&ground, Pace::take());
    let kept = leave_holes(&stage, holes);
    let late: Vec<u64> = late(plan.seed, think_ps, pairs).collect();
    let sockets: Vec<_> = (0..pairs).map(|pair| Socket::new(&stage, test, pair)).collect();
    let (done, mut round) = plan.timed(&ground, plan.times, |part| {
        let (stage, pair) = (&part.stage, part.cpu / 2);
        stage.spend(late[pair]);
        let of = Pair { stage, socket: &sockets[pair], test, pair, think_ps };
        match part.cpu % 2 {
            0 => of.send_all(&part.eye),
            _ => of.receive_all(&part.eye),
        }
    })?;
    note(&mut round, &done, &["send-ns", "receive-ns"]);
    drop((sockets, kept));
    plan.settle(&ground, &mut round)?;
    let mut round = finish(round, &done);
    let bits = u128::from(per_second(&done)) * 8 * u128::from(message_bytes(test));
    round.score_per_s = (bits / 1_000_000 / pairs as u128) as u64;
    note_blocks(&mut round, &done);
    Ok(round)
}

/// Notes drops, and how many different blocks went round.
fn note_blocks(round: &mut Round, done: &[Done]) {
    let dropped: u64 = done.iter().map(|done| done.notes[DROPPED]).sum();
    round.own.insert("dropped-pct".to_string(), dropped * 100_000 / round.units.max(1));
    let mut frames: Vec<u64> = done.iter().flat_map(|done| done.frames.iter().copied()).collect();
    frames.sort_unstable();
    frames.dedup();
    round.own.insert("distinct-blocks".to_string(), frames.len() as u64 * 1000);
}
