//! What the kernel tells of this host: nodes, cores, threads, caches, memory.
//!
//! A memory node with CPUs counts as a socket, which is what the model means by one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pageyard_lab::live::memory::kib;

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// One line about the processor.
    pub title: String,
    /// CPUs by node and core.
    pub nodes: Vec<Vec<Vec<usize>>>,
    /// Memory of each node, MiB.
    pub memory_mib: Vec<u64>,
    /// Distances of nodes as firmware tells them.
    pub distances: Vec<Vec<u64>>,
    /// First level (data), second, last: size in one core, core, node; and ways.
    pub caches: [Option<Cache>; 3],
    /// What the time stamp counter counts, kHz.
    pub tsc_khz: Option<u64>,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Size, KiB.
    pub kib: u64,
    /// Ways of a set, at least 1.
    pub ways: u64,
}

/// Why the host cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file that every Linux has is not there.
    #[error("{}: cannot be read; this needs Linux with /sys and /proc", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file says what nobody expects.
    #[error("{}: `{found}` is no list of CPUs such as 0-3,8", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// There is nothing to measure on.
    #[error("{}: no node has both CPUs and memory", path.display())]
    NoNode {
        /// Where nodes were looked for.
        path: PathBuf,
    },
}

fn read(path: &Path) -> Result<String, HostError> {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_string())
        .map_err(|source| HostError::Read { path: path.to_path_buf(), source })
}

/// CPUs of a list as the kernel prints it.
fn cpus(path: &Path) -> Result<Vec<usize>, HostError> {
    let text = read(path)?;
    let list = || HostError::List { path: path.to_path_buf(), found: text.clone() };
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().ok().filter(|&cpu| cpu < 1 << 16);
        match (number(first), number(last)) {
            (Some(first), Some(last)) => cpus.extend(first..=last),
            _ => return Err(list()),
        }
    }
    Ok(cpus)
}

impl Host {
    /// Reads what is below a root: `/` for this host.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn read(root: &Path) -> Result<Host, HostError> {
        let system = root.join("sys/devices/system");
        let info = read(&root.join("proc/cpuinfo"))?;
        let online: BTreeSet<usize> = cpus(&system.join("cpu/online"))?.into_iter().collect();
        let mut found = nodes(root, &system, &online)?;
        found.retain(|node| !node.cpus.is_empty() && node.memory_mib > 0);
        if found.is_empty() {
            return Err(HostError::NoNode { path: system.join("node") });
        }
        let kept: Vec<usize> = found.iter().map(|node| node.number).collect();
        let distance = |node: &Node| {
            let to = |at: &usize| node.distances.get(*at).copied();
            let own = |at: &usize| if *at == node.number { 10 } else { 20 };
            kept.iter().map(|at| to(at).unwrap_or_else(|| own(at))).collect()
        };
        let nodes: Vec<Vec<Vec<usize>>> =
            found.iter().map(|node| cores(&system, &node.cpus)).collect::<Result<_, _>>()?;
        let first = &found[0].cpus;
        Ok(Host {
            title: title(&info),
            caches: [1, 2, 3].map(|level| cache(&system, first, level)),
            memory_mib: found.iter().map(|node| node.memory_mib).collect(),
            distances: found.iter().map(distance).collect(),
            nodes,
            tsc_khz: tsc_khz(&info),
        })
    }

    /// Cores of the largest node.
    #[must_use]
    pub fn cores_per_node(&self) -> usize {
        self.nodes.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// Threads of the largest core; the model has two at most.
    #[must_use]
    pub fn threads_per_core(&self) -> usize {
        self.nodes.iter().flatten().map(Vec::len).max().unwrap_or(1).min(2)
    }

    /// Links between two nodes: distances in rising order are one, two, … hops.
    #[must_use]
    pub fn hops(&self) -> Vec<Vec<u64>> {
        let far: BTreeSet<u64> = self
            .distances
            .iter()
            .enumerate()
            .flat_map(|(a, row)| row.iter().enumerate().map(move |(b, &to)| (a, b, to)))
            .filter_map(|(a, b, to)| (a != b).then_some(to))
            .collect();
        let hop = |a: usize, b: usize, to: u64| match a == b {
            true => 0,
            false => far.iter().position(|&other| other == to).map_or(1, |at| at as u64 + 1),
        };
        let row = |(a, row): (usize, &Vec<u64>)| {
            row.iter().enumerate().map(|(b, &to)| hop(a, b, to)).collect()
        };
        self.distances.iter().enumerate().map(row).collect()
    }
}

struct Node {
    number: usize,
    cpus: Vec<usize>,
    memory_mib: u64,
    distances: Vec<u64>,
}

/// The nodes, or all of the host as one where the kernel knows none.
fn nodes(root: &Path, system: &Path, online: &BTreeSet<usize>) -> Result<Vec<Node>, HostError> {
    let folder = system.join("node");
    let Ok(numbers) = cpus(&folder.join("online")) else {
        let memory = memory_mib(&read(&root.join("proc/meminfo"))?);
        let cpus = online.iter().copied().collect();
        return Ok(vec![Node { number: 0, cpus, memory_mib: memory, distances: vec![10] }]);
    };
    let node = |number: usize| {
        let folder = folder.join(format!("node{number}"));
        let mut cpus = cpus(&folder.join("cpulist"))?;
        cpus.retain(|cpu| online.contains(cpu));
        let memory_mib = memory_mib(&read(&folder.join("meminfo"))?);
        let distances = read(&folder.join("distance"))?;
        let distances = distances.split_whitespace().filter_map(|to| to.parse().ok()).collect();
        Ok(Node { number, cpus, memory_mib, distances })
    };
    numbers.into_iter().map(node).collect()
}

