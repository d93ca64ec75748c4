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
