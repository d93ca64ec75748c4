//! The figures by name: what each counts, in which unit, and which way is better.

use pageyard::watermark::{extfrag_index, unusable_index};
use serde::Serialize;

use super::measure::{Measure, ORDERS};

/// Change in per cent below which a figure counts as the same.
pub const SAME_PCT: f64 = 1.0;

/// Which way a figure should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// Neither: a matter of balance, shown to explain the others.
    Neither,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// HEAD is better by 1 % or more.
    Better,
    /// HEAD is worse by 1 % or more.
    Worse,
    /// It changed by 1 % or more, to nobody's clear gain.
    Differs,
    /// Less than 1 %.
    Same,
    /// One side has no value.
    Unknown,
}

impl Verdict {
    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Differs => "differs",
            Verdict::Same => "same",
            Verdict::Unknown => "n/a",
        }
    }
}

/// How a figure is taken from the measures of one recording, or of several together.
#[derive(Clone, Copy, Debug)]
enum Source {
    Plain(fn(&[&Measure]) -> Option<f64>),
    Unusable(usize),
    Extfrag(usize),
    NumaHit(u8),
    NumaMiss(u8),
}

/// A figure that is compared.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Name on the command line and in JSON.
    pub name: String,
    /// What it is, with its unit.
    pub about: String,
    /// Which way is better.
    pub better: Better,
    /// Decimals that are shown.
    pub decimals: usize,
    /// It depends on where free blocks lie, so it is only "by counts" without recorded positions.
    pub positional: bool,
    source: Source,
}

type Pick = fn(&Measure) -> u64;

fn sum(measures: &[&Measure], pick: Pick) -> f64 {
    measures.iter().map(|measure| pick(measure)).sum::<u64>() as f64
}

fn most(measures: &[&Measure], pick: Pick) -> Option<f64> {
    measures.iter().map(|measure| pick(measure) as f64).reduce(f64::max)
}

fn ratio(measures: &[&Measure], above: Pick, below: Pick) -> Option<f64> {
    let below = sum(measures, below);
    (below > 0.0).then(|| sum(measures, above) / below)
}

fn known(measures: &[&Measure], pick: fn(&Measure) -> Option<u64>) -> Option<f64> {
    let known: Vec<u64> = measures.iter().filter_map(|measure| pick(measure)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64)
}

/// Holds of a zone lock.
#[must_use]
pub fn zone_locks(m: &Measure) -> u64 {
    let t = &m.totals;
    t.refills + t.drains + t.direct_allocs + t.direct_frees
}

/// Blocks served from a cache that had them: without a zone lock.
#[must_use]
pub fn free_hits(m: &Measure) -> u64 {
    let serving = m.totals.refills - m.totals.refills_empty;
    m.totals.pcp_hits.saturating_sub(serving)
}

/// Blocks served.
#[must_use]
pub fn served(m: &Measure) -> u64 {
    m.totals.pcp_hits + m.totals.direct_allocs
}

struct Plain {
    name: &'static str,
    about: &'static str,
    better: Better,
    decimals: usize,
    positional: bool,
    value: fn(&[&Measure]) -> Option<f64>,
}

const fn plain(
    name: &'static str,
    better: Better,
    decimals: usize,
    value: fn(&[&Measure]) -> Option<f64>,
    about: &'static str,
) -> Plain {
    Plain { name, about, better, decimals, positional: false, value }
}

const fn positional(plain: Plain) -> Plain {
    Plain { positional: true, ..plain }
}

use Better::{Less, More, Neither};

