//! How cells of page faults begin: every process at some point of its cycle, in memory as it is
//! after minutes.

use std::sync::Arc;

use pageyard::{GeometryError, MigrateType, Pfn, Policy};
use pageyard_sim::machine::Machine;

use super::dice::Dice;
use super::homes;
use super::lru::{Lru, PAGEVEC};
use super::pace::{Mapped, Pace};
use super::page_fault1::PAGES;
use super::points::{self, Around, CYCLE};
use super::steady::{Floor, Mould, Tile};
use super::yard::Yard;

/// What cells of page faults begin with.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// CPUs that run a process.
    pub cpus: usize,
    /// Thousandths of its time that a process unmaps.
    pub unmapping: u64,
    /// Where the processes of the first node are; those of others are as far from each other as
    /// they can be.
    pub around: Around,
    /// Pages of a file for each process.
    pub file_pages: u64,
    /// Which sample of memory in steady state it is; nodes share one.
    pub sample: u64,
}

/// A process as it begins.
#[derive(Clone, Debug, Default)]
pub struct Begins {
    /// Pages that it holds, in the order in which it faulted them in.
    pub held: Vec<Pfn>,
    /// Pages of the group that it is unmapping; 0 if it maps.
    pub group: usize,
}

/// A machine with processes on it.
pub struct Begun {
    /// The machine.
    pub yard: Yard,
    /// One a CPU.
    pub processes: Vec<Begins>,
    /// Memory is too small for a steady state: all begin with nothing.
    pub from_nothing: bool,
}

/// Lays out the memory of every node as it is after minutes of mapping and unmapping.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn steady(
    machine: &Machine,
    policy: Policy,
    steady: &Steady,
    dice: &mut Dice,
) -> Result<Begun, GeometryError> {
    let &Steady { cpus, unmapping, around, file_pages, sample } = steady;
    let sockets = machine.topology.sockets as usize;
    let homes = &homes::of(machine)?;
    let home_of = |cpu: usize| usize::from(homes[node_of(machine, cpu)].0);
    let on = |node: usize| (0..cpus).filter(move |&cpu| home_of(cpu) == node);
    let mut tiles = Vec::new();
    for node in 0..sockets {
        let mould = Mould {
            cpus: on(node).count(),
            managed_pages: machine.node_memory_bytes[node] / 4096,
            pages: PAGES,
            unmapping: ((unmapping + 50) / 100 * 100).clamp(100, 900),
            spread: around.spread,
            seed: sample,
        };
        tiles.push(if mould.cpus == 0 { Arc::from([]) } else { Tile::of(policy, mould)? });
    }
    let pace = Pace::of(PAGES, unmapping);
    let cached = tiles.iter().flat_map(|tiles| tiles.iter()).map(|tile| tile.cached).max();
    let rounds = settling(pace, cached.unwrap_or(0));
    let mut floors = Vec::new();
    let mut processes: Vec<Begins> = vec![Begins::default(); cpus];
    for (node, tiles) in tiles.into_iter().enumerate() {
        let apart = node as u64 * CYCLE / sockets as u64;
        let before = rounds as u64 * CYCLE / pace.cycle() as u64;
        let around = Around { middle: (around.middle + apart + CYCLE - before) % CYCLE, ..around };
        let points = points::of_node(on(node).count(), PAGES, unmapping, around, dice);
        for (cpu, point) in on(node).zip(&points) {
            processes[cpu].group = point.group;
        }
        floors.push(Floor::lay(tiles, around.middle, &points, PAGES, dice));
    }
    let some = machine.node_memory_bytes.iter().filter(|bytes| **bytes > 0);
    let with_memory = some.clone().count().max(1);
    let reach = floors.iter().zip(&machine.node_memory_bytes).map(|(floor, bytes)| {
        let more = cpus.div_ceil(with_memory) as u64 * (PAGES as u64 + file_pages + 8192);
        floor.pages + more + bytes / 4096 / 200 + 65536
    });
    let reach = reach.max().unwrap_or(0);
    if some.clone().any(|bytes| bytes / 4096 < reach) {
        // Too little for a steady state: processes begin with nothing, in empty memory.
        let yard = Yard::new(machine, policy, reach)?;
        let processes = vec![Begins::default(); cpus];
        return Ok(Begun { yard, processes, from_nothing: true });
    }
    let yard = Yard::bare(machine, policy, reach)?;
    for (node, floor) in floors.into_iter().enumerate().filter(|(at, _)| yard.span(*at) > 0) {
        let at = |page: u64| Pfn(yard.first(node).0 + page);
        for (order, page) in floor.free() {
            yard.allocator.seed_free(at(page), order, MigrateType::Movable);
        }
        yard.allocator.add_memory(at(floor.pages), yard.span(node) - floor.pages);
        for (cpu, pages) in on(node).zip(floor.held) {
            yard.world.set_up_as(cpu);
            for pfn in pages.iter().map(|&page| at(page)) {
                yard.allocator.seed_allocated(pfn, 0, MigrateType::Movable);
                processes[cpu].held.push(pfn);
            }
        }
    }
    settle(&yard, &mut processes, pace, rounds, dice);
    Ok(Begun { yard, processes, from_nothing: false })
}

/// Turns of each process until its CPU caches what it does in steady state: it unmaps all that fits
/// and as much again.
fn settling(pace: Pace, cached: usize) -> usize {
    (2 * cached).div_ceil(PAGEVEC).min(pace.cycle() / 4)
}

/// Lets processes go on at no cost: what their CPUs cache is as full then as it is in steady state;
/// they begin with nothing there.
fn settle(yard: &Yard, processes: &mut [Begins], pace: Pace, rounds: usize, dice: &mut Dice) {
    let mapped = |begins: &mut Begins| Mapped {
        held: std::mem::take(&mut begins.held).into(),
        is_unmapping: begins.group > 0,
    };
    let mut at_work: Vec<Mapped> = processes.iter_mut().map(mapped).collect();
    let mut order: Vec<usize> = (0..at_work.len()).collect();
    for _ in 0..rounds {
        dice.shuffle(&mut order);
        for &cpu in &order {
            yard.world.set_up_as(cpu);
            at_work[cpu].turn(&yard.allocator, pace);
        }
    }
    for (begins, mapped) in processes.iter_mut().zip(at_work) {
        begins.held = mapped.held.into();
        begins.group = match (mapped.is_unmapping, begins.group) {
            (false, _) => 0,
            (true, 0) => points::some_group(dice),
            (true, group) => group,
        };
    }
}

/// Node of a CPU.
fn node_of(machine: &Machine, cpu: usize) -> usize {
    let per = machine.topology.cores_per_socket as usize;
    cpu % (per * machine.topology.sockets as usize) / per
}

/// Puts the pages of all processes on the LRU lists, in turns of chance, as many as wait together.
pub fn list(yard: &Yard, lrus: &[Lru], processes: &[Begins], dice: &mut Dice) {
    let mut at = vec![0; processes.len()];
    let mut order: Vec<usize> = (0..processes.len()).collect();
    while !order.is_empty() {
        dice.shuffle(&mut order);
        for &cpu in &order {
            let pages = &processes[cpu].held;
            let end = pages.len().min(at[cpu] + PAGEVEC);
            let records: Vec<usize> =
                pages[at[cpu]..end].iter().map(|&pfn| yard.record(pfn)).collect();
            lrus[usize::from(yard.cpu_nodes[cpu].0)].add(&records);
            at[cpu] = end;
        }
        order.retain(|&cpu| at[cpu] < processes[cpu].held.len());
    }
}
