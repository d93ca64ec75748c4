//! `check(before, operations, after)`: a test of behaviour as three lines of text.
//!
//! States are written as in [`crate::text`]. Operations are separated by `;`:
//!
//! | operation | meaning |
//! |---|---|
//! | `alloc M0=8` | a request for one block; the first page it gets, or `none` |
//! | `atomic U1=4` | the same, from a context that cannot wait (high-atomic) |
//! | `bulk M 3=0 1 2` | a bulk request for single pages, and what it gets |
//! | `free 8` | frees the block that begins there, with the order it was allocated with |
//! | `cpu 1` | the operations that follow happen on that CPU |
//! | `drain`, `drain 1`, `drain all` | empties the caches of this CPU, of one, of all |
//! | `tick` | the periodic work of this CPU |
//! | `retype I 8` | sets the type of the pageblock of that page |
//! | `off` | switches the caches off |

use std::sync::Arc;

use pageyard::{Allocator, CpuId, Pfn, Platform, Request, Scope, ZoneId, ZoneKind};

use crate::layout::{Layout, make_exact, policy, set_caches};
use crate::machine::Machine;
use crate::text;

/// A small zone and a policy.
#[derive(Clone, Copy, Debug)]
pub struct Yard {
    policy: &'static str,
    pages: u64,
    max_order: u8,
    pageblock_order: u8,
    cpus: usize,
    /// Batch, lowest and highest limit of the caches; a limit of 0 switches them off.
    caches: [u32; 3],
}

impl Yard {
    /// 64 pages in pageblocks of 16, blocks of up to 32, two CPUs, no caches.
    #[must_use]
    pub const fn of(policy: &'static str) -> Yard {
        Yard { policy, pages: 64, max_order: 5, pageblock_order: 4, cpus: 2, caches: [1, 0, 0] }
    }

    /// The same with 16 pages in pageblocks of 8, which are also the largest blocks.
    #[must_use]
    pub const fn small(policy: &'static str) -> Yard {
        Yard { pages: 16, max_order: 3, pageblock_order: 3, ..Yard::of(policy) }
    }

    /// The same with caches of this batch and these limits.
    #[must_use]
    pub const fn caching(self, batch: u32, high_min: u32, high_max: u32) -> Yard {
        Yard { caches: [batch, high_min, high_max], ..self }
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::flat(self.pages, self.max_order, self.pageblock_order, self.cpus)
    }

    /// An allocator in the state of a line.
    pub fn build<M: Machine>(&self, before: &str) -> Arc<Allocator<M::Platform>> {
        let layout = self.layout();
        let allocator = layout.build(M::platform(), policy(self.policy));
        make_exact(&allocator);
        set_caches(&allocator, self.cpus, self.caches);
        text::read(&allocator, &layout, before);
        Arc::new(allocator)
    }
}

/// Runs `operations` on the state `before` and compares the state with `after`.
///
/// # Panics
/// A block or the state is not the one expected, or a line cannot be read.
#[track_caller]
pub fn check<M: Machine>(yard: &Yard, before: &str, operations: &str, after: &str) {
    let allocator = yard.build::<M>(before);
    let mut cpu = CpuId(0);
    for operation in operations.split(';').map(str::trim) {
        if let Some(number) = operation.strip_prefix("cpu ") {
            cpu = CpuId(number.parse().expect("a CPU number"));
            continue;
        }
        let got = M::on(&allocator, cpu, || perform(&allocator, cpu, operation));
        let expected = operation.split_once('=').map_or("", |(_, expected)| expected);
        assert_eq!(got, expected, "{}: {operation}", yard.policy);
    }
    let state = text::write(&allocator, &yard.layout());
    assert_eq!(state, after, "{}: after {operations}", yard.policy);
}

/// Performs one operation; returns what it gave.
fn perform<P: Platform>(allocator: &Allocator<P>, cpu: CpuId, operation: &str) -> String {
    let command = operation.split('=').next().unwrap_or(operation);
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["alloc", what] => return alloc(allocator, &request(what)),
        ["atomic", what] => return alloc(allocator, &atomic(request(what))),
        ["bulk", letter, blocks] => {
            let request = request(&format!("{letter}0"));
            return bulk(allocator, &request, number(blocks) as usize);
        }
        ["free", pfn] => {
            let pfn = Pfn(number(pfn));
            let state = allocator.inspect(pfn).expect("in the zone");
            allocator.free(pfn, state.order);
        }
        ["drain"] => allocator.drain_cpu(cpu),
        ["drain", "all"] => allocator.drain_all(),
        ["drain", owner] => allocator.drain_cpu(CpuId(number(owner) as u16)),
        ["tick"] => allocator.tick(cpu),
        ["retype", letter, pfn] => {
            let t = text::type_of(letter.chars().next().expect("a letter"));
            allocator.set_pageblock_type(Pfn(number(pfn)), t);
        }
        ["off"] => allocator.disable_pcp(ZoneId(0)),
        _ => panic!("no operation is written {operation:?}"),
    }
    String::new()
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn alloc<P: Platform>(allocator: &Allocator<P>, request: &Request) -> String {
    match allocator.alloc(request) {
        Ok(pfn) => pfn.0.to_string(),
        Err(_) => "none".to_owned(),
    }
}

fn bulk<P: Platform>(allocator: &Allocator<P>, request: &Request, blocks: usize) -> String {
    let mut pages = vec![Pfn(0); blocks];
    let got = allocator.alloc_bulk(request, &mut pages);
    let got: Vec<String> = pages[..got].iter().map(|pfn| pfn.0.to_string()).collect();
    got.join(" ")
}

fn atomic(request: Request) -> Request {
    Request { may_wait: false, high_priority: true, non_block: true, ..request }
}

/// A request by type and order: `M0`, `U9`.
fn request(what: &str) -> Request {
    let (letter, order) = what.split_at(1);
    Request {
        mobility: text::type_of(letter.chars().next().expect("a letter")),
        highest: ZoneKind::Normal,
        scope: Scope::AllNodes,
        ..Request::kernel(order.parse().expect("an order"))
    }
}
