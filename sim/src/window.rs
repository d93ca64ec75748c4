//! How far a CPU runs ahead of the memory it waits for.
//!
//! Loads do not stop a CPU, a full window does: it may run ahead of its oldest outstanding load by
//! the instructions of its reorder buffer, with as many lines outstanding as it has fill buffers.
//! Stores wait in their own buffer and become visible in order. Locked instructions wait for all.

use std::collections::VecDeque;

/// The instruction that waits for a prefetched line: none.
const NOBODY: u64 = u64::MAX / 2;

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
    /// Loads under way: the instruction that asked, and when the line arrives. Some that are here
    /// already may be among them: nobody waits for these.
    loads: Vec<(u64, u64)>,
    /// The oldest instruction among them.
    oldest: u64,
    /// When each waiting store becomes visible; ascending.
    stores: VecDeque<u64>,
    visible: u64,
}

impl Window {
    /// A CPU that waits for nothing, at time 0.
    #[must_use]
    pub fn new(shape: Shape) -> Window {
        let (loads, stores) = (Vec::with_capacity(shape.fill_buffers + 1), VecDeque::new());
        let (now, rest_fs, instructions, visible, oldest) = (0, 0, 0, 0, NOBODY);
        Window { shape, now, rest_fs, instructions, loads, oldest, stores, visible }
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

    /// Executes instructions; `slower` thousandths of the time they take alone (1000: no slower).
    pub fn execute(&mut self, instructions: u64, slower: u64) {
        self.instructions += instructions;
        let fs = instructions * self.shape.instruction_fs * slower / 1000 + self.rest_fs;
        self.now += fs / 1000;
        self.rest_fs = fs % 1000;
        let (reorder, instructions) = (self.shape.reorder, self.instructions);
        let full = |at: u64| at + reorder < instructions;
        if full(self.oldest) {
            let last = self.loads.iter().filter(|&&(at, _)| full(at)).map(|&(_, done)| done);
            self.now = self.now.max(last.max().unwrap_or(0));
            self.keep(|at, _| !full(at));
        }
    }

    /// Forgets loads.
    fn keep(&mut self, keep: impl Fn(u64, u64) -> bool) {
        self.loads.retain(|&(at, done)| keep(at, done));
        self.oldest = self.loads.iter().map(|&(at, _)| at).min().unwrap_or(NOBODY);
    }

    /// Asks for a line that arrives after `latency`.
    pub fn load(&mut self, latency: u64) {
        self.make_room();
        self.oldest = self.oldest.min(self.instructions);
        self.loads.push((self.instructions, self.now + latency));
    }

    /// Asks for a line that nothing waits for: it takes a fill buffer, but not the window.
    pub fn prefetch(&mut self, latency: u64) {
        self.make_room();
        self.loads.push((NOBODY, self.now + latency));
    }

    fn make_room(&mut self) {
        let (now, buffers) = (self.now, self.shape.fill_buffers);
        if self.loads.len() >= buffers {
            self.keep(|_, done| done > now);
        }
        while self.loads.len() >= buffers {
            let first = self.loads.iter().map(|&(_, done)| done).min().unwrap_or(self.now);
            self.now = self.now.max(first);
            self.keep(|_, done| done > first);
        }
    }

    /// Writes to a line that can be written after `latency`.
    pub fn store(&mut self, latency: u64) {
        while self.stores.front().is_some_and(|&visible| visible <= self.now) {
            self.stores.pop_front();
        }
        if self.stores.len() >= self.shape.store_buffer
            && let Some(first) = self.stores.pop_front()
        {
            self.now = self.now.max(first);
        }
        self.visible = self.visible.max(self.now + latency);
        self.stores.push_back(self.visible);
    }

    /// When the last store becomes visible, at the earliest now.
    #[must_use]
    pub fn visible(&self) -> u64 {
        self.visible.max(self.now)
    }

    /// Waits for every load and store, as a locked instruction does.
    pub fn fence(&mut self) {
        let asked = self.loads.iter().filter(|&&(at, _)| at != NOBODY);
        let last = asked.map(|&(_, done)| done).max().unwrap_or(0);
        self.now = self.now.max(last).max(self.visible);
        let now = self.now;
        self.keep(|at, done| at == NOBODY && done > now);
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
        assert_eq!(window.now(), 80_000, "the window is full: wait for the first");
        window.fence();
        assert_eq!(window.now(), 110_000, "the last was asked for at 30 ns");
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
