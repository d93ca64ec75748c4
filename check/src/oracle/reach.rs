//! What a campaign came by: one count for each kind of event.

use std::collections::BTreeMap;

use pageyard::Event;
use pageyard::event::DrainCause;
use pageyard_host::seq::Listener;

/// Kinds of events, and how often each was met.
#[derive(Clone, Debug, Default)]
pub struct Reach(BTreeMap<&'static str, u64>);

/// Every kind that a campaign must come by.
pub const KINDS: &[&str] = &[
    "hit of a cache",
    "put to a cache",
    "busy cache",
    "block taken",
    "refill",
    "short refill",
    "block given back",
    "drain by limit",
    "drain by free_high",
    "drain by decay",
    "drain by expiry",
    "drain asked for",
    "direct allocation",
    "direct free",
    "merge",
    "split",
    "fallback that claims",
    "fallback that does not",
    "pageblock retyped",
    "boost",
    "wake",
    "below the mark",
    "remote node",
    "reserved for high-atomic",
    "unreserved",
    "counter read",
    "counter spilled",
];

impl Reach {
    /// Adds another one.
    pub fn add(&mut self, other: &Reach) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// Kinds that were never met.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let met = |kind: &&&str| !self.0.contains_key(**kind);
        KINDS.iter().filter(met).copied().collect()
    }
}

impl Listener for Reach {
    fn on_event(&mut self, event: Event) {
        *self.0.entry(kind(event)).or_default() += 1;
    }
}

fn kind(event: Event) -> &'static str {
    match event {
        Event::PcpHit { .. } => "hit of a cache",
        Event::PcpPut { .. } => "put to a cache",
        Event::PcpBusy { .. } => "busy cache",
        Event::ZoneTake { .. } => "block taken",
        Event::Refill { asked_blocks, got_blocks, .. } if got_blocks < asked_blocks => {
            "short refill"
        }
        Event::Refill { .. } => "refill",
        Event::DrainBlock { .. } => "block given back",
        Event::Drain { cause, .. } => match cause {
            DrainCause::Limit => "drain by limit",
            DrainCause::FreeHigh => "drain by free_high",
            DrainCause::Decay => "drain by decay",
            DrainCause::Expire => "drain by expiry",
            DrainCause::Asked => "drain asked for",
        },
        Event::Direct { .. } => "direct allocation",
        Event::DirectFree { .. } => "direct free",
        Event::Merge { .. } => "merge",
        Event::Split { .. } => "split",
        Event::Fallback { claimed: true, .. } => "fallback that claims",
        Event::Fallback { claimed: false, .. } => "fallback that does not",
        Event::Retype { .. } => "pageblock retyped",
        Event::Boost { .. } => "boost",
        Event::Wake { .. } => "wake",
        Event::BelowMark { .. } => "below the mark",
        Event::RemoteNode { .. } => "remote node",
        Event::HighAtomic { reserved: true, .. } => "reserved for high-atomic",
        Event::HighAtomic { reserved: false, .. } => "unreserved",
        Event::CounterRead { .. } => "counter read",
        Event::CounterSpill { .. } => "counter spilled",
    }
}
