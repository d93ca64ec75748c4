//! Page records of this machine's workloads, 64 bytes a page as the kernel's, and the list of pages
//! in use that is threaded through them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pageyard::Pfn;
use pageyard_host::lock::SpinLock;

use crate::cells::work::Record;

/// What is kept of a page, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    /// Record + 1 of the neighbours on the list, 0 at its ends. Owned by the list's lock.
    before: AtomicU32,
    after: AtomicU32,
    /// References and flags: what plain stores and locked instructions go to.
    word: AtomicU64,
}

/// Records of all pages, and the list.
#[derive(Debug)]
pub struct Pages {
    first: Pfn,
    lines: Box<[Line]>,
    lock: Lock,
    /// Record + 1 of the first page of the list. Owned by its lock.
    head: AtomicU32,
    /// Pages are no longer listed: somebody frees what is on the list.
    is_given_up: AtomicBool,
}

struct Lock(SpinLock);

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lru, waited for {} times", self.0.waits())
    }
}

/// Uses a word. Relaxed throughout: nothing is told by it, it is work.
pub(super) fn touch(word: &AtomicU64, how: Record) {
    match how {
        Record::Read => {
            std::hint::black_box(word.load(Ordering::Relaxed));
        }
        Record::Write => word.store(1, Ordering::Relaxed),
        Record::Locked => {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Pages {
    /// Records of so many pages from `first` on, none on the list.
    #[must_use]
    pub fn new(first: Pfn, pages: usize) -> Pages {
        let lines = (0..pages).map(|_| Line::default()).collect();
        let (lock, is_given_up) = (Lock(SpinLock::new("lru")), AtomicBool::new(false));
        Pages { first, lines, lock, head: AtomicU32::new(0), is_given_up }
    }

    fn at(&self, pfn: Pfn) -> usize {
        (pfn.0 - self.first.0) as usize
    }

    /// Lists nothing any more: a thread that ends early frees pages that are on the list.
    pub fn give_up(&self) {
        // Relaxed: whoever gets one of those pages took a lock of the allocator after this thread.
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Uses a record.
    pub fn touch(&self, pfn: Pfn, how: Record) {
        touch(&self.lines[self.at(pfn)].word, how);
    }

    /// Puts pages at the head, under one hold of the lock; `locked` locked instructions for each.
    pub fn list(&self, pages: impl Iterator<Item = Pfn>, locked: u32) {
        self.lock.0.with(|| {
            for pfn in pages.filter(|_| !self.is_given_up()) {
                (0..locked).for_each(|_| self.touch(pfn, Record::Locked));
                self.link(self.at(pfn));
            }
        });
    }

    /// Drops a reference of each page and takes them off, the first reference before the lock.
    pub fn unlist(&self, mut pages: impl Iterator<Item = Pfn>) {
        let Some(first) = pages.next() else { return };
        self.touch(first, Record::Locked);
        self.lock.0.with(|| {
            if self.is_given_up() {
                return;
            }
            self.unlink(self.at(first));
            for pfn in pages {
                self.touch(pfn, Record::Locked);
                self.unlink(self.at(pfn));
            }
        });
    }

    // Relaxed in both: the list's lock orders them.
    fn link(&self, page: usize) {
        let (name, line) = (page as u32 + 1, &self.lines[page]);
        let first = self.head.load(Ordering::Relaxed);
        line.before.store(0, Ordering::Relaxed);
        line.after.store(first, Ordering::Relaxed);
        if let Some(first) = first.checked_sub(1) {
            self.lines[first as usize].before.store(name, Ordering::Relaxed);
        }
        self.head.store(name, Ordering::Relaxed);
    }

    fn unlink(&self, page: usize) {
        let line = &self.lines[page];
        let before = line.before.load(Ordering::Relaxed);
        let after = line.after.load(Ordering::Relaxed);
        let at = match before.checked_sub(1) {
            Some(before) => &self.lines[before as usize].after,
            None => &self.head,
        };
        debug_assert_eq!(at.load(Ordering::Relaxed), page as u32 + 1, "it is on the list");
        at.store(after, Ordering::Relaxed);
        if let Some(after) = after.checked_sub(1) {
            self.lines[after as usize].before.store(before, Ordering::Relaxed);
        }
    }

    /// Entries to the list's lock that had to wait.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.lock.0.waits()
    }

    /// Pages on the list, by walking it; at rest.
    #[must_use]
    pub fn listed(&self) -> usize {
        let mut next = self.head.load(Ordering::Relaxed);
        let mut pages = 0;
        while let Some(page) = next.checked_sub(1) {
            next = self.lines[page as usize].after.load(Ordering::Relaxed);
            pages += 1;
            assert!(pages <= self.lines.len(), "the list goes in circles");
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_list_and_unlist_pages_of_their_own_and_none_is_lost() {
        let pages = Pages::new(Pfn(100), 4 * 64);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let pages = &pages;
                scope.spawn(move || {
                    let mine = || (0..64).map(|at| Pfn(100 + thread * 64 + at));
                    for _ in 0..50 {
                        pages.list(mine(), 1);
                        pages.unlist(mine().filter(|pfn| pfn.0 % 2 == 0));
                        pages.unlist(mine().filter(|pfn| pfn.0 % 2 == 1));
                    }
                    pages.list(mine().take(16), 1);
                });
            }
        });
        assert_eq!(pages.listed(), 64);
    }
}
