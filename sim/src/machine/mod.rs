//! What a modelled machine is: the figures of its file, checked, in whole numbers of the units that
//! the model counts in. Start here; `load` tells where a [`Spec`] comes from.

mod builtin;
pub mod check;
pub mod figure;
mod figures;
pub mod load;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod vary;

use std::path::Path;

pub use load::{MachineError, find, names};
pub use spec::{Published, Spec};
pub use topology::Topology;

use figure::{Decimal, Figure};

/// CPUs at work at the most for the turbo clock: the first step of the tables of all processors
/// that are bundled is for one and two cores.
const TURBO_CPUS: usize = 2;

/// A modelled machine. What it says is consistent: `load` refuses what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What commands and results call it.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Sockets, cores, threads.
    pub topology: Topology,
    /// Clock, kHz: a cycle is 10^9 / this in picoseconds.
    pub clock_khz: u64,
    /// Clock with one or two CPUs at work, kHz.
    pub turbo_khz: u64,
    /// Nominal clock, kHz: what the time stamp counter counts.
    pub tsc_khz: u64,
    /// One core.
    pub core: Core,
    /// First-level data cache of one core.
    pub l1d: Cache,
    /// Second-level cache of one core.
    pub l2: Cache,
    /// Last-level cache of one socket.
    pub llc: Cache,
    /// Whether the last level holds what the cores' caches hold. If not, lines enter it when a core
    /// evicts them.
    pub llc_is_inclusive: bool,
    /// Latencies without load.
    pub latency: Latency,
    /// Bandwidth of memory and links.
    pub bandwidth: Bandwidth,
    /// Memory of each node, bytes.
    pub node_memory_bytes: Vec<u64>,
    /// Distances between nodes as firmware tells them, row by row; 10 is local.
    pub distances: Vec<u32>,
    /// Links between sockets, row by row; 0 is the socket itself.
    pub hops: Vec<u32>,
    /// Measurements by others. Nothing of the model may read them; checks compare with them.
    pub published: Published,
}

/// What a core can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Instructions a cycle without misses, thousandths.
    pub base_ipc_thousandths: u64,
    /// Instructions that may be in flight behind the oldest miss.
    pub rob_instructions: u32,
    /// Misses of the first level that may be outstanding.
    pub fill_buffers: u32,
    /// Stores that may be outstanding.
    pub store_buffer: u32,
    /// Cycles of a `PAUSE`, with which a waiter looks at a lock; 0: it looks all the time.
    pub pause_cycles: u32,
    /// Two threads together against one alone, thousandths, 1000 to 2000; 1000 without SMT.
    pub smt_throughput_thousandths: u64,
    /// Whether a miss of the second level brings the other line of its 128-byte pair as well.
    pub adjacent_line_prefetch: bool,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Size.
    pub bytes: u64,
    /// Ways of a set.
    pub ways: u32,
}

impl Cache {
    /// Lines it holds.
    #[must_use]
    pub const fn lines(self) -> u64 {
        self.bytes / check::LINE_BYTES
    }

    /// Sets; not always a power of two, as last levels come in one slice a core.
    #[must_use]
    pub const fn sets(self) -> u64 {
        self.lines() / self.ways as u64
    }
}

/// Load-to-use latencies without load, picoseconds. The lists have an entry for each number of
/// hops, beginning with one; with one socket they are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// First-level hit.
    pub l1_ps: u64,
    /// Second-level hit.
    pub l2_ps: u64,
    /// Last-level hit in the own socket.
    pub llc_ps: u64,
    /// A locked instruction on a line that the first level has and owns.
    pub locked_ps: u64,
    /// Memory of the own node.
    pub dram_local_ps: u64,
    /// Memory of another node.
    pub dram_remote_ps: Vec<u64>,
    /// A line that the sibling thread wrote; `None` without SMT.
    pub smt_transfer_ps: Option<u64>,
    /// A clean line that only another core of the socket has.
    pub hit_socket_ps: u64,
    /// A line that another core of the socket wrote.
    pub hitm_socket_ps: u64,
    /// A line that another socket wrote, home at the writer.
    pub hitm_remote_home_writer_ps: Vec<u64>,
    /// A line that another socket wrote, home at the reader.
    pub hitm_remote_home_reader_ps: Vec<u64>,
    /// A line that another socket wrote, home at a third; empty with two sockets.
    pub hitm_remote_home_third_ps: Vec<u64>,
}

