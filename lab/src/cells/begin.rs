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
use super::work::page_fault::Rest;
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
    /// What it is unmapping.
    pub rest: Rest,
    /// Pages that wait for the LRU list, the last ones.
    pub waiting: usize,
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
    let mut processes: Vec<Mapped> = vec![Mapped::default(); cpus];
    for (node, tiles) in tiles.into_iter().enumerate() {
        let apart = node as u64 * CYCLE / sockets as u64;
        let before = rounds as u64 * CYCLE / pace.cycle() as u64;
        let around = Around { middle: (around.middle + apart + CYCLE - before) % CYCLE, ..around };
        let points = points::of_node(on(node).count(), PAGES, unmapping, around, dice);
        for (cpu, point) in on(node).zip(&points) {
            processes[cpu].is_unmapping = point.is_unmapping;
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
                processes[cpu].held.push_back(pfn);
            }
        }
    }
    settle(&yard, &mut processes, pace, rounds, dice);
    let processes = processes.into_iter().map(|process| Begins::at_some_time(process, dice));
    Ok(Begun { yard, processes: processes.collect(), from_nothing: false })
}

impl Begins {
    /// Processes that do the same are at different steps of it: all at the first one, they would
    /// want one lock together and then the other.
    fn at_some_time(process: Mapped, dice: &mut Dice) -> Begins {
        let Mapped { held, is_unmapping } = process;
        let waiting = (dice.below(PAGEVEC as u64) as usize).min(held.len());
        let rest = Rest::at_some_time(held.len(), dice);
        let held = held.into();
        match is_unmapping {
            true => Begins { held, rest, waiting: 0 },
            false => Begins { held, rest: Rest::default(), waiting },
        }
    }

    /// Those of its pages that are on the LRU list.
    fn listed(&self) -> &[Pfn] {
        &self.held[self.rest.unlisted..self.held.len() - self.waiting]
    }
}

/// Turns of each process until its CPU caches what it does in steady state: it unmaps all that fits
/// and as much again.
fn settling(pace: Pace, cached: usize) -> usize {
    (2 * cached).div_ceil(PAGEVEC).min(pace.cycle() / 4)
}

/// Lets processes go on at no cost: what their CPUs cache is as full then as it is in steady state;
/// they begin with nothing there.
fn settle(yard: &Yard, processes: &mut [Mapped], pace: Pace, rounds: usize, dice: &mut Dice) {
    let mut order: Vec<usize> = (0..processes.len()).collect();
    for _ in 0..rounds {
        dice.shuffle(&mut order);
        for &cpu in &order {
            yard.world.set_up_as(cpu);
            processes[cpu].turn(&yard.allocator, pace);
        }
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
            let pages = processes[cpu].listed();
            let end = pages.len().min(at[cpu] + PAGEVEC);
            let records: Vec<usize> =
                pages[at[cpu]..end].iter().map(|&pfn| yard.record(pfn)).collect();
            lrus[usize::from(yard.cpu_nodes[cpu].0)].add(&records);
            at[cpu] = end;
        }
        order.retain(|&cpu| at[cpu] < processes[cpu].listed().len());
    }
}
