//! The machine file of a measured host. What follows from nothing that was measured is an estimate
//! with a wide range.

use std::fmt::Write;

use crate::cmd::policies::layout::{COLUMNS, wrapped};

use super::host::{Cache, Host};
use super::measure::Sample;
use super::run::Figures;

/// Smallest number that is written: figures of a machine file are above 0.
const SMALLEST: f64 = 0.1;
const MEASURED: &str = "measured: on this host";

/// A figure as it is written.
#[derive(Clone)]
struct Cell {
    value: f64,
    low: f64,
    high: f64,
    source: String,
}

impl Cell {
    fn measured(sample: Sample, how: &str) -> Cell {
        let source = format!("{MEASURED}, {how}");
        Cell { value: sample.value, low: sample.low, high: sample.high, source }
    }

    fn estimate(value: f64, low: f64, high: f64, why: &str) -> Cell {
        Cell { value, low, high, source: format!("estimate: {why}") }
    }

    /// What lies farther cannot be faster: noise that says so is not passed on.
    fn at_least(mut self, nearer: &Cell, name: &str) -> Cell {
        if self.value < nearer.value {
            let _ = write!(self.source, "; raised to {name}, it came out at {:.1}", self.value);
            self.value = nearer.value;
        }
        self
    }

    /// The figure, over several lines where one would be too long behind so many columns.
    fn text(&self, before: usize) -> String {
        let value = tidy(self.value);
        let (low, high) = (tidy(self.low.min(self.value)), tidy(self.high.max(self.value)));
        let numbers = format!("value = {value}, low = {low}, high = {high},");
        stated(&numbers, &self.source, before)
    }
}

/// A table with its source.
fn stated(numbers: &str, source: &str, before: usize) -> String {
    let line = format!("{{ {numbers} source = \"{source}\" }}");
    if before + line.chars().count() <= COLUMNS {
        return line;
    }
    let indent = " ".repeat(16);
    let text = wrapped(source, COLUMNS - indent.len() - 2).join(&format!(" \\\n{indent}"));
    format!("{{\n    {numbers}\n    source = \"\"\"\\\n{indent}{text}\"\"\",\n}}")
}

