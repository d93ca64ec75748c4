//! The recorded machine: zones, nodes, CPUs and limits, from the snapshots of a recording.

use pageyard::platform::Platform;
use pageyard::policy::PcpHigh;
use pageyard::watermark::{self, Marks};
use pageyard::{
    Allocator, CpuId, Geometry, GeometryError, MigrateType, NODES_MAX, NodeDesc, NodeId, Pfn,
    Policy, Tuning, ZoneDesc, ZoneId, ZoneKind,
};
use pageyard_trace::recording::Recording;
use pageyard_trace::snapshot::{PageSet, Zone as ZoneInfoZone};

/// Largest order and pageblock order of x86-64 Linux.
pub const MAX_ORDER: u8 = 10;
/// Order of a pageblock there.
pub const PAGEBLOCK_ORDER: u8 = 9;

/// A populated zone of the recorded machine.
#[derive(Clone, Debug)]
pub struct WorldZone {
    /// Number of its node.
    pub node: u8,
    /// Kind.
    pub kind: ZoneKind,
    /// First page frame.
    pub start: u64,
    /// Page frames spanned.
    pub spanned: u64,
    /// Page frames managed.
    pub managed: u64,
    /// Marks that the kernel printed; promo is 0 where it does not print one.
    pub marks: Marks,
    /// What they were raised by when zoneinfo was read, pages.
    pub boost: u32,
    /// Pages reserved from requests for each kind of zone.
    pub protection: [u32; 4],
    /// Per-CPU caches as printed.
    pub pagesets: Vec<PageSet>,
    /// Record of its first page in dense tables over all zones.
    pub base: usize,
}

impl WorldZone {
    /// Name for people: `node 0 Normal`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("node {} {}", self.node, self.kind.name())
    }

    /// True if the page frame lies in the span.
    #[must_use]
    pub fn holds(&self, pfn: u64) -> bool {
        pfn >= self.start && pfn - self.start < self.spanned
    }

    /// Page frame of a record of this zone.
    #[must_use]
    pub fn pfn(&self, record: usize) -> u64 {
        self.start + (record - self.base) as u64
    }
}

/// The recorded machine.
#[derive(Clone, Debug)]
pub struct World {
    /// Populated zones by start.
    pub zones: Vec<WorldZone>,
    /// Node of each CPU.
    pub cpu_nodes: Vec<NodeId>,
    /// Number of nodes.
    pub nodes: usize,
    /// Page frames spanned over all zones.
    pub pages: usize,
    /// `vm.percpu_pagelist_high_fraction`.
    pub high_fraction: u32,
    /// Pages of last-level cache per CPU, where the recording says.
    pub cache_slice_pages: Option<u32>,
    /// What had to be assumed or inferred, with the evidence.
    pub remarks: Vec<String>,
}

/// Why no twin can be built of a recording.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// There is no zoneinfo to build from.
    #[error(
        "{0}: no zoneinfo was recorded, so the zones are unknown; give a folder with \
         zoneinfo.before beside the trace (`pageyard record` writes one)"
    )]
    NoZones(String),
    /// A zone that the allocator cannot be built over.
    #[error("{0}: {1}; zoneinfo.before does not describe a machine")]
    Geometry(String, GeometryError),
}

fn kind_of(name: &str) -> Option<ZoneKind> {
    ZoneKind::ALL.into_iter().find(|kind| kind.name() == name)
}

impl World {
    /// Reads the machine off a recording's first zoneinfo.
    ///
    /// # Errors
    /// There is none, or it describes no machine.
    pub fn of(recording: &Recording) -> Result<World, WorldError> {
        let name = recording.path().display().to_string();
        let snapshot = recording.before.as_ref().or(recording.after.as_ref());
        let info = snapshot
            .and_then(|snapshot| snapshot.zoneinfo.as_ref())
            .ok_or_else(|| WorldError::NoZones(name.clone()))?;
        let mut zones: Vec<WorldZone> = info.zones.iter().filter_map(zone_of).collect();
        zones.sort_by_key(|zone| zone.start);
        if zones.is_empty() {
            return Err(WorldError::NoZones(name));
        }
        let mut pages = 0;
        for zone in &mut zones {
            zone.base = pages;
            pages += zone.spanned as usize;
        }
        let nodes = zones.iter().map(|zone| usize::from(zone.node) + 1).max().unwrap_or(1);
        let cpus = zones.iter().map(|zone| zone.pagesets.len()).max().unwrap_or(1).max(1);
        let number = |key: &str| recording.sysctl(key).and_then(|text| text.trim().parse().ok());
        let mut world = World {
            zones,
            cpu_nodes: Vec::new(),
            nodes,
            pages,
            high_fraction: number("vm.percpu_pagelist_high_fraction").unwrap_or(0),
            cache_slice_pages: cache_slice(recording),
            remarks: Vec::new(),
        };
        world.place_cpus(recording, cpus);
        if world.cache_slice_pages.is_none() {
            world.remarks.push(
                "cache sizes were not recorded: each CPU's slice is taken to exceed 3 batches"
                    .into(),
            );
        }
        let probe = Policy::linux(pageyard::preset::RELEASE_MAX);
        let checked = world.with_geometry(|geometry| {
            Allocator::new(pageyard_host::seq::Seq::new(()), geometry, probe).map(drop)
        });
        checked.map_err(|error| WorldError::Geometry(name, error))?;
        Ok(world)
    }

