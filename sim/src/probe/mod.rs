//! Micro-benchmarks on the model: what its own ping-pong, pointer chases and streams measure.
//!
//! They use virtual CPUs and lines as the allocator does, and never look at the figures that they
//! are held against. [`measure`] runs them all on one machine; the same machine gives the same
//! picoseconds.

mod bench;
mod chase;
mod ping_pong;
mod stream;
#[cfg(test)]
mod tests;

use crate::costs::Costs;

/// Everything that was measured on a machine. Times are picoseconds, rates bytes a microsecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// One way of a compare-and-swap ping-pong.
    pub ping_pong: PingPong,
    /// A load from the first-level cache.
    pub l1_ps: u64,
    /// From the second.
    pub l2_ps: u64,
    /// From the last.
    pub llc_ps: u64,
    /// A locked instruction on a line that the core owns.
    pub locked_ps: u64,
    /// Dependent loads over more than the caches hold, by socket that asks and node.
    pub idle_ps: Vec<Vec<u64>>,
    /// A line that another core of the socket loaded from memory, and nobody else has.
    pub clean_ps: Option<u64>,
    /// Lines that another core wrote, by where it is and where their memory is.
    pub dirty: Vec<Dirty>,
    /// One thread of each core of a socket reads pages of its own node, all together.
    pub pages_bytes_per_us: u64,
    /// The same with one load a line, in order of addresses, so that prefetchers help.
    pub lines_bytes_per_us: u64,
    /// One thread of each core of a socket reads pages of the next socket's node.
    pub link_bytes_per_us: Option<u64>,
    /// Dependent loads while other cores stream from the same memory: load, and latency there.
    pub loaded: Vec<(u64, u64)>,
}

/// One way of a ping-pong between two threads, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingPong {
    /// Of a core; `None` without SMT.
    pub smt_ps: Option<u64>,
    /// On two cores of a socket; `None` with one core.
    pub socket_ps: Option<u64>,
    /// On two sockets; `None` with one.
    pub cross_ps: Option<u64>,
}

/// Latency of lines that another core wrote, by sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// Socket that loads.
    pub reader: usize,
    /// Socket that wrote.
    pub writer: usize,
    /// Socket whose memory it is.
    pub home: usize,
    /// Dependent load, picoseconds.
    pub ps: u64,
}

/// Measures a machine. The loads of [`Measured::loaded`] are near those of `loads` (bytes a
/// microsecond); what was reached is in the result.
#[must_use]
pub fn measure(costs: &Costs, loads: &[u64]) -> Measured {
    let (l1_ps, l2_ps, llc_ps) = chase::caches(costs);
    Measured {
        ping_pong: ping_pong::measure(costs),
        l1_ps,
        l2_ps,
        llc_ps,
        locked_ps: ping_pong::alone(costs),
        idle_ps: chase::idle(costs),
        clean_ps: (costs.cores_per_socket > 1).then(|| chase::clean(costs)),
        dirty: chase::dirty(costs),
        pages_bytes_per_us: stream::pages(costs, 0),
        lines_bytes_per_us: stream::lines(costs),
        link_bytes_per_us: (costs.sockets > 1).then(|| stream::pages(costs, 1)),
        loaded: loads.iter().map(|&load| stream::loaded(costs, load)).collect(),
    }
}
