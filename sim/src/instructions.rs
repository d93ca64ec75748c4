//! Instructions that a kernel spends on a page under the zone lock.
//!
//! Counted, not estimated: kernels of Debian under emulation, every instruction between taking and
//! leaving the lock, page_fault1 on one CPU with free memory whole, halved and in single pages;
//! least squares over holds, by pages, splits and merges (R² 0.998 and better where sizes of holds
//! vary). Loads and stores are two in five of them. How they were counted is in
//! docs/METHODOLOGY.md.
//!
//! Our body looks at fewer words than the kernel does; each of its accesses stands for
//! [`INSTRUCTIONS_PER_ACCESS`]. What is missing to the count is executed where an event tells of a
//! page taken or given back, a block split or merged.

use pageyard::Event;

use crate::world::INSTRUCTIONS_PER_ACCESS;

/// Whose counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 5.10, for kernels up to 5.15.
    V5_10,
    /// 6.1, for 5.16 to 6.8.
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
    take: Work,
    split: Work,
    give: Work,
    merge: Work,
}

/// Accesses of our body, counted in the same way: a page taken with and without a split, given
/// back with and without a merge; each comes with its instructions.
const OURS: Counts =
    Counts { take: ours(20, 10), split: ours(9, 6), give: ours(20, 10), merge: ours(11, 5) };

const fn ours(accesses: u64, stores: u64) -> Work {
    work(accesses * INSTRUCTIONS_PER_ACCESS, stores)
}

impl Kernel {
    const fn counts(self) -> Counts {
        match self {
            // Less a return thunk for each call (3, 1, 4 and 1), which came in July 2022.
            Kernel::V5_10 => Counts {
                take: work(117 - 3, 18),
                split: work(73 - 1, 12),
                give: work(178 - 4, 20),
                merge: work(82 - 1, 10),
            },
            Kernel::V6_1 => Counts {
                take: work(134, 18),
                split: work(69, 12),
                give: work(224, 27),
                merge: work(81, 10),
            },
            Kernel::V6_12 => Counts {
                take: work(166, 23),
                split: work(71, 12),
                give: work(255, 27),
                merge: work(86, 10),
            },
        }
    }

    /// What to execute where an event happens, beside the instructions of our accesses.
    #[must_use]
    pub const fn beside(self, event: &Event) -> Work {
        let counts = self.counts();
        let (counted, ours) = match event {
            Event::ZoneTake { .. } => (counts.take, OURS.take),
            Event::Split { .. } => (counts.split, OURS.split),
            Event::DrainBlock { .. } => (counts.give, OURS.give),
            Event::Merge { .. } => (counts.merge, OURS.merge),
            _ => return work(0, 0),
        };
        work(counted.instructions - ours.instructions, counted.stores - ours.stores)
    }
}
