//! How deep each request may dig: to its mark, to its zone, into the reserve.

use pageyard::{AllocError, MigrateType, Pfn, Request, ZoneKind};

use super::limits::{CPU, ZONE, exhaust, marks, plain};
use crate::layout::Layout;
use crate::machine::Machine;

/// A request stops where its rights end: min, half of it, three eighths, nothing.
pub fn each_right_reaches_its_own_depth<M: Machine>() {
    let plain_request = Request::user(0);
    let high = Request { high_priority: true, ..plain_request };
    let atomic = Request { mobility: MigrateType::Movable, ..Request::atomic(0) };
    let killed = Request { oom_victim: true, ..plain_request };
    let any = Request { no_marks: true, ..plain_request };
    for era in super::buddy::ERAS {
        for (request, left, why) in [
            (plain_request, 16, AllocError::NoMemory),
            (high, 8, AllocError::NoMemory),
            (atomic, 6, AllocError::WouldBlock),
            (killed, 8, AllocError::NoMemory),
            (any, 0, AllocError::NoMemory),
        ] {
            M::run(move || {
                let allocator = plain::<M>(&Layout::flat(64, 5, 4, 2), era);
                allocator.set_marks(ZONE, marks(16, 20, 24));
                let (pages, error) = M::on(&allocator, CPU, || exhaust(&allocator, &request));
                assert_eq!(64 - pages.len(), left, "{era}: {request:?}");
                assert_eq!(error, why, "{era}: {request:?}");
            });
        }
    }
}

/// A request that names a highest zone is served from it or below.
pub fn the_highest_zone_is_kept<M: Machine>() {
    let mut layout = Layout::flat(16, 3, 3, 1);
    let normal = layout.zones[0];
    layout.zones.clear();
    for (kind, start) in ZoneKind::ALL.into_iter().zip([0, 16, 32, 48]) {
        let start = Pfn(start);
        layout.zones.push(pageyard::ZoneDesc { kind, start, ..normal });
    }
    layout.memory[0].pages = 64;
    layout.tuning.lowmem_reserve_ratio = [0; 4];
    for era in super::buddy::ERAS {
        for (highest, pages_in_reach) in ZoneKind::ALL.into_iter().zip([16, 32, 48, 64]) {
            let layout = layout.clone();
            M::run(move || {
                let allocator = plain::<M>(&layout, era);
                let request = Request { highest, ..Request::user(0) };
                let (pages, _) = M::on(&allocator, CPU, || exhaust(&allocator, &request));
                assert_eq!(pages.len(), pages_in_reach, "{era}");
                let highest_pfn = pages.iter().max().map(|pfn| pfn.0 as usize);
                assert_eq!(highest_pfn, Some(pages_in_reach - 1), "{era}");
            });
        }
    }
}

/// High-order requests that cannot wait reserve the pageblocks they were served from, up to a
/// hundredth of the zone; others get them back only when nothing else is left.
pub fn the_reserve_grows_to_a_hundredth_and_is_given_back_last<M: Machine>() {
    // Where the order is not cached the second request is served from the reserve itself. Up to
    // 6.11 a reserved pageblock without free pages still counts as reserved: 4 pages stay free.
    let direct = ([0, 2, 4, 6, 8], 2, 4);
    let cached = ([0, 4, 8, 10, 12], 6, 0);
    for (era, (pages, last, left)) in [
        ("linux-4.14", direct),
        ("linux-5.13", direct),
        ("linux-6.12", cached),
        ("linux-6.19", cached),
    ] {
        M::run(move || {
            let allocator = plain::<M>(&Layout::flat(512, 4, 2, 1), era);
            let first = pages.map(|_| allocator.alloc(&Request::atomic(1)).map(|pfn| pfn.0));
            assert_eq!(first, pages.map(Ok), "{era}");
            let type_of = |pfn| allocator.pageblock_type(Pfn(pfn));
            let reserved = [0, 4, 8].map(|pfn| type_of(pfn) == Some(MigrateType::HighAtomic));
            assert_eq!(reserved, [true, true, false], "{era}");
            let mut in_use = 2 * pages.len() as u64;
            if pages.contains(&last) {
                allocator.free(Pfn(last), 1);
                in_use -= 2;
            }
            let (got, _) = exhaust(&allocator, &Request::kernel(1));
            assert_eq!(got.last(), Some(&Pfn(last)), "{era}");
            assert_eq!(2 * got.len() as u64, 512 - in_use - left, "{era}");
            assert_eq!(type_of(last), Some(MigrateType::Unmovable), "{era}");
        });
    }
}

/// A block of several pageblocks is reserved with all of them, and they come back together.
pub fn a_large_block_is_reserved_and_given_back_as_a_whole<M: Machine>() {
    for era in super::buddy::ERAS {
        M::run(move || {
            let allocator = plain::<M>(&Layout::flat(512, 5, 2, 1), era);
            let types = || [0, 4].map(|pfn| allocator.pageblock_type(Pfn(pfn)));
            let all = |t: MigrateType| [Some(t); 2];
            let pfn = allocator.alloc(&Request::atomic(3));
            assert_eq!((pfn, types()), (Ok(Pfn(0)), all(MigrateType::HighAtomic)), "{era}");
            allocator.free(Pfn(0), 3);
            allocator.drain_cpu(CPU);
            let (got, _) = exhaust(&allocator, &Request::kernel(3));
            assert_eq!(got.len(), 512 / 8, "{era}");
            assert_eq!(got.last(), Some(&Pfn(0)), "{era}");
            assert_eq!(types(), all(MigrateType::Unmovable), "{era}");
        });
    }
}

/// A lower zone keeps a reserve against requests that a higher one could serve.
pub fn a_lower_zone_keeps_its_reserve<M: Machine>() {
    let mut layout = Layout::flat(64, 5, 4, 1);
    let mut normal = layout.zones[0];
    layout.zones[0].kind = ZoneKind::Dma32;
    normal.start = Pfn(64);
    layout.zones.push(normal);
    layout.memory[0].pages = 128;
    layout.tuning.lowmem_reserve_ratio = [256, 4, 32, 0];
    for era in super::buddy::ERAS {
        let layout = layout.clone();
        M::run(move || {
            let allocator = plain::<M>(&layout, era);
            let normal = Request { mobility: MigrateType::Movable, ..Request::kernel(0) };
            let (pages, _) = exhaust(&allocator, &normal);
            assert_eq!(pages.len(), 128 - 64 / 4, "{era}");
            let is_high = |pfn: &Pfn| pfn.0 >= 64;
            assert!(pages[..64].iter().all(is_high), "{era}: higher zone first");
            let low = Request { highest: ZoneKind::Dma32, ..normal };
            let (pages, _) = exhaust(&allocator, &low);
            assert_eq!(pages.len(), 16, "{era}");
        });
    }
}
