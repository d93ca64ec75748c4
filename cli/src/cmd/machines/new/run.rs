//! What is measured on which CPUs of a host.

use std::io;

use anyhow::Context;

use super::host::Host;
use super::measure::{self, Effort, Ring, Sample};

/// Everything that was measured; what this host cannot show is left out.
pub struct Figures {
    pub clock_mhz: Sample,
    /// By level, as far as the host has one.
    pub caches: [Option<Sample>; 3],
    /// Bytes of the chases over memory.
    pub memory_bytes: usize,
    pub locked: Sample,
    /// Local, and by hops from one on.
    pub memory: Vec<Sample>,
    /// One way of the ping-pong between two threads of a core.
    pub smt: Option<Sample>,
    /// A clean line of another core.
    pub clean: Option<Sample>,
    /// A written line of another core: dependent loads, and one way of the ping-pong.
    pub written: Option<(Sample, Sample)>,
    /// By hops: home at the writer, at the reader, at a third.
    pub far_written: [Vec<Sample>; 3],
    /// Reads of all cores of a node, 10^9 bytes a second.
    pub peak: f64,
    /// Load and latency there.
    pub loaded: Vec<(f64, Sample)>,
    /// Reads of all cores of a node from the next one.
    pub link: Option<f64>,
}

/// CPUs of a host that this process may use: first threads by node.
struct Cpus {
    by_node: Vec<Vec<usize>>,
    sibling: Option<(usize, usize)>,
}

impl Cpus {
    fn of(host: &Host) -> anyhow::Result<Cpus> {
        let allowed = measure::allowed().context("cannot ask on which CPUs this may run")?;
        let may = |cpu: &&usize| allowed.contains(cpu);
        let of_node = |cores: &Vec<Vec<usize>>| -> Vec<usize> {
            cores.iter().filter_map(|core| core.iter().find(may)).copied().collect()
        };
        let by_node: Vec<Vec<usize>> = host.nodes.iter().map(of_node).collect();
        anyhow::ensure!(
            by_node.iter().all(|cpus| !cpus.is_empty()),
            "this may not run on every memory node; lift the CPU affinity (taskset, cpuset)"
        );
        let pair = |core: &Vec<usize>| {
            let mut threads = core.iter().filter(may);
            Some((*threads.next()?, *threads.next()?))
        };
        Ok(Cpus { by_node, sibling: host.nodes.iter().flatten().find_map(pair) })
    }

    fn first(&self, node: usize) -> usize {
        self.by_node[node][0]
    }
}

/// Measures the host; tells of each step.
///
/// # Errors
/// Threads cannot be bound to CPUs.
pub fn measure(host: &Host, effort: &Effort, tell: &dyn Fn(&str)) -> anyhow::Result<Figures> {
    let cpus = Cpus::of(host)?;
    all(host, &cpus, effort, tell).context("a thread cannot be bound to its CPU")
}

fn all(host: &Host, cpus: &Cpus, effort: &Effort, tell: &dyn Fn(&str)) -> io::Result<Figures> {
    let near = &cpus.by_node[0];
    let (one, two) = (near[0], near.get(1).copied());
    tell("the clock with all cores at work");
    let every: Vec<usize> = cpus.by_node.iter().flatten().copied().collect();
    let clock_mhz = measure::clock_mhz(&every, effort)?;
    tell("caches");
    let caches = caches(host, one, effort)?;
    let locked = measure::locked(one, effort)?;
    tell("memory");
    let memory = memory(host, cpus, effort)?;
    tell("lines that other CPUs wrote");
    let smt = cpus.sibling.map(|(a, b)| measure::ping_pong(a, b, effort)).transpose()?;
    let clean = two.map(|two| measure::handed(one, two, one, true, effort)).transpose()?;
    let written = match two {
        Some(two) => Some((
            measure::handed(one, two, one, false, effort)?,
            measure::ping_pong(one, two, effort)?,
        )),
        None => None,
    };
    let far_written = far_written(host, cpus, effort)?;
    tell("bandwidth");
    let (peak, _) = measure::stream(near, None, None, effort)?;
    let link = match cpus.by_node.get(1) {
        Some(far) => Some(measure::stream(near, Some(far[0]), None, effort)?.0),
        None => None,
    };
    tell("memory under load");
    let loaded = loaded(near, effort)?;
    let memory_bytes = effort.bytes_max;
    Ok(Figures {
        clock_mhz,
        caches,
        memory_bytes,
        locked,
        memory,
        smt,
        clean,
        written,
        far_written,
        peak,
        loaded,
        link,
    })
}

