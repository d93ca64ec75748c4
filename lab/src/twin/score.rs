//! Predicted beside observed, row by row, with what "nothing happens" would have scored.

use serde::Serialize;

use super::ledger::{Account, DrainEntry, Ledger, RefillEntry};
use super::world::World;

/// One quantity of one zone, and perhaps one CPU.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Row {
    /// What is compared.
    pub quantity: String,
    /// Zone, as `node 0 Normal`; empty for a whole node or machine.
    pub zone: String,
    /// CPU, where the row is of one.
    pub cpu: Option<u16>,
    /// The kernel.
    pub observed: f64,
    /// The twin.
    pub predicted: f64,
    /// The null model: nothing changes.
    pub null: f64,
    /// Difference in per cent of `observed`; none where nothing was observed.
    pub error_pct: Option<f64>,
    /// Difference that is forgiven, in the unit of the row, beside 1 %.
    pub slack: f64,
    /// Whether it counts for the verdict; others are shown to be looked at.
    pub scored: bool,
    /// Whether the recording exercises it at all.
    pub exercised: bool,
    /// Within 1 %, or within `slack`; always false if not exercised.
    pub within: bool,
}

impl Row {
    /// Makes a row; it is exercised if either side is not what the null model says.
    #[must_use]
    pub fn new(
        quantity: &str,
        zone: String,
        cpu: Option<u16>,
        (observed, predicted, null): (f64, f64, f64),
        slack: f64,
    ) -> Row {
        let difference = (predicted - observed).abs();
        let exercised = observed != null || predicted != null;
        let change = (observed - null).abs().max(f64::MIN_POSITIVE);
        let base = if null == 0.0 { observed.abs() } else { change };
        let error_pct = (observed != null).then(|| 100.0 * difference / base);
        let within = exercised && (error_pct.is_some_and(|e| e <= 1.0) || difference <= slack);
        Row {
            quantity: quantity.into(),
            zone,
            cpu,
            observed,
            predicted,
            null,
            error_pct,
            slack,
            scored: true,
            exercised,
            within,
        }
    }
}

/// A sequence of refills or drains of one CPU and zone.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Sequence {
    /// `refills` or `drains`.
    pub what: &'static str,
    /// Zone.
    pub zone: String,
    /// CPU.
    pub cpu: u16,
    /// Length of the kernel's.
    pub observed: usize,
    /// Length of the twin's.
    pub predicted: usize,
    /// Leading elements that agree.
    pub agree: usize,
    /// Drains whose size could not be held to account: they emptied a cache or came from a tick.
    pub excused: usize,
    /// The first that differs, in words.
    pub first_difference: Option<String>,
    /// Number of the event at which they part.
    pub parts_at: Option<u64>,
    /// Why, as far as it is known.
    pub reason: Option<String>,
}

impl Sequence {
    /// How alike the two are: leading elements that agree, less the difference in length.
    #[must_use]
    pub fn likeness(&self) -> i64 {
        self.agree as i64 - (self.observed as i64 - self.predicted as i64).abs()
    }

    /// Every element agrees.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        self.first_difference.is_none()
    }
}

/// Rows of refilled and drained pages.
#[must_use]
pub fn flow_rows(world: &World, observed: &Ledger, predicted: &Ledger, slack: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    type Pages = fn(&Account) -> u64;
    let pages: [(&str, Pages); 2] =
        [("refilled pages", Account::refilled_pages), ("drained pages", Account::drained_pages)];
    for (zone, desc) in world.zones.iter().enumerate() {
        for (quantity, of) in pages {
            let sum = |ledger: &Ledger| ledger.of_zone(zone).map(of).sum::<u64>() as f64;
            let values = (sum(observed), sum(predicted), 0.0);
            rows.push(Row::new(quantity, desc.name(), None, values, 0.0));
            for cpu in 0..world.cpus() as u16 {
                let one = |ledger: &Ledger| ledger.accounts.get(&(cpu, zone)).map_or(0, of) as f64;
                let values = (one(observed), one(predicted), 0.0);
                let row = Row::new(quantity, desc.name(), Some(cpu), values, slack);
                if row.exercised {
                    rows.push(row);
                }
            }
        }
    }
    rows
}

