//! Queued spin locks in virtual time, as the kernel has them.
//!
//! The lock is one word. Whoever finds it taken first spins on the word itself (the pending bit);
//! others queue and spin on a word of their own, so that only the head of the queue looks at the
//! lock. Leaving is a plain store: the head sees it after a transfer of the line, and takes the
//! lock by writing it, after another. Then it makes the next one head, with a store to that one's
//! word, for which the first locked instruction of what it does under the lock waits. These are the
//! same accesses to lines as all others. Ticket locks, where the policy asks for them, differ in
//! how CPUs wait (`ticket.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pageyard::platform::{Field, Locks, Site, TableId, TableSpec};

use crate::memory::{Line, Use};
use crate::stats::LockAt;
use crate::ticket;
use crate::world::World;

/// Saving flags, `cli`, and `popf` at the end: their time in instructions of base IPC.
const IRQ_INSTRUCTIONS: u64 = 30;

#[derive(Debug, Default)]
struct Lock {
    is_held: bool,
    waiting: VecDeque<usize>,
}

/// A lock of the workload or one of the allocator's.
fn with<R>(
    world: &World,
    lock: &RefCell<Lock>,
    line: Line,
    at: LockAt,
    f: impl FnOnce() -> R,
) -> R {
    if !world.is_charging() {
        assert!(!lock.borrow().is_held, "set-up takes no lock twice");
        return f();
    }
    world.sync();
    let asked = world.now();
    world.locked(line);
    hold(world, lock, line, at, asked, f)
}

fn hold<R>(
    world: &World,
    lock: &RefCell<Lock>,
    line: Line,
    at: LockAt,
    asked: u64,
    f: impl FnOnce() -> R,
) -> R {
    let (waits, queues) = {
        let mut lock = lock.borrow_mut();
        let (waits, is_first) = (lock.is_held, lock.waiting.is_empty());
        match waits {
            true => lock.waiting.push_back(world.cpu()),
            false => lock.is_held = true,
        }
        (waits, waits && !is_first)
    };
    let tickets = world.layout.era().ticket_locks;
    if waits {
        if tickets {
            ticket::fetch(world, &lock.borrow().waiting, line, world.now());
        } else if queues {
            world.write(world.layout.queue(world.cpu()));
        }
        world.park();
    }
    if queues && !tickets {
        make_head(world, lock.borrow().waiting.front().copied());
    }
    let entered = world.now();
    world.holds(Some(at));
    let result = f();
    world.holds(None);
    world.sync();
    let left = leave(world, lock, line);
    world.count_lock(at, waits.then(|| entered - asked), left - entered);
    result
}

/// Whoever had the lock from the head of the queue tells the next one that it is the head now. Who
/// only spun on the pending bit has nobody to tell: the queue's head was that before.
fn make_head(world: &World, next: Option<usize>) {
    if let Some(next) = next {
        let spins_on = world.layout.queue(next);
        world.write(spins_on);
        world.seen_by(next, spins_on, Use::Read, world.visible());
    }
}

/// Leaves, and hands over to the head of the queue. Returns when others can see it.
fn leave(world: &World, lock: &RefCell<Lock>, line: Line) -> u64 {
    if world.layout.era().ticket_locks {
        return leave_ticket(world, lock, line);
    }
    let left = world.publish(line);
    let mut lock = lock.borrow_mut();
    match lock.waiting.pop_front() {
        Some(next) => {
            let looks = next_look(world, next, left);
            let sees = looks + world.seen_by(next, line, Use::Read, looks);
            let takes = sees + world.seen_by(next, line, Use::Write, sees);
            // The new head of the queue begins to look at the lock word.
            if let Some(&head) = lock.waiting.front() {
                world.seen_by(head, line, Use::Read, takes);
            }
            world.wake(next, takes);
        }
        None => lock.is_held = false,
    }
    left
}

/// The same where all who wait spin on the lock's line: the next one is among them.
fn leave_ticket(world: &World, lock: &RefCell<Lock>, line: Line) -> u64 {
    let left = world.publish_in_turn(line);
    let mut lock = lock.borrow_mut();
    let sees = ticket::fetch(world, &lock.waiting, line, left);
    match lock.waiting.pop_front() {
        Some(next) => world.wake(next, sees),
        None => lock.is_held = false,
    }
    left
}

/// When a waiter looks at the lock next: between two looks it executes a `PAUSE`. Its looks began
/// when it stopped for the lock, which its own clock still shows.
fn next_look(world: &World, waiter: usize, now: u64) -> u64 {
    let pause = world.costs.pause_ps;
    let since = now.saturating_sub(world.time_of(waiter));
    match since.checked_rem(pause) {
        None | Some(0) => now,
        Some(rest) => now + pause - rest,
    }
}

/// A table of locks of the allocator.
pub struct SimLocks {
    world: Rc<World>,
    locks: Box<[RefCell<Lock>]>,
    id: TableId,
}

impl SimLocks {
    /// Free locks.
    #[must_use]
    pub fn new(world: Rc<World>, spec: TableSpec) -> SimLocks {
        let locks = (0..spec.records).map(|_| RefCell::default()).collect();
        SimLocks { world, locks, id: spec.id }
    }

