//! What a policy makes of a recording's requests: totals, without judgement. To compare two
//! policies fairly, see the `compare` verb.

use pageyard::Policy;
use pageyard_trace::error::TraceError;
use serde::Serialize;

use super::infer::Twin;
use super::ledger::Totals;
use super::replay::{Placement, Replay};

/// Totals of one policy over one recording.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Name of the policy.
    pub policy: String,
    /// Pages cut from caches before the first event, because they were above its limits.
    pub cut_pages: u64,
    /// Names and numbers.
    pub numbers: Vec<(&'static str, u64)>,
}

/// Replays under a policy with its own placement.
///
/// # Errors
/// The recording cannot be read again.
pub fn of(twin: &Twin, name: &str, policy: Policy) -> Result<Outcome, TraceError> {
    let mut replay = twin.begin(policy, Placement::Own);
    let cut_pages =
        if policy == twin.policy { 0 } else { crate::compare::fair::cut_caches(&replay, twin) };
    replay.forget_totals();
    replay.follow_unseen(twin.unseen()?);
    twin.each_event(|event| replay.on_event(event))?;
    let totals = replay.allocator().platform().listener(|tally| tally.totals);
    Ok(Outcome { policy: name.into(), cut_pages, numbers: numbers(&totals, &replay) })
}

fn numbers(totals: &Totals, replay: &Replay<'_>) -> Vec<(&'static str, u64)> {
    let glimpse = replay.glimpse();
    let cached: u64 = glimpse.caches.values().map(|cache| u64::from(cache.0)).sum();
    let holds = totals.refills + totals.drains + totals.direct_allocs + totals.direct_frees;
    vec![
        ("zone lock taken, times", holds),
        ("most pages moved under one hold", totals.hold_pages_max),
        ("refills", totals.refills),
        ("pages refilled", totals.refilled_pages),
        ("drains", totals.drains),
        ("pages drained", totals.drained_pages),
        ("drains by runs of high-order frees", totals.free_high_drains),
        ("allocations past the caches", totals.direct_allocs),
        ("frees past the caches", totals.direct_frees),
        ("blocks taken from another type", totals.fallbacks),
        ("pages in the caches at the end", cached),
        ("requests not served", replay.oddities.failed),
    ]
}
