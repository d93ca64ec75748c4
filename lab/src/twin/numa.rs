//! Which node an allocation was meant for: not recorded, inferred.
//!
//! A task whose user pages change node from one to the next is interleaving. Any other page from
//! a foreign node was either wanted there (a bind or preferred policy) or came from an overflow. A
//! task that gets one page in ten from the CPU's own node is not bound: its others overflowed. Of
//! the rest, the twin asks its own watermark test whether the own node could have served.

use std::collections::BTreeMap;

use pageyard_trace::event::{Event, Gfp, Kind};

/// Allocations of one task, as far as its spreading is concerned.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    last: Option<u8>,
    pages: u64,
    switches: u64,
}

/// Tasks whose user memory is spread over nodes page by page.
#[derive(Clone, Debug, Default)]
pub struct Interleavers {
    tasks: BTreeMap<i32, Task>,
    /// By task and node of the CPU that it ran on: pages from that node, and all.
    shares: BTreeMap<(i32, u8), (u64, u64)>,
}

/// Pages below which nothing is said about a task.
const PAGES_MIN: u64 = 64;

impl Interleavers {
    /// Takes an allocation: the node of the CPU that ran, and the one that it landed on.
    pub fn on_alloc(&mut self, event: &Event, (local, node): (u8, u8)) {
        if !event.context.in_interrupt() {
            let share = self.shares.entry((event.pid, local)).or_default();
            share.0 += u64::from(node == local);
            share.1 += 1;
        }
        if !is_user_page(event) {
            return;
        }
        let task = self.tasks.entry(event.pid).or_default();
        task.switches += u64::from(task.last.is_some_and(|last| last != node));
        task.pages += 1;
        task.last = Some(node);
    }

    /// True if nine in ten of the task's user pages changed node against the one before.
    #[must_use]
    pub fn is_interleaving(&self, pid: i32) -> bool {
        self.tasks
            .get(&pid)
            .is_some_and(|task| task.pages >= PAGES_MIN && task.switches * 10 >= task.pages * 9)
    }

    /// True if at least one in ten of the pages that the task took on CPUs of this node came from
    /// it: it is not bound elsewhere, and what came from elsewhere had overflowed.
    #[must_use]
    pub fn takes_local(&self, pid: i32, local: u8) -> bool {
        self.shares.get(&(pid, local)).is_some_and(|&(own, all)| own * 10 >= all)
    }

    /// Tasks whose pages from elsewhere overflowed by [`Self::takes_local`], and those pages.
    #[must_use]
    pub fn overflows(&self) -> (usize, u64) {
        let foreign = |(&(pid, local), &(own, all)): (&(i32, u8), &(u64, u64))| {
            let counts = all > own && self.takes_local(pid, local) && !self.is_interleaving(pid);
            counts.then_some((pid, all - own))
        };
        let found: Vec<(i32, u64)> = self.shares.iter().filter_map(foreign).collect();
        let mut tasks: Vec<i32> = found.iter().map(|&(pid, _)| pid).collect();
        tasks.dedup();
        (tasks.len(), found.iter().map(|&(_, pages)| pages).sum())
    }

    /// Tasks that interleave, and their pages.
    #[must_use]
    pub fn found(&self) -> Vec<(i32, u64)> {
        let pages = |(&pid, task): (&i32, &Task)| (pid, task.pages);
        self.tasks.iter().map(pages).filter(|&(pid, _)| self.is_interleaving(pid)).collect()
    }
}

/// A page that a memory policy of the task places: movable user memory of order 0.
#[must_use]
pub fn is_user_page(event: &Event) -> bool {
    matches!(event.kind, Kind::PageAlloc { order: 0, gfp, .. }
        if gfp.contains(Gfp::MOVABLE) && gfp.contains(Gfp::HIGHMEM))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{alloc, event};
    use super::*;

    #[test]
    fn a_task_that_takes_a_tenth_at_home_overflowed() {
        let mut tasks = Interleavers::default();
        for page in 0..100 {
            let landed = u8::from(page % 10 != 0);
            tasks.on_alloc(&event(page, (0, alloc(page, 0))), (0, landed));
        }
        assert!(tasks.takes_local(1, 0) && !tasks.takes_local(1, 1) && !tasks.takes_local(2, 0));
        assert_eq!(tasks.overflows(), (1, 90));
        tasks.on_alloc(&event(100, (0, alloc(1, 0))), (0, 1));
        assert!(!tasks.takes_local(1, 0), "ten of 101: bound or preferred elsewhere");
        assert_eq!(tasks.overflows(), (0, 0));
    }
}
