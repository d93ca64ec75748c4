//! What the engine needs to know of a machine, as plain whole numbers.

use crate::machine::{Cache, Machine};
use crate::tags;
use crate::window;

/// Figures of a machine. Times are picoseconds.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Sockets; each is a node.
    pub sockets: usize,
    /// Cores of a socket.
    pub cores_per_socket: usize,
    /// Threads of a core.
    pub threads_per_core: usize,
    /// Window of a thread.
    pub window: window::Shape,
    /// Time of an instruction while the sibling thread works too, in thousandths of the time alone.
    pub smt_slower: u64,
    /// First-level data cache of a core.
    pub l1: tags::Shape,
    /// Second-level cache of a core.
    pub l2: tags::Shape,
    /// Last-level cache of a socket.
    pub llc: tags::Shape,
    /// The last-level cache holds whatever the caches above it hold.
    pub llc_inclusive: bool,
    /// The second-level cache fetches the other half of 128 bytes too.
    pub adjacent_line: bool,
    /// A line in the first-level cache.
    pub l1_ps: u64,
    /// In the second.
    pub l2_ps: u64,
    /// In the last.
    pub llc_ps: u64,
    /// A clean line that only another core of the socket has.
    pub clean_socket_ps: u64,
    /// From memory, by socket that asks and home socket.
    pub dram_ps: Vec<Vec<u64>>,
    /// Written by another core, by socket that asks, socket that wrote and home.
    pub dirty_ps: Vec<Vec<Vec<u64>>>,
    /// What a locked instruction takes on a line that the core owns.
    pub atomic_ps: u64,
    /// What it takes longer if the other thread of the core had the line for one last.
    pub sibling_ps: u64,
    /// Time between two looks of a waiter at a lock: a `PAUSE`. 0: it looks all the time.
    pub pause_ps: u64,
    /// Time lost when a branch was guessed wrong, after what it depends on is known.
    pub mispredict_ps: u64,
    /// What an indirect call takes more in a kernel with retpolines.
    pub retpoline_ps: u64,
    /// Latency of memory under load: bytes a microsecond of one socket, and the latency there; by
    /// load, the first being idle.
    pub loaded: Vec<(u64, u64)>,
    /// What the memory of a socket gives at most, bytes a microsecond; 0 is no limit.
    pub dram_bytes_per_us: u64,
    /// What goes from one socket to another at most, bytes a microsecond; 0 is no limit.
    pub link_bytes_per_us: u64,
}

/// Lines of memory that a core has under way while it goes through a page: the prefetcher of the
/// second level runs ahead, so that the queue behind that cache is the limit, and not the fill
/// buffers of the first. 16 entries (P. Cordes, stackoverflow.com/questions/39260020). One core of
/// an i7-6700HQ copies 15 GB/s from memory to memory with `rep movsb`, both directions added
/// (stackoverflow.com/questions/43343231): 65 ns over 16 lines give 15.8.
pub const STREAM_LINES: u64 = 16;

/// Cycles lost by a branch that was guessed wrong: 15 to 20 from Haswell to Ice Lake (Fog, The
/// microarchitecture of Intel and AMD CPUs, 2023).
const MISPREDICT_CYCLES: u64 = 16;

/// Cycles that a call through a retpoline takes more than a direct one: its return is guessed wrong
/// by design, and waits for the address that was stored over its own. Measured on a server core of
/// Intel (user space, 2.5 GHz nominal): 34, 37.
const RETPOLINE_CYCLES: u64 = 34;

