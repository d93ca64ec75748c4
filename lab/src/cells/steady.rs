//! What memory looks like after minutes of mapping and unmapping: pages of one process lie among
//! those of others, free blocks are small, and a free page was last another CPU's.
//!
//! Fresh memory is handed out in order, and a batch that is freed grows together again. But every
//! refill takes the smallest blocks first, from wherever they lie, so that what is handed out
//! together falls apart a little with each cycle, until falling apart and growing together are in
//! balance. Fifty CPUs with processes of 128 MiB take more than a hundred cycles for that, half a
//! minute of will-it-scale's five.
//!
//! A cell cannot run for half a minute. So fewer CPUs with smaller processes run at no cost, with
//! the same allocator under the same policy: a tile. It begins with memory in single pages that lie
//! anywhere, as the balance is much nearer to that than to whole memory. The memory of a node is
//! laid out with such tiles, and its processes hold what the processes of the tiles held.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use pageyard::policy::{Collect, LockLine, NumaStat, Prefetch, SpinLock};
use pageyard::{
    Allocator, CpuId, Geometry, GeometryError, MigrateType, NODES_MAX, NodeDesc, NodeId, Pfn,
    Policy, Request, Tuning, ZoneDesc, ZoneId, ZoneKind,
};
use pageyard_host::seq::Seq;

use super::dice::Dice;
use super::lru::PAGEVEC;

/// Pages of the largest block, on which tiles are aligned.
pub const BLOCK: u64 = 1 << 10;
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

/// What a tile is made of.
#[derive(Clone, Copy, Debug)]
pub struct Mould {
    /// CPUs of the node.
    pub cpus: usize,
    /// Memory of the node, pages: marks and limits come from it.
    pub managed_pages: u64,
    /// Pages of a process of the cell.
    pub pages: usize,
    /// Thousandths of the processes that are unmapping.
    pub unmapping: u64,
    /// Which sample of the balance it is: of eight processes no two are alike.
    pub seed: u64,
}

/// A piece of a node's memory in steady state. Pages are counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Length, in largest blocks.
    pub blocks: u64,
    /// Pages that each process held, in the order in which it faulted them in.
    pub held: Vec<Vec<u32>>,
    /// Free blocks by order, each list from its head.
    pub free: Vec<(u8, u32)>,
}

impl Tile {
    /// Pages in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.held.iter().map(Vec::len).sum()
    }

    /// The tiles of a policy, from different times, made once.
    ///
    /// # Errors
    /// The policy contradicts itself.
    pub fn of(policy: Policy, mould: Mould) -> Result<Arc<[Tile]>, GeometryError> {
        static MADE: Mutex<BTreeMap<String, Slot>> = Mutex::new(BTreeMap::new());
        let key = format!("{:?} {mould:?}", of_tiles(policy));
        let slot = {
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(key).or_default())
        };
        // Who comes while it is made waits for it: making it again would take as long.
        let mut tiles = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tiles) = tiles.as_ref() {
            return Ok(Arc::clone(tiles));
        }
        let made: Arc<[Tile]> = Ager::new(of_tiles(policy), mould)?.age().into();
        *tiles = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// A tile, once it is made.
type Slot = Arc<Mutex<Option<Arc<[Tile]>>>>;

/// A policy without what changes no tile where CPUs take turns: what only modelled machines read,
/// counters, and whether the pages of a bulk free are chosen before or under the lock. A test holds
/// it to what comes out.
fn of_tiles(policy: Policy) -> Policy {
    let (prefetch, collect) = (Prefetch::None, Collect::UnderLock);
    let (spinlock, zone_lock_line) = (SpinLock::Queued, LockLine::Own);
    let (numa_stat, numa_threshold) = (NumaStat::Off, 1);
    let other = Policy { prefetch, collect, spinlock, zone_lock_line, ..policy };
    Policy { numa_stat, numa_threshold, ..other }
}

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

struct Ager {
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
    fn new(policy: Policy, mould: Mould) -> Result<Ager, GeometryError> {
        let cpus = mould.cpus.clamp(1, CPUS);
        let pages = (PAGES / cpus).min(mould.pages);
        let span = (cpus as u64 * (pages as u64 + 8192) * 2 + mould.managed_pages / 100)
            .next_multiple_of(BLOCK);
        let node = NodeDesc { distance: [10; NODES_MAX], cpus: mould.cpus as u16 };
        let zone = ZoneDesc {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(BLOCK),
            spanned_pages: span,
            managed_pages: mould.managed_pages,
        };
        let geometry = Geometry {
            max_order: 10,
            pageblock_order: 9,
            cpu_nodes: &vec![NodeId(0); cpus],
            nodes: &[node],
            zones: &[zone],
            tuning: Tuning::default(),
        };
        let allocator = Allocator::new(Seq::new(()), &geometry, policy)?;
        allocator.add_memory(zone.start, span);
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

    fn age(mut self) -> Vec<Tile> {
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

/// How the memory of a node is laid out with tiles.
#[derive(Clone, Debug)]
pub struct Floor {
    /// The tiles, from different times.
    tiles: Arc<[Tile]>,
    /// Where each tile that is laid begins, in pages from the start of the node's memory; and where
    /// the last ends.
    starts: Vec<u64>,
    /// Pages that each process holds, counted from the start of the node's memory, in the order in
    /// which it faulted them in.
    pub held: Vec<Vec<u64>>,
    /// Pages that nobody had room for: free.
    left: Vec<u64>,
}

impl Floor {
    /// Deals out pages to processes that are to hold about so many each, at most `most`. Whole
    /// tiles are dealt out, so that all get more or less by the same part.
    #[must_use]
    pub fn lay(tiles: Arc<[Tile]>, wanted: &[usize], most: usize, dice: &mut Dice) -> Floor {
        let all = wanted.iter().sum::<usize>();
        let (mut starts, mut used) = (vec![0], 0);
        let mut strings = Vec::new();
        for tile in tiles.iter().cycle() {
            // The last one is laid if that is nearer to what is wanted than without it.
            if used > 0 && used + tile.used() / 2 > all {
                break;
            }
            let start = starts.last().copied().unwrap_or(0);
            strings.extend(tile.held.iter().map(|held| (start, held)));
            starts.push(start + tile.blocks * BLOCK);
            used += tile.used().max(1);
        }
        dice.shuffle(&mut strings);
        let mut pages = strings
            .iter()
            .flat_map(|&(start, held)| held.iter().map(move |&page| start + u64::from(page)));
        let mut left = used;
        let mut held: Vec<Vec<u64>> = Vec::with_capacity(wanted.len());
        for &want in wanted {
            let fair = want as u128 * used as u128 / all.max(1) as u128;
            let take = (fair as usize).min(most).min(left);
            left -= take;
            held.push(pages.by_ref().take(take).collect());
        }
        let left = pages.collect();
        Floor { tiles: Arc::clone(&tiles), starts, held, left }
    }

    /// Pages of all tiles.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Free blocks, counted from the start of the node's memory, by order from the head of each
    /// list. The lists of tiles are one behind another.
    pub fn free(&self) -> impl Iterator<Item = (u8, u64)> {
        let laid = || self.starts.windows(2).zip(self.tiles.iter().cycle());
        let of_tiles = laid().flat_map(|(starts, tile)| {
            tile.free.iter().map(move |&(order, page)| (order, starts[0] + u64::from(page)))
        });
        of_tiles.chain(self.left.iter().map(|&page| (0, page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
