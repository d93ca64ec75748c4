//! What a CPU does in bulk of linux-alloc-bench: takes many pages, gives its own back.

use pageyard::{NodeId, Request, Scope};

use super::{Record, Stage};

/// Takes so many pages of the first node. `think` is instructions of a call beside the allocator's
/// body.
pub fn get<S: Stage>(stage: &S, think: u64, pages: usize) -> Vec<S::Page> {
    let request = Request { node: Some(NodeId(0)), scope: Scope::ThisNode, ..Request::user(0) };
    let take = |_| {
        stage.execute(think);
        let page = stage.take(&request);
        stage.record(&page, Record::Write);
        page
    };
    (0..pages).map(take).collect()
}

/// Gives them back, in the order in which they were taken.
pub fn put<S: Stage>(stage: &S, think: u64, pages: Vec<S::Page>) {
    for page in pages {
        stage.execute(think);
        stage.record(&page, Record::Locked);
        stage.free(page);
    }
}