const PLAIN: &[Plain] = &[
    plain(
        "zone_locks",
        Less,
        0,
        |m| Some(sum(m, zone_locks)),
        "holds of a zone lock: refills, drains, direct allocations and frees",
    ),
    plain(
        "zone_lock_pages",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.hold_pages)),
        "pages moved under zone locks",
    ),
    plain(
        "hold_pages_mean",
        Neither,
        1,
        |m| ratio(m, |m| m.totals.hold_pages, zone_locks),
        "pages moved under one hold, mean",
    ),
    plain(
        "hold_pages_max",
        Less,
        0,
        |m| most(m, |m| m.totals.hold_pages_max),
        "pages moved under one hold, worst",
    ),
    plain(
        "refills",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.refills)),
        "refills of a cache from the zone",
    ),
    plain(
        "refill_pages_mean",
        Neither,
        1,
        |m| ratio(m, |m| m.totals.refilled_pages, |m| m.totals.refills),
        "pages of a refill, mean",
    ),
    plain(
        "drains",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.drains)),
        "drains of a cache to the zone",
    ),
    plain(
        "drain_pages_mean",
        Neither,
        1,
        |m| ratio(m, |m| m.totals.drained_pages, |m| m.totals.drains),
        "pages of a drain, mean",
    ),
    plain(
        "free_high_drains",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.free_high_drains)),
        "drains that emptied a cache after runs of high-order frees",
    ),
    plain(
        "pcp_hits",
        More,
        0,
        |m| Some(sum(m, free_hits)),
        "blocks served from a cache without a refill",
    ),
    plain(
        "pcp_hit_pct",
        More,
        2,
        |m| ratio(m, free_hits, served).map(|part| 100.0 * part),
        "the same in per cent of blocks served",
    ),
    plain(
        "pcp_pages_mean",
        Less,
        0,
        |m| ratio(m, |m| m.pcp_pages_sum, |m| m.samples),
        "pages lying in all caches, mean over events",
    ),
    plain(
        "pcp_pages_max",
        Less,
        0,
        |m| most(m, |m| m.pcp_pages_max),
        "pages lying in all caches, most",
    ),
    positional(plain(
        "fallbacks",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.fallbacks)),
        "blocks taken from another migratetype",
    )),
    positional(plain(
        "claims",
        Neither,
        0,
        |m| Some(sum(m, |m| m.totals.claims)),
        "pageblocks that changed their type for it",
    )),
    plain(
        "merges",
        Less,
        0,
        |m| known(m, |m| m.merges),
        "buddies joined (n/a without recorded positions)",
    ),
    plain(
        "splits",
        Less,
        0,
        |m| known(m, |m| m.splits),
        "blocks halved (n/a without recorded positions)",
    ),
    plain(
        "kswapd_wakes",
        Less,
        0,
        |m| Some(sum(m, |m| m.totals.wakes)),
        "times background reclaim was woken",
    ),
    plain(
        "failed",
        Less,
        0,
        |m| Some(sum(m, |m| m.failed)),
        "requests not served: nothing reclaims in a replay",
    ),
];

impl Metric {
    fn family(name: String, about: String, better: Better, source: Source) -> Metric {
        let index = matches!(source, Source::Unusable(_) | Source::Extfrag(_));
        Metric {
            name,
            about,
            better,
            decimals: if index { 3 } else { 0 },
            positional: index,
            source,
        }
    }

    /// The figure of one or several recordings; `None` where there is none.
    #[must_use]
    pub fn value(&self, measures: &[&Measure]) -> Option<f64> {
        let mean = |of: &dyn Fn(&Measure) -> f64| {
            let count = measures.len() as f64;
            (count > 0.0).then(|| measures.iter().map(|m| of(m)).sum::<f64>() / count)
        };
        let node = |number: u8, pick: fn(&super::measure::NodeNuma) -> u64| {
            let nodes = measures.iter().flat_map(|m| &m.numa);
            let mut here = nodes.filter(|node| node.node == number).peekable();
            here.peek()?;
            Some(here.map(pick).sum::<u64>() as f64)
        };
        match self.source {
            Source::Plain(value) => value(measures),
            Source::Unusable(order) => {
                mean(&|m| unusable_index(&m.free_blocks(), order as u8) as f64 / 1000.0)
            }
            // Not a mean: -1 says "a block is free" and is no amount.
            Source::Extfrag(order) => match measures {
                [one] => Some(extfrag_index(&one.free_blocks(), order as u8) as f64 / 1000.0),
                _ => None,
            },
            Source::NumaHit(number) => node(number, |node| node.hit),
            Source::NumaMiss(number) => node(number, |node| node.miss),
        }
    }

