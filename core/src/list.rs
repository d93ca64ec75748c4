//! Doubly linked lists of blocks, threaded through the page records.
//!
//! A list head is a record with two fields: first and last. A page's links belong to
//! whoever holds the lock of the list that the page is on: the zone lock for free lists, the pcp
//! lock for per-CPU lists, nobody while the page is in use.

use crate::platform::{Field, Owned};

/// Fields of a list head. Owned by the lock of the list.
pub(crate) const FIRST: Field = Field(0);
pub(crate) const LAST: Field = Field(1);

/// Links of a page record. Owned by the lock of the list that the page is on.
pub(crate) const NEXT: Field = Field(0);
pub(crate) const PREV: Field = Field(1);

/// A list: a head record and the page records it links. Pages are stored as record + 1, so that
/// zero is "none" and a zeroed table holds empty lists.
pub(crate) struct List<'a, T: Owned> {
    pub heads: &'a T,
    pub head: usize,
    pub pages: &'a T,
}

fn decode(word: u32) -> Option<usize> {
    word.checked_sub(1).map(|page| page as usize)
}

fn encode(page: usize) -> u32 {
    page as u32 + 1
}

impl<T: Owned> List<'_, T> {
    #[inline]
    pub fn first(&self) -> Option<usize> {
        decode(self.heads.get(self.head, FIRST))
    }

    #[inline]
    pub fn last(&self) -> Option<usize> {
        decode(self.heads.get(self.head, LAST))
    }

    #[inline]
    pub fn after(&self, page: usize) -> Option<usize> {
        decode(self.pages.get(page, NEXT))
    }

    #[inline]
    pub fn push_first(&self, page: usize) {
        let next = self.heads.get(self.head, FIRST);
        self.pages.set(page, NEXT, next);
        self.pages.set(page, PREV, 0);
        match decode(next) {
            Some(next) => self.pages.relink(next, PREV, encode(page)),
            None => self.heads.set(self.head, LAST, encode(page)),
        }
        self.heads.set(self.head, FIRST, encode(page));
    }

    #[inline]
    pub fn push_last(&self, page: usize) {
        let prev = self.heads.get(self.head, LAST);
        self.pages.set(page, PREV, prev);
        self.pages.set(page, NEXT, 0);
        match decode(prev) {
            Some(prev) => self.pages.relink(prev, NEXT, encode(page)),
            None => self.heads.set(self.head, FIRST, encode(page)),
        }
        self.heads.set(self.head, LAST, encode(page));
    }

    /// Takes a page out of the middle. The page is on this list.
    #[inline]
    pub fn remove(&self, page: usize) {
        let next = self.pages.get(page, NEXT);
        let prev = self.pages.get(page, PREV);
        match decode(next) {
            Some(next) => self.pages.relink(next, PREV, prev),
            None => self.heads.set(self.head, LAST, prev),
        }
        match decode(prev) {
            Some(prev) => self.pages.relink(prev, NEXT, next),
            None => self.heads.set(self.head, FIRST, next),
        }
    }

    #[inline]
    pub fn pop_first(&self) -> Option<usize> {
        let page = self.first()?;
        let next = self.pages.get(page, NEXT);
        self.heads.set(self.head, FIRST, next);
        match decode(next) {
            Some(next) => self.pages.relink(next, PREV, 0),
            None => self.heads.set(self.head, LAST, 0),
        }
        Some(page)
    }

    #[inline]
    pub fn pop_last(&self) -> Option<usize> {
        let page = self.last()?;
        self.remove(page);
        Some(page)
    }
}
