//! A snapshot's own state written out is the snapshot; work on top of it shows in every file.

use pageyard::{EventItem, MigrateType, NodeId, Request, ZoneId, ZoneItem};
use pageyard_trace::snapshot::{
    BuddyInfo, Count, FreeRow, NumaStat, PageTypeInfo, Snapshot, VmStat, ZoneInfo,
};

use super::seeded::{Seeded, policy, recordings, snapshot};
use super::*;

fn files(seeded: &Seeded, template: &Snapshot) -> Files {
    Files::of(&seeded.allocator, &seeded.geometry(), template).unwrap()
}

fn text<'a>(files: &'a Files, path: &str) -> &'a str {
    &files.texts.iter().find(|(known, _)| known == path).unwrap().1
}

/// Names of the lines in which two texts differ.
fn differing(was: &str, is: &str) -> Vec<String> {
    assert_eq!(was.lines().count(), is.lines().count());
    let pairs = was.lines().zip(is.lines()).filter(|(was, is)| was != is);
    pairs.map(|(was, _)| was.split_whitespace().next().unwrap_or("").to_string()).collect()
}

/// Free pages are printed from a counter that CPUs hold back from, and at another moment than
/// buddyinfo: everything else must be the kernel's own bytes.
const FREE: [&str; 3] = ["pages", "nr_free_pages", "nr_free_pages_blocks"];

#[test]
fn the_state_of_a_snapshot_writes_the_snapshot() {
    for folder in recordings() {
        for moment in ["before", "after"] {
            let template = snapshot(&folder, moment);
            let seeded = Seeded::of(&template, policy(&folder));
            let name = format!("{} {moment}", folder.display());
            let files = files(&seeded, &template);
            let types = template.pagetypeinfo.as_ref().unwrap();
            assert_eq!(text(&files, "pagetypeinfo"), types.raw, "{name}");
            let numastat = template.numastat.as_ref().unwrap();
            assert_eq!(text(&files, "numastat"), numastat.raw, "{name}");
            let buddy = BuddyInfo::parse(text(&files, "buddyinfo")).unwrap();
            for row in &buddy.rows {
                let same = |t: &&FreeRow| (t.node, &t.zone) == (row.node, &row.zone);
                let rows = types.free.iter().filter(same);
                let pages: u64 = rows.map(|t| pages_of(&t.blocks)).sum();
                assert_eq!(row.pages(), pages, "{name}");
            }
            let (zoneinfo, vmstat) = (template.zoneinfo.unwrap(), template.vmstat.unwrap());
            for (raw, path) in [(zoneinfo.raw, "zoneinfo"), (vmstat.raw, "vmstat")] {
                let lines = differing(&raw, text(&files, path));
                let other: Vec<_> = lines.iter().filter(|l| !FREE.contains(&l.as_str())).collect();
                assert!(other.is_empty(), "{name} {path}: {other:?}");
            }
            let free = ZoneInfo::parse(text(&files, "zoneinfo")).unwrap();
            for row in &buddy.rows {
                assert_eq!(free.zone(row.node, &row.zone).unwrap().free, row.pages(), "{name}");
            }
        }
    }
}

