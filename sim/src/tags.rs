//! What a cache holds: sets of ways, the least recently used way goes first.
//!
//! A last-level cache adapts: when more goes round than it holds, it keeps a part of it instead of
//! losing each line just before it is wanted again. Some sets always put a new line in front, some
//! nearly always last, all others do as those of the two that miss less (Qureshi and others,
//! Adaptive insertion policies, ISCA 2007; that Intel's do something of the kind since Ivy Bridge:
//! H. Wong, Intel Ivy Bridge cache replacement policy, 2013).

use crate::memory::CONTENT;
use crate::platform::ahead;

/// Lines and ways of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sets; any number, real caches of 11 ways and 28 slices have odd ones.
    pub sets: usize,
    /// Ways of a set.
    pub ways: usize,
}

impl Shape {
    /// A cache of so many bytes in lines of 64.
    #[must_use]
    pub fn of(bytes: u64, ways: u64) -> Shape {
        let sets = (bytes / 64 / ways.max(1)).max(1);
        Shape { sets: sets as usize, ways: ways.max(1) as usize }
    }
}

/// One of so many sets always puts new lines in front, another one nearly always last.
const LEADERS: usize = 32;
/// One of so many new lines that are put last is put in front all the same.
const FRONT_EVERY: u32 = 32;
/// How far the two can be apart.
const LEAD_MAX: i32 = 512;

/// Which of the two ways to put in a new line misses less.
#[derive(Clone, Debug, Default)]
struct Duel {
    /// Misses of sets that put lines in front, less those of the others.
    lead: i32,
    lasts: u32,
}

/// Whether misses of a set count in a duel.
#[inline]
pub(crate) fn is_leader(set: usize) -> bool {
    set % LEADERS <= 1
}

impl Duel {
    #[inline]
    fn missed(&mut self, set: usize) {
        self.lead = match set % LEADERS {
            0 => (self.lead + 1).min(LEAD_MAX),
            1 => (self.lead - 1).max(-LEAD_MAX),
            _ => return,
        };
    }

    /// Whether a new line of a set is put last.
    #[inline]
    fn is_last(&mut self, set: usize) -> bool {
        let is_last = match set % LEADERS {
            0 => false,
            1 => true,
            _ => self.lead > 0,
        };
        self.lasts = (self.lasts + u32::from(is_last)) % FRONT_EVERY;
        is_last && self.lasts != 0
    }
}

/// Lines are numbered below this, apart from the flag: more than any machine has memory for, and
/// few enough for [`Sets::split`].
const LINES_MAX: u64 = 1 << 40;
/// Ways are looked through in steps of so many: one vector of every processor.
const STEP: usize = 4;

/// Which set a line belongs to, and which of the set's lines it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sets {
    /// A power of two: the lowest bits.
    Bits(u32),
    /// Any other number, by its reciprocal, 2^64 / sets rounded up: dividing takes long. `flag` is
    /// what the flag's value leaves when it is divided.
    Number { sets: u64, reciprocal: u64, flag: u64 },
}

impl Sets {
    fn of(sets: usize) -> Sets {
        let sets = sets as u64;
        assert!(sets < 1 << 23, "a cache of {sets} sets: at most 2^23 can be modelled");
        match sets.is_power_of_two() {
            true => Sets::Bits(sets.trailing_zeros()),
            false => Sets::Number { sets, reciprocal: u64::MAX / sets + 1, flag: CONTENT % sets },
        }
    }

    /// Set and name of a line. Names begin with 1: 0 is empty. A line and the line of contents with
    /// the same number have names that differ in their lowest bit.
    #[inline]
    pub(crate) fn split(self, line: u64) -> (usize, u32) {
        let (number, flag) = (line & !CONTENT, line >> 63);
        let (set, quotient) = match self {
            Sets::Bits(bits) => (number & ((1 << bits) - 1), number >> bits),
            Sets::Number { sets, reciprocal, flag: more } => {
                assert!(number < LINES_MAX, "line {number} of at most 2^40");
                // Exact below 2^64 / sets (Granlund and Montgomery, Division by invariant integers
                // using multiplication, PLDI 1994).
                let number = number + flag * more;
                let quotient = ((u128::from(number) * u128::from(reciprocal)) >> 64) as u64;
                (number.wrapping_sub(quotient.wrapping_mul(sets)), quotient)
            }
        };
        let name = (quotient << 1 | flag).wrapping_add(1);
        assert!(name <= u64::from(u32::MAX), "line {number}: more than a cache's names tell apart");
        (set as usize, name as u32)
    }

