//! Ages a tile of memory: a few CPUs map and unmap over and over, at no cost.
//!
//! Fresh memory is handed out in order, and a batch that is freed grows together again. But every
//! refill takes the smallest blocks first, from wherever they lie, so that what is handed out
//! together falls apart a little with each cycle, until falling apart and growing together are in
//! balance. Fifty CPUs with processes of 128 MiB take more than a hundred cycles for that, half a
//! minute of will-it-scale's five.
//!
//! How far they fall apart depends on how far processes keep step (`points.rs`): if all of them
//! unmap at about the same time, what lies free then is much, and grows together.
//!
//! A cell cannot run for half a minute. So fewer CPUs with smaller processes run at no cost, with
//! the same allocator under the same policy: a tile. It begins with memory in single pages that lie
//! anywhere, as the balance of processes at any points is much nearer to that than to whole memory.

use std::cell::RefCell;

use pageyard::{
    Allocator, CpuId, GeometryError, MigrateType, Pfn, Policy, Request, Tuning, ZoneId,
};
use pageyard_host::seq::Seq;

use super::alone::Alone;
use super::dice::Dice;
use super::pace::{Mapped, Pace};
use super::points::{Around, CYCLE};
use super::steady::{BLOCK, Holds, Mould, Tile};

/// CPUs of a tile at the most. With fewer, batches are larger parts of it and stay together: of a
/// batch of 255, 67 pages in a hundred lay beside the one faulted in before with eight CPUs of 6144
/// pages each, 34 with 28 of them, 19 with 56 of 32768 (aged for 100 cycles from whole memory).
const CPUS: usize = 28;
/// Pages of all processes of a tile at the least.
const PAGES: usize = CPUS * 6144;
/// Pages of a process of a tile, in what its CPU caches, at the least.
const CACHES: usize = 6;
/// Times that every process maps and unmaps everything. A refill and a bulk free of 255 pages then
/// take 50 us on `skl-2s`; 47 in a node of 56 CPUs with 32768 pages each that was aged for 100
/// cycles from whole memory, 49 to 51 in one that came from single pages.
const CYCLES: usize = 10;
/// Points of a cycle at which a tile is looked at once it has aged.
pub(super) const POINTS: usize = 8;
/// Cycles in which it is. A node is laid out with pieces from all of them.
const LOOKS: usize = 3;
/// A process begins each cycle late by chance, up to this part of the turns that mapping takes.
const LATE: usize = 8;

struct Process {
    mapped: Mapped,
    /// Round in which its next cycle may begin: processes stay as far apart as they are.
    due: usize,
    /// Round in which this one goes on: late by chance.
    begins: usize,
}

/// Free pages that lie between those in use when most are in use. What processes at points of
/// chance hold, all together, rises and falls: a process holds half its pages with a standard
/// deviation of 0.289, `n` of them have one of 0.577 / sqrt(n) of what is in use. At twice that,
/// pages are taken from between and not from whole blocks, but for one moment in forty.
fn between(used: usize, processes: usize) -> usize {
    used * 1_155 / (processes * 1_000_000).isqrt()
}

impl Mould {
    /// CPUs of a tile.
    fn cpus_of_tile(self) -> usize {
        self.cpus.clamp(1, CPUS)
    }

    /// Pages of each process of a tile, which are to be many beside those that its CPU caches.
    fn pages_of_process(self, cached: usize) -> usize {
        let cpus = self.cpus_of_tile();
        (PAGES / cpus).max(CACHES * cached).min(self.pages)
    }
}

/// CPUs that share memory, and their processes.
pub(super) struct Ager {
    allocator: Allocator<Seq<()>>,
    processes: Vec<Process>,
    pace: Pace,
    /// Rounds so far. In each, every process has a turn.
    round: usize,
    dice: RefCell<Dice>,
}

/// Turns by which a process is late at the most.
fn late(pace: Pace) -> usize {
    pace.mapping() / LATE
}

/// Turns for all of a cycle.
fn cycle(pace: Pace) -> usize {
    late(pace) + pace.cycle()
}

/// Pages held so many turns after the cycle began late, and whether they are being unmapped.
fn at(pace: Pace, turns: usize) -> (usize, bool) {
    match turns.checked_sub(late(pace) + pace.mapping()) {
        Some(turns) => (pace.pages.saturating_sub(turns * pace.unmap), true),
        None => ((turns.saturating_sub(late(pace)) * pace.map).min(pace.pages), false),
    }
}

