//! How often a process meets the zone lock while it maps, and how often while it unmaps.
//!
//! At a fair lock all wait as long, so that this tells how what processes wait is divided between
//! the two. A CPU that caches thousands of pages gives them back a thousand at a time, and unmaps
//! nearly unhindered.

use pageyard::{CpuId, GeometryError, Pfn, Policy, Tuning, ZoneId};
use pageyard_host::seq::Seq;
use pageyard_sim::machine::Machine;

use super::alone::Alone;
use super::pace::{Mapped, Pace};
use super::page_fault1::PAGES;

/// Cycles until limits that move have found their place.
const CYCLES: usize = 3;

/// Refills and bulk frees of a cycle of page_fault1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meets {
    /// Refills of the CPU's cache.
    pub refills: u64,
    /// Bulk frees.
    pub bulk_frees: u64,
}

impl Meets {
    /// Counts them: one process on its own, at no cost, with a node's limits.
    ///
    /// # Errors
    /// The policy contradicts itself.
    pub fn of(machine: &Machine, policy: Policy) -> Result<Meets, GeometryError> {
        let per = machine.topology.cores_per_socket * machine.topology.threads_per_core;
        let bytes = machine.node_memory_bytes.iter().max().copied().unwrap_or(0);
        let node = Alone {
            cpus: 1,
            node_cpus: per as usize,
            start: Pfn(1 << 10),
            span: 4 * PAGES as u64 + bytes / 4096 / 100,
            managed_pages: bytes / 4096,
            tuning: Tuning::default(),
        };
        let allocator = node.allocator(policy)?;
        let pace = Pace { pages: PAGES, map: 1, unmap: 1 };
        let mut process = Mapped::default();
        let mut meets = Meets::default();
        let cached = || allocator.pcp_pages(ZoneId(0), CpuId(0));
        for _ in 0..CYCLES {
            meets = Meets::default();
            loop {
                let (before, unmaps) = (cached(), process.is_unmapping);
                let is_over = process.turn::<Seq<()>>(&allocator, pace);
                let after = cached();
                meets.refills += u64::from(!unmaps && after + 1 != before);
                meets.bulk_frees += u64::from(unmaps && after != before + 1);
                if is_over {
                    break;
                }
            }
        }
        Ok(meets)
    }

    /// Thousandths of them while unmapping.
    #[must_use]
    pub fn unmapping(self) -> u64 {
        (self.bulk_frees * 1000).checked_div(self.refills + self.bulk_frees).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use pageyard::preset;

    use super::*;

    fn meets(policy: &str) -> Meets {
        let machine = Machine::named("skl-4s").expect("a machine that comes along");
        Meets::of(&machine, preset::find(policy).expect("a preset")).expect("a node")
    }

    #[test]
    fn with_batches_both_ways_it_is_met_as_often_both_ways() {
        let Meets { refills, bulk_frees } = meets("linux-4.18");
        // Up to six batches are in the cache when a cycle begins, and when it ends.
        let all = (PAGES as u64).div_ceil(31);
        assert!((all - 6..=all).contains(&refills), "{refills} of {all}");
        assert!(bulk_frees.abs_diff(refills) <= 1, "{bulk_frees}");
        assert!((498..=502).contains(&Meets { refills, bulk_frees }.unmapping()));
    }

    #[test]
    fn large_caches_are_given_back_in_few_holds() {
        let Meets { refills, bulk_frees } = meets("linux-5.17");
        assert!(refills > 10 * bulk_frees && bulk_frees > 0, "{refills}, {bulk_frees}");
    }
}
