//! Ages a tile of memory: a few CPUs map and unmap over and over, at no cost.
//!
//! Fresh memory is handed out in order, and a batch that is freed grows together again. But every
//! refill takes the smallest blocks first, from wherever they lie, so that what is handed out
//! together falls apart a little with each cycle, until falling apart and growing together are in
//! balance. Fifty CPUs with processes of 128 MiB take more than a hundred cycles for that, half a
//! minute of will-it-scale's five.
//!
//! A cell cannot run for half a minute. So fewer CPUs with smaller processes run at no cost, with
//! the same allocator under the same policy: a tile. It begins with memory in single pages that lie
//! anywhere, as the balance is much nearer to that than to whole memory.

use std::cell::RefCell;
use std::collections::VecDeque;

use pageyard::{
    Allocator, CpuId, GeometryError, MigrateType, Pfn, Policy, Request, Tuning, ZoneId,
};
use pageyard_host::seq::Seq;

use super::alone::Alone;
use super::dice::Dice;
use super::lru::PAGEVEC;
use super::steady::{BLOCK, Mould, Tile};

/// CPUs of a tile at the most. With fewer, batches are larger parts of it and stay together: of a
/// batch of 255, 67 pages in a hundred lay beside the one faulted in before with eight CPUs of 6144
/// pages each, 34 with 28 of them, 19 with 56 of 32768 (aged for 100 cycles from whole memory).
const CPUS: usize = 28;
/// Pages of all processes of a tile.
const PAGES: usize = CPUS * 6144;
/// Times that every process maps and unmaps everything. A refill and a bulk free of 255 pages then
/// take 50 us on `skl-2s`; 47 in a node of 56 CPUs with 32768 pages each that was aged for 100
/// cycles from whole memory, 49 to 51 in one that came from single pages.
const CYCLES: usize = 10;
/// Times at which a tile is looked at once it has aged. A node is laid out with pieces from
/// different times.
const TIMES: usize = 16;
/// A process begins each cycle late by chance, up to this part of the turns that mapping takes:
/// those of a real machine keep no step for minutes.
const LATE: usize = 8;

struct Process {
    held: VecDeque<u32>,
    is_unmapping: bool,
    /// Round in which its next cycle may begin. Processes are evenly spread over the cycle, and
    /// stay so.
    due: usize,
    /// Round in which this one goes on: late by chance.
    begins: usize,
}

/// Free pages that lie between those in use. What processes at points of chance hold, all
/// together, rises and falls: a process holds half its pages with a standard deviation of 0.289,
/// `n` of them have one of 0.577 / sqrt(n) of what is in use. At twice that, pages are
/// taken from between and not from whole blocks, but for one moment in forty.
fn between(used: usize, processes: usize) -> usize {
    used * 1_155 / (processes * 1_000_000).isqrt()
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

/// How fast processes go through their cycles.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Pages of each when it has mapped everything.
    pages: usize,
    /// Pages that it maps in a turn, as many as wait for the LRU list.
    map: usize,
    /// Pages that it unmaps in a turn: so many more as that is faster.
    unmap: usize,
}

impl Pace {
    fn of(pages: usize, unmapping: u64) -> Pace {
        let (unmapping, mapping) = (unmapping.max(1), 1000 - unmapping.min(999));
        let unmap = (PAGEVEC * mapping as usize / unmapping as usize).max(1);
        Pace { pages, map: PAGEVEC, unmap }
    }

    /// Turns for mapping everything.
    fn mapping(self) -> usize {
        self.pages.div_ceil(self.map)
    }

    /// Turns by which a process is late at the most.
    fn late(self) -> usize {
        self.mapping() / LATE
    }

    /// Turns for all of it.
    fn cycle(self) -> usize {
        self.late() + self.mapping() + self.pages.div_ceil(self.unmap)
    }

    /// Pages held so many turns after the cycle began late, and whether they are being unmapped.
    fn at(self, turns: usize) -> (usize, bool) {
        match turns.checked_sub(self.late() + self.mapping()) {
            Some(turns) => (self.pages.saturating_sub(turns * self.unmap), true),
            None => ((turns.saturating_sub(self.late()) * self.map).min(self.pages), false),
        }
    }
}

impl Ager {
    /// Memory and processes as they begin.
    pub(super) fn new(policy: Policy, mould: Mould) -> Result<Ager, GeometryError> {
        let cpus = mould.cpus.clamp(1, CPUS);
        let pages = (PAGES / cpus).min(mould.pages);
        let span = (cpus as u64 * (pages as u64 + 8192) * 2 + mould.managed_pages / 100)
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
        let (pace, dice) = (Pace::of(pages, mould.unmapping), RefCell::new(Dice(mould.seed)));
        let mut ager = Ager { allocator, processes: Vec::new(), pace, round: 0, dice };
        ager.begin(cpus, mould.cpus);
        Ok(ager)
    }