/// Compares the sequences of every CPU and zone.
#[must_use]
pub fn sequences(world: &World, observed: &Ledger, predicted: &Ledger) -> Vec<Sequence> {
    let mut found = Vec::new();
    let mut keys: Vec<(u16, usize)> =
        observed.accounts.keys().chain(predicted.accounts.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let empty = Account::default();
    for key in keys {
        let o = observed.accounts.get(&key).unwrap_or(&empty);
        let p = predicted.accounts.get(&key).unwrap_or(&empty);
        let zone = world.zones[key.1].name();
        if !o.refills.is_empty() || !p.refills.is_empty() {
            found.push(refill_sequence(zone.clone(), key.0, &o.refills, &p.refills));
        }
        let live = |drains: &[DrainEntry]| -> Vec<DrainEntry> {
            drains.iter().copied().filter(|drain| !drain.ticked).collect()
        };
        let (od, pd) = (live(&o.drains), live(&p.drains));
        if !od.is_empty() || !pd.is_empty() {
            found.push(drain_sequence(zone, key.0, &od, &pd));
        }
    }
    found
}

fn refill_sequence(
    zone: String,
    cpu: u16,
    observed: &[RefillEntry],
    predicted: &[RefillEntry],
) -> Sequence {
    let same = |o: &RefillEntry, p: &RefillEntry| {
        // Whole pageblocks of several types may share a list: their type says nothing.
        let types = o.order > pageyard::COSTLY_ORDER || o.migratetype == p.migratetype;
        types && (o.order, o.blocks) == (p.order, p.blocks)
    };
    let agree = observed.iter().zip(predicted).take_while(|(o, p)| same(o, p)).count();
    let tell = |entry: &RefillEntry| {
        format!(
            "{} blocks of order {}, type {}, at event {}",
            entry.blocks, entry.order, entry.migratetype, entry.event
        )
    };
    let (observed_len, predicted_len) = (observed.len(), predicted.len());
    Sequence {
        what: "refills",
        zone,
        cpu,
        observed: observed_len,
        predicted: predicted_len,
        agree,
        excused: 0,
        first_difference: difference(agree, observed.get(agree), predicted.get(agree), tell),
        parts_at: observed
            .get(agree)
            .map(|o| o.event)
            .into_iter()
            .chain(predicted.get(agree).map(|p| p.event))
            .min(),
        reason: None,
    }
}

fn drain_sequence(
    zone: String,
    cpu: u16,
    observed: &[DrainEntry],
    predicted: &[DrainEntry],
) -> Sequence {
    let same = |o: &DrainEntry, p: &DrainEntry| p.emptied || o.pages == p.pages;
    let agree = observed.iter().zip(predicted).take_while(|(o, p)| same(o, p)).count();
    let excused = predicted.iter().take(agree).filter(|p| p.emptied).count();
    let tell = |entry: &DrainEntry| {
        let emptied = if entry.emptied { ", emptying the cache" } else { "" };
        format!("{} pages at event {}{emptied}", entry.pages, entry.event)
    };
    let (observed_len, predicted_len) = (observed.len(), predicted.len());
    Sequence {
        what: "drains",
        zone,
        cpu,
        observed: observed_len,
        predicted: predicted_len,
        agree,
        excused,
        first_difference: difference(agree, observed.get(agree), predicted.get(agree), tell),
        parts_at: observed
            .get(agree)
            .map(|o| o.event)
            .into_iter()
            .chain(predicted.get(agree).map(|p| p.event))
            .min(),
        reason: None,
    }
}

fn difference<T>(
    at: usize,
    observed: Option<&T>,
    predicted: Option<&T>,
    tell: impl Fn(&T) -> String,
) -> Option<String> {
    let nth = at + 1;
    match (observed, predicted) {
        (None, None) => None,
        (Some(o), Some(p)) => Some(format!("no. {nth}: kernel {}; twin {}", tell(o), tell(p))),
        (Some(o), None) => Some(format!("no. {nth}: kernel {}; twin none", tell(o))),
        (None, Some(p)) => Some(format!("no. {nth}: kernel none; twin {}", tell(p))),
    }
}
