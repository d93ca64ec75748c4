//! What a cache holds: sets of ways, the least recently used way goes first.
//!
//! A last-level cache adapts: when more goes round than it holds, it keeps a part of it instead of
//! losing each line just before it is wanted again. Some sets always put a new line in front, some
//! nearly always last, all others do as those of the two that miss less (Qureshi and others,
//! Adaptive insertion policies, ISCA 2007; that Intel's do something of the kind since Ivy Bridge:
//! H. Wong, Intel Ivy Bridge cache replacement policy, 2013).

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

impl Duel {
    fn missed(&mut self, set: usize) {
        self.lead = match set % LEADERS {
            0 => (self.lead + 1).min(LEAD_MAX),
            1 => (self.lead - 1).max(-LEAD_MAX),
            _ => return,
        };
    }

    /// Whether a new line of a set is put last.
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

/// The tags of a cache.
#[derive(Clone, Debug)]
pub struct Tags {
    shape: Shape,
    /// Line + 1 by set, most recently used first; 0 is empty.
    ways: Vec<u64>,
    /// Sets less one where they are a power of two: dividing takes long.
    mask: Option<u64>,
    duel: Option<Duel>,
}

impl Tags {
    /// An empty cache.
    #[must_use]
    pub fn new(shape: Shape) -> Tags {
        let mask = shape.sets.is_power_of_two().then(|| shape.sets as u64 - 1);
        Tags { shape, ways: vec![0; shape.sets * shape.ways], mask, duel: None }
    }

    /// An empty cache that adapts.
    #[must_use]
    pub fn adaptive(shape: Shape) -> Tags {
        Tags { duel: Some(Duel::default()), ..Tags::new(shape) }
    }

    /// Set of a line.
    fn index(&self, line: u64) -> usize {
        self.mask.map_or_else(|| line % self.shape.sets as u64, |mask| line & mask) as usize
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        let set = self.index(line);
        &mut self.ways[set * self.shape.ways..][..self.shape.ways]
    }

    /// True if the line is here; it is then the most recently used.
    pub fn touch(&mut self, line: u64) -> bool {
        let (is_here, set) = (self.bring_up(line), self.index(line));
        if let Some(duel) = self.duel.as_mut().filter(|_| !is_here) {
            duel.missed(set);
        }
        is_here
    }

    fn bring_up(&mut self, line: u64) -> bool {
        let set = self.set(line);
        if set[0] == line + 1 {
            return true;
        }
        match set.iter().position(|&tag| tag == line + 1) {
            Some(way) => {
                set[..=way].rotate_right(1);
                true
            }
            None => false,
        }
    }

    /// True if the line is here; nothing changes.
    #[must_use]
    pub fn has(&self, line: u64) -> bool {
        let set = self.index(line);
        self.ways[set * self.shape.ways..][..self.shape.ways].contains(&(line + 1))
    }

    /// Takes the line out, if it is here.
    pub fn remove(&mut self, line: u64) {
        let set = self.set(line);
        if let Some(way) = set.iter().position(|&tag| tag == line + 1) {
            set[way..].rotate_left(1);
            if let Some(last) = set.last_mut() {
                *last = 0;
            }
        }
    }

    /// Puts the line in; returns the line that had to go. What is put in where it is already counts
    /// as used, but not in a last level: there it only comes back from above.
    pub fn insert(&mut self, line: u64) -> Option<u64> {
        let is_here = if self.duel.is_some() { self.has(line) } else { self.bring_up(line) };
        if is_here {
            return None;
        }
        let at = self.index(line);
        let is_last = self.duel.as_mut().is_some_and(|duel| duel.is_last(at));
        let set = self.set(line);
        let last = set.len() - 1;
        // Where there is room, the line goes in front of it.
        let is_last = is_last && set[last] != 0;
        if !is_last {
            set.rotate_right(1);
        }
        let way = if is_last { last } else { 0 };
        let gone = std::mem::replace(&mut set[way], line + 1);
        gone.checked_sub(1)
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
    fn what_is_taken_out_leaves_room() {
        let mut tags = Tags::new(Shape { sets: 1, ways: 3 });
        (0..3).for_each(|line| assert_eq!(tags.insert(line), None));
        tags.remove(1);
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