#[test]
fn what_the_twin_does_goes_on_top_of_the_snapshot() {
    let folder = recordings().into_iter().find(|f| f.ends_with("numa-6.1-8cpu-2node")).unwrap();
    let template = snapshot(&folder, "before");
    let seeded = Seeded::of(&template, policy(&folder));
    let (allocator, geometry) = (&seeded.allocator, seeded.geometry());
    let mut pages = Vec::new();
    for _ in 0..500 {
        pages.push(allocator.alloc(&Request::user(0)).unwrap());
    }
    pages.drain(..200).for_each(|pfn| allocator.free(pfn, 0));
    let block = allocator.alloc(&Request::user(3)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/out");
    let report = write_proc(allocator, &geometry, &template, &out).unwrap();
    let read = |path: &str| std::fs::read_to_string(out.join(path)).unwrap();

    let (was, is) = (template.vmstat.unwrap(), VmStat::parse(&read("vmstat")).unwrap());
    let more = |name: &str| is.get(name).unwrap() - was.get(name).unwrap();
    assert_eq!(is.sum("pgalloc_") - was.sum("pgalloc_"), 508);
    assert_eq!((more("pgfree"), more("numa_hit"), more("numa_local")), (200, 501, 501));
    assert_eq!(more("pgfault"), 0);
    assert_eq!(read("FIELDS"), report.to_string());

    let node = allocator.zone_of(block).unwrap();
    let node = u16::from(seeded.zones[usize::from(node.0)].node.0);
    let (was, is) = (template.numastat.unwrap(), NumaStat::parse(&read("numastat")).unwrap());
    let hits = |stat: &NumaStat| stat.node(node).unwrap().get("numa_hit").unwrap();
    assert_eq!(hits(&is), hits(&was) + 501);
    let own = read(&format!("sys/devices/system/node/node{node}/numastat"));
    assert!(own.contains(&format!("numa_hit {}\n", hits(&is))) && own.lines().count() == 6);

    let zones = ZoneInfo::parse(&read("zoneinfo")).unwrap();
    let held: i64 = zones.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.count).sum();
    let free: u64 = zones.zones.iter().map(|zone| zone.free).sum();
    let before = template.zoneinfo.unwrap();
    let was_held: i64 =
        before.zones.iter().flat_map(|zone| &zone.pagesets).map(|set| set.count).sum();
    let blocks = BuddyInfo::parse(&read("buddyinfo")).unwrap();
    assert_eq!(free, blocks.rows.iter().map(|row| row.pages()).sum::<u64>());
    let was_free: u64 =
        template.pagetypeinfo.unwrap().free.iter().map(|row| pages_of(&row.blocks)).sum();
    assert_eq!(free as i64 + held, was_free as i64 + was_held - 308);
}

fn pages_of(blocks: &[Count]) -> u64 {
    blocks.iter().enumerate().map(|(order, count)| count.value << order).sum()
}

