//! Blocks of a recording on this machine: whoever takes one puts it on its place, whoever frees it
//! or a part of it looks there.

use std::hint::spin_loop;
use std::sync::OnceLock;

use pageyard_host::{Block, Parts};

use super::stage::Live;
use crate::cells::work::recording::{PartOf, Recall};
use crate::cells::work::{Record, Stage};

/// A place for each block.
pub struct Shelf<'a>(Box<[OnceLock<Option<Parts<'a>>>]>);

impl<'a> Shelf<'a> {
    /// Waits for a block; `None` if there never was one, or all is over.
    fn wait(&self, place: usize, is_over: impl Fn() -> bool) -> Option<&Parts<'a>> {
        loop {
            match self.0[place].get() {
                Some(block) => return block.as_ref(),
                None if is_over() => return None,
                None => spin_loop(),
            }
        }
    }
}

impl<'a> Recall for Live<'a> {
    type Shelf = Shelf<'a>;

    fn shelf(&self, places: usize) -> Shelf<'a> {
        Shelf((0..places).map(|_| OnceLock::new()).collect())
    }

    fn put(&self, shelf: &Shelf<'a>, place: u32, block: Option<Block<'a>>) {
        let is_first = shelf.0[place as usize].set(block.map(Parts::of)).is_ok();
        assert!(is_first, "a program names a block once");
    }

    fn part(
        &self,
        shelf: &Shelf<'a>,
        part: PartOf,
        is_over: impl Fn() -> bool,
    ) -> (Option<Block<'a>>, Option<u64>) {
        let place = part.block as usize;
        let (parts, waited) = match shelf.0[place].get() {
            Some(block) => (block.as_ref(), None),
            None => {
                let from = self.now_ps();
                (shelf.wait(place, is_over), Some(self.now_ps() - from))
            }
        };
        let page = parts.map(|parts| {
            let page = parts.take(part.offset, part.order);
            page.expect("a program frees a part once")
        });
        page.iter().for_each(|page| self.record(page, Record::Locked));
        (page, waited)
    }
}
