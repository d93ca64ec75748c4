//! How run time grows with CPUs and with simulated time: page_fault1 on a modelled machine of four
//! sockets, all sizes in turn and that several times over, so that what else the host does falls on
//! all alike.
//!
//! `cargo bench -p pageyard-lab --bench scaling -- [--write FOLDER] [--rounds N]` prints tables
//! and, if told where, draws them. The time is that of this thread on a CPU.

use std::path::Path;
use std::time::Instant;

use pageyard::preset;
use pageyard_lab::cells::page_fault1::{self, Config};
use pageyard_lab::cells::points::Around;
use pageyard_lab::html::curves::{self, Curve, Plan};
use pageyard_sim::machine::Machine;

/// CPUs: from one core's neighbours to all that the machine has.
const CPUS: [usize; 6] = [6, 12, 24, 48, 96, 192];
/// Holds of zone locks by every CPU while measuring: the length of the simulated stretch.
const HOLDS: [u32; 5] = [5, 10, 20, 40, 80];
/// CPUs of the cells that differ in length.
const CPUS_OF_LENGTHS: usize = 48;
/// Holds of the cells that differ in CPUs, after as many to warm up.
const HOLDS_OF_CPUS: u32 = 12;

/// A size and what each round measured.
struct Row {
    cpus: usize,
    holds: u32,
    /// Seconds on a CPU.
    seconds: Vec<f64>,
    /// Simulated, ms, of the measured stretch.
    simulated_ms: f64,
    /// Line events in it.
    events: u64,
}

impl Row {
    fn new(cpus: usize, holds: u32) -> Row {
        Row { cpus, holds, seconds: Vec::new(), simulated_ms: 0.0, events: 0 }
    }

    fn run(&mut self, machine: &Machine) {
        let policy = preset::find("linux-4.18").expect("a preset");
        let config = Config {
            cpus: self.cpus,
            think_ps: 1_000_000,
            unmapping: 300,
            around: Around { middle: 125_000, spread: 500 },
            see_both: false,
            holds: (5, self.holds),
            pages: 32_768,
            seed: 1,
            lru_kernel: 418,
        };
        let (from, before) = (Instant::now(), on_cpu());
        let outcome = page_fault1::run(machine, policy, &config).expect("it fits the machine");
        let elapsed = from.elapsed().as_secs_f64();
        self.seconds.push(on_cpu().zip(before).map_or(elapsed, |(after, before)| after - before));
        self.simulated_ms = outcome.measured.elapsed_ps as f64 / 1e9;
        self.events = outcome.measured.stats.events;
    }

    /// Least, median and most seconds.
    fn spread(&self) -> [f64; 3] {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
    }

    fn line(&self) -> String {
        let [least, median, most] = self.spread();
        let million = self.events as f64 / 1e6;
        format!(
            "| {} | {} | {:.2} | {million:.1} | {median:.2} ({least:.2} to {most:.2}) | {:.2} |",
            self.cpus,
            self.holds,
            self.simulated_ms,
            median / million,
        )
    }
}

/// Time that this thread was on a CPU, seconds, where the kernel tells.
fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

/// Value of an option of this bench; cargo passes options of its own.
fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

/// Two curves: what was measured, and what would be if time grew as `x` does up to the largest:
/// what lies above that line at the small end is the cost of setting up.
fn draw(rows: &[Row], x: impl Fn(&Row) -> f64, below: &'static str) -> Option<String> {
    let measured: Vec<(f64, f64)> = rows.iter().map(|row| (x(row), row.spread()[1])).collect();
    let last = *measured.last()?;
    let even: Vec<(f64, f64)> =
        measured.iter().map(|point| (point.0, last.1 * point.0 / last.0)).collect();
    let curves = [
        Curve { name: "in proportion".to_string(), series: 4, published: true, points: even },
        Curve { name: "measured".to_string(), series: 0, published: false, points: measured },
    ];
    let plan = Plan { size: (480.0, 300.0), below, log: (true, true), zero: false };
    let mut svg = curves::chart(&curves, &plan)?;
    svg.text(
        "m",
        (44.0, 12.0),
        "seconds on one CPU of the host; dashed: in proportion to the last",
    );
    Some(svg.standalone(&format!("Run time of a page_fault1 cell by {below}")))
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    let partial = folder.join(format!("{name}.partial"));
    std::fs::write(&partial, text).expect("the folder can be written");
    std::fs::rename(&partial, &path).expect("the folder can be written");
    println!("drew {}", path.display());
}

fn main() {
    // `cargo test --benches` only asks whether it starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let rounds: usize = option("--rounds").and_then(|text| text.parse().ok()).unwrap_or(3);
    let machine = Machine::named("skl-4s").expect("a bundled machine");
    let mut by_cpus = CPUS.map(|cpus| Row::new(cpus, HOLDS_OF_CPUS));
    let mut by_length = HOLDS.map(|holds| Row::new(CPUS_OF_LENGTHS, holds));
    for _ in 0..rounds.max(1) {
        for row in by_cpus.iter_mut().chain(&mut by_length) {
            row.run(&machine);
        }
    }
    for rows in [&by_cpus[..], &by_length[..]] {
        println!(
            "| CPUs | holds | simulated, ms | million line events | s on a CPU | s a million |"
        );
        println!("|---|---|---|---|---|---|");
        rows.iter().for_each(|row| println!("{}", row.line()));
        println!();
    }
    // Cargo runs benches in their package's folder; the one that is meant is of the workspace.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if let Some(folder) = option("--write").map(|folder| root.join(folder)) {
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let cpus = draw(&by_cpus, |row| row.cpus as f64, "CPUs");
        let length = draw(&by_length, |row| row.simulated_ms, "simulated ms");
        write(&folder, "time-by-cpus.svg", &cpus.expect("points"));
        write(&folder, "time-by-simulated-time.svg", &length.expect("points"));
    }
}