    /// Processes begin evenly spread over the cycle, with single pages from anywhere. Only one that
    /// is alone has them in order: nobody ever took a page from between its own.
    fn begin(&mut self, cpus: usize, all: usize) {
        let cycle = self.pace.cycle();
        let points: Vec<usize> = (0..cpus).map(|at| (2 * at + 1) * cycle / (2 * cpus)).collect();
        let held: Vec<(usize, bool)> = points.iter().map(|&point| self.pace.at(point)).collect();
        let used: usize = held.iter().map(|(pages, _)| pages).sum();
        let unmap: Vec<usize> = (0..cpus).filter(|&cpu| held[cpu].1 || cpus == 1).collect();
        let limit = |&cpu: &usize| self.allocator.pcp_limit(ZoneId(0), CpuId(cpu as u16)) as usize;
        let cached: usize = unmap.iter().map(limit).sum();
        let mut pages: Vec<u32> = (0..used + between(used, all) + cached)
            .map(|_| self.allocator.alloc(&Request::user(0)).expect("room for all").0 as u32)
            .collect();
        if cpus > 1 {
            self.dice.borrow_mut().shuffle(&mut pages);
        }
        for (point, (pages_held, is_unmapping)) in points.into_iter().zip(held) {
            let held = pages.drain(..pages_held).collect();
            self.processes.push(Process { held, is_unmapping, due: cycle - point, begins: 0 });
        }
        // What lies free among them goes through the caches of those that unmap, and fills them.
        for (page, &cpu) in pages.into_iter().zip(unmap.iter().cycle()) {
            self.allocator.platform().run_on(CpuId(cpu as u16));
            self.allocator.free(Pfn(u64::from(page)), 0);
        }
    }

    /// Lets them go through their cycles, and looks at them at several times after that.
    pub(super) fn age(mut self) -> Vec<Tile> {
        for _ in 0..CYCLES * self.pace.cycle() {
            self.go_round();
        }
        let between = self.pace.mapping() as u64 / 4;
        let mut look = |_| {
            let rounds = 1 + self.dice.borrow_mut().below(between.max(1));
            (0..rounds).for_each(|_| self.go_round());
            self.tile()
        };
        (0..TIMES).map(&mut look).collect()
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
        if process.is_unmapping {
            let pages = pace.unmap.min(process.held.len());
            for page in process.held.drain(..pages) {
                self.allocator.free(Pfn(u64::from(page)), 0);
            }
            if process.held.is_empty() {
                let late = self.dice.borrow_mut().below(pace.late() as u64 + 1) as usize;
                process.is_unmapping = false;
                process.begins = process.due + late;
                process.due += pace.cycle();
            }
        } else {
            let pages = pace.map.min(pace.pages - process.held.len());
            for _ in 0..pages {
                let page = self.allocator.alloc(&Request::user(0)).expect("room for all of them");
                process.held.push_back(page.0 as u32);
            }
            process.is_unmapping = process.held.len() == pace.pages;
        }
    }

    /// What the lists hold now. What a CPU has cached goes to its process: it would take it next.
    fn tile(&self) -> Tile {
        let start = BLOCK;
        let zone = ZoneId(0);
        let from_start = |page: u32| page - start as u32;
        let list = self.allocator.list_of(0, MigrateType::Movable).expect("order 0 is cached");
        let held = self.processes.iter().enumerate().map(|(cpu, process)| {
            let mut held: Vec<u32> = process.held.iter().map(|&page| from_start(page)).collect();
            self.allocator.visit_pcp(zone, CpuId(cpu as u16), list, |page| {
                held.push(from_start(page.0 as u32));
            });
            held
        });
        let held: Vec<Vec<u32>> = held.collect();
        let last = held.iter().flatten().max();
        let mut end = start + last.map_or(0, |&page| u64::from(page) + 1);
        let mut free = Vec::new();
        for order in 0..10 {
            self.allocator.visit_free(zone, order, MigrateType::Movable, |page| {
                free.push((order, from_start(page.0 as u32)));
                end = end.max(page.0 + (1 << order));
            });
        }
        let blocks = (end - start).div_ceil(BLOCK);
        // Largest blocks among the others: taken once, and free as a whole since.
        self.allocator.visit_free(zone, 10, MigrateType::Movable, |page| {
            if page.0 < start + blocks * BLOCK {
                free.push((10, from_start(page.0 as u32)));
            }
        });
        Tile { blocks, held, free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::steady::of_tiles;
    use pageyard::preset;

    #[test]
    fn policies_share_a_tile_only_if_theirs_is_the_same() {
        let mould = Mould { cpus: 4, managed_pages: 1 << 22, pages: 512, unmapping: 500, seed: 1 };
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

    fn tiles(cpus: usize) -> Vec<Tile> {
        let policy = preset::find("linux-4.18").expect("a preset");
        let mould = Mould { cpus, managed_pages: 1 << 22, pages: 2048, unmapping: 400, seed: 1 };
        Ager::new(policy, mould).expect("a machine").age()
    }

    #[test]
    fn a_page_is_in_one_place_and_as_much_is_in_use_at_all_times() {
        let tiles = tiles(12);
        assert_eq!(tiles.len(), TIMES);
        for tile in &tiles {
            let free = tile.free.iter().flat_map(|&(order, page)| page..page + (1 << order));
            let mut pages: Vec<u32> = tile.held.iter().flatten().copied().chain(free).collect();
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
                .flat_map(|held| held.windows(2))
                .map(|pair| pair[0].abs_diff(pair[1]) == 1)
                .collect();
            pairs.iter().filter(|&&is_beside| is_beside).count() * 100 / pairs.len()
        };
        let (one, many) = (beside(1), beside(24));
        assert!(one > 90 && many < 40, "of a hundred pages beside the one before: {one}, {many}");
    }
}