    /// How many sets there are.
    #[inline]
    pub(crate) fn number(self) -> usize {
        match self {
            Sets::Bits(bits) => 1 << bits,
            Sets::Number { sets, .. } => sets as usize,
        }
    }

    /// Set and name of the line after one of which they are given.
    #[inline]
    fn after(self, (set, name): (usize, u32)) -> (usize, u32) {
        if set + 1 < self.number() { (set + 1, name) } else { (0, name + 2) }
    }

    /// The line of a set and name.
    #[inline]
    pub(crate) fn join(self, set: usize, name: u32) -> u64 {
        let (quotient, flag) = (u64::from(name - 1) >> 1, u64::from(name - 1) & 1);
        let number = match self {
            Sets::Bits(bits) => quotient << bits | set as u64,
            Sets::Number { sets, flag: more, .. } => quotient * sets + set as u64 - flag * more,
        };
        number | flag << 63
    }
}

/// The tags of a cache.
#[derive(Clone, Debug)]
pub struct Tags {
    sets: Sets,
    ways: usize,
    /// Places of a set: its ways, rounded up to whole steps. Those beyond stay empty.
    places: usize,
    /// Names of lines by set, most recently used first; 0 is empty.
    names: Vec<u32>,
    duel: Option<Duel>,
}

/// Moves the ways of a step one place back, behind `first`; returns the one that no longer fits.
/// Whole steps are moved in registers: most sets are too short for a call to move memory.
#[inline]
fn push(step: &mut [u32; STEP], first: u32) -> u32 {
    let [a, b, c, last] = *step;
    *step = [first, a, b, c];
    last
}

/// The same with a step that `name` is in: ways behind it stay where they are.
#[inline]
fn push_up_to(step: &mut [u32; STEP], first: u32, name: u32) {
    let [a, b, c, d] = *step;
    let (is_a, is_b, is_c) = (a == name, b == name, c == name);
    let after = [if is_a { b } else { a }, if is_a | is_b { c } else { b }];
    *step = [first, after[0], after[1], if is_a | is_b | is_c { d } else { c }];
}

/// Whether a name is in a set. All ways are looked at, lane by lane: that is one comparison of
/// vectors a step, and no branch that is hard to guess.
#[inline]
fn holds(set: &[u32], name: u32) -> bool {
    let mut lanes = [0; STEP];
    for step in set.as_chunks::<STEP>().0 {
        for (lane, &other) in lanes.iter_mut().zip(step) {
            *lane |= if other == name { u32::MAX } else { 0 };
        }
    }
    lanes.iter().fold(0, |all, &lane| all | lane) != 0
}

/// Makes a name the first of a set that it is in.
#[inline(never)]
fn bring_up(set: &mut [u32], name: u32) {
    let (steps, _) = set.as_chunks_mut::<STEP>();
    let mut first = name;
    for step in steps {
        if holds(step, name) {
            return push_up_to(step, first, name);
        }
        first = push(step, first);
    }
}

/// Puts a name in front of all others of a set with so many ways: the one that had to go, or 0.
#[inline]
fn push_in(set: &mut [u32], ways: usize, name: u32) -> u32 {
    let (steps, _) = set.as_chunks_mut::<STEP>();
    let beyond = steps.iter_mut().fold(name, |first, step| push(step, first));
    // Where the last step is longer than the set, the last way was moved to a place beyond it.
    set.get_mut(ways).map_or(beyond, std::mem::take)
}

impl Tags {
    /// An empty cache.
    #[must_use]
    pub fn new(shape: Shape) -> Tags {
        let places = shape.ways.next_multiple_of(STEP);
        let names = vec![0; shape.sets * places];
        Tags { sets: Sets::of(shape.sets), ways: shape.ways, places, names, duel: None }
    }

    /// An empty cache that adapts.
    #[must_use]
    pub fn adaptive(shape: Shape) -> Tags {
        Tags { duel: Some(Duel::default()), ..Tags::new(shape) }
    }

    #[inline]
    fn set(&mut self, set: usize) -> &mut [u32] {
        &mut self.names[set * self.places..][..self.places]
    }

    /// How lines fall into sets: the same in all caches of a shape.
    pub(crate) fn sets(&self) -> Sets {
        self.sets
    }

    /// True if the line is here; it is then the most recently used.
    #[inline]
    pub fn touch(&mut self, line: u64) -> bool {
        let (set, name) = self.sets.split(line);
        self.touch_at(set, name)
    }

