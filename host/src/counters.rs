//! What a platform may do with the events of the allocator: nothing, or count them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pageyard::Event;

/// Told of every event by every thread. `()` compiles to nothing; `Option` costs one predictable
/// branch an event while it is `None`.
pub trait Notes: Sync {
    /// Something happened. May run under a lock of the allocator: it must not call it.
    fn note(&self, event: Event);
}

impl Notes for () {
    #[inline(always)]
    fn note(&self, _: Event) {}
}

impl<N: Notes> Notes for Option<N> {
    #[inline(always)]
    fn note(&self, event: Event) {
        if let Some(notes) = self {
            notes.note(event);
        }
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// How often each event happened; names as in [`Event`], pages where it says so.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)+ }

        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types)]
        enum Slot { $($name,)+ }

        const SLOTS: usize = [$(Slot::$name),+].len();

        impl Counts {
            fn of(words: [u64; SLOTS]) -> Counts {
                Counts { $($name: words[Slot::$name as usize],)+ }
            }
        }
    };
}
counts! {
    /// Blocks served from a per-CPU list.
    pcp_hits,
    /// Entries to a per-CPU cache that found it busy.
    pcp_busy,
    /// Blocks that left the free lists.
    zone_takes,
    /// Refills of a per-CPU list.
    refills,
    /// Pages that refills brought.
    refill_pages,
    /// Bulk frees.
    drains,
    /// Pages that bulk frees gave back.
    drain_pages,
    /// Blocks served by the zone itself.
    direct_allocs,
    /// Frees to the zone itself.
    direct_frees,
    /// Two buddies became one.
    merges,
    /// A block was halved.
    splits,
    /// Blocks taken from another type.
    fallbacks,
    /// Pageblocks that changed their type.
    retypes,
    /// Rises of a zone's marks.
    boosts,
    /// Calls for background reclaim.
    wakes,
    /// Zones passed over for their marks.
    below_mark,
    /// Pages served from another node than the preferred one.
    remote_nodes,
    /// Pageblocks that joined or left the high-atomic reserve.
    high_atomic,
    /// Words read one by one for an exact answer.
    counter_words_read,
    /// Differences folded into a shared counter.
    counter_spills,
}

/// Lanes of [`Counters`]: threads beyond so many share one.
const LANES: usize = 64;

#[repr(align(64))]
struct Lane([AtomicU64; SLOTS]);

/// Counts every event. Threads count apart, each on cache lines of its own, and a reader adds up.
pub struct Counters {
    lanes: Box<[Lane]>,
}

impl Default for Counters {
    fn default() -> Counters {
        let lane = || Lane([const { AtomicU64::new(0) }; SLOTS]);
        Counters { lanes: (0..LANES).map(|_| lane()).collect() }
    }
}

impl Counters {
    /// The sums over all threads; exact once they are at rest.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut words = [0u64; SLOTS];
        for lane in &self.lanes {
            for (word, count) in words.iter_mut().zip(&lane.0) {
                // Relaxed: a count orders nothing.
                *word = word.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        Counts::of(words)
    }
}

fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
    }
    LANE.with(|lane| *lane)
}

/// Which words an event adds to, and how much; the second may add nothing.
fn additions(event: &Event) -> [(Slot, u64); 2] {
    let one = |slot| [(slot, 1), (slot, 0)];
    match *event {
        Event::PcpHit { .. } => one(Slot::pcp_hits),
        Event::PcpBusy { .. } => one(Slot::pcp_busy),
        Event::ZoneTake { .. } => one(Slot::zone_takes),
        Event::Refill { got_blocks, order, .. } => {
            let pages = u64::from(got_blocks) << order;
            [(Slot::refills, 1), (Slot::refill_pages, pages)]
        }
        // As many as frees that were not direct: not worth an addition.
        Event::PcpPut { .. } => [(Slot::pcp_hits, 0); 2],
        // Its pages are counted by the drain that it belongs to.
        Event::DrainBlock { .. } => [(Slot::drains, 0); 2],
        Event::Drain { pages, .. } => [(Slot::drains, 1), (Slot::drain_pages, u64::from(pages))],
        Event::Direct { .. } => one(Slot::direct_allocs),
        Event::DirectFree { .. } => one(Slot::direct_frees),
        Event::Merge { .. } => one(Slot::merges),
        Event::Split { .. } => one(Slot::splits),
        Event::Fallback { .. } => one(Slot::fallbacks),
        Event::Retype { .. } => one(Slot::retypes),
        Event::Boost { .. } => one(Slot::boosts),
        Event::Wake { .. } => one(Slot::wakes),
        Event::BelowMark { .. } => one(Slot::below_mark),
        Event::RemoteNode { .. } => one(Slot::remote_nodes),
        Event::HighAtomic { .. } => one(Slot::high_atomic),
        Event::CounterRead { words } => {
            let words = u64::from(words);
            [(Slot::counter_words_read, words), (Slot::counter_words_read, 0)]
        }
        Event::CounterSpill { .. } => one(Slot::counter_spills),
    }
}

impl Notes for Counters {
    #[inline]
    fn note(&self, event: Event) {
        let lane = &self.lanes[lane()].0;
        for (slot, amount) in additions(&event) {
            if amount > 0 {
                // Relaxed: a count orders nothing. An addition, as threads may share a lane.
                lane[slot as usize].fetch_add(amount, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{CpuId, ZoneId};

    #[test]
    fn threads_count_apart_and_readers_add_up() {
        let counters = Counters::default();
        let (zone, cpu) = (ZoneId(0), CpuId(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for order in 0..3 {
                        counters.note(Event::PcpHit { zone, cpu, order });
                    }
                    counters.note(Event::Refill {
                        zone,
                        cpu,
                        order: 2,
                        list: 7,
                        asked_blocks: 9,
                        got_blocks: 5,
                    });
                });
            }
        });
        let expected = Counts { pcp_hits: 9, refills: 3, refill_pages: 60, ..Counts::default() };
        assert_eq!(counters.counts(), expected);
    }
}
