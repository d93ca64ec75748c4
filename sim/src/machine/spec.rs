//! A machine file as it is written. docs/MACHINES.md explains each field; [`Machine`] is what
//! becomes of them.
//!
//! [`Machine`]: super::Machine

use std::collections::BTreeMap;

use serde::Deserialize;

use super::figure::{Decimal, Figure, LoadPoint, Spread, Stated};

/// A machine file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What commands and results call it: small letters, digits and dashes.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Short names of sources, and what they stand for.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// What there is, and how it is connected.
    pub topology: TopologySpec,
    /// One core.
    pub core: CoreSpec,
    /// The caches.
    pub cache: CacheSpec,
    /// How long an access takes, by where the line is found; nothing else waits for it.
    pub latency: LatencySpec,
    /// How much can be moved, and what it costs when much is.
    pub bandwidth: BandwidthSpec,
    /// Measurements by others; compared with, never used.
    #[serde(default)]
    pub published: Published,
}

/// `[topology]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// Sockets; each is one memory node.
    pub sockets: Figure,
    /// Cores of one socket.
    pub cores_per_socket: Figure,
    /// Threads of one core: 1 or 2.
    pub threads_per_core: Figure,
    /// Memory of each node, MiB.
    pub node_memory_mib: Stated<Vec<Decimal>>,
    /// Distances as firmware tells them (SLIT); 10 is local.
    pub node_distances: Stated<Vec<Vec<Decimal>>>,
    /// Links between two sockets; 0 is the socket itself.
    pub socket_hops: Stated<Vec<Vec<Decimal>>>,
}

/// `[core]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSpec {
    /// Clock under load on all cores, MHz.
    pub clock_mhz: Figure,
    /// Clock with one or two CPUs at work, MHz. Left out: the same.
    pub turbo_mhz: Option<Figure>,
    /// Nominal clock, MHz: what the time stamp counter counts, and so "cycles" of benchmarks.
    pub tsc_mhz: Figure,
    /// Instructions a cycle where nothing misses the first-level cache.
    pub base_ipc: Figure,
    /// Instructions in flight: the reorder buffer.
    pub rob_instructions: Figure,
    /// Lines of the first-level cache on their way at once.
    pub fill_buffers: Figure,
    /// Stores on their way at once: the store buffer.
    pub store_buffer: Figure,
    /// Cycles of a `PAUSE`: so seldom a waiter looks at a lock. Left out: it looks all the time.
    pub pause_cycles: Option<Figure>,
    /// Two threads of a core together against one alone; without SMT, left out.
    pub smt_throughput: Option<Figure>,
    /// Whether a miss of the second-level cache also brings the other line of the 128-byte pair.
    pub adjacent_line_prefetch: Stated<bool>,
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// First level, data, of one core.
    pub l1d: LevelSpec,
    /// Second level, of one core.
    pub l2: LevelSpec,
    /// Last level, of one socket.
    pub llc: LlcSpec,
}

/// `[cache.l1d]` and `[cache.l2]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    /// Size, KiB.
    pub size_kib: Figure,
    /// Ways of a set.
    pub ways: Figure,
}

/// `[cache.llc]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlcSpec {
    /// Size in one socket, KiB.
    pub size_kib: Figure,
    /// Ways of a set.
    pub ways: Figure,
    /// Whether it holds what the cores' caches hold; if not, it is filled by what they evict.
    pub inclusive: Stated<bool>,
}

/// `[latency]`, load to use, nanoseconds. The lists have one figure per number of hops.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySpec {
    /// First-level hit.
    pub l1_ns: Figure,
    /// Second-level hit.
    pub l2_ns: Figure,
    /// Last-level hit in the own socket.
    pub llc_ns: Figure,
    /// A locked instruction on a line that the first level has and owns.
    pub locked_ns: Figure,
    /// DRAM of the own socket.
    pub dram_local_ns: Figure,
    /// DRAM of another socket.
    #[serde(default)]
    pub dram_remote_ns: Vec<Figure>,
    /// A line that the other thread of the core wrote; without SMT, left out.
    pub smt_transfer_ns: Option<Figure>,
    /// A clean line that only another core of the socket has.
    pub hit_socket_ns: Figure,
    /// A line that another core of the socket wrote.
    pub hitm_socket_ns: Figure,
    /// A line that a core of another socket wrote, of memory of the writer's node.
    #[serde(default)]
    pub hitm_remote_home_writer_ns: Vec<Figure>,
    /// The same, of memory of the reader's node.
    #[serde(default)]
    pub hitm_remote_home_reader_ns: Vec<Figure>,
    /// The same, of memory of a third node; from three sockets on.
    #[serde(default)]
    pub hitm_remote_home_third_ns: Vec<Figure>,
}

/// `[bandwidth]`, 10^9 bytes a second.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandwidthSpec {
    /// What the memory of one socket gives at most.
    pub dram_socket_gb_per_s: Figure,
    /// Latency of local DRAM by load of one socket's memory.
    pub dram_loaded: Vec<LoadPoint>,
    /// From one socket to another, one direction; with one socket, left out.
    pub link_gb_per_s: Option<Figure>,
}

/// `[published]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// One way of a compare-and-swap ping-pong between two threads of a core, ns.
    pub ping_pong_smt_ns: Option<Spread>,
    /// Between two cores of a socket, ns.
    pub ping_pong_socket_ns: Option<Spread>,
    /// Between two sockets, ns.
    pub ping_pong_cross_ns: Option<Spread>,
    /// Idle latency from each socket (row) to each node, ns.
    pub idle_latency_ns: Option<Stated<Vec<Vec<Decimal>>>>,
    /// Reads of all sockets from their own memory, GB/s.
    pub peak_bandwidth_gb_per_s: Option<Figure>,
}