/// What memory and links carry. A byte a microsecond is 10^6 bytes a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Memory of one socket at most, bytes a microsecond.
    pub dram_socket_bytes_per_us: u64,
    /// Load of one socket's memory in bytes a microsecond, rising, and local latency there in
    /// picoseconds, not falling. Without load it is [`Latency::dram_local_ps`].
    pub dram_loaded: Vec<(u64, u64)>,
    /// One link, one direction, bytes a microsecond; `None` with one socket.
    pub link_bytes_per_us: Option<u64>,
}

impl Machine {
    /// The machine of a bundled name, or of the path of a file.
    ///
    /// # Errors
    /// See [`MachineError`].
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        find(name).map(|spec| Machine::from_checked(&spec))
    }

    /// The machine of a file.
    ///
    /// # Errors
    /// See [`MachineError`].
    pub fn read(path: &Path) -> Result<Machine, MachineError> {
        load::read(path).map(|spec| Machine::from_checked(&spec))
    }

    /// The machine of a spec that was changed after it was read.
    ///
    /// # Errors
    /// Path of the field that is wrong, and what is wrong with it.
    pub fn from_spec(spec: &Spec) -> Result<Machine, check::Finding> {
        check::check(spec)?;
        Ok(Machine::from_checked(spec))
    }

    fn from_checked(spec: &Spec) -> Machine {
        let topology = Topology {
            sockets: count(&spec.topology.sockets),
            cores_per_socket: count(&spec.topology.cores_per_socket),
            threads_per_core: count(&spec.topology.threads_per_core),
        };
        let smt = spec.core.smt_throughput.as_ref();
        let core = Core {
            base_ipc_thousandths: spec.core.base_ipc.value.thousandths(),
            rob_instructions: count(&spec.core.rob_instructions),
            fill_buffers: count(&spec.core.fill_buffers),
            store_buffer: count(&spec.core.store_buffer),
            pause_cycles: spec.core.pause_cycles.as_ref().map_or(0, count),
            smt_throughput_thousandths: smt.map_or(1000, |smt| smt.value.thousandths()),
            adjacent_line_prefetch: spec.core.adjacent_line_prefetch.value,
        };
        let memory = spec.topology.node_memory_mib.value.iter();
        Machine {
            name: spec.name.clone(),
            title: spec.title.clone(),
            topology,
            clock_khz: spec.core.clock_mhz.value.thousandths(),
            turbo_khz: spec
                .core
                .turbo_mhz
                .as_ref()
                .unwrap_or(&spec.core.clock_mhz)
                .value
                .thousandths(),
            tsc_khz: spec.core.tsc_mhz.value.thousandths(),
            core,
            l1d: cache(&spec.cache.l1d.size_kib, &spec.cache.l1d.ways),
            l2: cache(&spec.cache.l2.size_kib, &spec.cache.l2.ways),
            llc: cache(&spec.cache.llc.size_kib, &spec.cache.llc.ways),
            llc_is_inclusive: spec.cache.llc.inclusive.value,
            latency: latency(&spec.latency),
            bandwidth: bandwidth(&spec.bandwidth),
            node_memory_bytes: memory.map(|mib| whole(*mib) << 20).collect(),
            distances: flat(&spec.topology.node_distances.value),
            hops: flat(&spec.topology.socket_hops.value),
            published: spec.published.clone(),
        }
    }

    /// The machine as it is with so many CPUs at work: one or two run at the turbo clock. What a
    /// core does by itself takes as many cycles as before; what is beyond it does not get faster.
    #[must_use]
    pub fn with_at_work(&self, cpus: usize) -> Machine {
        let mut machine = self.clone();
        if cpus <= TURBO_CPUS {
            let latency = &mut machine.latency;
            let own = |ps: u64| ps * self.clock_khz / self.turbo_khz;
            latency.llc_ps = latency.llc_ps - latency.l2_ps + own(latency.l2_ps);
            (latency.l1_ps, latency.l2_ps) = (own(latency.l1_ps), own(latency.l2_ps));
            latency.locked_ps = own(latency.locked_ps);
            machine.clock_khz = self.turbo_khz;
        }
        machine
    }

    /// CPUs of the machine.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.topology.cpus()
    }

    /// Socket of a CPU.
    #[must_use]
    pub fn socket_of(&self, cpu: u32) -> u32 {
        self.topology.socket_of(cpu)
    }

    /// Core of a CPU, numbered over the whole machine.
    #[must_use]
    pub fn core_of(&self, cpu: u32) -> u32 {
        self.topology.core_of(cpu)
    }

    /// Distance between two nodes as firmware tells it.
    #[must_use]
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        self.distances[(a * self.topology.sockets + b) as usize]
    }

    /// Links between two sockets.
    #[must_use]
    pub fn hops(&self, a: u32, b: u32) -> u32 {
        self.hops[(a * self.topology.sockets + b) as usize]
    }

    /// Latency of a node's memory from a socket, without load, picoseconds.
    #[must_use]
    pub fn dram_ps(&self, socket: u32, node: u32) -> u64 {
        match self.hops(socket, node) {
            0 => self.latency.dram_local_ps,
            hops => self.latency.dram_remote_ps[hops as usize - 1],
        }
    }

    /// Latency of a line that another core wrote, by the sockets of reader and writer and the home
    /// node of the line, picoseconds.
    #[must_use]
    pub fn hitm_ps(&self, reader: u32, writer: u32, home: u32) -> u64 {
        let latency = &self.latency;
        let list = match self.hops(reader, writer) {
            0 => return latency.hitm_socket_ps,
            _ if home == writer => &latency.hitm_remote_home_writer_ps,
            _ if home == reader => &latency.hitm_remote_home_reader_ps,
            _ => &latency.hitm_remote_home_third_ps,
        };
        list[self.hops(reader, writer) as usize - 1]
    }
}

