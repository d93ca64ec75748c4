//! How far a CPU runs ahead of the memory it waits for.
//!
//! Loads do not stop a CPU, a full window does: it may run ahead of its oldest outstanding load by
//! the instructions of its reorder buffer, with as many lines outstanding as it has fill buffers.
//! Stores wait in their own buffer and become visible in order. Locked instructions wait for all.

use std::collections::VecDeque;

/// The instruction that waits for a prefetched line: none.
const NOBODY: u64 = u64::MAX / 2;

/// Loads that are remembered before those that have ended are forgotten.
const LOADS: usize = 32;

/// A load under way.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The instruction that asked.
    at: u64,
    /// When the value is known.
    done: u64,
    /// It has a fill buffer of its own.
    fills: bool,
}

/// What the window of a CPU is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Femtoseconds an instruction takes when nothing is waited for.
    pub instruction_fs: u64,
    /// Instructions in the reorder buffer.
    pub reorder: u64,
    /// Lines that may be outstanding.
    pub fill_buffers: usize,
    /// Stores that may wait to become visible.
    pub store_buffer: usize,
}

/// The time of a CPU and what it is waiting for. Times are picoseconds.
#[derive(Clone, Debug)]
pub struct Window {
    shape: Shape,
    now: u64,
    rest_fs: u64,
    instructions: u64,
    /// Loads under way. Some that are here already may be among them: nobody waits for these.
    loads: Vec<Load>,
    /// The oldest instruction among them.
    oldest: u64,
    /// When the last of all loads is done. Those that were forgotten are done by now.
    latest: u64,
    /// When each waiting store becomes visible; ascending.
    stores: VecDeque<u64>,
    visible: u64,
}

impl Window {
    /// A CPU that waits for nothing, at time 0.
    #[must_use]
    pub fn new(shape: Shape) -> Window {
        let (loads, stores) = (Vec::with_capacity(LOADS), VecDeque::new());
        let (now, rest_fs, instructions, visible, oldest, latest) = (0, 0, 0, 0, NOBODY, 0);
        Window { shape, now, rest_fs, instructions, loads, oldest, latest, stores, visible }
    }

    /// Another thread works on the same core: of the reorder buffer and the store buffer each has a
    /// half, whatever it does, unless it sleeps (Intel's optimisation manual, Hyper-Threading
    /// Technology, partitioned resources).
    pub fn share(&mut self, shape: Shape) {
        let (reorder, store_buffer) = (shape.reorder / 2, shape.store_buffer / 2);
        self.shape = Shape { reorder, store_buffer, ..shape };
    }

