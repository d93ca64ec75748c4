//! What memory looks like after minutes of mapping and unmapping: pages of one process lie among
//! those of others, free blocks are small, and a free page was last another CPU's.
//!
//! Fresh memory is handed out in order, and a batch that is freed grows together again. But every
//! refill takes the smallest blocks first, from wherever they lie, so that what is handed out
//! together falls apart a little with each cycle. After about a hundred cycles of 128 MiB, that is
//! half a minute of will-it-scale's five, falling apart and growing together are in balance.
//!
//! A cell cannot run for half a minute. So a dozen CPUs with smaller processes run for that many
//! cycles, at no cost, with the same allocator under the same policy: a tile. The memory of a node
//! is laid out with such tiles, and its processes hold what the processes of the tiles held.

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
/// CPUs of a tile at the most. More change the balance little: nine in ten of the pages beside a
/// page are another process's then, as with fifty.
const CPUS: usize = 8;
/// Pages of a process in a tile: several times what a CPU caches with the largest published batch.
const PAGES: usize = 6144;
/// Times that every process maps and unmaps everything. Between 100 and 300 cycles the part of
/// pages that lie beside the page faulted in before changes by less than a tenth (measured at
/// batches of 31, 63 and 255).
const CYCLES: usize = 100;
/// Times at which a tile is looked at once it has aged. Free memory of eight processes rises and
/// falls; that of fifty does so far less. A node is laid out with pieces from different times.
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
    /// Turns that it lets pass before it begins: processes are at different points of their cycles.
    late: usize,
    /// Cycles it has ended.
    cycles: usize,
}

struct Ager {
    allocator: Allocator<Seq<()>>,
    processes: Vec<Process>,
    /// Pages of each when it has mapped everything.
    pages: usize,
    unmapping: u64,
    dice: RefCell<Dice>,
}

impl Ager {
    fn new(policy: Policy, mould: Mould) -> Result<Ager, GeometryError> {
        let cpus = mould.cpus.clamp(1, CPUS);
        let pages = if mould.cpus <= 1 { mould.pages } else { PAGES.min(mould.pages) };
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
        let mut dice = Dice(mould.seed);
        let processes = (0..cpus).map(|_| {
            let late = dice.below((pages / PAGEVEC) as u64 * 3 / 2) as usize;
            Process { held: VecDeque::with_capacity(pages), is_unmapping: false, late, cycles: 0 }
        });
        let processes = processes.collect();
        let (unmapping, dice) = (mould.unmapping, RefCell::new(dice));
        Ok(Ager { allocator, processes, pages, unmapping, dice })
    }

    /// Processes take turns, each as many pages as wait for the LRU list, those that unmap so many
    /// more as they are faster, in an order of chance.
    fn age(mut self) -> Vec<Tile> {
        while self.processes.iter().any(|process| process.cycles < CYCLES) {
            self.round();
        }
        let between = self.turns_of_mapping() as u64 / 4;
        let mut look = |_| {
            let rounds = 1 + self.dice.borrow_mut().below(between.max(1));
            (0..rounds).for_each(|_| self.round());
            self.tile()
        };
        (0..TIMES).map(&mut look).collect()
    }

    fn turns_of_mapping(&self) -> usize {
        self.pages.div_ceil(PAGEVEC)
    }

    /// Each process has a turn.
    fn round(&mut self) {
        let (unmapping, mapping) = (self.unmapping.max(1), 1000 - self.unmapping.min(999));
        let (map, unmap) = (PAGEVEC, (PAGEVEC * mapping as usize / unmapping as usize).max(1));
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        self.dice.borrow_mut().shuffle(&mut order);
        for cpu in order {
            self.turn(cpu, map, unmap);
        }
    }

    fn turn(&mut self, cpu: usize, map: usize, unmap: usize) {
        self.allocator.platform().run_on(CpuId(cpu as u16));
        let late = (self.turns_of_mapping() / LATE) as u64;
        let process = &mut self.processes[cpu];
        if process.late > 0 {
            process.late -= 1;
            return;
        }
        if process.is_unmapping {
            let pages = unmap.min(process.held.len());
            for page in process.held.drain(..pages) {
                self.allocator.free(Pfn(u64::from(page)), 0);
            }
            if process.held.is_empty() {
                process.is_unmapping = false;
                process.cycles += 1;
                process.late = self.dice.borrow_mut().below(late + 1) as usize;
            }
        } else {
            let pages = map.min(self.pages - process.held.len());
            for _ in 0..pages {
                let page = self.allocator.alloc(&Request::user(0)).expect("room for all of them");
                process.held.push_back(page.0 as u32);
            }
            process.is_unmapping = process.held.len() == self.pages;
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
}
