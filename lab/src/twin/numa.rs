//! Which node an allocation was meant for: not recorded, inferred.
//!
//! A task whose user pages change node from one to the next is interleaving. Any other page from
//! a foreign node was either wanted there (a bind or preferred policy) or came from an overflow:
//! the twin asks its own watermark test whether the CPU's own node could have served.

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
}

/// Pages below which nothing is said about a task.
const PAGES_MIN: u64 = 64;

impl Interleavers {
    /// Takes an allocation that landed on `node`.
    pub fn on_alloc(&mut self, event: &Event, node: u8) {
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
