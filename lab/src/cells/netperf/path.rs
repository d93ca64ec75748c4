//! The way of a message: pages taken, filled, copied out and given back, protocol by protocol.
//!
//! UDP and TCP fill blocks of order 3, message after message (skb_page_frag_refill): a block is
//! given back when the last message with a part of it was read, and begun anew if nobody holds
//! another reference when the next message comes. SCTP copies a message into a chunk and the chunk
//! into a packet, each in a block of order 2 of its own; acknowledgements free chunks on the
//! sender's CPU, where the loopback's softirq runs. Behaviour of 5.17 (net/core/sock.c,
//! net/ipv4/ip_output.c, net/sctp/output.c); that large datagrams take order 3 and middling ones
//! order 2 is seen in the recordings, too.

use std::cell::Cell;
use std::rc::Rc;

use pageyard::Request;
use pageyard_sim::contents::Span;
use pageyard_sim::memory::PAGE_LINES;

use super::socket::{Block, Message, Piece, RECEIVER, SENDER, Socket};
use super::{Config, Meter, Test, USER_PAGES};
use crate::cells::yard::Yard;

const LINE_BYTES: u64 = 64;
/// Order of a block of data (SKB_FRAG_PAGE_ORDER: 32 KiB).
const FRAG_ORDER: u8 = 3;
/// Order of a chunk or packet: 10240 bytes and what goes with them are more than 8 KiB.
const LINEAR_ORDER: u8 = 2;
/// The receiver's part of what a sender needs outside of what is modelled: a quarter. Receiving 16
/// bytes on localhost takes 0.1 to 0.5 of the time of sending them (6.18 on a virtual machine, five
/// runs of 20000 datagrams in one thread, so that nobody is woken).
const RECEIVER_SHARE: u64 = 4;
/// Bytes that an instruction of a copy moves: `rep movsb` in units of the core's width.
const COPY_BYTES: u64 = 32;
/// net.core.rmem_default.
const BUFFER_BYTES: u64 = 212_992;
/// Header of a message in memory: `struct sk_buff`, and the block that holds its linear part.
const HEAD_BYTES: u64 = 1280;

