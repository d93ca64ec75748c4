//! Random machines and policies: odd spans, holes, nodes without CPUs or memory, every preset
//! and valid mixtures of their switches.

use std::fmt;

use fastrand::Rng;
use pageyard::keys::{Accepts, KEYS};
use pageyard::watermark::Marks;
use pageyard::{
    Allocator, CpuId, NODES_MAX, NodeDesc, NodeId, Pfn, Platform, Policy, Tuning, ZoneDesc, ZoneId,
    ZoneKind, preset,
};

use crate::layout::{Layout, Memory, make_exact};

/// Pages of a zone at the most.
const ZONE_PAGES_MAX: u64 = 700;
const NUMBERS: [u32; 9] = [0, 1, 2, 3, 5, 8, 30, 300, 15_000];

/// A policy, remembered by the text that names it.
#[derive(Clone)]
pub struct Drawn {
    /// Its name on the command line.
    pub text: String,
    /// The policy.
    pub policy: Policy,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A preset, in half of the draws with some switches changed.
pub fn policy(rng: &mut Rng) -> Drawn {
    let releases = preset::Release::all().flat_map(|release| {
        [false, true].map(|stable| preset::Release { stable, ..release }.to_string())
    });
    let proposals = preset::PROPOSALS.iter().map(|proposal| proposal.name.to_owned());
    let names: Vec<String> = releases.chain(proposals).collect();
    let mut text = names[rng.usize(..names.len())].clone();
    let mut policy = preset::find(&text).expect("a preset");
    let changes = if rng.bool() { rng.usize(1..6) } else { 0 };
    let mut separator = ':';
    for _ in 0..changes {
        let key = &KEYS[rng.usize(..KEYS.len())];
        let value = value(rng, key.accepts);
        let mut changed = policy;
        if changed.set(key.name, &value).is_ok() && changed.check().is_ok() {
            policy = changed;
            text.push_str(&format!("{separator}{}={value}", key.name));
            separator = ',';
        }
    }
    Drawn { text, policy }
}

fn value(rng: &mut Rng, accepts: Accepts) -> String {
    match accepts {
        Accepts::Number => NUMBERS[rng.usize(..NUMBERS.len())].to_string(),
        Accepts::Switch => ["on", "off"][rng.usize(..2)].to_owned(),
        Accepts::Names(name) => {
            let names: Vec<&str> = (0..).map_while(name).collect();
            names[rng.usize(..names.len())].to_owned()
        }
    }
}

/// One to three nodes with one to four zones each, one to four CPUs.
pub fn layout(rng: &mut Rng) -> Layout {
    let nodes = rng.usize(1..=3);
    let max_order = rng.u8(1..=10);
    let cpu_nodes: Vec<NodeId> =
        (0..rng.usize(1..=4)).map(|_| NodeId(rng.u8(..nodes as u8))).collect();
    let mut layout = Layout {
        max_order,
        pageblock_order: rng.u8(..=max_order),
        nodes: (0..nodes).map(|at| node(rng, at, nodes, &cpu_nodes)).collect(),
        cpu_nodes,
        zones: Vec::new(),
        memory: Vec::new(),
        tuning: tuning(rng),
    };
    let mut pfn = rng.u64(..3000);
    for node in 0..nodes as u8 {
        let kinds: Vec<ZoneKind> = ZoneKind::ALL.into_iter().filter(|_| rng.bool()).collect();
        let kinds = if kinds.is_empty() { vec![ZoneKind::Normal] } else { kinds };
        for kind in kinds {
            pfn += if rng.bool() { 0 } else { rng.u64(..200) };
            let spanned_pages = rng.u64(1..=ZONE_PAGES_MAX);
            let managed_pages = memory(rng, &mut layout.memory, pfn, spanned_pages);
            layout.zones.push(ZoneDesc {
                node: NodeId(node),
                kind,
                start: Pfn(pfn),
                spanned_pages,
                managed_pages,
            });
            pfn += spanned_pages;
        }
    }
    layout
}

fn node(rng: &mut Rng, at: usize, nodes: usize, cpu_nodes: &[NodeId]) -> NodeDesc {
    let mut distance = [0; NODES_MAX];
    for (to, distance) in distance.iter_mut().take(nodes).enumerate() {
        *distance = if to == at { 10 } else { rng.u8(1..4) * 10 + 1 };
    }
    let cpus = cpu_nodes.iter().filter(|node| usize::from(node.0) == at);
    NodeDesc { distance, cpus: cpus.count() as u16 }
}

fn tuning(rng: &mut Rng) -> Tuning {
    Tuning {
        min_free_kbytes: if rng.bool() { 0 } else { rng.u64(1..2000) },
        watermark_scale_factor: if rng.bool() { 10 } else { rng.u64(..1000) },
        lowmem_reserve_ratio: [(); 4].map(|()| [0, 1, 8, 32, 256][rng.usize(..5)]),
        cache_slice_pages: if rng.bool() { 0 } else { rng.u32(..1000) },
    }
}

/// Fills a zone, mostly as a whole, else in pieces or not at all; returns its pages of memory.
fn memory(rng: &mut Rng, into: &mut Vec<Memory>, start: u64, pages: u64) -> u64 {
    let pieces = match rng.u32(..10) {
        0 => 0,
        1..=2 => 3,
        3 => 2,
        _ => {
            into.push(Memory { start, pages });
            return pages;
        }
    };
    let (mut at, end, mut managed) = (start, start + pages, 0);
    for _ in 0..pieces {
        let hole = rng.u64(..=(end - at) / 4);
        let pages = rng.u64(..=(end - at - hole) / 2);
        if pages > 0 {
            let start = at + hole;
            into.push(Memory { start, pages });
        }
        managed += pages;
        at += hole + pages;
    }
    managed
}

/// Marks and limits that a small zone can live with; returns whether counters are exact.
pub fn settle<P: Platform>(rng: &mut Rng, allocator: &Allocator<P>, layout: &Layout) -> bool {
    let is_exact = rng.bool();
    let no_marks = rng.bool();
    if is_exact {
        let marks: Vec<Marks> = layout.zone_ids().map(|zone| allocator.marks(zone)).collect();
        make_exact(allocator);
        for (zone, marks) in layout.zone_ids().zip(marks) {
            allocator.set_marks(zone, marks);
        }
    }
    for zone in layout.zone_ids() {
        let managed = layout.zones[usize::from(zone.0)].managed_pages as u32;
        let min = rng.u32(..=managed / 16);
        let step = rng.u32(..=managed / 32);
        let marks = |min: u32, step: u32| Marks {
            min,
            low: min + step,
            high: min + 2 * step,
            promo: min + 3 * step,
        };
        allocator.set_marks(zone, if no_marks { marks(0, 0) } else { marks(min, step) });
        if rng.bool() {
            limits(rng, allocator, layout, zone);
        }
    }
    is_exact
}

fn limits<P: Platform>(rng: &mut Rng, allocator: &Allocator<P>, layout: &Layout, zone: ZoneId) {
    for cpu in layout.cpus() {
        let [batch, low, high] = cache_limits(rng);
        allocator.set_pcp_limits(zone, cpu, batch, low, high);
        allocator.set_free_high_batch(zone, cpu, rng.bool());
    }
}

/// Batch, lowest and highest limit of a cache, small ones more often.
pub fn cache_limits(rng: &mut Rng) -> [u32; 3] {
    let [batch_max, low_max] = [1 << rng.u32(..5), 1 << rng.u32(..7)];
    let batch = rng.u32(1..=batch_max);
    let low = rng.u32(..=low_max);
    let high = low + if rng.bool() { 0 } else { rng.u32(..64) };
    [batch, low, high]
}

/// A CPU of the layout.
pub fn cpu(rng: &mut Rng, layout: &Layout) -> CpuId {
    CpuId(rng.u16(..layout.cpu_nodes.len() as u16))
}
