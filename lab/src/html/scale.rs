//! From figures to places on an axis, and the round figures to mark there.

/// An axis between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    log: bool,
    /// Place of `from` and of `to`.
    ends: (f64, f64),
}

impl Scale {
    /// An axis for these figures: with zero if that is not far, logarithmic if all are positive and
    /// the largest is 30 times the smallest or more.
    #[must_use]
    pub fn fitting(values: &[f64], ends: (f64, f64)) -> Scale {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let least = finite().fold(f64::INFINITY, f64::min);
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return Scale { from: 0.0, to: 1.0, log: false, ends };
        }
        if least > 0.0 && most / least >= 30.0 {
            return Scale { from: least / 1.2, to: most * 1.2, log: true, ends };
        }
        let (mut from, mut to) = (least.min(0.0), most.max(0.0));
        // Far from zero, and near each other: zero would hide the difference.
        if least > 0.0 && most / least < 1.6 {
            from = least;
        }
        let room = (to - from).max(most.abs() * 0.05).max(1e-9) * 0.06;
        from -= if from == 0.0 { 0.0 } else { room };
        to += if to == 0.0 { 0.0 } else { room };
        Scale { from, to: to.max(from + 1e-9), log: false, ends }
    }

    /// An axis from one figure to another.
    #[must_use]
    pub fn between(from: f64, to: f64, ends: (f64, f64)) -> Scale {
        Scale { from, to: if to > from { to } else { from + 1.0 }, log: false, ends }
    }

    /// An axis on which factors are distances.
    #[must_use]
    pub fn factors(from: f64, to: f64, ends: (f64, f64)) -> Scale {
        Scale { from, to: if to > from { to } else { from * 2.0 }, log: true, ends }
    }

    /// Place of a figure; those beyond an end lie on it.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let part = match self.log {
            true if value <= 0.0 => 0.0,
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.ends.0 + part.clamp(0.0, 1.0) * (self.ends.1 - self.ends.0)
    }

    /// Whether the figure lies between the ends.
    #[must_use]
    pub fn has(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// Round figures between the ends, in steps of 1, 2 or 5, about `count` of them.
    #[must_use]
    pub fn marks(&self, count: usize) -> Vec<f64> {
        if self.log {
            return self.decades();
        }
        let rough = (self.to - self.from) / count.max(1) as f64;
        let ten = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * ten);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(ten * 10.0);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        let tens = (first..=last).map(|power| 10f64.powi(power));
        let all: Vec<f64> = tens.clone().filter(|value| self.has(*value)).collect();
        if all.len() >= 3 {
            return all;
        }
        let fine = tens.flat_map(|ten| [1.0, 2.0, 5.0].map(|step| step * ten));
        fine.filter(|value| self.has(*value)).collect()
    }
}

/// A mark's figure as short as it can be.
#[must_use]
pub fn tick(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 1e6 => return format!("{} M", plain(value / 1e6)).replace('-', "\u{2212}"),
        _ if size >= 1e4 => return format!("{} k", plain(value / 1e3)).replace('-', "\u{2212}"),
        _ => plain(value),
    };
    text.replace('-', "\u{2212}")
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_lie_between_the_ends() {
        let scale = Scale::fitting(&[0.0, 18.2], (0.0, 100.0));
        assert_eq!(scale.marks(4), [0.0, 5.0, 10.0, 15.0]);
        let scale = Scale::fitting(&[-4.1, 2.8], (0.0, 100.0));
        assert!(scale.marks(4).iter().all(|mark| scale.has(*mark)));
        assert!(scale.marks(4).contains(&0.0));
        assert_eq!(tick(15_000_000.0), "15 M");
        assert_eq!(tick(-2.5), "\u{2212}2.5");
    }

    #[test]
    fn factors_far_apart_get_decades() {
        let scale = Scale::fitting(&[48.0, 5000.0], (0.0, 100.0));
        assert_eq!(scale.marks(4), [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert!(scale.at(48.0) < scale.at(490.0) && scale.at(490.0) < scale.at(5000.0));
    }

    #[test]
    fn one_figure_alone_and_none_have_an_axis() {
        for values in [vec![], vec![0.0], vec![7.0], vec![f64::NAN, 3.0]] {
            let scale = Scale::fitting(&values, (10.0, 20.0));
            for value in values {
                assert!((10.0..=20.0).contains(&scale.at(if value.is_nan() {
                    0.0
                } else {
                    value
                })));
            }
        }
    }
}
