//! Which thread, core, socket and node a CPU number is, as Linux numbers CPUs of x86 servers: first
//! threads of all cores, socket by socket, then the second threads in the same order.

/// Sockets, cores and threads of a machine. Each socket is one memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Sockets, from 1.
    pub sockets: u32,
    /// Cores of one socket, from 1.
    pub cores_per_socket: u32,
    /// Threads of one core, 1 or 2.
    pub threads_per_core: u32,
}

impl Topology {
    /// Cores of the machine.
    #[must_use]
    pub const fn cores(self) -> u32 {
        self.sockets * self.cores_per_socket
    }

    /// CPUs (threads) of the machine.
    #[must_use]
    pub const fn cpus(self) -> u32 {
        self.cores() * self.threads_per_core
    }

    /// Core of a CPU, numbered over the whole machine, socket by socket.
    ///
    /// # Panics
    /// There is no such CPU; so in the functions below.
    #[must_use]
    pub const fn core_of(self, cpu: u32) -> u32 {
        assert!(cpu < self.cpus(), "no such CPU");
        cpu % self.cores()
    }

    /// Number of the thread of its core that a CPU is: 0 or 1.
    #[must_use]
    pub const fn thread_of(self, cpu: u32) -> u32 {
        assert!(cpu < self.cpus(), "no such CPU");
        cpu / self.cores()
    }

    /// Socket of a CPU.
    #[must_use]
    pub const fn socket_of(self, cpu: u32) -> u32 {
        self.core_of(cpu) / self.cores_per_socket
    }

    /// Memory node of a CPU: its socket.
    #[must_use]
    pub const fn node_of(self, cpu: u32) -> u32 {
        self.socket_of(cpu)
    }

    /// The other thread of the CPU's core.
    #[must_use]
    pub const fn sibling_of(self, cpu: u32) -> Option<u32> {
        assert!(cpu < self.cpus(), "no such CPU");
        match self.threads_per_core {
            1 => None,
            _ => Some((cpu + self.cores()) % self.cpus()),
        }
    }

    /// Whether two CPUs share a core; a CPU does with itself.
    #[must_use]
    pub const fn shares_core(self, a: u32, b: u32) -> bool {
        self.core_of(a) == self.core_of(b)
    }

    /// CPUs of a socket in ascending order.
    pub fn cpus_of(self, socket: u32) -> impl Iterator<Item = u32> {
        (0..self.cpus()).filter(move |cpu| self.socket_of(*cpu) == socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Topology = Topology { sockets: 2, cores_per_socket: 3, threads_per_core: 2 };

    #[test]
    fn first_threads_of_all_cores_come_first() {
        let cores: Vec<u32> = (0..TWO.cpus()).map(|cpu| TWO.core_of(cpu)).collect();
        assert_eq!(cores, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
        let sockets: Vec<u32> = (0..TWO.cpus()).map(|cpu| TWO.socket_of(cpu)).collect();
        assert_eq!(sockets, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
        assert_eq!((TWO.thread_of(5), TWO.thread_of(6), TWO.node_of(9)), (0, 1, 1));
        assert_eq!(TWO.cpus_of(1).collect::<Vec<_>>(), [3, 4, 5, 9, 10, 11]);
    }

    #[test]
    fn siblings_name_each_other() {
        for cpu in 0..TWO.cpus() {
            let sibling = TWO.sibling_of(cpu).unwrap();
            assert_ne!(sibling, cpu);
            assert_eq!(TWO.sibling_of(sibling), Some(cpu));
            assert!(TWO.shares_core(cpu, sibling));
        }
        let single = Topology { threads_per_core: 1, ..TWO };
        assert_eq!((single.cpus(), single.sibling_of(2)), (6, None));
        assert!(!single.shares_core(2, 3));
    }

    #[test]
    #[should_panic(expected = "no such CPU")]
    fn a_cpu_beyond_the_last_is_a_mistake() {
        let _ = TWO.core_of(12);
    }
}