    /// Up to 5.15 nobody else comes near a CPU's cache: interrupts off and on, no locked word.
    fn is_irq_off(&self) -> bool {
        self.id == TableId::PcpLocks && self.world.layout.era().pcp_irq_off
    }

    fn line(&self, index: usize) -> Line {
        self.world.layout.line(self.id, index, Field(0))
    }

    fn at(&self, site: Site) -> LockAt {
        match self.id {
            TableId::ZoneLocks => LockAt::Zone(site),
            _ => LockAt::Pcp(site),
        }
    }
}

impl Locks for SimLocks {
    fn with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> R {
        if self.is_irq_off() {
            self.world.execute(IRQ_INSTRUCTIONS);
            return f();
        }
        with(&self.world, &self.locks[index], self.line(index), self.at(site), f)
    }

    fn try_with<R>(&self, index: usize, site: Site, f: impl FnOnce() -> R) -> Option<R> {
        if !self.world.is_charging() || self.is_irq_off() {
            self.world.execute(IRQ_INSTRUCTIONS);
            return Some(f());
        }
        self.world.sync();
        let asked = self.world.now();
        self.world.locked(self.line(index));
        if self.locks[index].borrow().is_held {
            return None;
        }
        Some(hold(&self.world, &self.locks[index], self.line(index), self.at(site), asked, f))
    }
}

/// A lock of the workload.
pub struct WorkLock {
    world: Rc<World>,
    lock: RefCell<Lock>,
    line: Line,
    name: &'static str,
}

impl WorkLock {
    /// A free lock on a line.
    #[must_use]
    pub fn new(world: &Rc<World>, line: Line, name: &'static str) -> WorkLock {
        WorkLock { world: Rc::clone(world), lock: RefCell::default(), line, name }
    }

    /// Waits for the lock, runs `f` while holding it.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        self.with_as(self.name, f)
    }

    /// The same, counted under another name: a call site.
    pub fn with_as<R>(&self, name: &'static str, f: impl FnOnce() -> R) -> R {
        with(&self.world, &self.lock, self.line, LockAt::Workload(name), f)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use pageyard::{Geometry, NODES_MAX, NodeDesc, NodeId, Pfn, Tuning, ZoneDesc, ZoneKind};

    use super::*;
    use crate::costs::tests::round;
    use crate::instructions::Kernel;
    use crate::layout::{Era, Layout, NumaLines};
    use crate::world::Job;

    /// So many cores of one socket, with a line for a lock and one for each core.
    pub(crate) fn world(cpus: usize, ticket_locks: bool) -> Rc<World> {
        let node = NodeDesc { distance: [10; NODES_MAX], cpus: cpus as u16 };
        let zone = ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned_pages: 1 << 10,
            managed_pages: 1 << 10,
        };
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &vec![NodeId(0); cpus],
            nodes: &[node],
            zones: &[zone],
            tuning: Tuning::default(),
        };
        let (numa_lines, kernel) = (NumaLines::Folded, Kernel::V6_1);
        let era =
            Era { lock_on_area_line: false, pcp_irq_off: false, ticket_locks, numa_lines, kernel };
        World::new(round(1, cpus), Layout::new(&geometry, era, 1 + cpus as u64))
    }

    /// Mean hold of a lock under which a line of the CPU's own is used, by a locked instruction or
    /// by a store, picoseconds.
    fn hold_ps(cpus: usize, ticket_locks: bool, is_locked: bool) -> u64 {
        let world = world(cpus, ticket_locks);
        let lock = Rc::new(WorkLock::new(&world, world.layout.extra(0), "test"));
        let job = |cpu: usize| -> Job {
            let (world, lock) = (Rc::clone(&world), Rc::clone(&lock));
            let own = world.layout.extra(1 + cpu as u64);
            Box::new(move || {
                for _ in 0..100 {
                    lock.with(|| {
                        if is_locked {
                            world.locked(own)
                        } else {
                            world.write(own)
                        }
                        world.execute(5000);
                    });
                    world.execute(1000);
                }
            })
        };
        world.run((0..cpus).map(job).collect());
        let time = world.stats().lock(|_| true);
        time.hold_ps / time.taken
    }

    #[test]
    fn a_locked_instruction_waits_for_the_store_that_makes_the_next_one_head() {
        let longer = |cpus, tickets| hold_ps(cpus, tickets, true) - hold_ps(cpus, tickets, false);
        let (alone, queue) = (longer(1, false), longer(8, false));
        let costs = round(1, 8);
        let transfer = costs.dirty_ps[0][0][0].min(costs.clean_socket_ps);
        assert!(queue >= alone + transfer * 9 / 10, "{alone} {queue}: {transfer} a transfer");
        // With two, one waits at most: it spins on the lock itself, and there is no queue.
        assert!(longer(2, false) < alone + transfer / 2, "{} {alone}", longer(2, false));
        assert!(longer(8, true) < alone + transfer / 2, "ticket locks have no queue");
    }
}
