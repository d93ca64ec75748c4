//! When a CPU knows what it loads: lines on their way to it, pointers in them, and words that it
//! stored itself.
//!
//! A processor that runs ahead waits for values, not for instructions: the next block of a list is
//! asked for once the record that names it is here, its buddy as soon as the block's own number is
//! known. A word that was just stored is had from the store buffer, though its line is still away.

use pageyard::ORDERS_MAX;

use crate::memory::Line;

/// Stores whose values can be had before their lines are: those of the store buffer, at the least
/// 42 (Haswell, Broadwell) to 56 (Skylake) entries.
const STORED: usize = 48;
/// Pages that are remembered of those that links named last: a page that is taken off a list,
/// halved and put on another has its neighbours loaded, and the first page of each list that a half
/// goes to. More than are named from one use of a page to the next.
const NAMED: usize = 16;
/// Pages whose numbers are known when one of them is: buddies differ in bits of the number only.
const BLOCK_BITS: u32 = ORDERS_MAX as u32 - 1;

/// A line on its way, from and until when. A line that is here to be read goes away once more when
/// a store asks for it alone: loads that come before the store leaves do not notice.
#[derive(Clone, Copy, Debug)]
struct Coming {
    line: Line,
    from: u64,
    until: u64,
}

/// What one CPU waits for. Times are picoseconds.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Lines on their way.
    lines: Vec<Coming>,
    /// When the last of them will be here.
    lines_until: u64,
    /// Words of page records that were stored last: a ring.
    stored: [u64; STORED],
    next: usize,
    /// Pages that the last links that were loaded name, a ring, and when each was known first.
    named: [usize; NAMED],
    named_at: [u64; NAMED],
    /// When the last of them is known.
    named_until: u64,
    next_named: usize,
    /// When the value that was loaded last is known.
    pub loaded: u64,
    /// When the pointer that was loaded last is known.
    pub pointed: u64,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            lines: Vec::new(),
            lines_until: 0,
            stored: [u64::MAX; STORED],
            next: 0,
            loaded: 0,
            pointed: 0,
            named: [usize::MAX; NAMED],
            named_at: [0; NAMED],
            named_until: 0,
            next_named: 0,
        }
    }
}

impl Flow {
    /// When a line will be here that is on its way at a time.
    #[inline]
    pub fn arrives(&self, line: Line, at: u64) -> Option<u64> {
        if at >= self.lines_until {
            return None;
        }
        self.on_its_way(line, at)
    }

    #[inline(never)]
    fn on_its_way(&self, line: Line, at: u64) -> Option<u64> {
        let coming = self.lines.iter().filter(|coming| coming.line == line);
        coming.filter(|coming| coming.from <= at && at < coming.until).map(|c| c.until).max()
    }

    /// A line was asked for, or will be, and is on its way from one time to another.
    pub fn asked(&mut self, line: Line, from: u64, until: u64, now: u64) {
        self.lines.retain(|coming| coming.until > now);
        self.lines.push(Coming { line, from, until });
        self.lines_until = self.lines_until.max(until);
    }

    /// When the number of a page is known, at the earliest now: it was in a link, or follows from
    /// the nearest number of its block that was, as a buddy's or a half's does.
    #[inline]
    pub fn known(&self, page: usize, now: u64) -> u64 {
        if now >= self.named_until {
            return now;
        }
        self.nearest(page).max(now)
    }

    /// When the nearest number of a page's block is known.
    #[inline(never)]
    fn nearest(&self, page: usize) -> u64 {
        let mut nearest = (1 << BLOCK_BITS, 0);
        for (&named, &at) in self.named.iter().zip(&self.named_at) {
            nearest = nearest.min((named ^ page, at));
        }
        nearest.1
    }

    /// A pointer to a page will be known at a time. If the page was named before, its number is
    /// known since then: the pointer is the one that was stored, or the CPU has it in a register.
    pub fn points(&mut self, page: usize, at: u64) {
        self.pointed = at;
        if !self.named.contains(&page) {
            self.named[self.next_named] = page;
            self.named_at[self.next_named] = at;
            self.named_until = self.named_until.max(at);
            self.next_named = (self.next_named + 1) % NAMED;
        }
    }

    /// A word of a page record is stored.
    pub fn stores(&mut self, word: u64) {
        self.stored[self.next] = word;
        self.next = (self.next + 1) % STORED;
    }

    /// Whether a word is among those stored last.
    pub fn is_stored(&self, word: u64) -> bool {
        self.stored.contains(&word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_on_its_way_until_it_is_here() {
        let mut flow = Flow::default();
        flow.asked(Line(7), 0, 80_000, 0);
        flow.asked(Line(9), 50_000, 90_000, 0);
        assert_eq!(flow.arrives(Line(9), 40_000), None, "the store has not left yet");
        assert_eq!(flow.arrives(Line(9), 50_000), Some(90_000));
        assert_eq!(flow.arrives(Line(7), 10_000), Some(80_000));
        assert_eq!(flow.arrives(Line(8), 10_000), None);
        assert_eq!(flow.arrives(Line(7), 80_000), None);
    }

    #[test]
    fn buddies_are_known_when_the_page_is() {
        let mut flow = Flow::default();
        flow.points(5000, 90_000);
        assert_eq!(flow.known(5001, 10_000), 90_000);
        assert_eq!(flow.known(9000, 10_000), 10_000, "another block's number is not waited for");
        flow.points(5100, 95_000);
        assert_eq!(flow.known(5100, 92_000), 95_000);
        assert_eq!(flow.known(5001, 10_000), 90_000, "nor another page's of the block");
        flow.points(5000, 99_000);
        assert_eq!(flow.known(5000, 92_000), 92_000, "nor a second pointer to the same");
    }

    #[test]
    fn what_was_stored_last_is_known() {
        let mut flow = Flow::default();
        (0..100).for_each(|word| flow.stores(word));
        assert!(flow.is_stored(99) && !flow.is_stored(0));
    }
}
