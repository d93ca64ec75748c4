//! Messages between threads of this machine: memory that is copied, desks, sleep.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pageyard_host::lock::SpinLock;
use pageyard_host::{Block, SharedBlock};

use super::list::touch;
use super::stage::Live;
use crate::cells::work::netperf::{Net, Place};
use crate::cells::work::{Record, Stage};

/// Words of a line.
const LINE_WORDS: u64 = 8;
/// Looks at a seat between two at the clock, and between two at which others may have the CPU.
const LOOKS: u32 = 64;
const LOOKS_ALONE: u32 = 1 << 14;

/// A line of a desk.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// Lines with a lock.
pub struct Desk {
    lock: SpinLock,
    lines: Box<[Line]>,
}

/// Where a thread sleeps: it stays on its CPU and looks whether it was woken, so that being woken
/// takes what the workload says and not what this system takes for it.
#[repr(align(64))]
pub struct Seat {
    is_asleep: AtomicBool,
    up_ps: u64,
}

/// A process' memory.
pub type Buffer = Box<[AtomicU64]>;

fn words<'p>(place: &'p Place<'_, Live<'_>>, lines: u64) -> &'p [AtomicU64] {
    let (words, at) = match place {
        Place::Block(block, at) => (block.words(), *at),
        Place::Buffer(buffer, at) => (&buffer[..], *at),
    };
    &words[(at * LINE_WORDS) as usize..][..(lines * LINE_WORDS) as usize]
}

impl<'a> Net for Live<'a> {
    type Shared = SharedBlock<'a>;
    type Buffer = Buffer;
    type Desk = Desk;
    type Seat = Seat;

    fn share(&self, page: Block<'a>) -> SharedBlock<'a> {
        SharedBlock::new(page)
    }

    fn unshare(&self, block: SharedBlock<'a>) -> Block<'a> {
        block.into_block()
    }

    fn record_shared(&self, block: &SharedBlock<'a>, how: Record) {
        self.ground.pages.touch(block.pfn(), how);
    }

    /// Written once: memory that was only read could be one page of zeroes, over and over.
    fn buffer(&self, nth: usize, _: usize, lines: u64) -> Buffer {
        (0..lines * LINE_WORDS).map(|at| AtomicU64::new(at + nth as u64)).collect()
    }

    /// Word by word. Relaxed: who may read what was written is told by the lock of the desk and by
    /// the references of blocks.
    fn copy(&self, from: Place<'_, Live<'a>>, to: Place<'_, Live<'a>>, lines: u64) {
        let relaxed = Ordering::Relaxed;
        let (from, to) = (words(&from, lines), words(&to, lines));
        from.iter().zip(to).for_each(|(from, to)| to.store(from.load(relaxed), relaxed));
    }

    fn desk(&self, _: usize, lines: u64) -> Desk {
        let lines = (0..lines).map(|_| Line::default()).collect();
        Desk { lock: SpinLock::new("socket"), lines }
    }

    fn line(&self, desk: &Desk, at: u64, how: Record) {
        touch(&desk.lines[at as usize].0, how);
    }

    fn locked<R>(&self, desk: &Desk, work: impl FnOnce() -> R) -> R {
        desk.lock.with(work)
    }

    fn seat(&self, up_ps: u64) -> Seat {
        Seat { is_asleep: AtomicBool::new(false), up_ps }
    }

    fn sleep(&self, seat: &Seat, is_needless: impl Fn() -> bool, is_over: impl Fn() -> bool) {
        // SeqCst with the swap of `wake`: whoever changes what is waited for and then finds nobody
        // here did so before this, and is seen by `is_needless`.
        seat.is_asleep.store(true, Ordering::SeqCst);
        if is_needless() {
            seat.is_asleep.store(false, Ordering::SeqCst);
            return;
        }
        let mut looks = 0u32;
        // Acquire: pairs with the swap of `wake`.
        while seat.is_asleep.load(Ordering::Acquire) {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) && is_over() {
                return;
            }
            if looks.is_multiple_of(LOOKS_ALONE) {
                std::thread::yield_now();
            }
            spin_loop();
        }
        self.spend(seat.up_ps);
    }

    fn wake(&self, seat: &Seat) {
        // A load first: a swap takes the line from a sleeper that nobody has to wake.
        if seat.is_asleep.load(Ordering::SeqCst) {
            seat.is_asleep.swap(false, Ordering::SeqCst);
        }
    }
}
