//! `/proc/zoneinfo`: marks, counters and per-CPU lists of every zone.

use super::scan::{excerpt, line_at, name_value, node_zone, strict};
use crate::error::{Damage, Fault};

/// One CPU's page list of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSet {
    /// CPU.
    pub cpu: u32,
    /// Pages on the list.
    pub count: i64,
    /// Limit in pages.
    pub high: i64,
    /// Pages of a refill.
    pub batch: i64,
    /// Least value of `high` (6.7 and later).
    pub high_min: Option<i64>,
    /// Largest value of `high` (6.7 and later).
    pub high_max: Option<i64>,
    /// Per-CPU counter threshold (`vm stats threshold`).
    pub stat_threshold: Option<i64>,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// NUMA node.
    pub node: u16,
    /// Zone name, as `Normal`.
    pub name: String,
    /// `per-node stats`, printed at the node's first populated zone; empty elsewhere.
    pub per_node: Vec<(String, u64)>,
    /// Free pages.
    pub free: u64,
    /// Temporary raise of the marks, pages (5.0 and later).
    pub boost: Option<u64>,
    /// The min mark, pages.
    pub min: u64,
    /// The low mark, pages.
    pub low: u64,
    /// The high mark, pages.
    pub high: u64,
    /// The promotion mark, pages (6.12 and later).
    pub promo: Option<u64>,
    /// Pages from first to last, holes included.
    pub spanned: u64,
    /// Pages that exist.
    pub present: u64,
    /// Pages that the allocator manages.
    pub managed: u64,
    /// Pages of the contiguous memory allocator.
    pub cma: Option<u64>,
    /// Pages held back from allocations that could use a higher zone, by that zone's index.
    pub protection: Vec<u64>,
    /// Zone counters, then NUMA counters, in the order printed.
    pub counters: Vec<(String, u64)>,
    /// Per-CPU lists.
    pub pagesets: Vec<PageSet>,
    /// Reclaim gave up on the node.
    pub node_unreclaimable: Option<u64>,
    /// First page frame.
    pub start_pfn: Option<u64>,
}

impl Zone {
    /// True when the zone has pages.
    #[must_use]
    pub fn populated(&self) -> bool {
        self.present > 0
    }

    /// True when the page frame lies within the zone's span (another zone may lie inside it).
    #[must_use]
    pub fn contains(&self, pfn: u64) -> bool {
        self.start_pfn.is_some_and(|start| pfn >= start && pfn - start < self.spanned)
    }

    /// A zone or NUMA counter by name, as `nr_free_pages` or `numa_hit`.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The list of one CPU.
    #[must_use]
    pub fn pageset(&self, cpu: u32) -> Option<&PageSet> {
        self.pagesets.iter().find(|set| set.cpu == cpu)
    }
}

/// `/proc/zoneinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Zones in the order printed, unpopulated ones included.
    pub zones: Vec<Zone>,
    /// The text as it was read.
    pub raw: String,
}

impl ZoneInfo {
    /// Reads all that is readable; what is not goes to `damage`.
    #[must_use]
    pub fn read(text: &str, damage: &mut Damage) -> ZoneInfo {
        let mut zones: Vec<Zone> = Vec::new();
        let mut part = Part::Marks;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            if let Some((node, name, _)) = node_zone(line) {
                zones.push(Zone { node, name: name.to_string(), ..Zone::default() });
                part = Part::Marks;
                continue;
            }
            let Some(zone) = zones.last_mut() else {
                damage.add_with(line_at(index), || {
                    format!("expected `Node N, zone NAME`: {}", excerpt(line))
                });
                continue;
            };
            if zone_line(zone, &mut part, line.trim_start()).is_none() {
                damage
                    .add_with(line_at(index), || format!("not a zoneinfo line: {}", excerpt(line)));
            }
        }
        ZoneInfo { zones, raw: text.to_string() }
    }

    /// Parses the whole text.
    ///
    /// # Errors
    /// The first line that is none of the format's.
    pub fn parse(text: &str) -> Result<ZoneInfo, Fault> {
        strict(|damage| ZoneInfo::read(text, damage))
    }

    /// A zone by node and name.
    #[must_use]
    pub fn zone(&self, node: u16, name: &str) -> Option<&Zone> {
        self.zones.iter().find(|zone| zone.node == node && zone.name == name)
    }

    /// Index in `zones` of the populated zone that spans a page frame.
    #[must_use]
    pub fn zone_of(&self, pfn: u64) -> Option<usize> {
        self.zones.iter().position(|zone| zone.populated() && zone.contains(pfn))
    }
}

/// Which part of a zone's text the next line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    PerNode,
    Marks,
    Counters,
    PageSets,
}

