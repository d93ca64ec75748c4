//! Where in their cycles processes begin.
//!
//! Processes of will-it-scale begin together, and who waits in fair queues with all others goes on
//! as fast as they do. So they keep some step for minutes: they are spread over a part of their
//! cycle. A cell is too short to see all of it. It looks at the processes of each node at another
//! point, and at several times.

use super::dice::Dice;

/// A whole cycle: points of it are counted in millionths.
pub const CYCLE: u64 = 1_000_000;

/// Where the processes of a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The middle of them, millionths of the cycle. At 0 it begins to map.
    pub middle: u64,
    /// From the first to the last of them, thousandths of the cycle; at 1000 they are anywhere.
    pub spread: u64,
}

impl Around {
    /// Where one of `n` processes is, each in a stretch of its own; `part` is where within that,
    /// millionths.
    #[must_use]
    pub fn point(self, at: usize, n: usize, part: u64) -> u64 {
        let from_first = (at as u64 * CYCLE + part) * self.spread / (n as u64 * 1000);
        (self.middle + CYCLE - self.spread * CYCLE / 2000 + from_first) % CYCLE
    }
}

/// Where a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Pages it holds.
    pub pages: usize,
    /// It is unmapping them.
    pub is_unmapping: bool,
}

/// Points for `n` processes of a node, of which each maps up to `most` pages and spends so many
/// thousandths of its time unmapping.
pub fn of_node(
    n: usize,
    most: usize,
    unmapping: u64,
    around: Around,
    dice: &mut Dice,
) -> Vec<Point> {
    let unmapping = unmapping * CYCLE / 1000;
    let mapping = CYCLE - unmapping;
    let point = |at: u64| match at.checked_sub(mapping) {
        None => Point { pages: (at * most as u64 / mapping) as usize, is_unmapping: false },
        Some(at) => Point {
            pages: ((unmapping - at) * most as u64 / unmapping) as usize,
            is_unmapping: true,
        },
    };
    let mut points = Vec::with_capacity(n);
    for at in 0..n {
        let within = dice.below(CYCLE);
        points.push(point(around.point(at, n, within)));
    }
    dice.shuffle(&mut points);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_the_cycle_has_its_process() {
        let around = Around { middle: 0, spread: 1000 };
        for seed in 0..20 {
            let points = of_node(48, 32768, 400, around, &mut Dice(seed));
            assert_eq!(points.len(), 48);
            let (unmap, map): (Vec<Point>, Vec<Point>) =
                points.into_iter().partition(|point| point.is_unmapping);
            assert!((19..=20).contains(&unmap.len()), "0.4 of 48 is 19.2: {}", unmap.len());
            for part in [unmap, map] {
                let mut pages: Vec<usize> = part.iter().map(|point| point.pages).collect();
                pages.sort_unstable();
                let widest = pages.windows(2).map(|pair| pair[1] - pair[0]).max();
                assert!(widest <= Some(2 * 32768 / part.len() + 2000), "{pages:?}");
            }
        }
    }

    #[test]
    fn in_step_all_are_at_the_same_point() {
        let at = |middle| of_node(40, 1000, 250, Around { middle, spread: 0 }, &mut Dice(1));
        assert!(at(375_000).iter().all(|point| (point.pages, point.is_unmapping) == (500, false)));
        assert!(at(875_000).iter().all(|point| point.pages == 500 && point.is_unmapping));
    }

    #[test]
    fn half_a_cycle_apart_some_unmap_and_some_map() {
        let points = of_node(40, 1000, 400, Around { middle: 600_000, spread: 500 }, &mut Dice(1));
        let unmap = points.iter().filter(|point| point.is_unmapping).count();
        assert_eq!(unmap, 20);
        assert!(points.iter().all(|point| point.pages > 300), "half-way up, half-way down");
    }

    #[test]
    fn one_process_maps_as_often_as_it_should() {
        let around = Around { middle: 0, spread: 1000 };
        let maps = |seed| !of_node(1, 32768, 400, around, &mut Dice(seed))[0].is_unmapping;
        let often = (0..1000).filter(|&seed| maps(seed)).count();
        assert!((550..650).contains(&often), "{often} of a thousand");
        assert_eq!(of_node(0, 32768, 400, around, &mut Dice(1)), []);
    }
}
