//! A machine of round figures gives them back.

use super::*;
use crate::costs::tests::round;

fn near(what: &str, measured: u64, figure: u64) {
    let error = (measured as i64 - figure as i64) * 1000 / figure as i64;
    assert!(error.abs() <= 100, "{what}: {measured} against {figure}: {error} thousandths");
}

fn toy() -> Costs {
    Costs {
        // Latency by load of a socket with a peak of 40 GB/s.
        loaded: vec![(0, 80_000), (20_000, 90_000), (40_000, 130_000)],
        ..round(2, 4)
    }
}

#[test]
fn two_sockets_give_back_their_latencies() {
    let measured = measure(&toy(), &[]);
    near("L1", measured.l1_ps, 1_000);
    near("L2", measured.l2_ps, 5_000);
    near("LLC", measured.llc_ps, 20_000);
    near("locked", measured.locked_ps, 6_000);
    for (socket, node) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let figure = if socket == node { 80_000 } else { 140_000 };
        near("idle", measured.idle_ps[socket][node], figure);
    }
    for dirty in &measured.dirty {
        let figure = match (dirty.writer, dirty.home) {
            (0, _) => 50_000,
            (1, 1) => 110_000,
            _ => 170_000,
        };
        near("dirty", dirty.ps, figure);
    }
    assert_eq!(measured.dirty.len(), 3);
}

#[test]
fn a_ping_pong_takes_a_transfer_each_way() {
    let smt = Costs { threads_per_core: 2, ..toy() };
    let ping_pong = ping_pong::measure(&smt);
    near("one core", ping_pong.smt_ps.unwrap(), 8_000);
    near("one socket", ping_pong.socket_ps.unwrap(), 50_000);
    // There with home at the writer (110 ns), back with home at the reader (170 ns).
    near("two sockets", ping_pong.cross_ps.unwrap(), 140_000);
}

#[test]
fn the_same_machine_gives_the_same_picoseconds() {
    let loads = [10_000, 30_000];
    assert_eq!(measure(&toy(), &loads), measure(&toy(), &loads));
}

#[test]
fn latency_under_load_follows_the_points() {
    for (load, figure) in [(10_000, 85_000), (20_000, 90_000)] {
        let (reached, latency) = stream::loaded(&toy(), load);
        near("load", reached, load);
        near("latency", latency, figure);
    }
}

#[test]
fn one_core_of_one_socket_has_nobody_to_play_with() {
    let measured = measure(&round(1, 1), &[]);
    let none = PingPong { smt_ps: None, socket_ps: None, cross_ps: None };
    assert_eq!(measured.ping_pong, none);
    assert_eq!((measured.clean_ps, measured.link_bytes_per_us), (None, None));
    assert!(measured.dirty.is_empty());
}
