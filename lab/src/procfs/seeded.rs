//! For the tests: an allocator in exactly the state that a snapshot shows, so that writing it
//! out again must give the snapshot back.

use std::path::{Path, PathBuf};

use pageyard::sizing::PcpSize;
use pageyard::watermark::Marks;
use pageyard::{
    Allocator, CpuId, Geometry, MigrateType, NODES_MAX, NodeDesc, NodeId, Pfn, Policy, Tuning,
    ZoneDesc, ZoneId, ZoneKind,
};
use pageyard_host::seq::Seq;
use pageyard_trace::snapshot::{
    BuddyInfo, NumaStat, PageTypeInfo, Snapshot, VmStat, Zone, ZoneInfo,
};

use crate::named::NamedPolicy;

/// Folders of the bundled recordings.
pub fn recordings() -> Vec<PathBuf> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let entries = std::fs::read_dir(traces).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.join("zoneinfo.before").exists()).collect();
    folders.sort();
    folders
}

/// The snapshot of a moment, `before` or `after`.
pub fn snapshot(folder: &Path, moment: &str) -> Snapshot {
    let read = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.{moment}")));
    Snapshot {
        zoneinfo: Some(ZoneInfo::parse(&read("zoneinfo").unwrap()).unwrap()),
        buddyinfo: Some(BuddyInfo::parse(&read("buddyinfo").unwrap()).unwrap()),
        pagetypeinfo: Some(PageTypeInfo::parse(&read("pagetypeinfo").unwrap()).unwrap()),
        vmstat: Some(VmStat::parse(&read("vmstat").unwrap()).unwrap()),
        numastat: Some(NumaStat::parse(&read("numastat").unwrap()).unwrap()),
        ..Snapshot::default()
    }
}

/// The policy of the kernel that made a recording.
pub fn policy(folder: &Path) -> Policy {
    let release = std::fs::read_to_string(folder.join("kernel")).unwrap();
    NamedPolicy::for_kernel(&release).unwrap().policy
}

/// The machine of a snapshot and an allocator in its state.
pub struct Seeded {
    pub zones: Vec<ZoneDesc>,
    pub cpu_nodes: Vec<NodeId>,
    pub nodes: Vec<NodeDesc>,
    pub allocator: Allocator<Seq<()>>,
}

impl Seeded {
    pub fn of(snapshot: &Snapshot, policy: Policy) -> Seeded {
        let info = snapshot.zoneinfo.as_ref().unwrap();
        let mut populated: Vec<&Zone> = info.zones.iter().filter(|zone| zone.populated()).collect();
        populated.sort_by_key(|zone| zone.start_pfn);
        let zones: Vec<ZoneDesc> = populated.iter().map(|zone| desc(zone)).collect();
        let nodes = zones.iter().map(|zone| zone.node.0).max().unwrap() + 1;
        let cpus = populated[0].pagesets.len();
        let of_node = |cpu: usize| NodeId((cpu * usize::from(nodes) / cpus) as u8);
        let cpu_nodes: Vec<NodeId> = (0..cpus).map(of_node).collect();
        let node = NodeDesc { distance: [20; NODES_MAX], cpus: (cpus / usize::from(nodes)) as u16 };
        let nodes = vec![node; usize::from(nodes)];
        let geometry = geometry(&zones, &cpu_nodes, &nodes);
        let allocator = Allocator::new(Seq::new(()), &geometry, policy).unwrap();
        for (at, zone) in populated.iter().enumerate() {
            seed_zone(&allocator, ZoneId(at as u8), zone, snapshot.pagetypeinfo.as_ref().unwrap());
        }
        Seeded { zones, cpu_nodes, nodes, allocator }
    }

    pub fn geometry(&self) -> Geometry<'_> {
        geometry(&self.zones, &self.cpu_nodes, &self.nodes)
    }
}

fn geometry<'a>(
    zones: &'a [ZoneDesc],
    cpu_nodes: &'a [NodeId],
    nodes: &'a [NodeDesc],
) -> Geometry<'a> {
    Geometry {
        max_order: 10,
        pageblock_order: 9,
        cpu_nodes,
        nodes,
        zones,
        tuning: Tuning::default(),
    }
}

fn kind(name: &str) -> Option<ZoneKind> {
    ZoneKind::ALL.into_iter().find(|kind| kind.name() == name)
}

fn desc(zone: &Zone) -> ZoneDesc {
    ZoneDesc {
        node: NodeId(zone.node as u8),
        kind: kind(&zone.name).unwrap(),
        start: Pfn(zone.start_pfn.unwrap()),
        spanned_pages: zone.spanned,
        managed_pages: zone.managed,
    }
}

fn seed_zone(allocator: &Allocator<Seq<()>>, id: ZoneId, zone: &Zone, types: &PageTypeInfo) {
    let word = |pages: u64| u32::try_from(pages).unwrap();
    let marks = Marks {
        min: word(zone.min),
        low: word(zone.low),
        high: word(zone.high),
        promo: word(zone.promo.unwrap_or(0)),
    };
    allocator.set_marks(id, marks);
    for (kind, pages) in ZoneKind::ALL.into_iter().zip(&zone.protection) {
        allocator.set_protection(id, kind, word(*pages));
    }
    seed_pageblocks(allocator, zone, types);
    // From the end down, largest first: every block lies aligned and nothing is wasted.
    let mut end = zone.start_pfn.unwrap() + zone.spanned;
    for order in (0..11u8).rev() {
        for t in MigrateType::ALL {
            let Some(row) = types.free_row(zone.node, &zone.name, t.name()) else {
                continue;
            };
            for _ in 0..row.blocks[usize::from(order)].value {
                end = (end >> order << order) - (1 << order);
                allocator.seed_free(Pfn(end), order, t);
            }
        }
    }
    for set in &zone.pagesets {
        let cpu = CpuId(set.cpu as u16);
        for _ in 0..set.count {
            end -= 1;
            allocator.seed_pcp(cpu, Pfn(end), 0, MigrateType::Movable);
        }
        let high = set.high as u32;
        let state = PcpSize {
            batch: set.batch as u32,
            high,
            high_min: set.high_min.map_or(high, |pages| pages as u32),
            high_max: set.high_max.map_or(high, |pages| pages as u32),
            ..PcpSize::default()
        };
        allocator.set_pcp_state(id, cpu, state);
        allocator.set_counter_threshold(id, set.stat_threshold.unwrap() as u32, 0);
    }
    assert!(end >= zone.start_pfn.unwrap());
}

fn seed_pageblocks(allocator: &Allocator<Seq<()>>, zone: &Zone, types: &PageTypeInfo) {
    let row = types.block_row(zone.node, &zone.name).unwrap();
    let mut pfn = zone.start_pfn.unwrap();
    for (name, blocks) in types.types.iter().zip(&row.blocks) {
        let t = MigrateType::ALL.into_iter().find(|t| t.name() == name).unwrap();
        for _ in 0..*blocks {
            allocator.seed_pageblock_type(Pfn(pfn), t);
            pfn += 512;
        }
    }
}
