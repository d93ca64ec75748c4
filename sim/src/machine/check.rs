//! What a machine file must satisfy beyond its form. A finding names the field by its path; the
//! loader turns the path into a line.

use std::collections::BTreeMap;

use pageyard::NODES_MAX;

use super::figure::{Decimal, Figure, Spread};
use super::load::Problem;
use super::spec::{LevelSpec, Spec};

/// Most CPUs of a machine.
pub const CPUS_MAX: u64 = 1024;

/// Most memory of one node, MiB: 1 TiB, so that the pages of all nodes together fit 32-bit numbers.
pub const NODE_MEMORY_MIB_MAX: u64 = 1 << 20;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// Path of the field that is wrong, and what is wrong with it.
pub type Finding = (String, Problem);

/// Checks everything; the first finding in the order of the file's sections is reported.
///
/// # Errors
/// See [`Problem`].
pub fn check(spec: &Spec) -> Result<(), Finding> {
    named(&spec.name)?;
    for (path, figure) in spec.figures() {
        ranged(&path, figure)?;
        sourced(&path, &figure.source, &spec.sources)?;
    }
    other_sources(spec)?;
    topology(spec)?;
    core(spec)?;
    let cache = &spec.cache;
    level("cache.l1d", &cache.l1d)?;
    level("cache.l2", &cache.l2)?;
    let llc = LevelSpec { size_kib: cache.llc.size_kib.clone(), ways: cache.llc.ways.clone() };
    level("cache.llc", &llc)?;
    latency(spec)?;
    bandwidth(spec)?;
    published(spec)
}

fn named(name: &str) -> Result<(), Finding> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !name.is_empty() && name.len() <= 40 && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(("name".into(), Problem::Name { name: name.to_string() })),
    }
}

/// Fields whose figures are measured: they must state a range.
fn is_measured(path: &str) -> bool {
    path.starts_with("latency.")
        || path.starts_with("bandwidth.")
        || ["core.clock_mhz", "core.turbo_mhz", "core.base_ipc", "core.smt_throughput"]
            .contains(&path)
}

fn ranged(path: &str, figure: &Figure) -> Result<(), Finding> {
    let value = figure.value;
    if is_measured(path) && (figure.low.is_none() || figure.high.is_none()) {
        return Err((path.into(), Problem::NoRange));
    }
    let (low, high) = figure.range();
    if low > value {
        return Err((format!("{path}.low"), Problem::LowAboveValue { low, value }));
    }
    if high < value {
        return Err((format!("{path}.high"), Problem::HighBelowValue { high, value }));
    }
    if low == Decimal::whole(0) {
        let side = if value == low { "value" } else { "low" };
        return Err((format!("{path}.{side}"), Problem::Zero));
    }
    Ok(())
}

fn sourced(path: &str, source: &str, known: &BTreeMap<String, String>) -> Result<(), Finding> {
    let (key, detail) = match source.split_once(':') {
        Some((key, detail)) => (key.trim(), detail.trim()),
        None => (source.trim(), ""),
    };
    let own_words = ["estimate", "measured"].contains(&key);
    match known.contains_key(key) || own_words && !detail.is_empty() {
        true => Ok(()),
        false => {
            let problem = Problem::Source { key: key.to_string(), known: keys(known) };
            Err((format!("{path}.source"), problem))
        }
    }
}

fn keys(known: &BTreeMap<String, String>) -> String {
    known.keys().cloned().collect::<Vec<_>>().join(", ")
}