impl Ager {
    /// Memory and processes as they begin.
    pub(super) fn new(policy: Policy, mould: Mould) -> Result<Ager, GeometryError> {
        let cpus = mould.cpus_of_tile();
        let span = (cpus as u64 * (mould.pages as u64 + 8192) * 2 + mould.managed_pages / 100)
            .next_multiple_of(BLOCK);
        let node = Alone {
            cpus,
            node_cpus: mould.cpus,
            start: Pfn(BLOCK),
            span,
            managed_pages: mould.managed_pages,
            tuning: Tuning::default(),
        };
        let allocator = node.allocator(policy)?;
        let cached = allocator.pcp_limit(ZoneId(0), CpuId(0)) as usize;
        let pages = mould.pages_of_process(cached);
        let (pace, dice) = (Pace::of(pages, mould.unmapping), RefCell::new(Dice(mould.seed)));
        let mut ager = Ager { allocator, processes: Vec::new(), pace, round: 0, dice };
        ager.begin(cpus, mould);
        Ok(ager)
    }

    /// Processes begin at points around the start of the cycle, with single pages from anywhere.
    /// Only one that is alone has them in order: nobody ever took a page from between its own.
    fn begin(&mut self, cpus: usize, mould: Mould) {
        let (pace, cycle) = (self.pace, cycle(self.pace));
        let turns = |at, middle| {
            let around = Around { middle, spread: mould.spread };
            (around.point(at, cpus, CYCLE / 2) as usize * cycle).div_ceil(CYCLE as usize) % cycle
        };
        let held_at = |middle| (0..cpus).map(|cpu| at(pace, turns(cpu, middle)).0).sum::<usize>();
        let peak = (0..100).map(|part| held_at(part * CYCLE / 100)).max().unwrap_or(0);
        let held: Vec<(usize, bool)> = (0..cpus).map(|cpu| at(pace, turns(cpu, 0))).collect();
        let unmap: Vec<usize> = (0..cpus).filter(|&cpu| held[cpu].1 || cpus == 1).collect();
        let limit = |&cpu: &usize| self.allocator.pcp_limit(ZoneId(0), CpuId(cpu as u16)) as usize;
        let cached: usize = unmap.iter().map(limit).sum();
        // They never hold more than everything.
        let in_play = (peak + between(peak, mould.cpus)).min(cpus * pace.pages);
        let mut pages: Vec<Pfn> = (0..in_play + cached)
            .map(|_| self.allocator.alloc(&Request::user(0)).expect("room for all"))
            .collect();
        if cpus > 1 {
            self.dice.borrow_mut().shuffle(&mut pages);
        }
        for (at, (pages_held, is_unmapping)) in held.into_iter().enumerate() {
            let held = pages.drain(..pages_held).collect();
            let due = cycle - turns(at, 0);
            let mapped = Mapped { held, is_unmapping };
            self.processes.push(Process { mapped, due, begins: 0 });
        }
        // What lies free among them goes through the caches of those that unmap, and fills them.
        let all: Vec<usize> = (0..cpus).collect();
        let through = if unmap.is_empty() { &all } else { &unmap };
        for (page, &cpu) in pages.into_iter().zip(through.iter().cycle()) {
            self.allocator.platform().run_on(CpuId(cpu as u16));
            self.allocator.free(page, 0);
        }
    }

    /// Lets them go through their cycles, and looks at them at several points of more of them.
    pub(super) fn age(mut self) -> Vec<Tile> {
        let cycle = cycle(self.pace);
        let mut tiles = Vec::with_capacity(LOOKS * POINTS);
        for round in CYCLES..CYCLES + LOOKS {
            for point in 0..POINTS {
                let until = round * cycle + (2 * point + 1) * cycle / (2 * POINTS);
                (self.round..until).for_each(|_| self.go_round());
                tiles.push(self.tile());
            }
        }
        tiles
    }

    /// Each process has a turn, in an order of chance.
    fn go_round(&mut self) {
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        self.dice.borrow_mut().shuffle(&mut order);
        for cpu in order {
            self.turn(cpu);
        }
        self.round += 1;
    }

    fn turn(&mut self, cpu: usize) {
        self.allocator.platform().run_on(CpuId(cpu as u16));
        let pace = self.pace;
        let process = &mut self.processes[cpu];
        if self.round < process.begins {
            return;
        }
        if process.mapped.turn(&self.allocator, pace) {
            let late = self.dice.borrow_mut().below(late(pace) as u64 + 1) as usize;
            process.begins = process.due + late;
            process.due += cycle(pace);
        }
    }

