//! How a CPU guesses what a branch will do.
//!
//! A branch has a counter of two bits for each history of its last outcomes, as predictors have had
//! since Yeh and Patt (Two-level adaptive training branch prediction, MICRO 1991). Those of today
//! look further back; what they cannot know either is whether the buddy of a page is free in memory
//! that others use too.

/// Outcomes that a history remembers.
const HISTORY: usize = 6;

/// Places of the code that branch on the same word: each is guessed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Taking blocks from free lists.
    Take,
    /// Giving blocks back.
    Give,
    /// Elsewhere.
    Else,
    /// Looking for an order whose list is not empty.
    Search,
}

/// Places of the code.
const PLACES: usize = 4;

/// What one CPU knows of the branch that asks whether a page begins a free block.
#[derive(Clone, Debug)]
pub struct Guesses {
    histories: [usize; PLACES],
    counters: [[u8; 1 << HISTORY]; PLACES],
    /// The page that was asked about last: asked again, the answer is known.
    last: Option<usize>,
}

impl Default for Guesses {
    fn default() -> Guesses {
        let counters = [[0; 1 << HISTORY]; PLACES];
        Guesses { histories: [0; PLACES], counters, last: None }
    }
}

impl Guesses {
    /// A branch on whether a page begins a free block: true if it was guessed right.
    pub fn is_right(&mut self, place: Place, page: usize, taken: bool) -> bool {
        if self.last.replace(page) == Some(page) {
            return true;
        }
        self.guess(place, taken)
    }

    /// A branch on whether the list of an order holds a block: true if it was guessed right.
    pub fn is_search_right(&mut self, is_found: bool) -> bool {
        self.guess(Place::Search, is_found)
    }

    fn guess(&mut self, place: Place, taken: bool) -> bool {
        let history = &mut self.histories[place as usize];
        let counter = &mut self.counters[place as usize][*history];
        let guess = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        *history = (*history << 1 | usize::from(taken)) % (1 << HISTORY);
        guess == taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(outcomes: impl Iterator<Item = bool>) -> usize {
        let mut guesses = Guesses::default();
        outcomes
            .enumerate()
            .filter(|&(at, taken)| !guesses.is_right(Place::Give, at, taken))
            .count()
    }

    #[test]
    fn a_pattern_is_learned() {
        assert!(wrong((0..1000).map(|at| at % 4 == 0)) < 20);
        assert!(wrong((0..1000).map(|_| true)) < 20);
    }

    #[test]
    fn chance_is_not() {
        let mut word = 1u64;
        let coin = |_| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word >> 63 == 1
        };
        let wrong = wrong((0..10_000).map(coin));
        assert!((4_000..6_000).contains(&wrong), "{wrong}");
    }

    #[test]
    fn places_are_guessed_apart_and_a_page_once() {
        let mut guesses = Guesses::default();
        for page in 0..100 {
            guesses.is_right(Place::Take, page, true);
        }
        assert!(guesses.is_right(Place::Give, 100, false));
        assert!(guesses.is_right(Place::Give, 100, true), "the same page was just looked at");
    }
}
