//! What memory looks like after minutes of mapping and unmapping: pages of one process lie among
//! those of others, free blocks are small, and a free page was last another CPU's.
//!
//! The memory of a node is laid out with tiles (`ager.rs` makes them), and its processes hold what
//! the processes of the tiles held.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pageyard::policy::{Collect, LockLine, NumaStat, Prefetch, SpinLock};
use pageyard::{GeometryError, Policy};

use super::ager::Ager;
use super::dice::Dice;

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
    /// Thousandths of the processes that are unmapping.
    pub unmapping: u64,
    /// Which sample of the balance it is: of so few processes no two are alike.
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
