//! What memory looks like after minutes of mapping and unmapping: pages of one process lie among
//! those of others, free blocks are small, and a free page was last another CPU's.
//!
//! The memory of a node is laid out with tiles (`ager.rs` makes them), and its processes hold what
//! the processes of the tiles held.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pageyard::policy::{Collect, LockLine, NumaStat, Prefetch, SpinLock};
use pageyard::{GeometryError, Policy};

use super::ager::{Ager, POINTS};
use super::dice::Dice;
use super::points::{CYCLE, Point};

/// Pages of the largest block, on which tiles are aligned.
pub const BLOCK: u64 = 1 << 10;

/// What a tile is made of.
#[derive(Clone, Copy, Debug)]
pub struct Mould {
    /// CPUs of the node.
    pub cpus: usize,
    /// Memory of the node, pages: marks and limits come from it.
    pub managed_pages: u64,
    /// Pages of a process of the cell.
    pub pages: usize,
    /// Thousandths of its time that a process unmaps.
    pub unmapping: u64,
    /// Thousandths of the cycle over which processes are spread.
    pub spread: u64,
    /// Which sample of the balance it is: of so few processes no two are alike.
    pub seed: u64,
}

/// What a process of a tile held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Pages, in the order in which it faulted them in.
    pub pages: Vec<u32>,
    /// It was unmapping them.
    pub is_unmapping: bool,
}

/// A piece of a node's memory in steady state. Pages are counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Length, in largest blocks.
    pub blocks: u64,
    /// What each process held, with what its CPU cached.
    pub held: Vec<Holds>,
    /// Pages that a CPU cached, the most of all.
    pub cached: usize,
    /// Free blocks by order, each list from its head.
    pub free: Vec<(u8, u32)>,
}

impl Tile {
    /// Pages in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.held.iter().map(|held| held.pages.len()).sum()
    }

    /// The tiles of a policy: from several points of a cycle each, and several cycles. Cells that
    /// begin alike share them.
    ///
    /// # Errors
    /// The policy contradicts itself.
    pub fn of(policy: Policy, mould: Mould) -> Result<Arc<[Tile]>, GeometryError> {
        static MADE: Mutex<VecDeque<(String, Slot)>> = Mutex::new(VecDeque::new());
        let key = format!("{:?} {mould:?}", of_tiles(policy));
        let slot = {
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            let known = made.iter().find(|(known, _)| *known == key);
            let slot = known.map(|(_, slot)| Arc::clone(slot)).unwrap_or_default();
            if known.is_none() {
                made.push_back((key, Arc::clone(&slot)));
                let old = made.len().saturating_sub(KEPT);
                made.drain(..old);
            }
            slot
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

/// Tiles, once they are made.
type Slot = Arc<Mutex<Option<Arc<[Tile]>>>>;

/// How many kinds of tiles are kept, 10 to 40 MiB each: cells that share some run close together.
const KEPT: usize = 8;

/// A policy without what changes no tile where CPUs take turns: what only modelled machines read,
/// counters, and whether the pages of a bulk free are chosen before or under the lock. A test holds
/// it to what comes out.
pub(super) fn of_tiles(policy: Policy) -> Policy {
    let (prefetch, collect) = (Prefetch::None, Collect::UnderLock);
    let (spinlock, zone_lock_line) = (SpinLock::Queued, LockLine::Own);
    let (numa_stat, numa_threshold) = (NumaStat::Off, 1);
    let other = Policy { prefetch, collect, spinlock, zone_lock_line, ..policy };
    Policy { numa_stat, numa_threshold, ..other }
}

/// How the memory of a node is laid out with tiles.
#[derive(Clone, Debug)]
pub struct Floor {
    /// The tiles of all points.
    tiles: Arc<[Tile]>,
    /// Where each that is laid begins, in pages from the start of the node's memory, and which one.
    laid: Vec<(u64, usize)>,
    /// Pages of all of them.
    pub pages: u64,
    /// Pages that each process holds, counted from the start of the node's memory, in the order in
    /// which it faulted them in.
    pub held: Vec<Vec<u64>>,
    /// Pages that nobody had room for: free.
    left: Vec<u64>,
}

impl Floor {
    /// Lays tiles that were looked at when the middle of the processes was at this point of the
    /// cycle, and deals out what was held there to processes at `points`. They get more or less
    /// by the same part, each from those who did what it does; `most` is what one can hold.
    #[must_use]
    pub fn lay(
        tiles: Arc<[Tile]>,
        middle: u64,
        points: &[Point],
        most: usize,
        dice: &mut Dice,
    ) -> Floor {
        let first = (middle * POINTS as u64 / CYCLE) as usize;
        let (mut laid, mut end) = (Vec::new(), 0);
        let all: usize = points.iter().map(|point| point.pages).sum();
        let mut used = 0;
        for at in (first..tiles.len()).step_by(POINTS).cycle() {
            let tile = &tiles[at];
            // The last one is laid if that is nearer to what is wanted than without it.
            if !laid.is_empty() && used + tile.used() / 2 > all {
                break;
            }
            laid.push((end, at));
            end += tile.blocks * BLOCK;
            used += tile.used().max(1);
        }
        let mut pools = [true, false].map(|unmap| {
            let strings = laid.iter().flat_map(|&(start, at)| {
                let of_kind = tiles[at].held.iter().filter(move |held| held.is_unmapping == unmap);
                of_kind.map(move |held| held.pages.iter().map(move |&at| start + u64::from(at)))
            });
            let mut strings: Vec<_> = strings.collect();
            dice.shuffle(&mut strings);
            strings.into_iter().flatten().collect::<VecDeque<u64>>()
        });
        let used: usize = pools.iter().map(VecDeque::len).sum();
        let mut held: Vec<Vec<u64>> = Vec::with_capacity(points.len());
        for point in points {
            let fair = point.pages as u128 * used as u128 / all.max(1) as u128;
            let mut take = (fair as usize).min(most);
            let mut pages = Vec::with_capacity(take);
            let own = usize::from(!point.is_unmapping);
            for pool in [own, 1 - own] {
                let some = take.min(pools[pool].len());
                pages.extend(pools[pool].drain(..some));
                take -= some;
            }
            held.push(pages);
        }
        let left = pools.into_iter().flatten().collect();
        Floor { tiles, laid, pages: end, held, left }
    }

    /// Free blocks, counted from the start of the node's memory, by order from the head of each
    /// list. The lists of tiles are one behind another.
    pub fn free(&self) -> impl Iterator<Item = (u8, u64)> {
        let of_tiles = self.laid.iter().flat_map(|&(start, at)| {
            self.tiles[at].free.iter().map(move |&(order, page)| (order, start + u64::from(page)))
        });
        of_tiles.chain(self.left.iter().map(|&page| (0, page)))
    }
}
