//! A small machine, and events on it, for the tests of the readings.

use pageyard::watermark::Marks;
use pageyard::{NodeId, Policy, ZoneKind, preset};
use pageyard_trace::event::{Context, Event, Gfp, Kind};
use pageyard_trace::snapshot::PageSet;

use super::history::{Historian, History};
use super::world::{World, WorldZone};

/// Pages of each zone of the machine.
pub const ZONE_PAGES: u64 = 1 << 16;

/// Four CPUs on two nodes with one zone each; every cache holds 100 pages under a limit of 1,000.
pub fn world() -> World {
    let zone = |node: u8| {
        let set = |cpu| PageSet { cpu, count: 100, high: 1000, ..PageSet::default() };
        WorldZone {
            node,
            kind: ZoneKind::Normal,
            start: u64::from(node) * ZONE_PAGES,
            spanned: ZONE_PAGES,
            managed: ZONE_PAGES,
            marks: Marks { min: 100, low: 200, high: 300, promo: 0 },
            boost: 0,
            protection: [0; 4],
            pagesets: (0..4).map(set).collect(),
            base: usize::from(node) * ZONE_PAGES as usize,
        }
    };
    World {
        zones: vec![zone(0), zone(1)],
        cpu_nodes: [0, 0, 1, 1].map(NodeId).to_vec(),
        nodes: 2,
        pages: 2 * ZONE_PAGES as usize,
        high_fraction: 0,
        cache_slice_pages: None,
        remarks: Vec::new(),
    }
}

/// A policy by name.
pub fn policy(name: &str) -> Policy {
    preset::find(name).expect("a preset")
}

/// Unit of refills of the first zone.
pub fn batch(policy: &Policy) -> u32 {
    world().limits(0, policy).0
}

/// The first reading of events, a microsecond apart; task 7 is `kswapd0`.
pub fn read(policy: &Policy, events: &[(u16, Kind)]) -> History {
    let world = world();
    let mut historian = Historian::new(&world, policy, None);
    let events: Vec<Event> = events.iter().zip(1..).map(|(&e, at)| event(at * 1000, e)).collect();
    historian.on_block(&events, |pid| (pid == 7).then_some("kswapd0"));
    historian.finish()
}

/// An event of task 1.
pub fn event(time_ns: u64, (cpu, kind): (u16, Kind)) -> Event {
    Event { time_ns, cpu, pid: 1, context: Context(0), kind }
}

pub fn alloc(pfn: u64, order: u8) -> Kind {
    Kind::PageAlloc { pfn, order, migratetype: 1, gfp: Gfp::HIGHUSER_MOVABLE }
}

pub fn free(pfn: u64, order: u8) -> Kind {
    Kind::PageFree { pfn, order }
}

pub fn refill(pfn: u64, order: u8) -> Kind {
    Kind::ZoneLocked { pfn, order, migratetype: 1, percpu_refill: true }
}

pub fn drain(pfn: u64) -> Kind {
    Kind::PcpuDrain { pfn, order: 0, migratetype: 1 }
}