/// All memory that a `meminfo` tells of, MiB; 0 if it does not.
fn memory_mib(text: &str) -> u64 {
    kib(text, "MemTotal").unwrap_or(0) / 1024
}

/// CPUs by core, in the order of their first threads.
fn cores(system: &Path, of: &[usize]) -> Result<Vec<Vec<usize>>, HostError> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    for &cpu in of {
        let list = system.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
        let siblings = cpus(&list)?;
        match cores.iter_mut().find(|core| core.iter().any(|other| siblings.contains(other))) {
            Some(core) => core.push(cpu),
            None => cores.push(vec![cpu]),
        }
    }
    Ok(cores)
}

/// The cache of a level: of the first core for the upper two, of the whole node for the third.
fn cache(system: &Path, node: &[usize], level: u64) -> Option<Cache> {
    let mut seen = BTreeSet::new();
    let mut whole: Option<Cache> = None;
    for &cpu in node {
        let folder = system.join(format!("cpu/cpu{cpu}/cache"));
        for index in 0..8 {
            let folder = folder.join(format!("index{index}"));
            let text = |name: &str| read(&folder.join(name)).ok();
            let is_data = text("type").is_some_and(|kind| kind != "Instruction");
            if !is_data || text("level")?.parse() != Ok(level) {
                continue;
            }
            let size = text("size")?;
            let kib: u64 = size.trim_end_matches('K').parse().ok()?;
            let ways = text("ways_of_associativity").and_then(|ways| ways.parse().ok());
            let ways = ways.unwrap_or(1).max(1);
            if level < 3 {
                return Some(Cache { kib, ways });
            }
            if seen.insert(text("shared_cpu_list")) {
                let before = whole.map_or(0, |cache| cache.kib);
                whole = Some(Cache { kib: before + kib, ways });
            }
        }
    }
    whole
}

fn title(info: &str) -> String {
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name.trim());
    let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    let name: String = name.chars().filter(|c| plain(c) && !"\"\\".contains(*c)).collect();
    if name.is_empty() { "A host".to_string() } else { name }
}

/// The kernel computes bogomips of x86 from the time stamp counter: it ticks half as often.
fn tsc_khz(info: &str) -> Option<u64> {
    let line = info.lines().find(|line| line.starts_with("bogomips"))?;
    let mips: f64 = line.split_once(':')?.1.trim().parse().ok()?;
    Some((mips * 500.0) as u64).filter(|&khz| khz > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Two nodes of two cores with two threads, and a node without CPUs.
    fn two_nodes(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("pageyard-{name}-{}", std::process::id()));
        let system = "sys/devices/system";
        put(&root, "proc/cpuinfo", "model name\t: Some \"CPU\" @ 2.10GHz\nbogomips\t: 4200.00\n");
        put(&root, &format!("{system}/cpu/online"), "0-7\n");
        put(&root, &format!("{system}/node/online"), "0-2\n");
        for (node, list) in ["0-1,4-5", "2-3,6-7", ""].iter().enumerate() {
            let folder = format!("{system}/node/node{node}");
            put(&root, &format!("{folder}/cpulist"), list);
            put(&root, &format!("{folder}/meminfo"), "Node 0 MemTotal:       8192000 kB\n");
            let row = [["10 21 17"], ["21 10 28"], ["17 28 10"]][node][0];
            put(&root, &format!("{folder}/distance"), row);
        }
        for cpu in 0..8 {
            let folder = format!("{system}/cpu/cpu{cpu}");
            let siblings = format!("{},{}", cpu % 4, cpu % 4 + 4);
            put(&root, &format!("{folder}/topology/thread_siblings_list"), &siblings);
            let node = if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
            for (at, (level, size, shared)) in
                [(1, "32K", "x"), (2, "1024K", "x"), (3, "11264K", node)].into_iter().enumerate()
            {
                let folder = format!("{folder}/cache/index{at}");
                put(&root, &format!("{folder}/type"), "Unified");
                put(&root, &format!("{folder}/level"), &level.to_string());
                put(&root, &format!("{folder}/size"), size);
                put(&root, &format!("{folder}/ways_of_associativity"), "11");
                put(&root, &format!("{folder}/shared_cpu_list"), shared);
            }
        }
        root
    }

    #[test]
    fn nodes_with_cpus_are_sockets() {
        let root = two_nodes("nodes");
        let host = Host::read(&root).unwrap();
        assert_eq!(host.nodes, [[[0, 4], [1, 5]], [[2, 6], [3, 7]]]);
        assert_eq!((host.cores_per_node(), host.threads_per_core()), (2, 2));
        assert_eq!(host.memory_mib, [8000, 8000]);
        assert_eq!(host.distances, [[10, 21], [21, 10]]);
        assert_eq!(host.hops(), [[0, 1], [1, 0]]);
        let last = host.caches[2].unwrap();
        assert_eq!(last, Cache { kib: 11264, ways: 11 });
        assert_eq!((host.title.as_str(), host.tsc_khz), ("Some CPU @ 2.10GHz", Some(2_100_000)));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let root = two_nodes("named");
        put(&root, "sys/devices/system/node/node1/cpulist", "2-x");
        let error = Host::read(&root).unwrap_err().to_string();
        assert!(error.contains("node1/cpulist: `2-x` is no list of CPUs"), "{error}");
        std::fs::remove_file(root.join("sys/devices/system/cpu/online")).unwrap();
        let error = Host::read(&root).unwrap_err().to_string();
        assert!(error.contains("cpu/online: cannot be read"), "{error}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
