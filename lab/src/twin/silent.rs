//! Refills whose allocation left no event.
//!
//! A list is refilled when it is empty and somebody wants a page of it. Where no allocation of the
//! list's order and type follows, or one that took a later page of the refill than its first, a
//! bulk allocation wanted it: it took whatever the list still held, then the first of the new
//! pages. Both are certain, whatever else is not.

use std::collections::BTreeMap;

use pageyard_trace::event::Kind;

use super::runs::Refill;

/// Base pages that one bulk allocation is taken to have found in a list at the most.
pub const LEFT_IN_LIST_MAX: usize = 512;

/// A refill of order 0 for an allocation that left no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Number of the refill's last event.
    pub at: u64,
    /// Number of its first event.
    pub from: u64,
    /// CPU.
    pub cpu: u16,
    /// Zone.
    pub zone: usize,
    /// Type of the list: 0 to 2.
    pub t: u8,
    /// Page frame of the first page refilled: taken.
    pub first: u64,
    /// Records + 1 of further pages of it that were taken, because they were freed later.
    pub taken: Vec<u32>,
}

/// Finds them while the events go by.
#[derive(Debug, Default)]
pub struct Finder {
    found: Vec<Silent>,
    /// Refills by their first page, as long as nothing refutes them.
    open: BTreeMap<u64, usize>,
    refuted: Vec<usize>,
}

impl Finder {
    /// Takes a refill that ended, and the page of the allocation it was for. A single page of a
    /// zone that refills more at once may have gone past the list.
    pub fn on_refill(&mut self, run: &Refill, served: Option<u64>, batch: u32) {
        let single = run.blocks < 2 && batch > 1;
        if run.order != 0 || run.migratetype > 2 || single || served == Some(run.first) {
            return;
        }
        self.open.insert(run.first, self.found.len());
        self.found.push(Silent {
            at: run.last,
            from: run.event,
            cpu: run.cpu,
            zone: run.zone,
            t: run.migratetype,
            first: run.first,
            taken: Vec::new(),
        });
    }

    /// Takes an event about a page. If the first page of a refill is allocated or drained after
    /// all, the task that wanted it was only interrupted.
    pub fn on_page(&mut self, pfn: u64, kind: &Kind) {
        if let Some(found) = self.open.remove(&pfn)
            && matches!(kind, Kind::PageAlloc { .. } | Kind::PcpuDrain { .. })
        {
            self.refuted.push(found);
        }
    }

    /// The refills found, in order of their last events.
    #[must_use]
    pub fn finish(mut self) -> Vec<Silent> {
        self.refuted.sort_unstable();
        let mut at = 0;
        self.found.retain(|_| {
            at += 1;
            self.refuted.binary_search(&(at - 1)).is_err()
        });
        self.found.sort_by_key(|silent| silent.at);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, event: u64) -> Refill {
        let (cpu, zone, order, migratetype, blocks) = (1, 2, 0, 0, 63);
        Refill { cpu, zone, order, migratetype, blocks, first, event, last: event + 62 }
    }

    fn alloc() -> Kind {
        Kind::PageAlloc { pfn: 0, order: 0, migratetype: 0, gfp: pageyard_trace::event::Gfp(0) }
    }

    fn found(finder: Finder) -> Vec<u64> {
        finder.finish().iter().map(|silent| silent.first).collect()
    }

    #[test]
    fn a_refill_that_served_its_first_page_is_not_silent() {
        let mut finder = Finder::default();
        finder.on_refill(&run(100, 0), Some(100), 63);
        finder.on_refill(&run(200, 100), Some(204), 63);
        finder.on_refill(&run(300, 200), None, 63);
        assert_eq!(found(finder), [200, 300]);
    }

    #[test]
    fn an_allocation_that_was_only_delayed_refutes_it() {
        let mut finder = Finder::default();
        finder.on_refill(&run(100, 0), None, 63);
        finder.on_refill(&run(200, 100), None, 63);
        finder.on_refill(&run(300, 200), None, 63);
        finder.on_page(100, &alloc());
        finder.on_page(300, &Kind::PageFree { pfn: 300, order: 0 });
        finder.on_page(300, &alloc());
        assert_eq!(found(finder), [200, 300]);
    }

    #[test]
    fn blocks_and_single_pages_are_left_alone() {
        let mut finder = Finder::default();
        finder.on_refill(&Refill { order: 2, ..run(100, 0) }, None, 63);
        finder.on_refill(&Refill { blocks: 1, ..run(200, 0) }, None, 63);
        finder.on_refill(&Refill { migratetype: 3, ..run(300, 0) }, None, 63);
        assert_eq!(found(finder), [0; 0]);
    }

    #[test]
    fn where_a_batch_is_one_page_a_single_page_is_a_refill() {
        let mut finder = Finder::default();
        finder.on_refill(&Refill { blocks: 1, ..run(100, 0) }, None, 1);
        finder.on_refill(&Refill { blocks: 1, ..run(200, 0) }, Some(200), 1);
        assert_eq!(found(finder), [100]);
    }
}
