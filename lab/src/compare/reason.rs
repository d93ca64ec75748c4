//! One sentence for a change, from the counters: what the policy did more or less of, and how
//! large it was. Nothing here knows a policy by name.

use super::measure::{Measure, NodeNuma, ORDERS};
use super::metrics::{free_hits, served};
use crate::twin::ledger::Totals;

/// What the sentences draw on: the counters of one or several recordings together.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    totals: Totals,
    free_hits: u64,
    served: u64,
    pcp_pages_mean: u64,
    first_pcp_pages: u64,
    limit_pages: u64,
    free_blocks: [u64; ORDERS],
    misses: u64,
}

impl Facts {
    /// Pools measures.
    #[must_use]
    pub fn of(measures: &[&Measure]) -> Facts {
        let mut facts = Facts::default();
        let (mut pages, mut samples) = (0, 0);
        for measure in measures {
            facts.totals.add(&measure.totals);
            facts.free_hits += free_hits(measure);
            facts.served += served(measure);
            facts.first_pcp_pages += measure.first_pcp_pages;
            facts.limit_pages += measure.limit_pages;
            facts.misses += measure.numa.iter().map(|node: &NodeNuma| node.miss).sum::<u64>();
            pages += measure.pcp_pages_sum;
            samples += measure.samples;
            for (sum, blocks) in facts.free_blocks.iter_mut().zip(measure.free_blocks()) {
                *sum += blocks;
            }
        }
        facts.pcp_pages_mean = pages / samples.max(1);
        facts
    }
}

