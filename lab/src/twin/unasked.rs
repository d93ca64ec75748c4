//! Drains that no free set off: ticks, and drains that somebody asked for.
//!
//! The event names the CPU that ran. Since 6.0 whoever drains all caches does it from where it
//! runs, CPU by CPU, zone by zone, list by list; whose cache a page was in is known from the event
//! that put it there. A run of such drains is split where the owner changes; a page that no event
//! shows before was in the cache of its neighbours.

use super::history::ListKey;

/// A drain of one cache that no free set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unasked {
    /// Number of its first event.
    pub event: u64,
    /// Time of it, nanoseconds.
    pub time_ns: u64,
    /// CPU whose cache it was; another one may have drained it.
    pub cpu: u16,
    /// CPU that drained it.
    pub by: u16,
    /// Zone.
    pub zone: usize,
    /// Base pages.
    pub pages: u32,
    /// One of a round over several caches, or by another CPU: it emptied this one.
    pub whole: bool,
}

/// A page that such a drain gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of the event.
    pub event: u64,
    /// Time of it, nanoseconds.
    pub time_ns: u64,
    /// Page frame.
    pub pfn: u64,
    /// Zone.
    pub zone: usize,
    /// Order.
    pub order: u8,
    /// Type of its list: 0 to 2.
    pub t: u8,
    /// CPU whose list it was on, if an event told.
    pub owner: Option<u16>,
    /// No event named the page before.
    pub is_new: bool,
}

/// Pages of one cache within a run.
struct Part {
    owner: Option<u16>,
    pages: Vec<Page>,
}

impl Part {
    /// Whether the page can be the next of this cache: lists are emptied in their order.
    fn takes(&self, page: &Page, remote: bool) -> bool {
        let last = &self.pages[self.pages.len() - 1];
        let in_order = !remote || (last.order, last.t) <= (page.order, page.t);
        let same = self.owner.is_none() || page.owner.is_none() || self.owner == page.owner;
        last.zone == page.zone && in_order && same
    }
}

/// Finds them while the events go by.
#[derive(Debug)]
pub struct Finder {
    /// A CPU may drain the caches of others.
    remote: bool,
    /// Runs under way, by CPU.
    open: Vec<Vec<Page>>,
    found: Vec<Unasked>,
}

impl Finder {
    /// Nothing is under way. `remote` says whether the kernel lets a CPU drain others' caches.
    #[must_use]
    pub fn new(cpus: usize, remote: bool) -> Finder {
        Finder { remote, open: vec![Vec::new(); cpus], found: Vec::new() }
    }

    /// Takes a page that `cpu` drained without a free before.
    pub fn on_page(&mut self, cpu: u16, page: Page) {
        let owner = page.owner.filter(|_| self.remote);
        self.open[usize::from(cpu)].push(Page { owner, ..page });
    }

    /// Ends the run of a CPU: something else happened there. Tells `first_seen` of each page that
    /// no event named before, with the list it was on; returns the drains of the run.
    pub fn end(&mut self, cpu: u16, mut first_seen: impl FnMut(ListKey, u64)) -> &[Unasked] {
        if self.open[usize::from(cpu)].is_empty() {
            return &[];
        }
        let found_before = self.found.len();
        let run = std::mem::take(&mut self.open[usize::from(cpu)]);
        let parts = split(run, self.remote);
        let several = parts.len() > 1;
        let mut before: Option<(u16, usize)> = None;
        for Part { owner, pages } in parts {
            let zone = pages[0].zone;
            let owner = owner.unwrap_or_else(|| self.guess(cpu, before, zone));
            before = Some((owner, zone));
            for page in pages.iter().filter(|page| page.is_new) {
                first_seen((owner, zone, page.order, page.t), page.pfn);
            }
            self.found.push(Unasked {
                event: pages[0].event,
                time_ns: pages[0].time_ns,
                cpu: owner,
                by: cpu,
                zone,
                pages: pages.iter().map(|page| 1 << page.order).sum(),
                whole: self.remote && (several || owner != cpu),
            });
        }
        &self.found[found_before..]
    }

    /// Owner of a part of which nothing is known: the one before while zones rise, else the next
    /// CPU; of the first part, the CPU that drains.
    fn guess(&self, cpu: u16, before: Option<(u16, usize)>, zone: usize) -> u16 {
        let last = self.open.len().saturating_sub(1) as u16;
        match before {
            Some((owner, zone_before)) if zone > zone_before || !self.remote => owner,
            Some((owner, _)) => (owner + 1).min(last),
            None => cpu,
        }
    }

    /// The drains found so far, in order of their events; those under way are ended first.
    #[must_use]
    pub fn finish(mut self, mut first_seen: impl FnMut(ListKey, u64)) -> Vec<Unasked> {
        for cpu in 0..self.open.len() as u16 {
            self.end(cpu, &mut first_seen);
        }
        self.found.sort_by_key(|drain| drain.event);
        self.found
    }
}

/// Splits a run into caches.
fn split(run: Vec<Page>, remote: bool) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for page in run {
        match parts.last_mut().filter(|part| part.takes(&page, remote)) {
            Some(part) => {
                part.owner = part.owner.or(page.owner);
                part.pages.push(page);
            }
            None => parts.push(Part { owner: page.owner, pages: vec![page] }),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pfn: u64, zone: usize, list: (u8, u8), owner: Option<u16>) -> Page {
        let (order, t) = list;
        Page { event: pfn, time_ns: 0, pfn, zone, order, t, owner, is_new: owner.is_none() }
    }

    /// CPU, zone and pages of each part of one run on CPU 1 of 4.
    fn parts(remote: bool, run: &[Page]) -> Vec<(u16, usize, u32)> {
        let mut finder = Finder::new(4, remote);
        run.iter().for_each(|&page| finder.on_page(1, page));
        let found = finder.end(1, |_, _| {});
        found.iter().map(|drain| (drain.cpu, drain.zone, drain.pages)).collect()
    }

    #[test]
    fn a_page_that_no_event_named_belongs_to_its_neighbours() {
        let run = [page(1, 0, (0, 1), None), page(2, 0, (0, 1), Some(3)), page(3, 0, (1, 0), None)];
        assert_eq!(parts(true, &run), [(3, 0, 4)]);
    }

    #[test]
    fn a_list_below_the_last_one_is_of_another_cache() {
        let run = [page(1, 0, (3, 0), Some(0)), page(2, 0, (0, 1), None), page(3, 1, (0, 0), None)];
        assert_eq!(parts(true, &run), [(0, 0, 8), (1, 0, 1), (1, 1, 1)]);
    }

    #[test]
    fn before_remote_drains_a_run_is_split_by_zones_alone() {
        let run =
            [page(1, 0, (3, 0), Some(0)), page(2, 0, (0, 1), Some(2)), page(3, 1, (0, 0), None)];
        assert_eq!(parts(false, &run), [(1, 0, 9), (1, 1, 1)]);
    }

    #[test]
    fn a_new_page_was_on_a_list_of_the_owner() {
        let mut finder = Finder::new(4, true);
        finder.on_page(1, page(1, 0, (0, 1), Some(2)));
        finder.on_page(1, page(2, 0, (0, 1), None));
        let mut lists = Vec::new();
        let found = finder.finish(|list, pfn| lists.push((list, pfn)));
        assert_eq!(lists, [((2, 0, 0, 1), 2)]);
        assert!(found[0].whole && found[0].by == 1);
    }
}
