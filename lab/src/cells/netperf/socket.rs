//! What lies between a sender and its receiver: the receiver's queue with its lock, how much it may
//! hold, and who sleeps until that changes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use pageyard::Pfn;
use pageyard_sim::lock::WorkLock;
use pageyard_sim::memory::Line;
use pageyard_sim::world::World;

use super::Test;
use crate::cells::yard::Yard;

/// Lines of a socket: lock, bytes held, headers.
const LINES: u64 = 40;
const HELD_LINE: u64 = 2;
const HEADS_LINE: u64 = 4;
/// Headers that go round, and lines of one (`struct sk_buff` and the shared info behind its data).
const HEADS: u64 = 8;
const HEAD_LINES: u64 = 4;
/// From the decision to wake a sleeper until it runs: leaving the first idle state alone takes 2 us
/// (drivers/idle/intel_idle.c, C1 of Skylake: exit latency 2).
const WAKE_PS: u64 = 2_000_000;

/// Pages that hold data, with the references to them.
pub(super) struct Block {
    pub(super) pfn: Pfn,
    pub(super) order: u8,
    pub(super) record: usize,
    pub(super) home: u8,
    pub(super) references: Cell<u32>,
}

/// Lines of a block that belong to a message.
pub(super) struct Piece {
    pub(super) block: Rc<Block>,
    pub(super) first: u64,
    pub(super) lines: u64,
}

/// What is under way.
pub(super) struct Message {
    pub(super) pieces: Vec<Piece>,
    /// Bytes that it counts for in the receiver's buffer.
    pub(super) counts: u64,
    head: u64,
}

impl Message {
    pub(super) fn new(pieces: Vec<Piece>, counts: u64) -> Message {
        Message { pieces, counts, head: 0 }
    }
}

/// The receiver's socket.
pub(super) struct Socket {
    world: Rc<World>,
    lock: WorkLock,
    base: u64,
    /// Bytes that it holds before it takes no more.
    limit: u64,
    /// Whether what does not fit is dropped.
    drops: bool,
    queue: RefCell<VecDeque<Message>>,
    held: Cell<u64>,
    sent: Cell<u64>,
    /// CPU + 1 that sleeps: the sender, the receiver.
    sleeps: [Cell<usize>; 2],
}

pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

impl Socket {
    pub(super) fn new(yard: &Yard, test: Test, pair: usize) -> Socket {
        let base = LINES * pair as u64;
        let lock = WorkLock::new(&yard.world, yard.world.layout.extra(base), "socket");
        Socket {
            world: Rc::clone(&yard.world),
            lock,
            base,
            limit: super::path::limit_bytes(test),
            drops: test == Test::Udp,
            queue: RefCell::default(),
            held: Cell::new(0),
            sent: Cell::new(0),
            sleeps: [Cell::new(0), Cell::new(0)],
        }
    }

    fn line(&self, at: u64) -> Line {
        self.world.layout.extra(self.base + at)
    }

    fn head_lines(&self, head: u64) -> impl Iterator<Item = Line> + '_ {
        let first = HEADS_LINE + head % HEADS * HEAD_LINES;
        (first..first + HEAD_LINES).map(|at| self.line(at))
    }

    /// Gives a message to the receiver. What it has no room for comes back, if it drops; else the
    /// sender sleeps until there is room.
    pub(super) fn send(&self, mut message: Message, is_over: impl Fn() -> bool) -> Option<Message> {
        message.head = self.sent.replace(self.sent.get() + 1);
        self.head_lines(message.head).for_each(|line| self.world.write(line));
        // Room is there as long as less than the limit is held before (udp_queue_rcv_skb).
        self.world.locked(self.line(HELD_LINE));
        while self.held.get() > self.limit {
            if self.drops || is_over() {
                return Some(message);
            }
            self.sleep(SENDER);
        }
        self.held.set(self.held.get() + message.counts);
        self.lock.with(|| self.queue.borrow_mut().push_back(message));
        self.wake(RECEIVER);
        None
    }

    /// Takes the next message; sleeps while there is none. `None` when all is over.
    pub(super) fn receive(&self, is_over: impl Fn() -> bool) -> Option<Message> {
        loop {
            let message = self.lock.with(|| self.queue.borrow_mut().pop_front());
            if let Some(message) = message {
                self.world.locked(self.line(HELD_LINE));
                self.held.set(self.held.get() - message.counts);
                self.head_lines(message.head).for_each(|line| self.world.read(line));
                // A sender that slept goes on when a third is free (sk_stream_write_space).
                if self.held.get() <= self.limit / 3 * 2 {
                    self.wake(SENDER);
                }
                return Some(message);
            }
            if is_over() {
                return None;
            }
            if self.queue.borrow().is_empty() {
                self.sleep(RECEIVER);
            }
        }
    }

    fn sleep(&self, who: usize) {
        self.sleeps[who].set(self.world.cpu() + 1);
        self.world.park();
    }

    /// Wakes a side that sleeps.
    pub(super) fn wake(&self, who: usize) {
        if let Some(cpu) = self.sleeps[who].replace(0).checked_sub(1) {
            self.world.wake(cpu, self.world.now() + WAKE_PS);
        }
    }
}
