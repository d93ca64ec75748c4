//! Messages between CPUs of a modelled machine: lines that are copied, desks, sleep.

use std::cell::Cell;

use pageyard_sim::contents::Span;
use pageyard_sim::lock::WorkLock;
use pageyard_sim::memory::PAGE_LINES;

use super::{Held, Modelled};
use crate::cells::work::netperf::{Net, Place};
use crate::cells::work::{Record, Stage};

/// Bytes that an instruction of a copy moves: `rep movsb` in units of the core's width.
const COPY_BYTES: u64 = 32;
/// Pages that a process' memory may have, behind those of all nodes.
const USER_PAGES: u64 = 256;

/// Lines of a process' own.
pub struct Buffer {
    first: u64,
    home: u8,
}

/// Lines of the workload's own, with a lock.
pub struct Desk {
    first: u64,
    lock: WorkLock,
}

/// Where a CPU sleeps.
pub struct Seat {
    /// CPU + 1, 0 if nobody does.
    sleeper: Cell<usize>,
    up_ps: u64,
}

impl Modelled {
    fn span(&self, place: Place<'_, Modelled>, lines: u64) -> Span {
        match place {
            Place::Block(block, at) => {
                let first = self.yard.record(block.pfn) as u64 * PAGE_LINES + at;
                Span { first, lines, home: self.yard.node_of(block.pfn) }
            }
            Place::Buffer(buffer, at) => {
                Span { first: buffer.first + at, lines, home: buffer.home }
            }
        }
    }
}

impl Net for Modelled {
    type Shared = Held;
    type Buffer = Buffer;
    type Desk = Desk;
    type Seat = Seat;

    fn share(&self, page: Held) -> Held {
        page
    }

    fn unshare(&self, block: Held) -> Held {
        block
    }

    fn record_shared(&self, block: &Held, how: Record) {
        self.record(block, how);
    }

    fn buffer(&self, nth: usize, cpu: usize, lines: u64) -> Buffer {
        assert!(lines <= USER_PAGES * PAGE_LINES, "{lines} lines of a process' own");
        let first = (self.yard.records() as u64 + nth as u64 * USER_PAGES) * PAGE_LINES;
        Buffer { first, home: self.yard.cpu_nodes[cpu].0 }
    }

    fn copy(&self, from: Place<'_, Modelled>, to: Place<'_, Modelled>, lines: u64) {
        let (world, from, to) = (&self.yard.world, self.span(from, lines), self.span(to, lines));
        for at in (0..lines).step_by(PAGE_LINES as usize) {
            let lines = PAGE_LINES.min(lines - at);
            let part = |span: Span| Span { first: span.first + at, lines, ..span };
            world.sync();
            world.copy(part(from), part(to), COPY_BYTES);
        }
    }

    fn desk(&self, nth: usize, lines: u64) -> Desk {
        let first = lines * nth as u64;
        let line = self.yard.world.layout.extra(first);
        Desk { first, lock: WorkLock::new(&self.yard.world, line, "socket") }
    }

    fn line(&self, desk: &Desk, at: u64, how: Record) {
        let (world, line) = (&self.yard.world, self.yard.world.layout.extra(desk.first + at));
        match how {
            Record::Read => world.read(line),
            Record::Write => world.write(line),
            Record::Locked => world.locked(line),
        }
    }

    fn locked<R>(&self, desk: &Desk, work: impl FnOnce() -> R) -> R {
        desk.lock.with(work)
    }

    fn seat(&self, up_ps: u64) -> Seat {
        Seat { sleeper: Cell::new(0), up_ps }
    }

    fn sleep(&self, seat: &Seat, is_needless: impl Fn() -> bool, _: impl Fn() -> bool) {
        if !is_needless() {
            seat.sleeper.set(self.yard.world.cpu() + 1);
            self.yard.world.park();
        }
    }

    fn wake(&self, seat: &Seat) {
        if let Some(cpu) = seat.sleeper.replace(0).checked_sub(1) {
            self.yard.world.wake(cpu, self.yard.world.now() + seat.up_ps);
        }
    }
}
