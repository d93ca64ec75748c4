//! What Jesper Dangaard Brouer's page_bench01, 03, 04 and 05 do (prototype-kernel,
//! kernel/mm/bench): take pages and give them back, singly, in bulk, or on another CPU.

use pageyard::Request;

use super::{Record, Stage, Watch};

/// Parts of page_bench05 that [`Watch::spent`] is told of.
pub const TAKING: usize = 0;
/// See [`TAKING`].
pub const GIVING: usize = 1;
/// Pages of one call at the most: the benchmark's array.
const CALL_PAGES: usize = 128;
/// Pages between two looks at the clock.
const GROUP: u64 = 16;

/// Takes a page and gives it back. `think` is instructions beside the allocator's body.
pub fn iterate<S: Stage>(stage: &S, think: u64) {
    // Others may have written what is only read here: the counters next to the overflowing ones.
    stage.sync();
    stage.execute(think);
    let page = stage.take(&Request::atomic(0));
    stage.record(&page, Record::Write);
    stage.record(&page, Record::Locked);
    stage.free(page);
}

/// page_bench01 and 03: one page after another.
pub fn singly(stage: &impl Stage, watch: &impl Watch, think: u64) {
    while !watch.is_over() {
        iterate(stage, think);
        watch.did(1);
    }
}

/// How page_bench04 takes its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Pages taken before they are given back.
    pub pages: usize,
    /// Whether one call takes them all, as kernels from 5.13 on have it (`alloc_pages_bulk`), or
    /// there is a call for each.
    pub one_call: bool,
}

/// page_bench04: takes so many pages, then gives them back one by one. Half of the think time goes
/// with every call that takes pages, the other half with every page given back.
pub fn in_bulk<S: Stage>(stage: &S, watch: &impl Watch, think: u64, bulk: Bulk) {
    let request = Request::atomic(0);
    let (to_take, to_give) = (think / 2, think - think / 2);
    let mut pages = Vec::with_capacity(bulk.pages);
    while !watch.is_over() {
        stage.sync();
        let from = stage.now_ps();
        while pages.len() < bulk.pages {
            stage.execute(to_take);
            let had = pages.len();
            if bulk.one_call {
                let wanted = (bulk.pages - had).min(CALL_PAGES);
                stage.take_many(&request, wanted, &mut pages);
            } else {
                pages.push(stage.take(&request));
            }
            pages[had..].iter().for_each(|page| stage.record(page, Record::Write));
        }
        let between = stage.now_ps();
        for page in pages.drain(..) {
            stage.execute(to_give);
            stage.record(&page, Record::Locked);
            stage.free(page);
        }
        let end = stage.now_ps();
        watch.spent(TAKING, between - from, bulk.pages as u64);
        watch.spent(GIVING, end - between, bulk.pages as u64);
        watch.did(bulk.pages as u64);
    }
}

/// Time at work, without what was waited for the other side.
struct Worked {
    from: u64,
    waited: u64,
    pages: u64,
}

impl Worked {
    fn new(stage: &impl Stage) -> Worked {
        Worked { from: stage.now_ps(), waited: 0, pages: 0 }
    }

    /// Waits until there is something, and leaves that out.
    fn wait<T>(&mut self, stage: &impl Stage, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let first = look();
        if first.is_some() {
            return first;
        }
        let from = stage.now_ps();
        let mut found = None;
        for _ in 0..LOOKS {
            stage.pause();
            found = look();
            if found.is_some() {
                break;
            }
        }
        self.waited += stage.now_ps() - from;
        found
    }

    fn page(&mut self, stage: &impl Stage, watch: &impl Watch, part: usize) {
        self.pages += 1;
        if self.pages == GROUP {
            let now = stage.now_ps();
            watch.spent(part, (now - self.from).saturating_sub(self.waited), GROUP);
            *self = Worked { from: now, waited: 0, pages: 0 };
        }
    }
}

/// Looks at a ring before asking whether all is over.
const LOOKS: usize = 16;

/// Fills a ring at set-up.
pub fn prefill<S: Stage>(stage: &S, ring: &S::Ring, pages: usize) {
    for _ in 0..pages {
        let back = stage.send(ring, stage.take(&Request::kernel(0)));
        assert!(back.is_none(), "a ring has room for what it is filled with");
    }
}

/// page_bench05, the CPU that takes pages and sends them.
pub fn send_all<S: Stage>(stage: &S, watch: &impl Watch, think: u64, ring: &S::Ring) {
    let request = Request::atomic(0);
    let mut worked = Worked::new(stage);
    while !watch.is_over() {
        stage.execute(think / 2);
        let page = stage.take(&request);
        stage.record(&page, Record::Write);
        let mut back = stage.send(ring, page);
        while back.is_some() && !watch.is_over() {
            worked.wait(stage, || {
                back = back.take().and_then(|page| stage.send(ring, page));
                back.is_none().then_some(())
            });
        }
        // All is over and there was no room.
        back.into_iter().for_each(|page| stage.free(page));
        worked.page(stage, watch, TAKING);
    }
}

/// page_bench05, the CPU that receives pages and gives them back.
pub fn receive_all<S: Stage>(stage: &S, watch: &impl Watch, think: u64, ring: &S::Ring) {
    let mut worked = Worked::new(stage);
    while !watch.is_over() {
        let Some(page) = worked.wait(stage, || stage.receive(ring)) else { continue };
        stage.execute(think - think / 2);
        stage.record(&page, Record::Locked);
        stage.free(page);
        worked.page(stage, watch, GIVING);
        watch.did(1);
    }
}
