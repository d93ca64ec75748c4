//! A number as machine files state it: value, range and where it is from.
//!
//! Numbers are kept as whole thousandths of the unit in the field's name. So a `ns` is kept in
//! picoseconds, a `gb_per_s` in bytes per microsecond, a `mhz` in kilohertz and an `ipc` in
//! thousandths, and no float reaches the model.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Largest number of a machine file, in its unit: far beyond any, and small enough that a product
/// with 2^20 fits into 64 bits.
pub const NUMBER_MAX: u64 = 10_000_000_000;

/// A number from 0 to [`NUMBER_MAX`] with at most three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    thousandths: u64,
}

impl Decimal {
    /// A whole number.
    #[must_use]
    pub const fn whole(number: u64) -> Decimal {
        Decimal { thousandths: number * 1000 }
    }

    /// A number of thousandths.
    #[must_use]
    pub const fn from_thousandths(thousandths: u64) -> Decimal {
        Decimal { thousandths }
    }

    /// The number times a thousand.
    #[must_use]
    pub const fn thousandths(self) -> u64 {
        self.thousandths
    }

    /// The number, if it has no decimals.
    #[must_use]
    pub const fn as_whole(self) -> Option<u64> {
        if self.thousandths.is_multiple_of(1000) { Some(self.thousandths / 1000) } else { None }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:03}", self.thousandths % 1000);
        let decimals = decimals.trim_end_matches('0');
        let dot = if decimals.is_empty() { "" } else { "." };
        f.pad(&format!("{}{dot}{decimals}", self.thousandths / 1000))
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        deserializer.deserialize_any(DecimalVisitor)
    }
}

struct DecimalVisitor;

impl Visitor<'_> for DecimalVisitor {
    type Value = Decimal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number from 0 to {NUMBER_MAX} with at most three decimals")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Decimal, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::custom(format!("{number} is below 0"))),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Decimal, E> {
        if number > NUMBER_MAX {
            return Err(E::custom(format!("{number} is above {NUMBER_MAX}")));
        }
        Ok(Decimal::whole(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Decimal, E> {
        if !(0.0..=NUMBER_MAX as f64).contains(&number) {
            return Err(E::custom(format!("{number} is not from 0 to {NUMBER_MAX}")));
        }
        // The float nearest to a number of three decimals, times a thousand, is off by less than
        // 2^-8 over the whole range; a fourth decimal is off by 0.1 at least.
        let scaled = number * 1000.0;
        let nearest = scaled.round();
        if (scaled - nearest).abs() > 0.05 {
            return Err(E::custom(format!("{number} has more than three decimals")));
        }
        Ok(Decimal { thousandths: nearest as u64 })
    }
}

/// A number with its range and source. `low` and `high` may be left out where the number is exact
/// (a count of cores, a size); they are then the value itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a figure: { value = …, low = …, high = …, source = \"…\" }"
)]
pub struct Figure {
    /// What the model uses.
    pub value: Decimal,
    /// Lowest value that the sources allow.
    pub low: Option<Decimal>,
    /// Highest value that the sources allow.
    pub high: Option<Decimal>,
    /// A key of `[sources]`, or `estimate` or `measured`, with details behind a colon.
    pub source: String,
}

impl Figure {
    /// Lowest and highest value that the sources allow.
    #[must_use]
    pub fn range(&self) -> (Decimal, Decimal) {
        (self.low.unwrap_or(self.value), self.high.unwrap_or(self.value))
    }
}

/// Something other than one number, with its source: a list, a matrix, a yes or no.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ value = …, source = \"…\" }")]
pub struct Stated<T> {
    /// What the model uses.
    pub value: T,
    /// As in [`Figure`].
    pub source: String,
}

/// A point of the latency of DRAM under load.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a point: { gb_per_s = …, ns = { value = …, … } }")]
pub struct LoadPoint {
    /// Load of one socket's memory, GB/s.
    pub gb_per_s: Decimal,
    /// Latency at this load.
    pub ns: Figure,
}

/// A published distribution, which the model is held against and never reads.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a spread: { median = …, p5 = …, p95 = …, source = \"…\" }"
)]
pub struct Spread {
    /// Median.
    pub median: Decimal,
    /// Fifth percentile.
    pub p5: Decimal,
    /// Ninety-fifth percentile.
    pub p95: Decimal,
    /// As in [`Figure`].
    pub source: String,
}
