//! The way of a message: pages taken, filled, copied out and given back, protocol by protocol.
//!
//! UDP and TCP fill blocks of order 3, message after message (skb_page_frag_refill): a block is
//! given back when the last message with a part of it was read, and begun anew if nobody holds
//! another reference when the next message comes. SCTP copies a message into a chunk and the chunk
//! into a packet, each in a block of order 2 of its own; acknowledgements free chunks on the
//! sender's CPU, where the loopback's softirq runs. Behaviour of 5.17 (net/core/sock.c,
//! net/ipv4/ip_output.c, net/sctp/output.c); that large datagrams take order 3 and middling ones
//! order 2 is seen in the recordings, too.

use std::sync::Arc;

use pageyard::Request;

use super::socket::{Message, Piece, Socket};
use super::{DROPPED, Net, Place, RECEIVING, Record, SENDING, Test};
use crate::cells::work::{Stage, Watch};

/// Lines of a page.
const PAGE_LINES: u64 = 64;
const LINE_BYTES: u64 = 64;
/// Order of a block of data (SKB_FRAG_PAGE_ORDER: 32 KiB).
const FRAG_ORDER: u8 = 3;
/// Order of a chunk or packet: 10240 bytes and what goes with them are more than 8 KiB.
const LINEAR_ORDER: u8 = 2;
/// The receiver's part of what a sender needs outside of what is modelled: a quarter. Receiving 16
/// bytes on localhost takes 0.1 to 0.5 of the time of sending them (6.18 on a virtual machine, five
/// runs of 20000 datagrams in one thread, so that nobody is woken).
const RECEIVER_SHARE: u64 = 4;
/// net.core.rmem_default.
const BUFFER_BYTES: u64 = 212_992;
/// Header of a message in memory: `struct sk_buff`, and the block that holds its linear part.
const HEAD_BYTES: u64 = 1280;

/// Bytes of a message as netperf counts them: the largest datagram; the default send buffer of TCP
/// (net.ipv4.tcp_wmem); as the published run was told.
#[must_use]
pub const fn message_bytes(test: Test) -> u64 {
    match test {
        Test::Udp => 65_507,
        Test::Tcp => 16_384,
        Test::Sctp => 10_240,
    }
}

/// Bytes of a message that lie in blocks, in lines. Of a datagram the first 148 bytes lie beside
/// the headers (`MAX_HEADER` is 176).
const fn message_lines(test: Test) -> u64 {
    match test {
        Test::Udp => (65_507 - 148) / LINE_BYTES,
        _ => message_bytes(test) / LINE_BYTES,
    }
}

/// What a receiver holds before it takes no more: its buffer; with TCP half of the largest that it
/// grows to (net.ipv4.tcp_rmem: 6 MiB); with SCTP half of its buffer in bytes of messages.
pub(super) const fn limit_bytes(test: Test) -> u64 {
    match test {
        Test::Udp => BUFFER_BYTES,
        Test::Tcp => 3 << 20,
        Test::Sctp => BUFFER_BYTES / 2 - message_bytes(Test::Sctp),
    }
}

/// A user's buffers, used in turn: netperf makes as many as a socket's buffer holds, and one more.
struct Buffers<S: Net> {
    memory: S::Buffer,
    buffers: u64,
    lines: u64,
    next: u64,
}

impl<S: Net> Buffers<S> {
    /// Those of one side of a pair.
    fn new(stage: &S, test: Test, pair: usize, is_sender: bool) -> Buffers<S> {
        let buffers = match (test, is_sender) {
            (Test::Udp, _) => BUFFER_BYTES / 65_507 + 1,
            (Test::Tcp, true) => 2,
            (Test::Tcp, false) => 16,
            (Test::Sctp, true) => BUFFER_BYTES / 10_240 + 1,
            (Test::Sctp, false) => 2,
        };
        let nth = 2 * pair + usize::from(!is_sender);
        let lines = message_bytes(test).div_ceil(LINE_BYTES);
        let memory = stage.buffer(nth, 2 * pair, buffers * lines);
        Buffers { memory, buffers, lines, next: 0 }
    }

    /// First line of the next buffer.
    fn turn(&mut self) -> u64 {
        self.next = (self.next + 1) % self.buffers;
        self.next * self.lines
    }
}

/// What both sides of a pair have in common.
pub struct Pair<'a, S: Net> {
    /// The machine.
    pub stage: &'a S,
    /// What lies between them.
    pub socket: &'a Socket<S>,
    /// Which test.
    pub test: Test,
    /// Which pair: its sender is CPU 2 n.
    pub pair: usize,
    /// Time that the sender of a message needs outside of what is run, picoseconds. The receiver
    /// needs a part of it.
    pub think_ps: u64,
}