/// Sources of what is no figure.
fn other_sources(spec: &Spec) -> Result<(), Finding> {
    let mut stated = vec![
        ("topology.node_memory_mib", &spec.topology.node_memory_mib.source),
        ("topology.node_distances", &spec.topology.node_distances.source),
        ("topology.socket_hops", &spec.topology.socket_hops.source),
        ("core.adjacent_line_prefetch", &spec.core.adjacent_line_prefetch.source),
        ("cache.llc.inclusive", &spec.cache.llc.inclusive.source),
    ];
    for (path, spread) in spreads(spec) {
        stated.push((path, &spread.source));
    }
    if let Some(matrix) = &spec.published.idle_latency_ns {
        stated.push(("published.idle_latency_ns", &matrix.source));
    }
    if let Some(figure) = &spec.published.peak_bandwidth_gb_per_s {
        stated.push(("published.peak_bandwidth_gb_per_s", &figure.source));
    }
    stated.into_iter().try_for_each(|(path, source)| sourced(path, source, &spec.sources))
}

fn spreads(spec: &Spec) -> Vec<(&'static str, &Spread)> {
    let published = &spec.published;
    let all = [
        ("published.ping_pong_smt_ns", &published.ping_pong_smt_ns),
        ("published.ping_pong_socket_ns", &published.ping_pong_socket_ns),
        ("published.ping_pong_cross_ns", &published.ping_pong_cross_ns),
    ];
    all.into_iter().filter_map(|(path, spread)| Some((path, spread.as_ref()?))).collect()
}

/// A whole number from `min` to `max`.
fn count(path: &str, figure: &Figure, min: u64, max: u64) -> Result<u64, Finding> {
    let (low, high) = figure.range();
    let value = whole(&format!("{path}.value"), figure.value, min, max)?;
    whole(&format!("{path}.low"), low, min, max)?;
    whole(&format!("{path}.high"), high, min, max)?;
    Ok(value)
}

fn whole(path: &str, number: Decimal, min: u64, max: u64) -> Result<u64, Finding> {
    match number.as_whole() {
        Some(count) if (min..=max).contains(&count) => Ok(count),
        _ => Err((path.into(), Problem::Count { number, min, max })),
    }
}

fn topology(spec: &Spec) -> Result<(), Finding> {
    let topology = &spec.topology;
    let sockets = count("topology.sockets", &topology.sockets, 1, NODES_MAX as u64)?;
    let cores = count("topology.cores_per_socket", &topology.cores_per_socket, 1, CPUS_MAX)?;
    let threads = count("topology.threads_per_core", &topology.threads_per_core, 1, 2)?;
    let cpus = sockets * cores * threads;
    if cpus > CPUS_MAX {
        let path = "topology.cores_per_socket.value".to_string();
        return Err((path, Problem::TooManyCpus { cpus, max: CPUS_MAX }));
    }
    let sockets = sockets as usize;
    let memory = &topology.node_memory_mib.value;
    if memory.len() != sockets {
        let path = "topology.node_memory_mib.value".to_string();
        return Err((path, Problem::PerSocket { found: memory.len(), sockets }));
    }
    for (node, mib) in memory.iter().enumerate() {
        // 0 is a node without memory: its CPUs take from the nearest that has some.
        whole(&format!("topology.node_memory_mib.value[{node}]"), *mib, 0, NODE_MEMORY_MIB_MAX)?;
    }
    if memory.iter().all(|mib| *mib == Decimal::whole(0)) {
        return Err(("topology.node_memory_mib.value".to_string(), Problem::NoMemory));
    }
    let distances = &topology.node_distances.value;
    matrix("topology.node_distances.value", distances, sockets, 10, 254)?;
    let hops = &topology.socket_hops.value;
    matrix("topology.socket_hops.value", hops, sockets, 0, NODES_MAX as u64)
}

/// Square, one row a socket, `local` on the diagonal and nowhere else, whole numbers, the same in
/// both directions.
fn matrix(
    path: &str,
    rows: &[Vec<Decimal>],
    sockets: usize,
    local: u64,
    max: u64,
) -> Result<(), Finding> {
    square(path, rows, sockets)?;
    for (row, numbers) in rows.iter().enumerate() {
        for (column, number) in numbers.iter().enumerate() {
            let path = format!("{path}[{row}][{column}]");
            let is_local = row == column;
            let (low, high) = if is_local { (local, local) } else { (local + 1, max) };
            whole(&path, *number, low, high)?;
            if *number != rows[column][row] {
                return Err((path, Problem::NotSymmetric { row, column }));
            }
        }
    }
    Ok(())
}