fn tidy(number: f64) -> String {
    if number >= 100.0 {
        return format!("{number:.0}");
    }
    let text = format!("{:.1}", number.max(SMALLEST));
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// The file.
pub fn write(name: &str, host: &Host, figures: &Figures) -> String {
    let mut text = format!(
        "# {}\n# What the kernel tells of this host, and what was measured on it.\n\
         # A memory node with CPUs counts as a socket.\n\
         name = \"{}\"\ntitle = \"{}\"\n\n\
         [sources]\nkernel = \"what the kernel tells under /sys and /proc\"\n",
        host.title,
        name.escape_default(),
        host.title
    );
    text.push_str(&topology(host));
    text.push_str(&core(host, figures));
    text.push_str(&caches(host));
    text.push_str(&latency(host, figures));
    text.push_str(&bandwidth(host, figures));
    text
}

fn list(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

fn matrix(rows: &[Vec<u64>]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| list(row)).collect();
    format!("[{}]", rows.join(", "))
}

fn topology(host: &Host) -> String {
    let kernel = |value: String| format!("{{ value = {value}, source = \"kernel\" }}\n");
    let uneven = host.nodes.iter().any(|node| node.len() != host.cores_per_node());
    let cores = match uneven {
        true => format!(
            "{{ value = {}, source = \"kernel: of the largest node; others have fewer\" }}\n",
            host.cores_per_node()
        ),
        false => kernel(host.cores_per_node().to_string()),
    };
    let hops = stated(
        &format!("value = {},", matrix(&host.hops())),
        "estimate: the nearest other nodes are one hop away, the next nearest two",
        14,
    );
    format!(
        "\n[topology]\nsockets = {}cores_per_socket = {cores}threads_per_core = {}\
         node_memory_mib = {}node_distances = {}socket_hops = {hops}\n",
        kernel(host.nodes.len().to_string()),
        kernel(host.threads_per_core().to_string()),
        kernel(list(&host.memory_mib)),
        kernel(matrix(&host.distances)),
    )
}

fn core(host: &Host, figures: &Figures) -> String {
    let clock = Cell::measured(figures.clock_mhz, "dependent instructions on all cores at once");
    let tsc = host.tsc_khz.map(|khz| khz as f64 / 1000.0);
    let tsc = match tsc {
        Some(mhz) => {
            Cell { value: mhz, low: mhz, high: mhz, source: "kernel: bogomips / 2".into() }
        }
        None => Cell { source: "estimate: the measured clock".into(), ..clock.clone() },
    };
    let rows = [
        ("clock_mhz", clock),
        ("tsc_mhz", tsc),
        ("base_ipc", Cell::estimate(2.6, 1.4, 3.4, "kernel code that hits the first level")),
        (
            "rob_instructions",
            Cell::estimate(224.0, 128.0, 576.0, "not measured; 224 to 512 is usual"),
        ),
        ("fill_buffers", Cell::estimate(12.0, 10.0, 24.0, "not measured; 10 to 16 is usual")),
        ("store_buffer", Cell::estimate(56.0, 40.0, 114.0, "not measured; 56 to 112 is usual")),
        ("pause_cycles", Cell::estimate(44.0, 10.0, 145.0, "not measured; 10 to 140 is usual")),
    ];
    let mut text = "\n[core]\n".to_string();
    for (field, cell) in rows {
        let _ = writeln!(text, "{field} = {}", cell.text(field.len() + 3));
    }
    if host.threads_per_core() == 2 {
        let cell = Cell::estimate(1.2, 1.05, 1.5, "not measured; two threads gain 10 to 40 %");
        let _ = writeln!(text, "smt_throughput = {}", cell.text(17));
    }
    let source = "estimate: not measured; on in processors of Intel unless firmware turns it off";
    let _ = writeln!(text, "adjacent_line_prefetch = {}", stated("value = true,", source, 25));
    text
}

fn caches(host: &Host) -> String {
    let usual = [("l1d", 32, 8), ("l2", 1024, 16), ("llc", 16384, 16)];
    let mut text = String::new();
    for ((name, kib, ways), found) in usual.into_iter().zip(host.caches) {
        let (cache, size_from) = match found {
            Some(cache) => (cache, "kernel"),
            None => (Cache { kib, ways }, "estimate: the kernel does not tell"),
        };
        let fits = cache.ways <= 64 && (cache.kib * 1024).is_multiple_of(cache.ways * 64);
        let (ways, ways_from) = match fits {
            true => (cache.ways, size_from),
            false => (1 << cache.kib.trailing_zeros().min(4), "estimate: sets come out whole"),
        };
        let _ = write!(
            text,
            "\n[cache.{name}]\nsize_kib = {{ value = {}, source = \"{size_from}\" }}\n\
             ways = {{ value = {ways}, source = \"{ways_from}\" }}\n",
            cache.kib
        );
    }
    let is_large = host.caches[1].is_some_and(|cache| cache.kib >= 1024);
    let source = "estimate: by the size of the second level; servers from Skylake-SP on and AMD \
                  since Zen are not";
    let inclusive = stated(&format!("value = {},", !is_large), source, 12);
    let _ = writeln!(text, "inclusive = {inclusive}");
    text
}

/// A chase over half a cache, or what is usual.
fn level(found: Option<Sample>, usual: [f64; 3]) -> Cell {
    let [value, low, high] = usual;
    match found {
        Some(sample) => Cell::measured(sample, "dependent loads"),
        None => Cell::estimate(value, low, high, "no such cache to be seen"),
    }
}

fn over(figures: &Figures) -> String {
    format!("dependent loads over {} MiB", figures.memory_bytes >> 20)
}

/// The three caches and local memory, none faster than the one before.
fn levels(figures: &Figures) -> [Cell; 4] {
    let l1 = level(figures.caches[0], [1.5, 1.0, 2.0]);
    let l2 = level(figures.caches[1], [5.0, 3.0, 8.0]).at_least(&l1, "l1_ns");
    let llc = level(figures.caches[2], [20.0, 8.0, 40.0]).at_least(&l2, "l2_ns");
    let local = Cell::measured(figures.memory[0], &over(figures)).at_least(&llc, "llc_ns");
    [l1, l2, llc, local]
}

fn latency(host: &Host, figures: &Figures) -> String {
    let [l1, l2, llc, local] = levels(figures);
    let far = rising(&figures.memory[1..], &local, "dram_local_ns", &over(figures));
    let locked = Cell::measured(figures.locked, "fetch_add on one line");
    let hitm = written(figures, &llc);
    let clean = match figures.clean {
        Some(sample) => Cell::measured(sample, "dependent loads of lines that another core loaded"),
        None => Cell { source: "estimate: as a written line".into(), ..hitm.clone() },
    };
    let smt = (host.threads_per_core() == 2).then(|| smt(figures));
    let mut text = "\n[latency]\n".to_string();
    let rows = [("l1_ns", &l1), ("l2_ns", &l2), ("llc_ns", &llc), ("locked_ns", &locked)];
    for (field, cell) in rows {
        let _ = writeln!(text, "{field} = {}", cell.text(field.len() + 3));
    }
    let _ = writeln!(text, "dram_local_ns = {}", local.text(16));
    text.push_str(&cells("dram_remote_ns", &far));
    if let Some(smt) = smt {
        let _ = writeln!(text, "smt_transfer_ns = {}", smt.text(18));
    }
    let _ = writeln!(text, "hit_socket_ns = {}", clean.text(16));
    let _ = writeln!(text, "hitm_socket_ns = {}", hitm.text(17));
    let places = ["home_writer", "home_reader", "home_third"];
    for (place, samples) in places.iter().zip(&figures.far_written) {
        let cells_of = rising(samples, &hitm, "hitm_socket_ns", "dependent loads");
        text.push_str(&cells(&format!("hitm_remote_{place}_ns"), &cells_of));
    }
    text
}

/// A line that another core of the node wrote.
fn written(figures: &Figures, llc: &Cell) -> Cell {
    let Some((loads, ping_pong)) = figures.written else {
        let (value, high) = (2.0 * llc.value, 4.0 * llc.value);
        return Cell::estimate(value, llc.value, high, "one core: twice the last level");
    };
    let how = format!(
        "between dependent loads ({:.1}) and one way of a ping-pong ({:.1})",
        loads.value, ping_pong.value
    );
    Cell::measured(loads.between(ping_pong), &how)
}

fn smt(figures: &Figures) -> Cell {
    let Some(way) = figures.smt else {
        return Cell::estimate(2.0, 0.5, 8.0, "two threads of a core may not be used here");
    };
    let less = |way: f64| (way - figures.locked.value).max(SMALLEST);
    let sample = Sample { value: less(way.value), low: less(way.low), high: less(way.high) };
    Cell::measured(sample, "one way of a ping-pong less a locked instruction")
}

/// A list by hops, none faster than the one before.
fn rising(samples: &[Sample], first: &Cell, name: &str, how: &str) -> Vec<Cell> {
    let mut before = first.clone();
    let mut cells = Vec::new();
    for &sample in samples {
        let cell = Cell::measured(sample, how).at_least(&before, name);
        before = cell.clone();
        cells.push(cell);
    }
    cells
}

fn cells(field: &str, cells: &[Cell]) -> String {
    let mut text = format!("{field} = [");
    for cell in cells {
        let _ = write!(text, "\n    {},", cell.text(5));
    }
    text.push_str(if cells.is_empty() { "]\n" } else { "\n]\n" });
    text
}

fn bandwidth(host: &Host, figures: &Figures) -> String {
    let [.., without_load] = levels(figures);
    let local = without_load.value;
    let reached = figures.loaded.iter().map(|&(rate, _)| rate).fold(figures.peak, f64::max);
    let peak = Cell::estimate(reached, reached * 0.9, reached * 1.1, "");
    let peak =
        Cell { source: format!("{MEASURED}, all cores of a node read; 10 % either way"), ..peak };
    let mut text =
        format!("\n[bandwidth]\ndram_socket_gb_per_s = {}\ndram_loaded = [", peak.text(23));
    let mut before = without_load;
    let mut points: Vec<(f64, Cell)> = figures
        .loaded
        .iter()
        .map(|&(rate, sample)| (rate, Cell::measured(sample, "dependent loads beside streams")))
        .collect();
    if points.is_empty() {
        let guess =
            Cell::estimate(1.6 * local, local, 4.0 * local, "one core: 1.6 times without load");
        points.push((reached, guess));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by_key(|(rate, _)| tidy(*rate));
    for (rate, cell) in points {
        let cell = cell.at_least(&before, "the latency with less load");
        let _ = write!(text, "\n    {{ gb_per_s = {}, ns = {} }},", tidy(rate), cell.text(30));
        before = cell;
    }
    text.push_str("\n]\n");
    if host.nodes.len() > 1 {
        let rate = figures.link.unwrap_or(reached / 2.0);
        let link = Cell::estimate(rate, rate * 0.8, rate * 1.2, "");
        let source =
            format!("{MEASURED}, all cores of a node read the next one's; 20 % either way");
        let _ = writeln!(text, "link_gb_per_s = {}", Cell { source, ..link }.text(16));
    }
    text
}