    /// CPUs by node: from the recording's `nodes` file, else split evenly in order.
    fn place_cpus(&mut self, recording: &Recording, cpus: usize) {
        self.cpu_nodes = vec![NodeId(0); cpus];
        if self.nodes == 1 {
            return;
        }
        if let Some(lists) = recording.extra("nodes").map(|text| node_cpu_lists(&text))
            && !lists.is_empty()
        {
            for (node, list) in lists {
                for cpu in list.into_iter().filter(|&cpu| cpu < cpus) {
                    self.cpu_nodes[cpu] = NodeId(node);
                }
            }
            return;
        }
        let share = cpus.div_ceil(self.nodes);
        for (cpu, node) in self.cpu_nodes.iter_mut().enumerate() {
            *node = NodeId((cpu / share) as u8);
        }
        self.remarks.push(format!(
            "the CPUs of each node were not recorded: {cpus} CPUs are split evenly in order, \
             {share} a node"
        ));
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpu_nodes.len()
    }

    /// The zone that holds a page frame.
    #[must_use]
    pub fn zone_of(&self, pfn: u64) -> Option<usize> {
        self.zones.iter().position(|zone| zone.holds(pfn))
    }

    /// Record of a page in dense tables.
    #[must_use]
    pub fn page(&self, pfn: u64) -> Option<usize> {
        self.locate(pfn).map(|(_, page)| page)
    }

    /// The zone that holds a page frame, and the record of the page in dense tables.
    #[must_use]
    pub fn locate(&self, pfn: u64) -> Option<(usize, usize)> {
        let at = self.zone_of(pfn)?;
        let zone = &self.zones[at];
        Some((at, zone.base + (pfn - zone.start) as usize))
    }

