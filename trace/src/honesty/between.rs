//! Sums of events between two readings of a counter, as exact as the readings' times allow.
//!
//! A reading takes some microseconds, and the counter was looked at somewhere within. So what the
//! events say is a range, from the least to the most that any two such moments give. On a quiet
//! machine it is one number.

use std::ops::RangeInclusive;

/// One reading: what had happened by then.
#[derive(Clone, Debug)]
struct Reading {
    time: RangeInclusive<u64>,
    /// Sum of all that came before it.
    earlier: i64,
    /// Sum of what came within it so far, and the least and the most that it was.
    within: i64,
    least: i64,
    most: i64,
}

impl Reading {
    fn add(&mut self, time_ns: u64, value: i64) {
        if time_ns < *self.time.start() {
            self.earlier = self.earlier.saturating_add(value);
        } else if time_ns <= *self.time.end() {
            self.within = self.within.saturating_add(value);
            self.least = self.least.min(self.within);
            self.most = self.most.max(self.within);
        }
    }
}

/// A sum between two readings.
#[derive(Clone, Debug)]
pub(super) struct Between {
    before: Reading,
    after: Reading,
    /// Something was added between them.
    pub(super) any: bool,
}

impl Between {
    pub(super) fn new(before: RangeInclusive<u64>, after: RangeInclusive<u64>) -> Between {
        let reading = |time| Reading { time, earlier: 0, within: 0, least: 0, most: 0 };
        Between { before: reading(before), after: reading(after), any: false }
    }

    pub(super) fn add(&mut self, time_ns: u64, value: i64) {
        self.any |= (*self.before.time.start()..=*self.after.time.end()).contains(&time_ns);
        self.before.add(time_ns, value);
        self.after.add(time_ns, value);
    }

    /// The least and the most that the events allow.
    pub(super) fn range(&self) -> RangeInclusive<i64> {
        let certain = self.after.earlier.saturating_sub(self.before.earlier);
        let by = |late: i64, early: i64| certain.saturating_add(late.saturating_sub(early));
        by(self.after.least, self.before.most)..=by(self.after.most, self.before.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(events: &[(u64, i64)], range: RangeInclusive<i64>) {
        let mut sum = Between::new(10..=12, 20..=22);
        events.iter().for_each(|(time, value)| sum.add(*time, *value));
        assert_eq!(sum.range(), range);
    }

    #[test]
    fn what_happens_apart_from_the_readings_counts_exactly() {
        check(&[(9, 100), (13, 5), (19, -7), (23, 100)], -2..=-2);
    }

    #[test]
    fn what_happens_within_a_reading_may_count_or_not() {
        check(&[(11, 5)], 0..=5);
        check(&[(11, 5), (12, -5)], -5..=0);
        check(&[(15, 1), (21, -3)], -2..=1);
        check(&[(10, 1), (22, 1)], 0..=2);
    }
}