/// Takes one line without its indentation; `None` when it is none of the format's.
fn zone_line(zone: &mut Zone, part: &mut Part, line: &str) -> Option<()> {
    match line {
        "per-node stats" => *part = Part::PerNode,
        "pagesets" => *part = Part::PageSets,
        _ if line.starts_with("pages free") => {
            zone.free = line["pages free".len()..].trim().parse().ok()?;
            *part = Part::Marks;
        }
        _ if line.starts_with("protection:") => {
            zone.protection = protection(line)?;
            *part = Part::Counters;
        }
        _ if line.contains(':') => colon_line(zone, line)?,
        _ => {
            let (name, value) = name_value(line)?;
            match part {
                Part::PerNode => zone.per_node.push((name.to_string(), value)),
                Part::Marks => mark(zone, name, value)?,
                Part::Counters => zone.counters.push((name.to_string(), value)),
                Part::PageSets => return None,
            }
        }
    }
    Some(())
}

fn protection(line: &str) -> Option<Vec<u64>> {
    let inner = line.split_once('(')?.1.strip_suffix(')')?;
    inner.split(',').map(|word| word.trim().parse().ok()).collect()
}

fn mark(zone: &mut Zone, name: &str, value: u64) -> Option<()> {
    match name {
        "boost" => zone.boost = Some(value),
        "min" => zone.min = value,
        "low" => zone.low = value,
        "high" => zone.high = value,
        "promo" => zone.promo = Some(value),
        "spanned" => zone.spanned = value,
        "present" => zone.present = value,
        "managed" => zone.managed = value,
        "cma" => zone.cma = Some(value),
        // Up to 4.19 `node_scanned` and the like stood here.
        _ => zone.counters.push((name.to_string(), value)),
    }
    Some(())
}

fn colon_line(zone: &mut Zone, line: &str) -> Option<()> {
    let (name, value) = line.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    if name == "cpu" {
        let cpu = value.parse().ok()?;
        zone.pagesets.push(PageSet { cpu, ..PageSet::default() });
        return Some(());
    }
    match name {
        "node_unreclaimable" | "all_unreclaimable" => {
            zone.node_unreclaimable = Some(value.parse().ok()?);
            return Some(());
        }
        "start_pfn" => {
            zone.start_pfn = Some(value.parse().ok()?);
            return Some(());
        }
        // Up to 4.x: the ratio of the node's lists.
        "node_inactive_ratio" | "inactive_ratio" => return Some(()),
        _ => {}
    }
    let set = zone.pagesets.last_mut()?;
    let number: i64 = value.parse().ok()?;
    match name {
        "count" => set.count = number,
        "high" => set.high = number,
        "batch" => set.batch = number,
        "high_min" => set.high_min = Some(number),
        "high_max" => set.high_max = Some(number),
        "vm stats threshold" => set.stat_threshold = Some(number),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE_6_1: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_mapped    30380
  pages free     3808
        boost    0
        min      190
        low      237
        high     284
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 360, 360)
      nr_free_pages 3808
      numa_hit     1
  pagesets
    cpu: 0
              count: 3
              high:  59
              batch: 1
  vm stats threshold: 8
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone  Movable
  pages free     0
        boost    0
        min      0
        low      0
        high     0
        spanned  0
        present  0
        managed  0
        cma      0
        protection: (0, 0, 0)
";

    #[test]
    fn a_zone_of_6_1_is_read_whole() {
        let info = ZoneInfo::parse(ZONE_6_1).unwrap();
        let zone = info.zone(0, "DMA").unwrap();
        assert_eq!((zone.free, zone.min, zone.low, zone.high), (3808, 190, 237, 284));
        assert_eq!((zone.boost, zone.promo, zone.cma), (Some(0), None, Some(0)));
        assert_eq!(zone.protection, [0, 360, 360]);
        assert_eq!(zone.counter("numa_hit"), Some(1));
        assert_eq!(zone.per_node, [("nr_mapped".to_string(), 30380)]);
        let set = zone.pageset(0).unwrap();
        assert_eq!((set.count, set.high, set.batch, set.high_min), (3, 59, 1, None));
        assert_eq!(set.stat_threshold, Some(8));
        assert_eq!((info.zone_of(0), info.zone_of(1), info.zone_of(4096)), (None, Some(0), None));
        assert!(!info.zone(0, "Movable").unwrap().populated());
    }

    #[test]
    fn a_damaged_line_is_named_and_the_rest_kept() {
        let text = ZONE_6_1.replace("low      237", "low      2#7");
        let mut damage = Damage::default();
        let info = ZoneInfo::read(&text, &mut damage);
        assert_eq!((info.zones[0].low, info.zones[0].high), (0, 284));
        assert_eq!((damage.count(), damage.faults()[0].at), (1, line_at(6)));
    }
}