#[test]
fn the_report_tells_whose_each_field_is() {
    let folder = recordings().into_iter().find(|f| f.ends_with("build-6.18-2cpu")).unwrap();
    let template = snapshot(&folder, "before");
    let seeded = Seeded::of(&template, policy(&folder));
    let report = files(&seeded, &template).report;
    let vmstat = report.file("vmstat").unwrap();
    for name in ["nr_free_pages", "nr_free_pages_blocks", "pgalloc_normal", "pgfree", "numa_hit"] {
        assert!(vmstat.modelled.iter().any(|known| known == name), "{name}");
    }
    for name in ["pgfault", "compact_stall", "pgalloc_device", "nr_zone_active_file"] {
        assert!(vmstat.copied.iter().any(|known| known == name), "{name}");
    }
    let fields = template.vmstat.unwrap().values.len();
    assert_eq!(vmstat.modelled.len() + vmstat.copied.len(), fields);
    let zoneinfo = report.file("zoneinfo").unwrap();
    assert!(zoneinfo.modelled.contains(&"high_max".to_string()));
    assert!(zoneinfo.copied.contains(&"nr_mlock".to_string()));
    assert!(report.to_string().lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn without_a_snapshot_only_the_modelled_is_written() {
    let folder = recordings().into_iter().find(|f| f.ends_with("numa-6.1-8cpu-2node")).unwrap();
    let seeded = Seeded::of(&snapshot(&folder, "before"), policy(&folder));
    let files = files(&seeded, &Snapshot::default());
    let report = &files.report;
    assert!(report.files.iter().all(|file| file.remarks[0].starts_with("not in the snapshot")));
    let vmstat = VmStat::parse(text(&files, "vmstat")).unwrap();
    assert_eq!((vmstat.get("pgfree"), vmstat.get("pgfault")), (Some(0), None));
    let zones = ZoneInfo::parse(text(&files, "zoneinfo")).unwrap();
    let dma = zones.zone(0, "DMA").unwrap();
    assert_eq!((dma.start_pfn, dma.managed, dma.pagesets.len()), (Some(1), 3840, 8));
    let types = PageTypeInfo::parse(text(&files, "pagetypeinfo")).unwrap();
    assert_eq!(types.raw, snapshot(&folder, "before").pagetypeinfo.unwrap().raw);
    let nodes = NumaStat::parse(text(&files, "numastat")).unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.node).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn zones_and_types_beyond_the_twin_are_copied_and_named() {
    let folder = recordings().into_iter().find(|f| f.ends_with("build-6.18-2cpu")).unwrap();
    let mut template = snapshot(&folder, "before");
    let seeded = Seeded::of(&template, policy(&folder));
    let row = "Node 3, zone   Device".to_string() + &format!(" {}", u64::MAX).repeat(64) + " \n";
    let raw = template.buddyinfo.unwrap().raw + &row;
    template.buddyinfo = Some(BuddyInfo::parse(&raw).unwrap());
    let types = template.pagetypeinfo.as_mut().unwrap();
    types.types.retain(|name| name != "HighAtomic");
    types.free.retain(|row| row.migratetype != "HighAtomic");
    let block = seeded.allocator.alloc(&Request::user(9)).unwrap();
    seeded.allocator.seed_pageblock_type(block, MigrateType::HighAtomic);
    seeded.allocator.free(block, 9);
    seeded.allocator.drain_all();
    let files = files(&seeded, &template);
    let remark = |file: &str| files.report.file(file).unwrap().remarks.join("\n");
    assert!(remark("buddyinfo").contains("node 3 Device: not a zone of the allocator"));
    assert!(remark("pagetypeinfo").contains("free pages of type HighAtomic have no row"));
    let index = text(&files, "sys/kernel/debug/extfrag/unusable_index");
    assert_eq!(index.lines().count(), seeded.zones.len());
}

#[test]
fn another_machine_is_refused() {
    let folder = &recordings()[0];
    let template = snapshot(folder, "before");
    let seeded = Seeded::of(&template, policy(folder));
    let mut geometry = seeded.geometry();
    geometry.zones = &geometry.zones[1..];
    let error = Files::of(&seeded.allocator, &geometry, &template).unwrap_err();
    assert!(error.to_string().contains("not the same machine"), "{error}");
    let geometry = seeded.geometry();
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = write_proc(&seeded.allocator, &geometry, &template, file.path()).unwrap_err();
    assert!(matches!(error, ProcError::Write { .. }), "{error}");
}

/// The counters that the files print are the allocator's own.
#[test]
fn counters_are_those_of_the_allocator() {
    let folder = recordings().into_iter().find(|f| f.ends_with("numa-6.1-8cpu-2node")).unwrap();
    let template = snapshot(&folder, "before");
    let seeded = Seeded::of(&template, policy(&folder));
    let on_node_1 = Request { node: Some(NodeId(1)), ..Request::user(0) };
    for _ in 0..70 {
        seeded.allocator.alloc(&on_node_1).unwrap();
    }
    let zones = ZoneInfo::parse(text(&files(&seeded, &template), "zoneinfo")).unwrap();
    let before = template.zoneinfo.unwrap();
    for (at, desc) in seeded.zones.iter().enumerate() {
        let id = ZoneId(at as u8);
        let (node, name) = (u16::from(desc.node.0), desc.kind.name());
        let (is, was) = (zones.zone(node, name).unwrap(), before.zone(node, name).unwrap());
        let other = seeded.allocator.event_count(id, EventItem::NumaOther);
        assert_eq!(is.counter("numa_other").unwrap(), was.counter("numa_other").unwrap() + other);
        let free = seeded.allocator.zone_count(id, ZoneItem::FreePages) as u64;
        assert_eq!((is.free, is.counter("nr_free_pages")), (free, Some(free)));
    }
    let others = |zone: u8| seeded.allocator.event_count(ZoneId(zone), EventItem::NumaOther);
    assert_eq!((0..seeded.zones.len() as u8).map(others).sum::<u64>(), 70);
}