fn square(path: &str, rows: &[Vec<Decimal>], sockets: usize) -> Result<(), Finding> {
    if rows.len() != sockets {
        return Err((path.into(), Problem::PerSocket { found: rows.len(), sockets }));
    }
    for (row, numbers) in rows.iter().enumerate() {
        if numbers.len() != sockets {
            let path = format!("{path}[{row}]");
            return Err((path, Problem::PerSocket { found: numbers.len(), sockets }));
        }
    }
    Ok(())
}

fn core(spec: &Spec) -> Result<(), Finding> {
    let core = &spec.core;
    between("core.clock_mhz", &core.clock_mhz, 1, 100_000)?;
    let turbo = core.turbo_mhz.as_ref();
    turbo.map_or(Ok(()), |figure| between("core.turbo_mhz", figure, 1, 100_000))?;
    between("core.tsc_mhz", &core.tsc_mhz, 1, 100_000)?;
    between("core.base_ipc", &core.base_ipc, 0, 16)?;
    count("core.rob_instructions", &core.rob_instructions, 1, 1 << 16)?;
    count("core.fill_buffers", &core.fill_buffers, 1, 1 << 10)?;
    count("core.store_buffer", &core.store_buffer, 1, 1 << 10)?;
    let pause = core.pause_cycles.as_ref();
    pause.map_or(Ok(()), |figure| between("core.pause_cycles", figure, 1, 1 << 12))?;
    let has_smt = spec.topology.threads_per_core.value == Decimal::whole(2);
    let smt = "without threads_per_core = 2";
    present("core.smt_throughput", core.smt_throughput.is_some(), has_smt, smt)?;
    present("latency.smt_transfer_ns", spec.latency.smt_transfer_ns.is_some(), has_smt, smt)?;
    core.smt_throughput
        .as_ref()
        .map_or(Ok(()), |figure| between("core.smt_throughput", figure, 1, 2))
}

/// The whole range lies within bounds, in the unit of the field.
fn between(path: &str, figure: &Figure, min: u64, max: u64) -> Result<(), Finding> {
    let (low, high) = figure.range();
    for (side, number) in [("value", figure.value), ("low", low), ("high", high)] {
        if number < Decimal::whole(min) || number > Decimal::whole(max) {
            return Err((format!("{path}.{side}"), Problem::Bounds { number, min, max }));
        }
    }
    Ok(())
}

/// A field that must be there in some machines and must not in others.
fn present(path: &str, is: bool, must: bool, unless: &'static str) -> Result<(), Finding> {
    match (is, must) {
        (true, false) => Err((path.into(), Problem::Idle { unless })),
        (false, true) => Err((path.into(), Problem::Missing)),
        _ => Ok(()),
    }
}

fn level(path: &str, level: &LevelSpec) -> Result<(), Finding> {
    let kib = count(&format!("{path}.size_kib"), &level.size_kib, 1, 1 << 22)?;
    let ways = count(&format!("{path}.ways"), &level.ways, 1, 64)?;
    match (kib * 1024).is_multiple_of(ways * LINE_BYTES) {
        true => Ok(()),
        false => Err((format!("{path}.ways.value"), Problem::Sets { kib, ways })),
    }
}

