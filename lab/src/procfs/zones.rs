//! `zoneinfo`: marks, reserves, counters and per-CPU lists of an allocator in the shape that a
//! kernel prints.

use pageyard::platform::Platform;
use pageyard::{CpuId, ZoneId, ZoneKind};
use pageyard_trace::snapshot::{PageSet, Zone, ZoneInfo};

use super::fields::{View, copied_whole};
use super::report::FileReport;

impl<P: Platform> View<'_, P> {
    pub(super) fn zoneinfo(&self, template: Option<&ZoneInfo>) -> (ZoneInfo, FileReport) {
        let mut report = FileReport::new("zoneinfo");
        let blank: Vec<Zone>;
        let printed = match template {
            Some(template) => &template.zones,
            None => {
                report.without_template();
                blank = self.blank_zones();
                &blank
            }
        };
        let mut zones = Vec::new();
        for old in printed {
            // Entry i of `protection` is for requests up to the i-th zone of the node.
            let kinds: Vec<Option<ZoneKind>> = printed
                .iter()
                .filter(|zone| zone.node == old.node)
                .map(|zone| ZoneKind::ALL.into_iter().find(|kind| kind.name() == zone.name))
                .collect();
            match self.zone(old.node, &old.name) {
                Some(id) => zones.push(self.fill_zone(id, old, &kinds, &mut report)),
                None => {
                    if old.populated() {
                        report.remark(copied_whole(old.node, &old.name));
                    }
                    zones.push(old.clone());
                }
            }
        }
        let raw = String::new();
        (ZoneInfo { zones, raw }, report)
    }

    /// Zones with the fields that every release prints and the allocator models.
    fn blank_zones(&self) -> Vec<Zone> {
        let blank = |(node, kind, id): (u16, ZoneKind, ZoneId)| {
            let desc = self.desc(id);
            let counters = ["nr_free_pages", "nr_free_cma"].into_iter().chain([
                "numa_hit",
                "numa_miss",
                "numa_foreign",
                "numa_interleave",
                "numa_local",
                "numa_other",
            ]);
            let modelled = counters.filter(|name| self.counter(&[id], name).is_some());
            Zone {
                node,
                name: kind.name().to_string(),
                spanned: desc.spanned_pages,
                present: desc.managed_pages,
                managed: desc.managed_pages,
                protection: vec![0; ZoneKind::ALL.len()],
                counters: modelled.map(|name| (name.to_string(), 0)).collect(),
                pagesets: (0..self.cpus()).map(blank_pageset).collect(),
                start_pfn: Some(desc.start.0),
                ..Zone::default()
            }
        };
        self.zones().into_iter().map(blank).collect()
    }

    fn fill_zone(
        &self,
        id: ZoneId,
        old: &Zone,
        kinds: &[Option<ZoneKind>],
        report: &mut FileReport,
    ) -> Zone {
        let mut zone = old.clone();
        old.per_node.iter().for_each(|(name, _)| report.copy(name));
        self.fill_marks(id, &mut zone, report);
        let by_index = kinds.iter().chain(std::iter::repeat(&None));
        for (pages, kind) in zone.protection.iter_mut().zip(by_index) {
            match kind {
                Some(kind) => *pages = u64::from(self.allocator.reserve(id, *kind)),
                // Device memory and the like: above every zone that the allocator knows.
                None => report.copy("protection (zones that are not modelled)"),
            }
        }
        report.model("protection");
        for (name, value) in &mut zone.counters {
            match self.counter(&[id], name) {
                Some(number) => {
                    report.model(name);
                    *value = number.over(*value);
                }
                None => report.copy(name),
            }
        }
        for set in &mut zone.pagesets {
            match self.has_cpu(set.cpu) {
                Some(cpu) => self.fill_pageset(id, cpu, set, report),
                None => report.remark(format!("cpu {}: not modelled, copied", set.cpu)),
            }
        }
        if zone.node_unreclaimable.is_some() {
            report.copy("node_unreclaimable");
        }
        report.copy("start_pfn");
        zone
    }

    fn fill_marks(&self, id: ZoneId, zone: &mut Zone, report: &mut FileReport) {
        let marks = self.allocator.marks(id);
        let boost = u64::from(self.allocator.boost(id));
        let mark = |pages: u32| u64::from(pages) + boost;
        zone.free = self.counter(&[id], "nr_free_pages").map_or(zone.free, |n| n.over(0));
        zone.boost = zone.boost.map(|_| boost);
        (zone.min, zone.low, zone.high) = (mark(marks.min), mark(marks.low), mark(marks.high));
        zone.promo = zone.promo.map(|_| mark(marks.promo));
        for name in ["pages free", "boost", "min", "low", "high", "promo"] {
            let left_out = (name == "boost" && zone.boost.is_none())
                || (name == "promo" && zone.promo.is_none());
            if !left_out {
                report.model(name);
            }
        }
        ["spanned", "present", "managed"].iter().for_each(|name| report.copy(name));
        if zone.cma.is_some() {
            report.copy("cma");
        }
    }

    fn fill_pageset(&self, id: ZoneId, cpu: CpuId, set: &mut PageSet, report: &mut FileReport) {
        let size = self.allocator.pcp(id, cpu).size;
        set.count = i64::from(size.count);
        set.high = i64::from(size.high);
        set.batch = i64::from(size.batch);
        ["count", "high", "batch"].iter().for_each(|name| report.model(name));
        if set.high_min.is_some() {
            set.high_min = Some(i64::from(size.high_min));
            set.high_max = Some(i64::from(size.high_max));
            ["high_min", "high_max"].iter().for_each(|name| report.model(name));
        }
        if set.stat_threshold.is_some() {
            set.stat_threshold = Some(i64::from(self.allocator.stat_threshold(id)));
            report.model("vm stats threshold");
        }
    }
}

fn blank_pageset(cpu: u32) -> PageSet {
    PageSet { cpu, stat_threshold: Some(0), ..PageSet::default() }
}
