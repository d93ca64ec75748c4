//! Who may have a copy of each line of memory, and who wrote it last.
//!
//! Up to 128 cores fit in a word with everything else that is known of a line, 32 bytes in all.
//! Machines with more keep the others apart, so that they cost the small ones nothing.

use crate::platform::ahead;

/// Cores of the largest machine that can be modelled.
pub const CORES_MAX: usize = 256;

/// Cores that the first word has room for.
const FIRST: usize = 128;
/// Lines whose states are made at once.
const CHUNK: usize = 256;

/// A set of cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// The first 128, by bit.
    first: u128,
    /// The others.
    others: u128,
}

impl Cores {
    /// One core.
    #[inline]
    #[must_use]
    pub fn one(core: usize) -> Cores {
        match core.checked_sub(FIRST) {
            None => Cores { first: 1 << core, others: 0 },
            Some(core) => Cores { first: 0, others: 1 << core },
        }
    }

    /// So many consecutive cores.
    #[must_use]
    pub fn span(from: usize, count: usize) -> Cores {
        (from..from + count).fold(Cores::default(), |all, core| all.and(Cores::one(core)))
    }

    /// Those of either.
    #[inline]
    #[must_use]
    pub fn and(self, other: Cores) -> Cores {
        Cores { first: self.first | other.first, others: self.others | other.others }
    }

    /// Those of both.
    #[inline]
    #[must_use]
    pub fn within(self, other: Cores) -> Cores {
        Cores { first: self.first & other.first, others: self.others & other.others }
    }

    /// Those that are not of the other.
    #[inline]
    #[must_use]
    pub fn without(self, other: Cores) -> Cores {
        Cores { first: self.first & !other.first, others: self.others & !other.others }
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.first | self.others == 0
    }

    /// Whether there is exactly one.
    #[inline]
    #[must_use]
    pub fn is_one(self) -> bool {
        self.first.count_ones() + self.others.count_ones() == 1
    }

    /// The one with the highest number.
    #[must_use]
    pub fn last(self) -> Option<usize> {
        let highest = |word: u128| word.checked_ilog2().map(|bit| bit as usize);
        highest(self.others).map(|core| core + FIRST).or_else(|| highest(self.first))
    }
}

/// What is known of a line. Aligned, so that it never lies on two lines of the host.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct State {
    /// Of the first 128 cores, those that may have a copy, by bit.
    first: [u64; 2],
    /// When a locked instruction had the line last.
    pub(crate) locked_at: u64,
    /// CPU + 1 whose instruction that was.
    pub(crate) locker: u16,
    /// Core + 1 that wrote last and has the only copy.
    pub(crate) owner: u16,
    /// Socket whose memory it is.
    pub(crate) home: u8,
}

impl State {
    #[inline]
    fn first(&self) -> u128 {
        u128::from(self.first[0]) | u128::from(self.first[1]) << 64
    }
}

const _: () = assert!(size_of::<State>() == 32, "two of them share a line of the host");

type Chunks<T> = Vec<Option<Box<[T; CHUNK]>>>;

/// States of all lines, made when they are first asked for.
pub(crate) struct Directory {
    states: Chunks<State>,
    /// Copies of cores beyond the first 128; nothing on machines without.
    others: Chunks<u128>,
    home_of: Box<dyn Fn(u64) -> u8>,
}

impl Directory {
    /// Of so many lines and cores; `home_of` says which socket a line's memory belongs to.
    pub(crate) fn new(lines: u64, cores: usize, home_of: Box<dyn Fn(u64) -> u8>) -> Directory {
        assert!(cores <= CORES_MAX, "a machine has at most {CORES_MAX} cores");
        let chunks = (lines as usize).div_ceil(CHUNK);
        let (mut states, mut others) = (Vec::new(), Vec::new());
        states.resize_with(chunks, || None);
        others.resize_with(if cores > FIRST { chunks } else { 0 }, || None);
        Directory { states, others, home_of }
    }

    /// Whether there is such a line.
    #[inline]
    pub(crate) fn has(&self, line: u64) -> bool {
        line as usize / CHUNK < self.states.len()
    }

    /// The state of a line.
    #[inline]
    pub(crate) fn state(&mut self, line: u64) -> &mut State {
        let chunk = &mut self.states[line as usize / CHUNK];
        let states = match chunk {
            Some(states) => states,
            None => chunk.insert(new_states(&self.home_of, line)),
        };
        &mut states[line as usize % CHUNK]
    }

    /// Brings the state of a line near on the host, if it was made already.
    #[inline]
    pub(crate) fn bring(&self, line: u64) {
        if let Some(Some(states)) = self.states.get(line as usize / CHUNK) {
            ahead::bring(&states[line as usize % CHUNK]);
        }
    }

    /// Cores that may have a copy of a line.
    #[inline]
    pub(crate) fn cores(&mut self, line: u64) -> Cores {
        let first = self.state(line).first();
        Cores { first, others: if self.others.is_empty() { 0 } else { *self.others_of(line) } }
    }

    /// Core + 1 that wrote a line last and has the only copy, and whether a core may have a copy.
    #[inline]
    pub(crate) fn owner_and_has(&mut self, line: u64, core: usize) -> (u16, bool) {
        let state = self.state(line);
        let owner = state.owner;
        let has = match state.first.get(core / 64) {
            Some(word) => word >> (core % 64) & 1 != 0,
            None => !self.cores(line).within(Cores::one(core)).is_empty(),
        };
        (owner, has)
    }

    /// Tells which cores these are.
    #[inline]
    pub(crate) fn set_cores(&mut self, line: u64, cores: Cores) {
        self.state(line).first = [cores.first as u64, (cores.first >> 64) as u64];
        if !self.others.is_empty() {
            *self.others_of(line) = cores.others;
        }
    }

    fn others_of(&mut self, line: u64) -> &mut u128 {
        let chunk = &mut self.others[line as usize / CHUNK];
        &mut chunk.get_or_insert_with(|| Box::new([0; CHUNK]))[line as usize % CHUNK]
    }
}

#[cold]
fn new_states(home_of: &dyn Fn(u64) -> u8, line: u64) -> Box<[State; CHUNK]> {
    let mut states = Box::new([State::default(); CHUNK]);
    for (line, state) in (line - line % CHUNK as u64..).zip(states.iter_mut()) {
        state.home = home_of(line);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_reach_over_both_words() {
        let all = Cores::span(100, 100);
        assert_eq!((all.last(), all.is_one()), (Some(199), false));
        let (near, far) = (Cores::one(127), Cores::one(128));
        assert!(near.is_one() && near.within(far).is_empty());
        assert_eq!(near.and(far).without(far), near);
        assert_eq!(all.without(Cores::span(128, 128)).last(), Some(127));
        assert_eq!(Cores::default().last(), None);
    }

    #[test]
    fn copies_of_all_cores_are_kept() {
        for cores in [1, 128, 129, CORES_MAX] {
            let mut directory = Directory::new(1000, cores, Box::new(|line| (line / 500) as u8));
            let last = Cores::one(cores - 1);
            directory.set_cores(700, last.and(Cores::one(0)));
            assert_eq!(directory.cores(700).without(Cores::one(0)).is_empty(), cores == 1);
            assert_eq!(directory.cores(700).within(last), last);
            assert!(directory.cores(701).is_empty());
            assert_eq!((directory.state(499).home, directory.state(500).home), (0, 1));
        }
    }
}
