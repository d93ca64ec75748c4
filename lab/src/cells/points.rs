//! Where in their cycles processes begin.
//!
//! Of processes that went on for minutes, as many are at one point of their cycle as at another.
//! Points that are drawn for each process alone are at random also in how many map and how far they
//! are, all together: a short cell then measures what was drawn. Here the cycle is cut into as many
//! stretches as there are processes, and one begins somewhere within each.

use super::dice::Dice;
use super::work::page_fault::GATHER;

/// Where a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Pages it holds.
    pub pages: usize,
    /// Pages of the group that it is unmapping, 1 to [`GATHER`]; 0 if it maps.
    pub group: usize,
}

/// A number below `end` from each of `n` stretches of the same length, in an order of chance.
fn spread(n: usize, end: usize, dice: &mut Dice) -> Vec<usize> {
    let mut points: Vec<usize> =
        (0..n).map(|at| (at * end + dice.below(end as u64) as usize) / n).collect();
    dice.shuffle(&mut points);
    points
}

/// Points for `n` processes of a node, of which each maps up to `most` pages; of a thousand
/// processes, `unmapping` are unmapping.
pub fn of_node(n: usize, most: usize, unmapping: u64, dice: &mut Dice) -> Vec<Point> {
    let unmap = (n as u64 * unmapping + dice.below(1000)) / 1000;
    let unmap = n.min(unmap as usize);
    let groups = spread(unmap, GATHER, dice).into_iter().map(|group| group + 1);
    let groups = groups.chain(std::iter::repeat_n(0, n - unmap)).collect::<Vec<usize>>();
    let pages = spread(unmap, most, dice).into_iter().chain(spread(n - unmap, most, dice));
    let mut points: Vec<Point> =
        pages.zip(groups).map(|(pages, group)| Point { pages, group }).collect();
    dice.shuffle(&mut points);
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_the_cycle_has_its_process() {
        for seed in 0..20 {
            let points = of_node(48, 32768, 400, &mut Dice(seed));
            assert_eq!(points.len(), 48);
            let (unmap, map): (Vec<Point>, Vec<Point>) =
                points.into_iter().partition(|point| point.group > 0);
            assert!((19..=20).contains(&unmap.len()), "0.4 of 48 is 19.2");
            for part in [unmap, map] {
                let mut pages: Vec<usize> = part.iter().map(|point| point.pages).collect();
                pages.sort_unstable();
                for (at, &page) in pages.iter().enumerate() {
                    let (from, to) = (at * 32768 / part.len(), (at + 1) * 32768 / part.len());
                    assert!((from..=to).contains(&page), "{page} is not from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn one_process_maps_as_often_as_it_should() {
        let maps = |seed| of_node(1, 32768, 400, &mut Dice(seed))[0].group == 0;
        let often = (0..1000).filter(|&seed| maps(seed)).count();
        assert!((550..650).contains(&often), "{often} of a thousand");
        assert_eq!(of_node(0, 32768, 400, &mut Dice(1)), []);
    }
}