    /// Time of this CPU.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Waits until a time.
    pub fn wait_until(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Executes instructions, of which no more than the reorder buffer holds run ahead of a load;
    /// `slower` thousandths of the time they take alone (1000: no slower).
    #[inline]
    pub fn execute(&mut self, instructions: u64, slower: u64) {
        if self.oldest + self.shape.reorder < self.instructions + instructions {
            self.execute_behind_loads(instructions, slower);
        } else {
            self.issue(instructions, slower);
        }
    }

    /// Issues instructions for which the reorder buffer has room.
    #[inline]
    fn issue(&mut self, instructions: u64, slower: u64) {
        self.instructions += instructions;
        let fs = instructions * self.shape.instruction_fs * slower / 1000 + self.rest_fs;
        self.now += fs / 1000;
        self.rest_fs = fs % 1000;
    }

    /// The reorder buffer fills up on the way: from there on, all wait for the oldest load.
    #[inline(never)]
    fn execute_behind_loads(&mut self, mut instructions: u64, slower: u64) {
        let reorder = self.shape.reorder;
        while self.oldest + reorder < self.instructions + instructions {
            let room = (self.oldest + reorder).saturating_sub(self.instructions);
            self.issue(room, slower);
            instructions -= room;
            let full = self.instructions - reorder;
            let waited_for = self.loads.iter().filter(|load| load.at <= full);
            let known = waited_for.map(|load| load.done).max();
            self.now = self.now.max(known.unwrap_or(0));
            self.keep(|load| load.at > full);
        }
        self.issue(instructions, slower);
    }

    /// Forgets loads.
    fn keep(&mut self, keep: impl Fn(&Load) -> bool) {
        self.loads.retain(|load| keep(load));
        self.oldest = self.loads.iter().map(|load| load.at).min().unwrap_or(NOBODY);
    }

    /// Asks for a line that arrives after `latency`.
    #[inline(never)]
    pub fn load(&mut self, latency: u64) {
        self.make_room();
        self.push(self.instructions, latency, true);
    }

    fn push(&mut self, at: u64, latency: u64, fills: bool) {
        let done = self.now + latency;
        self.oldest = self.oldest.min(at);
        if at != NOBODY {
            self.latest = self.latest.max(done);
        }
        self.loads.push(Load { at, done, fills });
    }

    /// Loads a value that is known after `latency`: its line was asked for before, or it is here
    /// and its address is not known yet.
    #[inline(never)]
    pub fn wait_for(&mut self, latency: u64) {
        if self.loads.len() >= LOADS {
            let now = self.now;
            self.keep(|load| load.done > now);
        }
        self.push(self.instructions, latency, false);
    }

    /// Asks for a line that nothing waits for: it takes a fill buffer, but not the window.
    pub fn prefetch(&mut self, latency: u64) {
        self.make_room();
        self.push(NOBODY, latency, true);
    }

    fn filling(&self) -> usize {
        self.loads.iter().filter(|load| load.fills).count()
    }

    fn make_room(&mut self) {
        let (now, buffers) = (self.now, self.shape.fill_buffers);
        if self.loads.len() >= buffers {
            self.keep(|load| load.done > now);
        }
        while self.loads.len() >= buffers && self.filling() >= buffers {
            let fills = self.loads.iter().filter(|load| load.fills).map(|load| load.done);
            let first = fills.min().unwrap_or(self.now);
            self.now = self.now.max(first);
            self.keep(|load| load.done > first);
        }
    }

    /// When every value that was loaded is known: a time that may have passed.
    #[must_use]
    pub fn loaded(&self) -> u64 {
        self.latest
    }

    /// Writes to a line that can be written after `latency`. Others see a store after all that was
    /// stored before, and once all that was loaded before is known.
    #[inline(never)]
    pub fn store(&mut self, latency: u64) {
        while self.stores.front().is_some_and(|&visible| visible <= self.now) {
            self.stores.pop_front();
        }
        if self.stores.len() >= self.shape.store_buffer
            && let Some(first) = self.stores.pop_front()
        {
            self.now = self.now.max(first);
        }
        self.visible = self.visible.max(self.now + latency).max(self.loaded());
        self.stores.push_back(self.visible);
    }

    /// Writes to a line that is here: only behind a store whose line is away does it wait.
    #[inline]
    pub fn store_here(&mut self) {
        if self.visible > self.now {
            self.store(0);
        }
    }

    /// When the last store becomes visible, at the earliest now.
    #[must_use]
    pub fn visible(&self) -> u64 {
        self.visible.max(self.now)
    }

    /// Waits for every load and store, as a locked instruction does.
    pub fn fence(&mut self) {
        self.now = self.now.max(self.loaded()).max(self.visible);
        let now = self.now;
        self.keep(|load| load.at == NOBODY && load.done > now);
        self.stores.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { instruction_fs: 200_000, reorder: 224, fill_buffers: 10, store_buffer: 56 };

    #[test]
    fn misses_within_the_reorder_buffer_overlap() {
        let mut window = Window::new(SHAPE);
        for _ in 0..4 {
            window.load(80_000);
            window.execute(50, 1000);
        }
        // 200 instructions of 0.2 ns: the first miss is still under way, nothing was waited for.
        assert_eq!(window.now(), 40_000);
        window.execute(50, 1000);
        assert_eq!(window.now(), 85_200, "full after 24: wait for the first, then the other 26");
        window.fence();
        assert_eq!(window.now(), 110_000, "the last was asked for at 30 ns");
    }

    #[test]
    fn what_is_executed_at_once_waits_where_the_buffer_is_full() {
        // 224 instructions run ahead of the load, in 44.8 ns; the other 276 take 55.2 ns after it.
        let mut window = Window::new(SHAPE);
        window.load(80_000);
        window.execute(500, 1000);
        assert_eq!(window.now(), 80_000 + 55_200);
        let mut parts = Window::new(SHAPE);
        parts.load(80_000);
        (0..500).for_each(|_| parts.execute(1, 1000));
        assert_eq!(parts.now(), window.now());
        // Two loads that fill it one after the other.
        let mut window = Window::new(SHAPE);
        window.load(80_000);
        window.execute(100, 1000);
        window.load(100_000);
        window.execute(400, 1000);
        assert_eq!(window.now(), 120_000 + 35_200, "the second was asked for at 20 ns");
    }

    #[test]
    fn fill_buffers_bound_the_lines_outstanding() {
        let mut window = Window::new(SHAPE);
        for _ in 0..10 {
            window.load(100_000);
        }
        assert_eq!(window.now(), 0);
        window.load(100_000);
        assert_eq!(window.now(), 100_000);
    }

    #[test]
    fn stores_become_visible_in_order_and_stop_nobody() {
        let mut window = Window::new(SHAPE);
        window.store(100_000);
        window.store(0);
        assert_eq!((window.now(), window.visible()), (0, 100_000));
        window.fence();
        assert_eq!(window.now(), 100_000);
    }
}