/// Bytes of a message as netperf counts them: the largest datagram; the default send buffer of TCP
/// (net.ipv4.tcp_wmem); as the published run was told.
pub(super) const fn message_bytes(test: Test) -> u64 {
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
struct Ring {
    first: u64,
    buffers: u64,
    lines: u64,
    home: u8,
    next: u64,
}

impl Ring {
    fn of(side: &Side, is_sender: bool) -> Ring {
        let yard = &side.meter.yard;
        let buffers = match (side.config().test, is_sender) {
            (Test::Udp, _) => BUFFER_BYTES / 65_507 + 1,
            (Test::Tcp, true) => 2,
            (Test::Tcp, false) => 16,
            (Test::Sctp, true) => BUFFER_BYTES / 10_240 + 1,
            (Test::Sctp, false) => 2,
        };
        let at = 2 * side.pair as u64 + u64::from(!is_sender);
        let first = (yard.records() as u64 + at * USER_PAGES) * PAGE_LINES;
        let lines = message_bytes(side.config().test).div_ceil(LINE_BYTES);
        let home = yard.cpu_nodes[2 * side.pair].0;
        Ring { first, buffers, lines, home, next: 0 }
    }

    /// First line of the next buffer.
    fn turn(&mut self) -> u64 {
        self.next = (self.next + 1) % self.buffers;
        self.first + self.next * self.lines
    }
}

/// A sender or a receiver.
pub(super) struct Side {
    meter: Rc<Meter>,
    socket: Rc<Socket>,
    pair: usize,
    is_sender: bool,
    /// The block being filled, and its lines that are used.
    filling: Option<(Rc<Block>, u64)>,
    /// Chunks that are not acknowledged.
    chunks: Vec<Piece>,
}

impl Side {
    pub(super) fn new(
        meter: &Rc<Meter>,
        socket: &Rc<Socket>,
        pair: usize,
        is_sender: bool,
    ) -> Side {
        let (meter, socket) = (Rc::clone(meter), Rc::clone(socket));
        Side { meter, socket, pair, is_sender, filling: None, chunks: Vec::new() }
    }

    fn config(&self) -> &Config {
        &self.meter.config
    }

    pub(super) fn run(mut self, late_ps: u64) {
        self.meter.yard.world.spend(late_ps);
        if self.is_sender { self.send_all() } else { self.receive_all() }
    }

    fn send_all(&mut self) {
        let mut ring = Ring::of(self, true);
        while !self.meter.is_over() {
            self.meter.yard.world.spend(self.config().think_ps);
            let message = match self.config().test {
                Test::Sctp => self.chunk_and_packet(&mut ring),
                _ => self.fill_blocks(&mut ring),
            };
            let meter = Rc::clone(&self.meter);
            let back = self.socket.send(message, || meter.is_over());
            let is_dropped = back.is_some();
            back.into_iter().flat_map(|message| message.pieces).for_each(|piece| self.put(piece));
            self.meter.sent(is_dropped);
        }
        self.socket.wake(RECEIVER);
    }

    fn receive_all(&self) {
        let mut ring = Ring::of(self, false);
        let is_over = || self.meter.is_over();
        while let Some(message) = self.socket.receive(is_over) {
            self.meter.yard.world.spend(self.config().think_ps / RECEIVER_SHARE);
            let mut to = ring.turn();
            for piece in &message.pieces {
                let span = span(piece);
                self.copy(span, Span { first: to, lines: span.lines, home: ring.home });
                to += span.lines;
            }
            message.pieces.into_iter().for_each(|piece| self.put(piece));
        }
        self.socket.wake(SENDER);
    }

    /// Copies a page's lines at a time.
    fn copy(&self, from: Span, to: Span) {
        let world = &self.meter.yard.world;
        for at in (0..from.lines).step_by(PAGE_LINES as usize) {
            let lines = PAGE_LINES.min(from.lines - at);
            let part = |span: Span| Span { first: span.first + at, lines, ..span };
            world.sync();
            world.copy(part(from), part(to), COPY_BYTES);
        }
    }

    fn take(&self, request: Request) -> Rc<Block> {
        let yard = &self.meter.yard;
        let pfn = yard.take(&request);
        self.meter.taken(pfn.0);
        let (record, home) = (yard.record(pfn), yard.node_of(pfn));
        let order = request.order;
        Rc::new(Block { pfn, order, record, home, references: Cell::new(1) })
    }

    /// Gives back a reference; the last one frees the block.
    fn put(&self, piece: Piece) {
        self.put_block(&piece.block);
    }

    fn put_block(&self, block: &Block) {
        let yard = &self.meter.yard;
        yard.world.locked(yard.world.layout.page(block.record));
        let left = block.references.get() - 1;
        block.references.set(left);
        if left == 0 {
            yard.allocator.free(block.pfn, block.order);
        }
    }

    /// The block to go on filling (skb_page_frag_refill).
    fn refill(&mut self) -> (Rc<Block>, u64) {
        let world = Rc::clone(&self.meter.yard.world);
        if let Some((block, used)) = self.filling.take() {
            world.read(world.layout.page(block.record));
            if block.references.get() == 1 {
                return (block, 0);
            }
            if used < PAGE_LINES << FRAG_ORDER {
                return (block, used);
            }
            self.put_block(&block);
        }
        let request = Request { may_wait: false, no_retry: true, ..Request::kernel(FRAG_ORDER) };
        (self.take(request), 0)
    }

    fn fill_blocks(&mut self, ring: &mut Ring) -> Message {
        let mut from = ring.turn();
        let mut left = message_lines(self.config().test);
        let mut pieces = Vec::new();
        while left > 0 {
            let (block, used) = self.refill();
            let lines = left.min((PAGE_LINES << FRAG_ORDER) - used);
            let piece = Piece { block: Rc::clone(&block), first: used, lines };
            self.copy(Span { first: from, lines, home: ring.home }, span(&piece));
            let world = &self.meter.yard.world;
            world.locked(world.layout.page(block.record));
            block.references.set(block.references.get() + 1);
            pieces.push(piece);
            (from, left) = (from + lines, left - lines);
            self.filling = Some((block, used + lines));
        }
        let counts = message_lines(self.config().test) * LINE_BYTES + HEAD_BYTES;
        Message::new(pieces, counts)
    }

    fn chunk_and_packet(&mut self, ring: &mut Ring) -> Message {
        let lines = message_lines(Test::Sctp);
        let chunk = Piece { block: self.take(Request::kernel(LINEAR_ORDER)), first: 0, lines };
        self.copy(Span { first: ring.turn(), lines, home: ring.home }, span(&chunk));
        let packet = Piece { block: self.take(Request::kernel(LINEAR_ORDER)), first: 0, lines };
        self.copy(span(&chunk), span(&packet));
        self.chunks.push(chunk);
        // Every second packet is acknowledged (RFC 4960, 6.2).
        if self.chunks.len() == 2 {
            std::mem::take(&mut self.chunks).into_iter().for_each(|chunk| self.put(chunk));
        }
        Message::new(vec![packet], message_bytes(Test::Sctp))
    }
}

/// Takes blocks of each node's memory, with a free one between any two.
pub(super) fn leave_holes(yard: &Yard, holes: u64) {
    for node in 0..yard.world.costs.sockets {
        // A node without memory is nobody's: nothing can be taken from it.
        let cpu = yard.cpu_nodes.iter().position(|of| usize::from(of.0) == node);
        let Some(cpu) = cpu else { continue };
        yard.world.set_up_as(cpu);
        let take = |_| yard.allocator.alloc(&Request::kernel(FRAG_ORDER));
        let mut taken: Vec<_> = (0..2 * holes).map_while(|at| take(at).ok()).collect();
        taken.sort_unstable();
        taken.iter().step_by(2).for_each(|&pfn| yard.allocator.free(pfn, FRAG_ORDER));
    }
}

fn span(piece: &Piece) -> Span {
    let first = piece.block.record as u64 * PAGE_LINES + piece.first;
    Span { first, lines: piece.lines, home: piece.block.home }
}
