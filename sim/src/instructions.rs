//! Instructions that a kernel spends on a page: under the zone lock, and where a per-CPU list has
//! it or takes it.
//!
//! Counted, not estimated: kernels of Debian under emulation, every instruction between taking and
//! leaving the lock, page_fault1 on one CPU with free memory whole, halved and in single pages;
//! least squares over holds, by pages, splits and merges (R² 0.998 and better where sizes of holds
//! vary). Beside the lock: every instruction from entry to exit of an allocation, or of a page
//! given back, where the zone lock is not taken. Loads and stores are two in five of them. How they
//! were counted is in docs/METHODOLOGY.md.
//!
//! Our body looks at fewer words than the kernel does; each of its accesses stands for
//! [`INSTRUCTIONS_PER_ACCESS`]. What is missing to the count is executed where an event tells of a
//! page taken or given back, a block split or merged.

use pageyard::Event;

use crate::world::INSTRUCTIONS_PER_ACCESS;

/// Whose counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 5.10's, where pages that are given back are chosen under the zone lock: up to 4.16, and
    /// again in 5.18 and 5.19 (8b10b465d0e1).
    V4_14,
    /// 5.10, which chooses them before, for 4.17 to 5.17.
    V5_10,
    /// 6.1, for 6.0 to 6.8.
    V6_1,
    /// 6.12, for 6.9 and later.
    V6_12,
}

/// What a kernel does more than our body does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions.
    pub instructions: u64,
    /// Stores among them, to lines that are here.
    pub stores: u64,
}

/// Instructions, and the stores among them.
const fn work(instructions: u64, stores: u64) -> Work {
    Work { instructions, stores }
}

/// Instructions by what is done.
#[derive(Clone, Copy, Debug)]
struct Counts {
    hit: Work,
    put: Work,
    take: Work,
    split: Work,
    /// Before the zone lock is taken to give it back.
    choose: Work,
    give: Work,
    merge: Work,
}

/// Accesses of our body, counted in the same way: a page had from a per-CPU list and put on one;
/// taken with and without a split, given back with and without a merge; each comes with its
/// instructions.
const OURS: Counts = Counts {
    hit: ours(22, 6),
    put: ours(22, 7),
    take: ours(20, 10),
    split: ours(9, 6),
    choose: ours(7, 2),
    give: ours(20, 10),
    merge: ours(11, 5),
};

/// Beside the lock stores were not counted on their own: one in seven, as under it.
const fn beside(instructions: u64) -> Work {
    work(instructions, instructions / 7)
}

/// Of what 5.10 does before the zone lock, what 4.17 began: a list of its own for the pages that
/// were chosen. An estimate: what putting a page on a checked list takes.
const OWN_LIST: u64 = 20;

const fn ours(accesses: u64, stores: u64) -> Work {
    work(accesses * INSTRUCTIONS_PER_ACCESS, stores)
}

impl Kernel {
    const fn counts(self) -> Counts {
        match self {
            // Less a return thunk for each call (3, 1, 4 and 1, and at that rate of those beside
            // the lock), which came in July 2022.
            Kernel::V4_14 => {
                let counts = Kernel::V5_10.counts();
                // Our accesses are charged where they are made, in either order.
                let chosen = counts.choose.instructions - OURS.choose.instructions - OWN_LIST;
                let give = counts.give.instructions + chosen;
                Counts { choose: OURS.choose, give: work(give, counts.give.stores + 4), ..counts }
            }
            Kernel::V5_10 => Counts {
                hit: beside(409 - 10),
                put: beside(156 - 4),
                take: work(117 - 3, 18),
                split: work(73 - 1, 12),
                choose: beside(97 - 3),
                give: work(178 - 4, 20),
                merge: work(82 - 1, 10),
            },
            Kernel::V6_1 => Counts {
                hit: beside(359),
                put: beside(259),
                take: work(134, 18),
                split: work(69, 12),
                choose: OURS.choose,
                give: work(224, 27),
                merge: work(81, 10),
            },
            Kernel::V6_12 => Counts {
                hit: beside(491),
                put: beside(288),
                take: work(166, 23),
                split: work(71, 12),
                choose: OURS.choose,
                give: work(255, 27),
                merge: work(86, 10),
            },
        }
    }

    /// What to execute where an event happens, beside the instructions of our accesses.
    #[must_use]
    pub const fn beside(self, event: &Event) -> Work {
        let counts = self.counts();
        let (counted, ours, times) = match event {
            Event::PcpHit { .. } => (counts.hit, OURS.hit, 1),
            Event::PcpPut { .. } => (counts.put, OURS.put, 1),
            Event::ZoneTake { .. } => (counts.take, OURS.take, 1),
            Event::Split { .. } => (counts.split, OURS.split, 1),
            Event::DrainBlock { .. } => (counts.give, OURS.give, 1),
            Event::Drain { pages, .. } => (counts.choose, OURS.choose, *pages as u64),
            Event::Merge { .. } => (counts.merge, OURS.merge, 1),
            _ => return work(0, 0),
        };
        let missing = counted.instructions - ours.instructions;
        work(missing * times, (counted.stores - ours.stores) * times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::event::DrainCause;
    use pageyard::{CpuId, MigrateType, Pfn, ZoneId};

    const ZONE: ZoneId = ZoneId(0);
    const CPU: CpuId = CpuId(0);

    #[test]
    fn choosing_is_under_the_zone_lock_or_before_it() {
        let migratetype = MigrateType::Movable;
        let block = Event::DrainBlock { zone: ZONE, pfn: Pfn(0), order: 0, migratetype };
        let (pages, cause) = (31, DrainCause::Limit);
        let drain = Event::Drain { zone: ZONE, cpu: CPU, pages, left_pages: 0, cause };
        let executed = |kernel: Kernel, event| kernel.beside(&event).instructions;
        let before = executed(Kernel::V5_10, drain);
        assert_eq!(before % 31, 0, "as often as there are pages");
        let moved = executed(Kernel::V4_14, block) - executed(Kernel::V5_10, block);
        assert!(before / 31 > moved && moved > 0, "all but a list of their own: {moved}");
        assert_eq!(executed(Kernel::V4_14, drain), 0);
        assert_eq!(executed(Kernel::V6_1, drain), 0, "what was counted under the lock has it");
    }

    #[test]
    fn a_page_of_a_per_cpu_list_takes_what_was_counted_with_our_accesses() {
        let hit = Event::PcpHit { zone: ZONE, cpu: CPU, order: 0 };
        let put = Event::PcpPut { zone: ZONE, cpu: CPU, order: 0 };
        let all =
            |event: &Event, ours: Work| Kernel::V6_1.beside(event).instructions + ours.instructions;
        assert_eq!((all(&hit, OURS.hit), all(&put, OURS.put)), (359, 259));
    }
}