    /// The same by set and name.
    #[inline]
    pub(crate) fn touch_at(&mut self, set: usize, name: u32) -> bool {
        let is_here = self.bring_up(set, name);
        if !is_here {
            self.missed(set);
        }
        is_here
    }

    /// What touching a line of the set does that is not here.
    #[inline]
    pub(crate) fn missed(&mut self, set: usize) {
        if let Some(duel) = &mut self.duel {
            duel.missed(set);
        }
    }

    /// Reads the sets of lines for nothing, so that the host has them near when they are used:
    /// reads in a row overlap, uses one by one each wait.
    pub(crate) fn look_ahead(&self, lines: impl Iterator<Item = u64>) {
        let sets = lines.map(|line| self.sets.split(line).0);
        let firsts = sets.map(|set| self.names[set * self.places]);
        std::hint::black_box(firsts.fold(0, |all, name| all ^ name));
    }

    #[inline]
    fn bring_up(&mut self, set: usize, name: u32) -> bool {
        let set = self.set(set);
        if set[0] == name {
            return true;
        }
        let is_here = holds(set, name);
        if is_here {
            bring_up(set, name);
        }
        is_here
    }

    /// True if the line is here; nothing changes.
    #[must_use]
    pub fn has(&self, line: u64) -> bool {
        let (set, name) = self.sets.split(line);
        self.has_at(set, name)
    }

    /// The same by set and name.
    #[inline]
    pub(crate) fn has_at(&self, set: usize, name: u32) -> bool {
        holds(&self.names[set * self.places..][..self.places], name)
    }

    /// Takes the line out, if it is here; true if it was.
    pub fn remove(&mut self, line: u64) -> bool {
        let (set, name) = self.sets.split(line);
        let ways = self.ways;
        let set = self.set(set);
        let way = set.iter().position(|&other| other == name);
        if let Some(way) = way {
            set.copy_within(way + 1..ways, way);
            set[ways - 1] = 0;
        }
        way.is_some()
    }

    /// Puts the line in; returns the line that had to go. What is put in where it is already counts
    /// as used, but not in a last level: there it only comes back from above.
    pub fn insert(&mut self, line: u64) -> Option<u64> {
        let (set, name) = self.sets.split(line);
        let is_here = match self.duel {
            Some(_) => self.has_at(set, name),
            None => self.bring_up(set, name),
        };
        if is_here { None } else { self.put(set, name) }
    }

    /// Brings the sets of consecutive lines near on the host: they will be used soon.
    #[inline]
    pub(crate) fn bring_all(&self, first: u64, lines: u64) {
        let mut at = self.sets.split(first);
        for _ in 0..lines {
            ahead::bring(&self.names[at.0 * self.places]);
            at = self.sets.after(at);
        }
    }

    /// Touches consecutive lines in turn, and puts in those that are not here. Each of these is
    /// told to `missed`, with the set and the name of what had to go for it: 0 if nothing had to.
    #[inline]
    pub(crate) fn enter_all(
        &mut self,
        first: u64,
        lines: u64,
        mut missed: impl FnMut(u64, (usize, u32)),
    ) {
        let mut at = self.sets.split(first);
        for line in first..first + lines {
            let (set, name) = at;
            if !self.touch_at(set, name) {
                missed(line, (set, self.put_at(set, name)));
            }
            at = self.sets.after(at);
        }
    }

