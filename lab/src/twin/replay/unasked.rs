//! Drains that no free set off: the twin does the same to its own cache.

use pageyard::policy::PcpHigh;
use pageyard::{CpuId, ZoneId};

use super::Replay;
use crate::twin::unasked::Unasked;

impl Replay<'_> {
    /// A drain that no free set off. How many pages it takes is the twin's own; how many the
    /// kernel took only tells what it was.
    ///
    /// Up to 6.6 a tick drains nothing but caches of other nodes' zones, and a batch at the most;
    /// every other such drain was asked for, by compaction or reclaim, and empties the cache. From
    /// 6.7 on a tick lowers the limit of any cache by an eighth and drains what is above.
    pub(super) fn drain_unasked(&self, drain: Unasked) {
        let (zone, cpu) = (ZoneId(drain.zone as u8), CpuId(drain.cpu));
        let policy = self.allocator.policy();
        let batch = self.world.limits(drain.zone, policy).0;
        let home = self.world.cpu_nodes[usize::from(drain.cpu)].0;
        let is_local = self.world.zones[drain.zone].node == home;
        let ticks_drain = policy.pcp_high == PcpHigh::Auto;
        self.allocator.platform().run_on(cpu);
        if drain.whole || (!ticks_drain && (is_local || drain.pages > batch)) {
            self.allocator.drain_zone_cpu(zone, cpu);
        } else if ticks_drain {
            self.allocator.tick_zone(zone, cpu);
        } else {
            self.allocator.trim_zone_cpu(zone, cpu, batch);
        }
    }
}
