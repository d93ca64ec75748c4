//! What the two sides of a netperf stream do: a sender takes pages and fills them, a receiver on
//! another CPU copies them out and frees them there.
//!
//! [`socket`] is what lies between the two, [`path`] how each protocol takes, fills and gives back
//! pages. Everything else that a message costs (system calls, headers, the way through the stack)
//! is one number, the think time.

pub mod path;
pub mod socket;

use super::{Record, Stage};

/// Which test of netperf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// UDP_STREAM: messages of 65507 bytes; what finds the receiver's socket full is dropped.
    Udp,
    /// TCP_STREAM: 16384 bytes at a time; the sender waits for room.
    Tcp,
    /// SCTP_STREAM_MANY with messages of 10 KiB; the sender waits for room.
    Sctp,
}

/// Parts that [`Watch::spent`](super::Watch::spent) is told of: a message until it is handed over,
/// and from when it is taken over. Nobody's sleep is in it.
pub const SENDING: usize = 0;
/// See [`SENDING`].
pub const RECEIVING: usize = 1;
/// What [`Watch::noted`](super::Watch::noted) is told of: a message that was dropped.
pub const DROPPED: usize = 0;

/// Where a copy begins, and in lines of 64 bytes how far from there.
pub enum Place<'a, N: Net> {
    /// In a block.
    Block(&'a N::Shared, u64),
    /// In a process' memory.
    Buffer(&'a N::Buffer, u64),
}

/// What CPUs that send each other messages need beside a [`Stage`].
pub trait Net: Stage {
    /// A block that several CPUs hold, each of which may write into it.
    type Shared;
    /// Memory of a process.
    type Buffer;
    /// Lines of the workload's own, with a lock on the first.
    type Desk;
    /// Where one CPU sleeps at a time.
    type Seat;

    /// Lets others hold a block, too.
    fn share(&self, page: Self::Page) -> Self::Shared;
    /// The block again, of whoever holds it last.
    fn unshare(&self, block: Self::Shared) -> Self::Page;
    /// Uses the record of a shared block's first page.
    fn record_shared(&self, block: &Self::Shared, how: Record);

    /// The `nth` process' memory, of so many lines, on the node of a CPU.
    fn buffer(&self, nth: usize, cpu: usize, lines: u64) -> Self::Buffer;
    /// Copies so many lines, a page's worth at a time.
    fn copy(&self, from: Place<'_, Self>, to: Place<'_, Self>, lines: u64)
    where
        Self: Sized;

    /// The `nth` desk; each has so many lines.
    fn desk(&self, nth: usize, lines: u64) -> Self::Desk;
    /// Uses a line of a desk.
    fn line(&self, desk: &Self::Desk, at: u64, how: Record);
    /// Does something while holding the desk's lock.
    fn locked<R>(&self, desk: &Self::Desk, work: impl FnOnce() -> R) -> R;

    /// A seat. Whoever is woken goes on after so long, picoseconds.
    fn seat(&self, up_ps: u64) -> Self::Seat;
    /// Sleeps until woken or until all is over, unless it turns out needless once the seat is
    /// taken: what one waits for may just have come.
    fn sleep(&self, seat: &Self::Seat, is_needless: impl Fn() -> bool, is_over: impl Fn() -> bool);
    /// Wakes whoever sleeps there.
    fn wake(&self, seat: &Self::Seat);
}