/// A count that the check has found whole and small.
fn count(figure: &Figure) -> u32 {
    u32::try_from(whole(figure.value)).expect("checked: a small count")
}

fn whole(number: Decimal) -> u64 {
    number.as_whole().expect("checked: a whole number")
}

fn cache(size_kib: &Figure, ways: &Figure) -> Cache {
    Cache { bytes: whole(size_kib.value) << 10, ways: count(ways) }
}

fn flat(rows: &[Vec<Decimal>]) -> Vec<u32> {
    let numbers = rows.iter().flatten();
    numbers.map(|number| u32::try_from(whole(*number)).expect("checked: up to 254")).collect()
}

fn latency(spec: &spec::LatencySpec) -> Latency {
    let ps = |figure: &Figure| figure.value.thousandths();
    let list = |figures: &[Figure]| figures.iter().map(ps).collect();
    Latency {
        l1_ps: ps(&spec.l1_ns),
        l2_ps: ps(&spec.l2_ns),
        llc_ps: ps(&spec.llc_ns),
        locked_ps: ps(&spec.locked_ns),
        dram_local_ps: ps(&spec.dram_local_ns),
        dram_remote_ps: list(&spec.dram_remote_ns),
        smt_transfer_ps: spec.smt_transfer_ns.as_ref().map(ps),
        hit_socket_ps: ps(&spec.hit_socket_ns),
        hitm_socket_ps: ps(&spec.hitm_socket_ns),
        hitm_remote_home_writer_ps: list(&spec.hitm_remote_home_writer_ns),
        hitm_remote_home_reader_ps: list(&spec.hitm_remote_home_reader_ns),
        hitm_remote_home_third_ps: list(&spec.hitm_remote_home_third_ns),
    }
}

fn bandwidth(spec: &spec::BandwidthSpec) -> Bandwidth {
    let points = spec.dram_loaded.iter();
    Bandwidth {
        dram_socket_bytes_per_us: spec.dram_socket_gb_per_s.value.thousandths(),
        dram_loaded: points
            .map(|point| (point.gb_per_s.thousandths(), point.ns.value.thousandths()))
            .collect(),
        link_bytes_per_us: spec.link_gb_per_s.as_ref().map(|link| link.value.thousandths()),
    }
}
