//! What lies between a sender and its receiver: the receiver's queue with its lock, how much it may
//! hold, and who sleeps until that changes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Net, Record, Test, path};

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

/// Lines of a block that belong to a message. The block goes back with the last reference to it.
pub struct Piece<S: Net> {
    /// The block.
    pub block: Arc<S::Shared>,
    /// Its first line of the piece.
    pub first: u64,
    /// Lines of the piece.
    pub lines: u64,
}

/// What is under way.
pub struct Message<S: Net> {
    /// Where its bytes are.
    pub pieces: Vec<Piece<S>>,
    /// Bytes that it counts for in the receiver's buffer.
    pub counts: u64,
    head: u64,
}

impl<S: Net> Message<S> {
    /// A message that was not sent yet.
    #[must_use]
    pub fn new(pieces: Vec<Piece<S>>, counts: u64) -> Message<S> {
        Message { pieces, counts, head: 0 }
    }
}

/// The receiver's socket.
pub struct Socket<S: Net> {
    desk: S::Desk,
    /// Bytes that it holds before it takes no more.
    limit: u64,
    /// Whether what does not fit is dropped.
    drops: bool,
    /// Changes under the desk's lock, where nobody else can hold this one.
    queue: Mutex<VecDeque<Message<S>>>,
    held: AtomicU64,
    sent: AtomicU64,
    /// Of the sender, of the receiver.
    seats: [S::Seat; 2],
}

/// Who sleeps.
const SENDER: usize = 0;
const RECEIVER: usize = 1;

impl<S: Net> Socket<S> {
    /// The socket of a pair.
    #[must_use]
    pub fn new(stage: &S, test: Test, pair: usize) -> Socket<S> {
        Socket {
            desk: stage.desk(pair, LINES),
            limit: path::limit_bytes(test),
            drops: test == Test::Udp,
            queue: Mutex::default(),
            held: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            seats: [stage.seat(WAKE_PS), stage.seat(WAKE_PS)],
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Message<S>>> {
        // A side that ends early leaves the queue whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self, stage: &S, head: u64, how: Record) {
        let first = HEADS_LINE + head % HEADS * HEAD_LINES;
        (first..first + HEAD_LINES).for_each(|at| stage.line(&self.desk, at, how));
    }

    /// Gives a message to the receiver. What it has no room for comes back, if it drops; else the
    /// sender sleeps until there is room.
    pub fn send(
        &self,
        stage: &S,
        mut message: Message<S>,
        is_over: impl Fn() -> bool,
    ) -> Option<Message<S>> {
        // Relaxed: one CPU sends.
        message.head = self.sent.fetch_add(1, Ordering::Relaxed);
        self.head(stage, message.head, Record::Write);
        // Room is there as long as less than the limit is held before (udp_queue_rcv_skb).
        stage.line(&self.desk, HELD_LINE, Record::Locked);
        // SeqCst with the same of `receive`: either this CPU sees the room or, having taken its
        // seat before it looked, it is seen sleeping there.
        let has_room = || self.held.load(Ordering::SeqCst) <= self.limit;
        while !has_room() {
            if self.drops || is_over() {
                return Some(message);
            }
            stage.sleep(&self.seats[SENDER], has_room, &is_over);
        }
        self.held.fetch_add(message.counts, Ordering::SeqCst);
        stage.locked(&self.desk, || self.queue().push_back(message));
        stage.wake(&self.seats[RECEIVER]);
        None
    }

    /// Takes the next message; sleeps while there is none. `None` when all is over.
    pub fn receive(&self, stage: &S, is_over: impl Fn() -> bool) -> Option<Message<S>> {
        loop {
            let message = stage.locked(&self.desk, || self.queue().pop_front());
            if let Some(message) = message {
                stage.line(&self.desk, HELD_LINE, Record::Locked);
                self.held.fetch_sub(message.counts, Ordering::SeqCst);
                self.head(stage, message.head, Record::Read);
                // A sender that slept goes on when a third is free (sk_stream_write_space).
                if self.held.load(Ordering::SeqCst) <= self.limit / 3 * 2 {
                    stage.wake(&self.seats[SENDER]);
                }
                return Some(message);
            }
            if is_over() {
                return None;
            }
            let is_needless = || !self.queue().is_empty();
            stage.sleep(&self.seats[RECEIVER], is_needless, &is_over);
        }
    }

    /// The sender has ended: its receiver goes on.
    pub fn sender_ended(&self, stage: &S) {
        stage.wake(&self.seats[RECEIVER]);
    }

    /// The receiver has ended: its sender goes on.
    pub fn receiver_ended(&self, stage: &S) {
        stage.wake(&self.seats[SENDER]);
    }
}