/// Half of the first two levels; of the last, more than the second level and less than half.
fn caches(host: &Host, cpu: usize, effort: &Effort) -> io::Result<[Option<Sample>; 3]> {
    let kib = host.caches.map(|cache| cache.map(|cache| cache.kib as usize));
    let above = kib[1].unwrap_or(256);
    let spans = [kib[0].map(|kib| kib / 2), kib[1].map(|kib| kib / 2), {
        kib[2].filter(|&kib| kib > 2 * above).map(|kib| (8 * above).min(kib / 2))
    }];
    let mut found = [None; 3];
    for (slot, span) in found.iter_mut().zip(spans) {
        let Some(kib) = span else { continue };
        *slot = Some(measure::on(cpu, || Ring::new(kib << 10).chase(effort))?);
    }
    Ok(found)
}

/// The first pair of nodes with each number of hops.
fn pairs(host: &Host) -> Vec<(usize, usize)> {
    let hops = host.hops();
    let most = hops.iter().flatten().copied().max().unwrap_or(0);
    let pair = |wanted: u64| {
        let all = (0..hops.len()).flat_map(|a| (0..hops.len()).map(move |b| (a, b)));
        all.into_iter().find(|&(a, b)| hops[a][b] == wanted)
    };
    (0..=most).filter_map(pair).collect()
}

fn memory(host: &Host, cpus: &Cpus, effort: &Effort) -> io::Result<Vec<Sample>> {
    let chase = |(asks, home): (usize, usize)| {
        let ring = measure::on(cpus.first(home), || Ring::new(effort.bytes_max))?;
        measure::on(cpus.first(asks), || ring.chase(effort))
    };
    pairs(host).into_iter().map(chase).collect()
}

fn far_written(host: &Host, cpus: &Cpus, effort: &Effort) -> io::Result<[Vec<Sample>; 3]> {
    let mut lists = [const { Vec::new() }; 3];
    for (reader, writer) in pairs(host).into_iter().skip(1) {
        let third = (0..host.nodes.len()).find(|&node| node != reader && node != writer);
        let homes = [Some(writer), Some(reader), third];
        for (list, home) in lists.iter_mut().zip(homes) {
            let Some(home) = home else { continue };
            let [reader, writer, home] = [reader, writer, home].map(|node| cpus.first(node));
            list.push(measure::handed(reader, writer, home, false, effort)?);
        }
    }
    Ok(lists)
}

/// One core chases while one, a quarter, half, three quarters and all of the others stream.
fn loaded(cpus: &[usize], effort: &Effort) -> io::Result<Vec<(f64, Sample)>> {
    let Some((&chaser, others)) = cpus.split_first() else { return Ok(Vec::new()) };
    let mut counts: Vec<usize> = (1..=4).map(|quarters| others.len() * quarters / 4).collect();
    counts.insert(0, others.len().min(1));
    counts.dedup();
    counts.retain(|&count| count > 0);
    let ring = measure::on(chaser, || Ring::new(effort.bytes_max))?;
    let point = |count: usize| {
        let beside = Some((chaser, &ring));
        let (rate, latency) = measure::stream(&others[..count], None, beside, effort)?;
        Ok((rate, latency.expect("somebody chased")))
    };
    counts.into_iter().map(point).collect()
}