    /// Runs `f` with the geometry of this machine.
    pub fn with_geometry<R>(&self, f: impl FnOnce(&Geometry<'_>) -> R) -> R {
        let zones: Vec<ZoneDesc> = self
            .zones
            .iter()
            .map(|zone| ZoneDesc {
                node: NodeId(zone.node),
                kind: zone.kind,
                start: Pfn(zone.start),
                spanned_pages: zone.spanned,
                managed_pages: zone.managed,
            })
            .collect();
        let nodes: Vec<NodeDesc> = (0..self.nodes)
            .map(|node| NodeDesc {
                distance: core::array::from_fn(|other| if other == node { 10 } else { 20 }),
                cpus: self.cpus_of(node as u8) as u16,
            })
            .collect();
        debug_assert!(self.nodes <= NODES_MAX);
        f(&Geometry {
            max_order: MAX_ORDER,
            pageblock_order: PAGEBLOCK_ORDER,
            cpu_nodes: &self.cpu_nodes,
            nodes: &nodes,
            zones: &zones,
            tuning: Tuning::default(),
        })
    }

    fn cpus_of(&self, node: u8) -> usize {
        self.cpu_nodes.iter().filter(|&&home| home == NodeId(node)).count()
    }

    /// Limits of a cache of a zone under a policy: batch, lowest and highest limit.
    #[must_use]
    pub fn limits(&self, zone: usize, policy: &Policy) -> (u32, u32, u32) {
        let desc = &self.zones[zone];
        let mut policy = *policy;
        if policy.high_fraction == 0 {
            policy.high_fraction = self.high_fraction;
        }
        let local = self.cpus_of(desc.node);
        let cpus = if local == 0 { self.cpus() } else { local } as u32;
        let (min, max) = watermark::pcp_limits(&policy, desc.managed, desc.marks.low, cpus);
        (watermark::batch_with_fraction(&policy, desc.managed), min, max)
    }

    /// Gives an allocator the marks, reserves and limits of this machine under its own policy.
    pub fn apply_limits<P: Platform>(&self, allocator: &Allocator<P>, online_cpus: u32) {
        let policy = *allocator.policy();
        for (at, desc) in self.zones.iter().enumerate() {
            let zone = ZoneId(at as u8);
            allocator.set_marks(zone, desc.marks);
            allocator.set_boost(zone, desc.boost);
            for (kind, pages) in ZoneKind::ALL.into_iter().zip(desc.protection) {
                allocator.set_protection(zone, kind, pages);
            }
            let threshold = watermark::stat_threshold(online_cpus, desc.managed);
            let drift = watermark::drift_mark(desc.marks, online_cpus, threshold);
            allocator.set_counter_threshold(zone, threshold, drift);
            let (batch, min, max) = self.limits(at, &policy);
            let large = self.cache_slice_pages.is_none_or(|pages| pages > 3 * batch);
            for cpu in (0..self.cpus() as u16).map(CpuId) {
                allocator.set_pcp_limits(zone, cpu, batch, min, max);
                allocator.set_free_high_batch(zone, cpu, large);
            }
        }
    }

    /// Where a policy's limits differ from those that the kernel printed: it is then not the
    /// kernel's policy, or the formula is wrong.
    #[must_use]
    pub fn limit_mismatches(&self, policy: &Policy) -> Vec<String> {
        let mut found = Vec::new();
        for (at, zone) in self.zones.iter().enumerate() {
            let (batch, min, max) = self.limits(at, policy);
            let Some(set) = zone.pagesets.first() else {
                continue;
            };
            let auto = policy.pcp_high == PcpHigh::Auto;
            let printed_min = if auto { set.high_min } else { Some(set.high) };
            let differs = set.batch != i64::from(batch)
                || printed_min.is_some_and(|high| high != i64::from(min))
                || (auto && set.high_max.is_some_and(|high| high != i64::from(max)));
            if differs {
                found.push(format!(
                    "{}: batch {} and high {} printed, batch {batch} and high {min} computed",
                    zone.name(),
                    set.batch,
                    printed_min.unwrap_or(set.high),
                ));
            }
        }
        found
    }
}

fn zone_of(zone: &ZoneInfoZone) -> Option<WorldZone> {
    if !zone.populated() || zone.spanned == 0 || zone.managed == 0 {
        return None;
    }
    let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mut protection = [0; 4];
    for (slot, pages) in protection.iter_mut().zip(&zone.protection) {
        *slot = word(*pages);
    }
    // Marks are printed with the boost on top.
    let boost = zone.boost.unwrap_or(0);
    let bare = |mark: u64| word(mark.saturating_sub(boost));
    Some(WorldZone {
        node: u8::try_from(zone.node).ok().filter(|&node| usize::from(node) < NODES_MAX)?,
        kind: kind_of(&zone.name)?,
        start: zone.start_pfn?,
        spanned: zone.spanned,
        managed: zone.managed,
        marks: Marks {
            min: bare(zone.min),
            low: bare(zone.low),
            high: bare(zone.high),
            promo: zone.promo.map_or(0, bare),
        },
        boost: word(boost),
        protection,
        pagesets: zone.pagesets.clone(),
        base: 0,
    })
}

/// Pages of the last-level cache that one CPU may call its own: the size of its highest cache
/// that holds data over the CPUs that share it.
fn cache_slice(recording: &Recording) -> Option<u32> {
    let data = recording.caches.iter().filter(|cache| cache.kind != "Instruction");
    let last = data.filter(|cache| cache.cpu == 0).max_by_key(|cache| cache.level)?;
    let sharers = last.shared.len().max(1) as u64;
    u32::try_from(last.bytes / sharers / 4096).ok()
}

/// Reads lines such as `node0 cpus 0-3 …`; anything else is passed over.
fn node_cpu_lists(text: &str) -> Vec<(u8, Vec<usize>)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let node = words.next()?.trim_end_matches(':').strip_prefix("node")?.parse().ok()?;
            let list = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
            Some((node, cpu_list(list)))
        })
        .collect()
}

/// Reads `0-3,8`.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>())
            && to < 1 << 16
        {
            cpus.extend(from..=to);
        }
    }
    cpus
}

/// The type that a name of pagetypeinfo means.
#[must_use]
pub fn type_of(name: &str) -> Option<MigrateType> {
    MigrateType::ALL.into_iter().find(|t| t.name() == name)
}

#[cfg(test)]
mod tests {
    use pageyard_trace::snapshot::ZoneInfo;

    use super::*;

    #[test]
    fn printed_marks_are_taken_without_the_boost_on_top() {
        let path = "../traces/build-6.18-2cpu/zoneinfo.before";
        let text = std::fs::read_to_string(path).expect("a bundled snapshot");
        let of = |text: &str| {
            let info = ZoneInfo::parse(text).expect("zoneinfo");
            zone_of(info.zone(0, "Normal").expect("a Normal zone")).expect("a usable one")
        };
        let plain = of(&text);
        assert_eq!((plain.boost, plain.marks.min, plain.marks.low), (0, 11_807, 14_758));
        let start = text.find("zone   Normal").expect("a Normal zone");
        let boosted = text[start..]
            .replacen("boost    0", "boost    1000", 1)
            .replacen("min      11807", "min      12807", 1)
            .replacen("low      14758", "low      15758", 1);
        let boosted = of(&format!("{}{boosted}", &text[..start]));
        assert_eq!((boosted.boost, boosted.marks.min, boosted.marks.low), (1000, 11_807, 14_758));
    }
}