impl<S: Net> Pair<'_, S> {
    /// Sends until it is over.
    pub fn send_all(&self, watch: &impl Watch) {
        let mut sender = Sender {
            pair: self,
            watch,
            buffers: Buffers::new(self.stage, self.test, self.pair, true),
            filling: None,
            chunks: Vec::new(),
        };
        while !watch.is_over() {
            let from = self.stage.now_ps();
            self.stage.spend(self.think_ps);
            let message = match self.test {
                Test::Sctp => sender.chunk_and_packet(),
                _ => sender.fill_blocks(),
            };
            watch.spent(SENDING, self.stage.now_ps() - from, 1);
            let back = self.socket.send(self.stage, message, || watch.is_over());
            let is_dropped = back.is_some();
            let pieces = back.into_iter().flat_map(|message| message.pieces);
            pieces.for_each(|piece| self.put(piece.block));
            watch.noted(DROPPED, u64::from(is_dropped));
            watch.did(1);
        }
        self.socket.sender_ended(self.stage);
    }

    /// Receives until it is over.
    pub fn receive_all(&self, watch: &impl Watch) {
        let mut buffers = Buffers::new(self.stage, self.test, self.pair, false);
        while let Some(message) = self.socket.receive(self.stage, || watch.is_over()) {
            let from = self.stage.now_ps();
            self.stage.spend(self.think_ps / RECEIVER_SHARE);
            let mut to = buffers.turn();
            for piece in &message.pieces {
                let place = Place::Buffer(&buffers.memory, to);
                self.stage.copy(Place::Block(&*piece.block, piece.first), place, piece.lines);
                to += piece.lines;
            }
            message.pieces.into_iter().for_each(|piece| self.put(piece.block));
            watch.spent(RECEIVING, self.stage.now_ps() - from, 1);
        }
        self.socket.receiver_ended(self.stage);
    }

    /// Gives back a reference; the last one frees the block.
    fn put(&self, block: Arc<S::Shared>) {
        self.stage.record_shared(&block, Record::Locked);
        if let Some(block) = Arc::into_inner(block) {
            self.stage.free(self.stage.unshare(block));
        }
    }
}

/// The side that takes pages.
struct Sender<'a, S: Net, W: Watch> {
    pair: &'a Pair<'a, S>,
    watch: &'a W,
    buffers: Buffers<S>,
    /// The block being filled, and its lines that are used.
    filling: Option<(Arc<S::Shared>, u64)>,
    /// Chunks that are not acknowledged.
    chunks: Vec<Piece<S>>,
}

impl<S: Net, W: Watch> Sender<'_, S, W> {
    fn take(&self, request: &Request) -> Arc<S::Shared> {
        let stage = self.pair.stage;
        let page = stage.take(request);
        self.watch.took(S::frame(&page));
        Arc::new(stage.share(page))
    }

    /// The block to go on filling (skb_page_frag_refill).
    fn refill(&mut self) -> (Arc<S::Shared>, u64) {
        if let Some((mut block, used)) = self.filling.take() {
            self.pair.stage.record_shared(&block, Record::Read);
            // Nobody else has a reference, and what others did with theirs is done.
            if Arc::get_mut(&mut block).is_some() {
                return (block, 0);
            }
            if used < PAGE_LINES << FRAG_ORDER {
                return (block, used);
            }
            self.pair.put(block);
        }
        let request = Request { may_wait: false, no_retry: true, ..Request::kernel(FRAG_ORDER) };
        (self.take(&request), 0)
    }

    fn fill_blocks(&mut self) -> Message<S> {
        let (stage, test) = (self.pair.stage, self.pair.test);
        let mut from = self.buffers.turn();
        let mut left = message_lines(test);
        let mut pieces = Vec::new();
        while left > 0 {
            let (block, first) = self.refill();
            let lines = left.min((PAGE_LINES << FRAG_ORDER) - first);
            let place = Place::Buffer(&self.buffers.memory, from);
            stage.copy(place, Place::Block(&*block, first), lines);
            stage.record_shared(&block, Record::Locked);
            pieces.push(Piece { block: Arc::clone(&block), first, lines });
            (from, left) = (from + lines, left - lines);
            self.filling = Some((block, first + lines));
        }
        let counts = message_lines(test) * LINE_BYTES + HEAD_BYTES;
        Message::new(pieces, counts)
    }

    fn chunk_and_packet(&mut self) -> Message<S> {
        let (stage, lines) = (self.pair.stage, message_lines(Test::Sctp));
        let block = self.take(&Request::kernel(LINEAR_ORDER));
        let from = self.buffers.turn();
        stage.copy(Place::Buffer(&self.buffers.memory, from), Place::Block(&*block, 0), lines);
        let chunk = Piece { block, first: 0, lines };
        let block = self.take(&Request::kernel(LINEAR_ORDER));
        stage.copy(Place::Block(&*chunk.block, 0), Place::Block(&*block, 0), lines);
        let packet = Piece { block, first: 0, lines };
        self.chunks.push(chunk);
        // Every second packet is acknowledged (RFC 4960, 6.2).
        if self.chunks.len() == 2 {
            let chunks = std::mem::take(&mut self.chunks);
            chunks.into_iter().for_each(|chunk| self.pair.put(chunk.block));
        }
        Message::new(vec![packet], message_bytes(Test::Sctp))
    }
}

/// Takes blocks of the memory of a CPU's node, as many free ones left between them; they stay in
/// use as long as they are kept.
pub fn leave_holes<S: Stage>(stage: &S, holes: u64) -> Vec<S::Page> {
    let take = |_| stage.try_take(&Request::kernel(FRAG_ORDER));
    let mut taken: Vec<S::Page> = (0..2 * holes).map_while(take).collect();
    taken.sort_unstable_by_key(S::frame);
    let mut kept = Vec::new();
    for (at, page) in taken.into_iter().enumerate() {
        if at % 2 == 0 { stage.free(page) } else { kept.push(page) }
    }
    kept
}