impl Costs {
    /// The figures of a machine file.
    #[must_use]
    pub fn of(machine: &Machine) -> Costs {
        let sockets = machine.topology.sockets;
        let cycle_fs = 1_000_000_000_000 / machine.clock_khz;
        let shape = |cache: Cache| tags::Shape::of(cache.bytes, u64::from(cache.ways));
        let all = || 0..sockets;
        let by_home = |a, b| all().map(move |home| machine.hitm_ps(a, b, home)).collect();
        let idle = (0, machine.latency.dram_local_ps);
        Costs {
            sockets: sockets as usize,
            cores_per_socket: machine.topology.cores_per_socket as usize,
            threads_per_core: machine.topology.threads_per_core as usize,
            window: window::Shape {
                instruction_fs: cycle_fs * 1000 / machine.core.base_ipc_thousandths,
                reorder: u64::from(machine.core.rob_instructions),
                fill_buffers: machine.core.fill_buffers as usize,
                store_buffer: machine.core.store_buffer as usize,
            },
            smt_slower: 2_000_000 / machine.core.smt_throughput_thousandths.max(1),
            l1: shape(machine.l1d),
            l2: shape(machine.l2),
            llc: shape(machine.llc),
            llc_inclusive: machine.llc_is_inclusive,
            adjacent_line: machine.core.adjacent_line_prefetch,
            l1_ps: machine.latency.l1_ps,
            l2_ps: machine.latency.l2_ps,
            llc_ps: machine.latency.llc_ps,
            clean_socket_ps: machine.latency.hit_socket_ps,
            dram_ps: all().map(|a| all().map(|b| machine.dram_ps(a, b)).collect()).collect(),
            dirty_ps: all().map(|a| all().map(|b| by_home(a, b)).collect()).collect(),
            atomic_ps: machine.latency.locked_ps,
            sibling_ps: machine.latency.smt_transfer_ps.unwrap_or(0),
            pause_ps: u64::from(machine.core.pause_cycles) * cycle_fs / 1000,
            mispredict_ps: MISPREDICT_CYCLES * cycle_fs / 1000,
            retpoline_ps: RETPOLINE_CYCLES * cycle_fs / 1000,
            dram_bytes_per_us: machine.bandwidth.dram_socket_bytes_per_us,
            link_bytes_per_us: machine.bandwidth.link_bytes_per_us.unwrap_or(0),
            loaded: [idle].into_iter().chain(machine.bandwidth.dram_loaded.clone()).collect(),
        }
    }

    /// Hardware threads.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.sockets * self.cores_per_socket * self.threads_per_core
    }

    /// Cores of all sockets.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket
    }

    /// Core of a CPU: first threads first, socket by socket, then their siblings.
    #[must_use]
    pub fn core_of(&self, cpu: usize) -> usize {
        cpu % self.cores()
    }

    /// Socket of a core.
    #[must_use]
    pub fn socket_of(&self, core: usize) -> usize {
        core / self.cores_per_socket
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 50 ns in a socket; across, 110 ns if the writer is at home and 170 ns if not.
    pub(crate) fn dirty(sockets: usize) -> Vec<Vec<Vec<u64>>> {
        let cost = |a, b, home| match (a == b, b == home) {
            (true, _) => 50_000,
            (_, true) => 110_000,
            _ => 170_000,
        };
        let by_home = |a, b| (0..sockets).map(|home| cost(a, b, home)).collect();
        (0..sockets).map(|a| (0..sockets).map(|b| by_home(a, b)).collect()).collect()
    }

    /// A small machine with round figures, for tests.
    pub(crate) fn round(sockets: usize, cores_per_socket: usize) -> Costs {
        let far = |near: u64, far: u64| {
            let row = |a| (0..sockets).map(|b| if a == b { near } else { far }).collect();
            (0..sockets).map(row).collect::<Vec<Vec<u64>>>()
        };
        Costs {
            sockets,
            cores_per_socket,
            threads_per_core: 1,
            window: window::Shape {
                instruction_fs: 200_000,
                reorder: 224,
                fill_buffers: 10,
                store_buffer: 56,
            },
            smt_slower: 1000,
            l1: tags::Shape { sets: 64, ways: 8 },
            l2: tags::Shape { sets: 1024, ways: 16 },
            llc: tags::Shape { sets: 4096, ways: 16 },
            llc_inclusive: false,
            adjacent_line: false,
            l1_ps: 1_000,
            l2_ps: 5_000,
            llc_ps: 20_000,
            clean_socket_ps: 20_000,
            dram_ps: far(80_000, 140_000),
            dirty_ps: dirty(sockets),
            atomic_ps: 6_000,
            sibling_ps: 2_000,
            pause_ps: 0,
            mispredict_ps: 6_000,
            retpoline_ps: 12_000,
            loaded: Vec::new(),
            dram_bytes_per_us: 0,
            link_bytes_per_us: 0,
        }
    }
}