/// A kind of zone-lock hold: name, count, pages.
type Kind = (&'static str, u64, u64);

fn kinds(t: &Totals) -> Vec<Kind> {
    let rest = t.drained_pages - t.limit_drain_pages - t.free_high_pages;
    let direct = t.hold_pages - t.refilled_pages - t.drained_pages;
    vec![
        ("refills", t.refills, t.refilled_pages),
        ("drains at the limit", t.limit_drains, t.limit_drain_pages),
        ("free_high drains", t.free_high_drains, t.free_high_pages),
        ("drains by tick or request", t.tick_drains + t.asked_drains, rest),
        ("direct allocations and frees", t.direct_allocs + t.direct_frees, direct),
    ]
}

fn mean(pages: u64, count: u64) -> u64 {
    pages.checked_div(count).unwrap_or(0)
}

/// `1,234 → 567`, or one number if they are the same.
fn arrow(base: u64, head: u64) -> String {
    if base == head {
        return grouped(base);
    }
    format!("{} → {}", grouped(base), grouped(head))
}

/// A count with its thousands apart.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The sentence for a metric; `None` where no counter moved.
#[must_use]
pub fn sentence(metric: &str, base: &Facts, head: &Facts) -> Option<String> {
    let (b, h) = (&base.totals, &head.totals);
    match metric {
        "zone_locks" | "drains" => holds(metric == "drains", b, h),
        "zone_lock_pages" => pages(b, h),
        "hold_pages_mean" => Some(format!(
            "a refill moves {} pages, a drain {}",
            arrow(mean(b.refilled_pages, b.refills), mean(h.refilled_pages, h.refills)),
            arrow(mean(b.drained_pages, b.drains), mean(h.drained_pages, h.drains)),
        )),
        "hold_pages_max" => Some(worst(b, h)),
        "refills" | "refill_pages_mean" => Some(refills(b, h)),
        "drain_pages_mean" => holds(true, b, h),
        "free_high_drains" => Some(free_high(b, h)),
        "pcp_hits" | "pcp_hit_pct" => Some(hits(base, head)),
        "pcp_pages_mean" | "pcp_pages_max" => Some(residency(base, head)),
        "fallbacks" | "claims" => Some(fallbacks(base, head)),
        "merges" | "splits" => Some(format!(
            "{} pages came back to the free lists, {} left them by refills",
            arrow(b.hold_pages - b.refilled_pages, h.hold_pages - h.refilled_pages),
            arrow(b.refilled_pages, h.refilled_pages),
        )),
        "kswapd_wakes" | "failed" => Some(marks(base, head)),
        name if name.starts_with("numa_") => Some(format!(
            "zones below the mark were passed over {} times, {} blocks came from a node not wanted",
            arrow(b.below_mark, h.below_mark),
            arrow(base.misses, head.misses),
        )),
        name => index(name, base, head),
    }
}

/// The kind of hold whose count moved most, and its size.
fn holds(drains_only: bool, b: &Totals, h: &Totals) -> Option<String> {
    let pairs = kinds(b).into_iter().zip(kinds(h));
    let pairs = pairs.filter(|((name, ..), _)| !drains_only || name.contains("drains"));
    let pairs: Vec<(Kind, Kind)> = pairs.collect();
    let moved = |(b, h): &&(Kind, Kind)| (h.1.abs_diff(b.1), h.2.abs_diff(b.2));
    let (b, h) = pairs.iter().rev().max_by_key(moved)?;
    if (b.1, b.2) == (h.1, h.2) {
        return None;
    }
    let size = match (mean(b.2, b.1), mean(h.2, h.1)) {
        (0, h) => format!("of {h} pages"),
        (b, 0) => format!("of {b} pages"),
        (b, h) if b == h => format!("of {b} pages each"),
        (b, h) => format!("of {} pages each", arrow(b, h)),
    };
    Some(match (b.1, h.1) {
        (0, n) => format!("BASE never has {}; HEAD has {}, {size} each", b.0, grouped(n)),
        (n, 0) => format!("HEAD never has {}; BASE has {}, {size} each", b.0, grouped(n)),
        (x, y) => format!("mostly {}: {}, {size}", b.0, arrow(x, y)),
    })
}

/// The kind of hold whose pages moved most.
fn pages(b: &Totals, h: &Totals) -> Option<String> {
    let pairs: Vec<(Kind, Kind)> = kinds(b).into_iter().zip(kinds(h)).collect();
    let (b, h) = pairs.iter().rev().max_by_key(|(b, h)| h.2.abs_diff(b.2))?;
    (b.2 != h.2).then(|| {
        let (name, moved) = (b.0, arrow(b.2, h.2));
        format!("mostly {name}: {moved} pages in {} holds", arrow(b.1, h.1))
    })
}

fn worst(b: &Totals, h: &Totals) -> String {
    let who = |t: &Totals| {
        let drain = ("drain", t.drain_pages_max);
        let kinds = [drain, ("refill", t.refill_pages_max), ("direct block", t.direct_pages_max)];
        let worst = kinds.into_iter().rev().max_by_key(|(_, pages)| *pages);
        worst.unwrap_or(drain).0
    };
    format!(
        "BASE's largest is a {}, HEAD's a {}: largest refill {}, largest drain {}",
        who(b),
        who(h),
        arrow(b.refill_pages_max, h.refill_pages_max),
        arrow(b.drain_pages_max, h.drain_pages_max),
    )
}

fn refills(b: &Totals, h: &Totals) -> String {
    let mut text = format!(
        "{} pages refilled, {} a refill, {} the most",
        arrow(b.refilled_pages, h.refilled_pages),
        arrow(mean(b.refilled_pages, b.refills), mean(h.refilled_pages, h.refills)),
        arrow(b.refill_pages_max, h.refill_pages_max),
    );
    if b.drains_emptying != h.drains_emptying {
        let emptied = arrow(b.drains_emptying, h.drains_emptying);
        text.push_str(&format!("; drains left a cache empty {emptied} times"));
    }
    text
}

fn free_high(b: &Totals, h: &Totals) -> String {
    let did = |who: &str, t: &Totals| match t.free_high_drains {
        0 => format!("{who} never"),
        1 => format!("{who} once, {} pages", grouped(t.free_high_pages)),
        n => format!(
            "{who} {} times, {} pages each",
            grouped(n),
            grouped(mean(t.free_high_pages, n))
        ),
    };
    let (base, head) = (did("BASE", b), did("HEAD", h));
    format!("a run of order-1 to 3 frees drained a cache: {base}; {head}")
}

fn hits(base: &Facts, head: &Facts) -> String {
    let (b, h) = (&base.totals, &head.totals);
    format!(
        "of {} blocks served, {} needed a refill first, {} went past the caches",
        arrow(base.served, head.served),
        arrow(b.refills - b.refills_empty, h.refills - h.refills_empty),
        arrow(b.direct_allocs, h.direct_allocs),
    )
}

fn residency(base: &Facts, head: &Facts) -> String {
    let (b, h) = (&base.totals, &head.totals);
    format!(
        "the counted pass begins with {} pages cached and ends with limits of {}; a \
         refill brings {}, a drain takes {}",
        arrow(base.first_pcp_pages, head.first_pcp_pages),
        arrow(base.limit_pages, head.limit_pages),
        arrow(mean(b.refilled_pages, b.refills), mean(h.refilled_pages, h.refills)),
        arrow(mean(b.drained_pages, b.drains), mean(h.drained_pages, h.drains)),
    )
}

fn fallbacks(base: &Facts, head: &Facts) -> String {
    let (b, h) = (&base.totals, &head.totals);
    format!(
        "refills asked the zones {} times for {} pages, {} lay in caches on average; {} of the \
         fallbacks claimed their pageblock",
        arrow(b.refills, h.refills),
        arrow(b.refilled_pages, h.refilled_pages),
        arrow(base.pcp_pages_mean, head.pcp_pages_mean),
        arrow(b.claims, h.claims),
    )
}

fn marks(base: &Facts, head: &Facts) -> String {
    format!(
        "zones below the mark were passed over {} times; {} pages lay in caches on average",
        arrow(base.totals.below_mark, head.totals.below_mark),
        arrow(base.pcp_pages_mean, head.pcp_pages_mean),
    )
}

/// `unusable_oN` and `extfrag_oN`.
fn index(name: &str, base: &Facts, head: &Facts) -> Option<String> {
    let order: usize = name.rsplit_once("_o")?.1.parse().ok()?;
    let pages = |facts: &Facts, from: usize| -> u64 {
        let blocks = facts.free_blocks.iter().enumerate().skip(from);
        blocks.map(|(order, blocks)| blocks << order).sum()
    };
    Some(format!(
        "{} of {} free pages are in blocks of order {order} or more; {} lie in caches on average",
        arrow(pages(base, order), pages(head, order)),
        arrow(pages(base, 0), pages(head, 0)),
        arrow(base.pcp_pages_mean, head.pcp_pages_mean),
    ))
}
