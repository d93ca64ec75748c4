//! What a cache holds: sets of ways, the least recently used way goes first.

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

/// The tags of a cache.
#[derive(Clone, Debug)]
pub struct Tags {
    shape: Shape,
    /// Line + 1 by set, most recently used first; 0 is empty.
    ways: Vec<u64>,
}

impl Tags {
    /// An empty cache.
    #[must_use]
    pub fn new(shape: Shape) -> Tags {
        Tags { shape, ways: vec![0; shape.sets * shape.ways] }
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        let set = (line % self.shape.sets as u64) as usize;
        &mut self.ways[set * self.shape.ways..][..self.shape.ways]
    }

    /// True if the line is here; it is then the most recently used.
    pub fn touch(&mut self, line: u64) -> bool {
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
        let set = (line % self.shape.sets as u64) as usize;
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

    /// Puts the line in front; returns the line that had to go.
    pub fn insert(&mut self, line: u64) -> Option<u64> {
        if self.touch(line) {
            return None;
        }
        let set = self.set(line);
        set.rotate_right(1);
        let gone = std::mem::replace(&mut set[0], line + 1);
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