    /// What the lists hold now. What a CPU has cached goes to its process: it would take it next.
    fn tile(&self) -> Tile {
        let start = BLOCK;
        let zone = ZoneId(0);
        let from_start = |page: Pfn| (page.0 - start) as u32;
        let list = self.allocator.list_of(0, MigrateType::Movable).expect("order 0 is cached");
        let mut cached = 0;
        let held = self.processes.iter().enumerate().map(|(cpu, process)| {
            let caches = self.allocator.pcp_pages(zone, CpuId(cpu as u16)) as usize;
            cached = cached.max(caches);
            let mut pages: Vec<u32> =
                process.mapped.held.iter().map(|page| from_start(*page)).collect();
            self.allocator.visit_pcp(zone, CpuId(cpu as u16), list, |page| {
                pages.push(from_start(page));
            });
            Holds { pages, is_unmapping: process.mapped.is_unmapping }
        });
        let held: Vec<Holds> = held.collect();
        let last = held.iter().flat_map(|held| &held.pages).max();
        let mut end = start + last.map_or(0, |&page| u64::from(page) + 1);
        let mut free = Vec::new();
        for order in 0..10 {
            self.allocator.visit_free(zone, order, MigrateType::Movable, |page| {
                free.push((order, from_start(page)));
                end = end.max(page.0 + (1 << order));
            });
        }
        let blocks = (end - start).div_ceil(BLOCK);
        // Largest blocks among the others: taken once, and free as a whole since.
        self.allocator.visit_free(zone, 10, MigrateType::Movable, |page| {
            if page.0 < start + blocks * BLOCK {
                free.push((10, from_start(page)));
            }
        });
        Tile { blocks, held, cached, free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::steady::of_tiles;
    use pageyard::preset;

    #[test]
    fn policies_share_a_tile_only_if_theirs_is_the_same() {
        let (managed_pages, pages, unmapping, spread) = (1 << 22, 512, 500, 1000);
        let mould = Mould { cpus: 4, managed_pages, pages, unmapping, spread, seed: 1 };
        let of = |policy| Ager::new(policy, mould).expect("a machine").age();
        for name in ["linux-4.14", "linux-4.16", "linux-4.18", "linux-5.13", "linux-6.1"] {
            let policy = preset::find(name).expect("a preset");
            let (own, shared) = (of(policy), of(of_tiles(policy)));
            assert!(own == shared && own.iter().map(Tile::used).sum::<usize>() > 1000, "{name}");
        }
        let named = |name| format!("{:?}", of_tiles(preset::find(name).expect("a preset")));
        assert_eq!(named("linux-4.16"), named("linux-4.18"), "chosen outside the lock, prefetched");
        assert_ne!(named("linux-4.18"), named("linux-4.19"), "a larger batch");
    }

    fn tiles_of(cpus: usize, spread: u64, pages: usize) -> Vec<Tile> {
        let policy = preset::find("linux-4.18").expect("a preset");
        let unmapping = 400;
        let mould = Mould { cpus, managed_pages: 1 << 22, pages, unmapping, spread, seed: 1 };
        Ager::new(policy, mould).expect("a machine").age()
    }

    fn tiles(cpus: usize) -> Vec<Tile> {
        tiles_of(cpus, 1000, 2048)
    }

    #[test]
    fn spread_over_half_a_cycle_they_hold_more_at_one_point_than_at_another_and_unmap_together() {
        let tiles = tiles_of(12, 500, 2048);
        let used: Vec<usize> = tiles[..POINTS].iter().map(Tile::used).collect();
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        assert!(most > &(least * 2), "{used:?}");
        let unmap = |tile: &Tile| tile.held.iter().filter(|held| held.is_unmapping).count();
        let unmap: Vec<usize> = tiles[..POINTS].iter().map(unmap).collect();
        assert!(unmap.contains(&0) && unmap.iter().max() >= Some(&8), "{unmap:?}");
    }

    #[test]
    fn a_page_is_in_one_place_and_as_much_is_in_use_at_all_times() {
        let tiles = tiles(24);
        assert_eq!(tiles.len(), POINTS * LOOKS);
        for tile in &tiles {
            let free = tile.free.iter().flat_map(|&(order, page)| page..page + (1 << order));
            let mut pages: Vec<u32> =
                tile.held.iter().flat_map(|held| held.pages.iter().copied()).chain(free).collect();
            let all = pages.len();
            pages.sort_unstable();
            pages.dedup();
            assert_eq!(pages.len(), all);
        }
        let used: Vec<usize> = tiles.iter().map(Tile::used).collect();
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        assert!(most - least <= most / 10, "processes are evenly spread, and stay so: {used:?}");
    }

    #[test]
    fn what_many_take_from_falls_apart_and_one_alone_keeps_it_whole() {
        let beside = |cpus| {
            let tiles = tiles(cpus);
            let pairs: Vec<bool> = tiles
                .iter()
                .flat_map(|tile| tile.held.iter())
                .flat_map(|held| held.pages.windows(2))
                .map(|pair| pair[0].abs_diff(pair[1]) == 1)
                .collect();
            pairs.iter().filter(|&&is_beside| is_beside).count() * 100 / pairs.len()
        };
        let (one, many) = (beside(1), beside(24));
        assert!(one > 90 && many < 40, "of a hundred pages beside the one before: {one}, {many}");
    }
}