fn latency(spec: &Spec) -> Result<(), Finding> {
    let latency = &spec.latency;
    let sockets = spec.topology.socket_hops.value.len();
    let hops = spec.topology.socket_hops.value.iter().flatten();
    let hops_max = hops.filter_map(|hops| hops.as_whole()).max().unwrap_or(0) as usize;
    let third = if sockets > 2 { hops_max } else { 0 };
    let lists = [
        ("latency.dram_remote_ns", &latency.dram_remote_ns, hops_max),
        ("latency.hitm_remote_home_writer_ns", &latency.hitm_remote_home_writer_ns, hops_max),
        ("latency.hitm_remote_home_reader_ns", &latency.hitm_remote_home_reader_ns, hops_max),
        ("latency.hitm_remote_home_third_ns", &latency.hitm_remote_home_third_ns, third),
    ];
    for (path, list, expected) in lists {
        if list.len() != expected {
            let found = list.len();
            return Err((path.into(), Problem::PerHop { found, expected }));
        }
    }
    // Each at least as slow as the one before it.
    let mut ascending = vec![
        ("latency.l1_ns".to_string(), &latency.l1_ns),
        ("latency.l2_ns".to_string(), &latency.l2_ns),
        ("latency.llc_ns".to_string(), &latency.llc_ns),
        ("latency.dram_local_ns".to_string(), &latency.dram_local_ns),
    ];
    for (hop, figure) in latency.dram_remote_ns.iter().enumerate() {
        ascending.push((format!("latency.dram_remote_ns[{hop}]"), figure));
    }
    rising(&ascending)?;
    let hitm = ("latency.hitm_socket_ns".to_string(), &latency.hitm_socket_ns);
    for (path, list, _) in &lists[1..] {
        let mut ascending = vec![hitm.clone()];
        let named = list.iter().enumerate();
        ascending.extend(named.map(|(hop, figure)| (format!("{path}[{hop}]"), figure)));
        rising(&ascending)?;
    }
    Ok(())
}

fn rising(figures: &[(String, &Figure)]) -> Result<(), Finding> {
    for pair in figures.windows(2) {
        let [(before, faster), (path, slower)] = pair else { continue };
        if slower.value < faster.value {
            let problem =
                Problem::Faster { value: slower.value, than: before.clone(), other: faster.value };
            return Err((format!("{path}.value"), problem));
        }
    }
    Ok(())
}

fn bandwidth(spec: &Spec) -> Result<(), Finding> {
    let bandwidth = &spec.bandwidth;
    let has_links = spec.topology.sockets.value > Decimal::whole(1);
    let link = bandwidth.link_gb_per_s.is_some();
    present("bandwidth.link_gb_per_s", link, has_links, "with one socket")?;
    let path = "bandwidth.dram_loaded";
    if bandwidth.dram_loaded.is_empty() {
        return Err((path.into(), Problem::Missing));
    }
    let mut load = Decimal::whole(0);
    let mut before = ("latency.dram_local_ns".to_string(), &spec.latency.dram_local_ns);
    for (at, point) in bandwidth.dram_loaded.iter().enumerate() {
        let peak = bandwidth.dram_socket_gb_per_s.value;
        if point.gb_per_s <= load || point.gb_per_s > peak {
            let path = format!("{path}[{at}].gb_per_s");
            return Err((path, Problem::Load { load: point.gb_per_s, above: load, peak }));
        }
        load = point.gb_per_s;
        let here = (format!("{path}[{at}].ns"), &point.ns);
        rising(&[before, here.clone()])?;
        before = here;
    }
    Ok(())
}

fn published(spec: &Spec) -> Result<(), Finding> {
    for (path, spread) in spreads(spec) {
        let value = spread.median;
        if spread.p5 > value {
            return Err((format!("{path}.p5"), Problem::LowAboveValue { low: spread.p5, value }));
        }
        if spread.p95 < value {
            let problem = Problem::HighBelowValue { high: spread.p95, value };
            return Err((format!("{path}.p95"), problem));
        }
    }
    if let Some(peak) = &spec.published.peak_bandwidth_gb_per_s {
        ranged("published.peak_bandwidth_gb_per_s", peak)?;
    }
    let sockets = spec.topology.node_memory_mib.value.len();
    match &spec.published.idle_latency_ns {
        Some(matrix) => square("published.idle_latency_ns.value", &matrix.value, sockets),
        None => Ok(()),
    }
}