    /// Puts in a line, by set and name, of which the caller knows that it is not here; returns the
    /// line that had to go.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, name: u32) -> Option<u64> {
        let gone = self.put_at(at, name);
        (gone != 0).then(|| self.sets.join(at, gone))
    }

    /// The same by name: 0 is nothing.
    #[inline]
    fn put_at(&mut self, at: usize, name: u32) -> u32 {
        let is_last = self.duel.as_mut().is_some_and(|duel| duel.is_last(at));
        let ways = self.ways;
        let set = self.set(at);
        // Where there is room, the line goes in front of it.
        if is_last && set[ways - 1] != 0 {
            std::mem::replace(&mut set[ways - 1], name)
        } else {
            push_in(set, ways, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut tags = Tags::new(Shape { sets: 2, ways: 2 });
        assert_eq!(tags.insert(0), None);
        assert_eq!(tags.insert(2), None);
        assert_eq!(tags.insert(1), None);
        assert!(tags.touch(0));
        assert_eq!(tags.insert(4), Some(2));
        assert!(tags.touch(0) && tags.touch(4) && tags.touch(1) && !tags.touch(2));
    }

    #[test]
    fn a_line_is_found_again_by_set_and_name() {
        for sets in [1, 3, 64, 49_152, 57_344, (1 << 23) - 1] {
            let by = Sets::of(sets);
            let most = (1u64 << 30).min(LINES_MAX / sets as u64) * sets as u64;
            for number in [0, 1, 63, 64, 57_343, 57_344, 123_456_789, most - 1] {
                for line in [number.min(most - 1), number.min(most - 1) | CONTENT] {
                    let (set, name) = by.split(line);
                    assert_eq!(set as u64, line % sets as u64, "{line} of {sets}");
                    assert_eq!(by.join(set, name), line, "of {sets}");
                }
            }
        }
    }

    /// What a set does, said as shortly as possible.
    #[test]
    fn sets_do_as_lists_do() {
        for ways in [1, 3, 4, 5, 8, 11, 12, 16, 20] {
            let mut tags = Tags::new(Shape { sets: 3, ways });
            let mut lists = vec![Vec::<u64>::new(); 3];
            let (mut word, mut hits) = (9u64, 0);
            for step in 0..20_000 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let line = (word >> 40) % (ways as u64 * 5);
                let list = &mut lists[line as usize % 3];
                let at = list.iter().position(|&other| other == line);
                at.map(|at| list.remove(at));
                hits += u32::from(at.is_some());
                match (word >> 33) % 8 {
                    0 => assert_eq!(tags.remove(line), at.is_some(), "{step}"),
                    1 => {
                        assert_eq!(tags.touch(line), at.is_some(), "{step}");
                        list.splice(..0, at.map(|_| line));
                    }
                    _ => {
                        list.insert(0, line);
                        let gone = (list.len() > ways).then(|| list.pop()).flatten();
                        assert_eq!(tags.insert(line), gone, "{step}");
                    }
                }
                assert!(lists.iter().flatten().all(|&line| tags.has(line)), "{step}");
            }
            assert!((5_000..15_000).contains(&hits), "{hits}: both were seen");
        }
    }

    #[test]
    fn entering_is_touching_and_putting_in() {
        let shape = Shape { sets: 3, ways: 5 };
        let (mut long, mut short) = (Tags::new(shape), Tags::new(shape));
        let mut here = 0;
        for first in (0..400).map(|at| at * at % 37 + if at % 3 == 0 { CONTENT } else { 0 }) {
            let mut missed = Vec::new();
            short.enter_all(first, 4, |line, gone| missed.push((line, gone)));
            let mut others = Vec::new();
            for line in first..first + 4 {
                if long.touch(line) {
                    here += 1;
                    continue;
                }
                let gone = long.insert(line);
                let (set, name) = gone.map_or((long.sets.split(line).0, 0), |g| long.sets.split(g));
                others.push((line, (set, name)));
            }
            assert_eq!(missed, others);
            assert_eq!(long.names, short.names);
        }
        assert!((200..1400).contains(&here), "{here}: both were seen");
    }

    #[test]
    fn what_is_taken_out_leaves_room() {
        let mut tags = Tags::new(Shape { sets: 1, ways: 3 });
        (0..3).for_each(|line| assert_eq!(tags.insert(line), None));
        assert!(tags.remove(1) && !tags.remove(1));
        assert!(tags.has(0) && !tags.has(1) && tags.has(2));
        assert_eq!((tags.insert(4), tags.insert(5)), (None, Some(0)));
    }

    #[test]
    fn an_adaptive_cache_keeps_a_part_of_what_is_too_much() {
        let shape = Shape { sets: 64, ways: 16 };
        let hits = |mut tags: Tags, lines: u64| {
            let mut hits = 0;
            for round in 0..40 {
                for line in 0..lines {
                    let is_here = tags.touch(line);
                    hits += u64::from(is_here && round >= 20);
                    if !is_here {
                        tags.insert(line);
                    }
                }
            }
            hits * 100 / (20 * lines)
        };
        // A quarter more than fits.
        assert_eq!(hits(Tags::new(shape), 1280), 0);
        let kept = hits(Tags::adaptive(shape), 1280);
        assert!((50..=80).contains(&kept), "{kept} per cent");
        assert_eq!(hits(Tags::adaptive(shape), 1024), 100, "nothing is lost of what fits");
    }

    #[test]
    fn a_cache_has_its_size() {
        let shape = Shape::of(1 << 20, 16);
        assert_eq!(shape, Shape { sets: 1024, ways: 16 });
        let mut tags = Tags::new(shape);
        for line in 0..16384 {
            assert_eq!(tags.insert(line), None);
        }
        assert_eq!(tags.insert(16384), Some(0));
    }
}