    /// BASE and HEAD side by side.
    #[must_use]
    pub fn compare(&self, base: &[&Measure], head: &[&Measure]) -> Change {
        let (base, head) = (self.value(base), self.value(head));
        let pct = change_pct(base, head);
        Change {
            metric: self.name.clone(),
            base,
            head,
            change_pct: pct.filter(|pct| pct.is_finite()),
            from_zero: pct.is_some_and(f64::is_infinite),
            better: self.better,
            verdict: self.verdict(pct),
            reason: None,
        }
    }

    fn verdict(&self, pct: Option<f64>) -> Verdict {
        match (pct, self.better) {
            (None, _) => Verdict::Unknown,
            (Some(pct), _) if pct.abs() < SAME_PCT => Verdict::Same,
            (Some(_), Neither) => Verdict::Differs,
            (Some(pct), Less) if pct < 0.0 => Verdict::Better,
            (Some(pct), More) if pct > 0.0 => Verdict::Better,
            _ => Verdict::Worse,
        }
    }
}

/// One figure under both policies.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Change {
    /// Name of the metric.
    pub metric: String,
    /// Under BASE.
    pub base: Option<f64>,
    /// Under HEAD.
    pub head: Option<f64>,
    /// Change in per cent of BASE; none where BASE is 0 and HEAD is not, or a side is missing.
    pub change_pct: Option<f64>,
    /// BASE is 0 and HEAD is not.
    pub from_zero: bool,
    /// Which way is better.
    pub better: Better,
    /// What became of it.
    pub verdict: Verdict,
    /// One sentence from the counters; none where nothing changed.
    pub reason: Option<String>,
}

impl Change {
    /// Change in per cent; infinite from zero.
    #[must_use]
    pub fn pct(&self) -> Option<f64> {
        match self.from_zero {
            true => Some(f64::INFINITY),
            false => self.change_pct,
        }
    }
}

fn change_pct(base: Option<f64>, head: Option<f64>) -> Option<f64> {
    match (base?, head?) {
        (base, head) if base == head => Some(0.0),
        // An index of -1 says that a block is free: not an amount to compare with.
        (base, head) if base < 0.0 || head < 0.0 => None,
        (0.0, _) => Some(f64::INFINITY),
        (base, head) => Some(100.0 * (head - base) / base),
    }
}

/// Every metric, for machines of up to `nodes` nodes, in the order of the report.
#[must_use]
pub fn all(nodes: u8) -> Vec<Metric> {
    let mut all: Vec<Metric> = PLAIN
        .iter()
        .map(|plain| Metric {
            name: plain.name.to_string(),
            about: plain.about.to_string(),
            better: plain.better,
            decimals: plain.decimals,
            positional: plain.positional,
            source: Source::Plain(plain.value),
        })
        .collect();
    for node in 0..nodes {
        let name = |what: &str| format!("numa_{what}_node{node}");
        let (hit, miss) = (Source::NumaHit(node), Source::NumaMiss(node));
        let about = format!("blocks served by node {node} as wanted");
        all.push(Metric::family(name("hit"), about, More, hit));
        let about = format!("blocks served by node {node} though wanted elsewhere");
        all.push(Metric::family(name("miss"), about, Less, miss));
    }
    for order in 0..ORDERS {
        let about = format!("part of free memory that cannot serve order {order}, at the end");
        let source = Source::Unusable(order);
        all.push(Metric::family(format!("unusable_o{order}"), about, Less, source));
    }
    for order in 0..ORDERS {
        let about = format!("external fragmentation index of order {order}; -1: a block is free");
        let source = Source::Extfrag(order);
        all.push(Metric::family(format!("extfrag_o{order}"), about, Less, source));
    }
    all
}
