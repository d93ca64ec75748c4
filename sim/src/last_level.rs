//! Last-level caches of all sockets, and how much of each page is in which.
//!
//! Who looks for contents asks every socket in turn, and nearly always in vain: a page is used
//! where its memory is. A count by page and socket says so without looking through any set.

use crate::memory::{CONTENT, PAGE_LINES};
use crate::platform::ahead;
use crate::tags::{self, Sets, Shape, Tags};

/// The last-level caches.
pub(crate) struct LastLevel {
    tags: Vec<Tags>,
    /// How lines fall into sets, in each.
    sets: Sets,
    /// Lines of contents by page and socket.
    pages: Vec<u8>,
}

impl LastLevel {
    /// Empty caches, one a socket. So many pages are expected; counts of more are made when met.
    pub(crate) fn new(shape: Shape, sockets: usize, pages: u64) -> LastLevel {
        let tags = vec![Tags::adaptive(shape); sockets];
        // Zeroed by the system: what is never touched is never backed.
        LastLevel { sets: tags[0].sets(), tags, pages: vec![0; pages as usize * sockets] }
    }

    /// Where the count of a line's page is; `None` for lines that are no contents.
    #[inline]
    fn page(&self, socket: usize, line: u64) -> Option<usize> {
        let page = (line & !CONTENT) / PAGE_LINES;
        (line & CONTENT != 0).then(|| page as usize * self.tags.len() + socket)
    }

    /// Whether nothing of a line's page is in a socket's cache. Of other lines nobody knows.
    #[inline]
    fn lacks(&self, socket: usize, line: u64) -> bool {
        let page = self.page(socket, line);
        page.is_some_and(|page| self.pages.get(page).is_none_or(|&lines| lines == 0))
    }

    /// Whether nothing of a line's page is known to be in any cache: false also where nobody knows.
    #[inline]
    pub(crate) fn lack(&self, line: u64) -> bool {
        let counts =
            self.page(0, line).and_then(|page| self.pages.get(page..page + self.tags.len()));
        counts.is_some_and(|counts| counts.iter().all(|&lines| lines == 0))
    }

    /// True if a socket's cache has the line; it is then the most recently used there.
    #[inline]
    pub(crate) fn touch(&mut self, socket: usize, line: u64) -> bool {
        let (set, name) = self.sets.split(line);
        self.touch_at(socket, line, set, name)
    }

    #[inline]
    fn touch_at(&mut self, socket: usize, line: u64, set: usize, name: u32) -> bool {
        if self.lacks(socket, line) {
            self.tags[socket].missed(set);
            return false;
        }
        self.tags[socket].touch_at(set, name)
    }

    /// What touching a line in all caches does if it is in none.
    #[inline]
    pub(crate) fn miss_all(&mut self, line: u64) {
        let (set, _) = self.sets.split(line);
        // Few sets count their misses.
        if tags::is_leader(set) {
            self.tags.iter_mut().for_each(|tags| tags.missed(set));
        }
    }

    /// Touches a line in the caches of other sockets, one after another until one has it, and in
    /// the own: which other has it, and whether the own has.
    pub(crate) fn touch_all(&mut self, own: usize, line: u64) -> (Option<usize>, bool) {
        let (set, name) = self.sets.split(line);
        let mut others = (0..self.tags.len()).filter(|&socket| socket != own);
        let other = others.find(|&socket| self.touch_at(socket, line, set, name));
        (other, self.touch_at(own, line, set, name))
    }

    /// True if a socket's cache has the line; nothing changes.
    pub(crate) fn has(&self, socket: usize, line: u64) -> bool {
        !self.lacks(socket, line) && self.tags[socket].has(line)
    }

    /// Brings the counts of a line's page near on the host.
    #[inline]
    pub(crate) fn bring(&self, line: u64) {
        if let Some(count) = self.page(0, line).and_then(|page| self.pages.get(page)) {
            ahead::bring(count);
        }
    }

    /// See [`Tags::look_ahead`].
    pub(crate) fn look_ahead(&self, socket: usize, lines: impl Iterator<Item = u64>) {
        self.tags[socket].look_ahead(lines);
    }

    /// Takes the line out of a socket's cache, if it is there.
    pub(crate) fn remove(&mut self, socket: usize, line: u64) {
        if !self.lacks(socket, line)
            && self.tags[socket].remove(line)
            && let Some(page) = self.page(socket, line)
        {
            self.pages[page] -= 1;
        }
    }

    /// Puts the line into a socket's cache; returns the line that had to go.
    pub(crate) fn insert(&mut self, socket: usize, line: u64) -> Option<u64> {
        let (set, name) = self.sets.split(line);
        if !self.lacks(socket, line) && self.tags[socket].has_at(set, name) {
            return None;
        }
        let gone = self.tags[socket].put(set, name);
        if let Some(page) = self.page(socket, line) {
            if self.pages.len() <= page {
                self.pages.resize((page + 1).next_multiple_of(4096), 0);
            }
            self.pages[page] += 1;
        }
        if let Some(page) = gone.and_then(|gone| self.page(socket, gone)) {
            self.pages[page] -= 1;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tags alone say, line by line.
    #[test]
    fn counting_pages_changes_nothing() {
        let shape = Shape { sets: 48, ways: 11 };
        let mut tags = vec![Tags::adaptive(shape); 2];
        let mut both = LastLevel::new(shape, 2, 7);
        let (mut word, mut hits) = (7u64, 0);
        for step in 0..60_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let socket = (word >> 40) as usize % 2;
            let flag = if word >> 62 == 0 { 0 } else { CONTENT };
            let line = (word >> 33) % (64 * 24) + flag;
            match (word >> 50) % 8 {
                0 => {
                    tags[socket].remove(line);
                    both.remove(socket, line);
                }
                1..4 => assert_eq!(tags[socket].insert(line), both.insert(socket, line), "{step}"),
                4 => assert_eq!(tags[socket].has(line), both.has(socket, line), "{step}"),
                _ => {
                    let hit = tags[socket].touch(line);
                    assert_eq!(hit, both.touch(socket, line), "{step}");
                    hits += u32::from(hit);
                }
            }
        }
        assert!((5_000..25_000).contains(&hits), "{hits}: both hits and misses were seen");
    }
}
