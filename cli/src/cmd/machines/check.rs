//! What the model's own benchmarks give on a machine, beside what was published and beside the
//! figures of its file.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pageyard_sim::costs::Costs;
use pageyard_sim::machine::Machine;
use pageyard_sim::machine::figure::{Decimal, Spread};
use pageyard_sim::probe::{Measured, measure};
use serde_json::{Value, json};

/// Largest error that is within, thousandths.
const TOLERANCE: i64 = 100;

/// One measurement of the model. Numbers are thousandths of the unit.
struct Row {
    what: String,
    unit: &'static str,
    modelled: u64,
    published: Option<u64>,
    file: Option<u64>,
}

impl Row {
    fn ns(what: impl Into<String>, modelled: u64, file: Option<u64>) -> Row {
        Row { what: what.into(), unit: "ns", modelled, published: None, file }
    }

    fn rate(what: impl Into<String>, modelled: u64, file: Option<u64>) -> Row {
        Row { what: what.into(), unit: "GB/s", modelled, published: None, file }
    }

    fn published(self, published: Option<Decimal>) -> Row {
        Row { published: published.map(Decimal::thousandths), ..self }
    }

    /// Signed error against another number, thousandths of it.
    fn error(&self, other: Option<u64>) -> Option<i64> {
        let other = i64::try_from(other?).ok().filter(|&other| other > 0)?;
        Some((self.modelled as i64 - other) * 1000 / other)
    }

    /// Which comparisons are outside the tolerance.
    fn misses(&self) -> Vec<&'static str> {
        let sides = [("published", self.published), ("file", self.file)];
        let is_miss = |error: i64| error.abs() > TOLERANCE;
        let misses = sides.into_iter().filter(|side| self.error(side.1).is_some_and(is_miss));
        misses.map(|(name, _)| name).collect()
    }
}

/// One machine, measured.
pub struct Checked {
    name: String,
    title: String,
    has_published: bool,
    rows: Vec<Row>,
}

/// Measures machines, as many at a time as there are CPUs; the result does not depend on how many.
pub fn check_all(machines: &[Machine]) -> Vec<Checked> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(machines.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, machine)) = take(machines, &next) {
                    let checked = check(machine);
                    done.lock().expect("no worker panics").push((at, checked));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics");
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, checked)| checked).collect()
}

fn take<'m>(machines: &'m [Machine], next: &AtomicUsize) -> Option<(usize, &'m Machine)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, machines.get(at)?))
}

fn check(machine: &Machine) -> Checked {
    let loads: Vec<u64> = machine.bandwidth.dram_loaded.iter().map(|&(load, _)| load).collect();
    let measured = measure(&Costs::of(machine), &loads);
    let mut rows = ping_pong(machine, &measured);
    rows.extend(own_socket(machine, &measured));
    rows.extend(memory(machine, &measured));
    rows.extend(written(machine, &measured));
    rows.extend(bandwidth(machine, &measured));
    Checked {
        name: machine.name.clone(),
        title: machine.title.clone(),
        has_published: machine.published != Default::default(),
        rows,
    }
}

fn ping_pong(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let (latency, published) = (&machine.latency, &machine.published);
    let median = |spread: &Option<Spread>| spread.as_ref().map(|spread| spread.median);
    let smt = latency.smt_transfer_ps.map(|transfer| latency.locked_ps + transfer);
    let both =
        latency.hitm_remote_home_writer_ps.first().zip(latency.hitm_remote_home_reader_ps.first());
    let rows = [
        ("ping-pong, two threads of a core", measured.ping_pong.smt_ps, smt, {
            median(&published.ping_pong_smt_ns)
        }),
        ("ping-pong, two cores", measured.ping_pong.socket_ps, Some(latency.hitm_socket_ps), {
            median(&published.ping_pong_socket_ns)
        }),
        (
            "ping-pong, two sockets",
            measured.ping_pong.cross_ps,
            both.map(|(writer, reader)| (writer + reader) / 2),
            median(&published.ping_pong_cross_ns),
        ),
    ];
    let rows = rows.into_iter().filter_map(|(what, modelled, file, published)| {
        Some(Row::ns(what, modelled?, file).published(published))
    });
    rows.collect()
}

fn own_socket(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let latency = &machine.latency;
    let mut rows = vec![
        Row::ns("first level", measured.l1_ps, Some(latency.l1_ps)),
        Row::ns("second level", measured.l2_ps, Some(latency.l2_ps)),
        Row::ns("last level", measured.llc_ps, Some(latency.llc_ps)),
        Row::ns("locked instruction, own line", measured.locked_ps, Some(latency.locked_ps)),
    ];
    let clean = measured.clean_ps;
    rows.extend(clean.map(|ps| Row::ns("clean, in another core", ps, Some(latency.hit_socket_ps))));
    rows
}

/// Every socket and node, or one pair of each number of hops where nobody published a matrix.
fn memory(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let published = machine.published.idle_latency_ns.as_ref();
    let mut seen = Vec::new();
    let mut rows = Vec::new();
    for (socket, nodes) in measured.idle_ps.iter().enumerate() {
        for (node, &ps) in nodes.iter().enumerate() {
            let hops = machine.hops(socket as u32, node as u32);
            if published.is_none() && seen.contains(&hops) {
                continue;
            }
            seen.push(hops);
            let file = machine.dram_ps(socket as u32, node as u32);
            let of = published.map(|matrix| matrix.value[socket][node]);
            let what = format!("memory, socket {socket} from node {node}");
            rows.push(Row::ns(what, ps, Some(file)).published(of));
        }
    }
    rows
}

/// One row for each kind of place, as the file tells them apart.
fn written(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for dirty in &measured.dirty {
        let [reader, writer, home] =
            [dirty.reader, dirty.writer, dirty.home].map(|socket| socket as u32);
        let hops = machine.hops(reader, writer);
        let what = match (hops, home) {
            (0, _) => "written by another core".to_string(),
            (_, home) if home == writer => format!("written {hops} hop away, home there"),
            (_, home) if home == reader => format!("written {hops} hop away, home here"),
            _ => format!("written {hops} hop away, third home"),
        };
        if rows.iter().all(|row| row.what != what) {
            rows.push(Row::ns(what, dirty.ps, Some(machine.hitm_ps(reader, writer, home))));
        }
    }
    rows
}

fn bandwidth(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let bandwidth = &machine.bandwidth;
    let sockets = u64::from(machine.topology.sockets);
    let peak = machine.published.peak_bandwidth_gb_per_s.as_ref();
    let peak = peak.map(|peak| Decimal::from_thousandths(peak.value.thousandths() / sockets));
    let socket = Some(bandwidth.dram_socket_bytes_per_us);
    let pages = Row::rate("a socket reads pages", measured.pages_bytes_per_us, socket);
    let lines = Row::rate("a socket reads lines in order", measured.lines_bytes_per_us, socket);
    let mut rows = vec![pages.published(peak), lines.published(peak)];
    let link = measured.link_bytes_per_us;
    rows.extend(link.map(|rate| {
        Row::rate("a socket reads another's pages", rate, bandwidth.link_bytes_per_us)
    }));
    // A stream that cannot reach a load repeats the highest one it can.
    let mut before = 0;
    for &(load, ps) in &measured.loaded {
        if load <= before {
            continue;
        }
        before = load;
        let what = format!("memory beside {} GB/s", tenths(load));
        rows.push(Row::ns(what, ps, Some(by_load(machine, load))));
    }
    rows
}

/// Latency of local memory at a load, between the points of the file.
fn by_load(machine: &Machine, load: u64) -> u64 {
    let mut below = (0, machine.latency.dram_local_ps);
    for &(at, ps) in &machine.bandwidth.dram_loaded {
        if at > load {
            return below.1 + (ps - below.1) * (load - below.0) / (at - below.0).max(1);
        }
        below = (at, ps);
    }
    below.1
}

/// Thousandths as a number with one decimal.
fn tenths(thousandths: u64) -> String {
    let tenths = (thousandths + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn per_cent(error: i64) -> String {
    let sign = if error < 0 { '-' } else { '+' };
    format!("{sign}{}.{} %", error.abs() / 10, error.abs() % 10)
}

/// Whether every comparison of every machine is within the tolerance.
pub fn is_within(all: &[Checked]) -> bool {
    all.iter().flat_map(|checked| &checked.rows).all(|row| row.misses().is_empty())
}

/// The tables, and what is outside.
pub fn text(all: &[Checked]) -> String {
    let mut text = String::new();
    for checked in all {
        text.push_str(&format!("{}  {}\n", checked.name, checked.title));
        if !checked.has_published {
            text.push_str("  nothing is published of it: held against its own figures alone\n");
        }
        let head = ["measured on the model", "", "model", "published", "error", "file", "error"];
        text.push_str(&line(head.map(String::from), ""));
        for row in &checked.rows {
            let number = |number: Option<u64>| number.map_or("-".to_string(), tenths);
            let error = |other| row.error(other).map_or(String::new(), per_cent);
            let cells = [
                row.what.clone(),
                row.unit.to_string(),
                tenths(row.modelled),
                number(row.published),
                error(row.published),
                number(row.file),
                error(row.file),
            ];
            text.push_str(&line(cells, if row.misses().is_empty() { "" } else { "miss" }));
        }
        text.push('\n');
    }
    text.push_str(&summary(all));
    text
}

fn line(
    [what, unit, model, published, error, file, file_error]: [String; 7],
    mark: &str,
) -> String {
    let line = format!(
        "  {what:<34}{unit:>5}{model:>9}{published:>11}{error:>10}{file:>8}{file_error:>10}  {mark}"
    );
    format!("{}\n", line.trim_end())
}

fn summary(all: &[Checked]) -> String {
    let rows: Vec<&Row> = all.iter().flat_map(|checked| &checked.rows).collect();
    let compared = |side: fn(&Row) -> Option<u64>| {
        rows.iter().filter(|row| row.error(side(row)).is_some()).count()
    };
    let missed = |name| rows.iter().filter(|row| row.misses().contains(&name)).count();
    format!(
        "within {} %: {} of {} published, {} of {} figures of the files\n",
        TOLERANCE / 10,
        compared(|row| row.published) - missed("published"),
        compared(|row| row.published),
        compared(|row| row.file) - missed("file"),
        compared(|row| row.file),
    )
}

/// The same as JSON; errors are fractions of what was compared with.
pub fn json(all: &[Checked]) -> Value {
    let number = |thousandths: u64| thousandths as f64 / 1000.0;
    let row = |row: &Row| {
        let error = |other| row.error(other).map(|error| error as f64 / 1000.0);
        json!({
            "measurement": row.what,
            "unit": row.unit,
            "modelled": number(row.modelled),
            "published": row.published.map(number),
            "published_error": error(row.published),
            "file": row.file.map(number),
            "file_error": error(row.file),
            "misses": row.misses(),
        })
    };
    let machines = all.iter().map(|checked| {
        json!({
            "name": checked.name,
            "has_published": checked.has_published,
            "rows": checked.rows.iter().map(row).collect::<Vec<_>>(),
        })
    });
    json!(machines.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_signed_and_a_tenth_is_still_within() {
        let row = Row::ns("x", 110, Some(100)).published(Some(Decimal::from_thousandths(200)));
        assert_eq!((row.error(row.file), row.error(row.published)), (Some(100), Some(-450)));
        assert_eq!(row.misses(), ["published"]);
        assert_eq!((per_cent(-455), per_cent(7), tenths(1_249)), {
            ("-45.5 %".to_string(), "+0.7 %".to_string(), "1.2".to_string())
        });
    }

    #[test]
    fn a_load_between_two_points_has_the_latency_between_them() {
        let machine = Machine::named("skl-4s").unwrap();
        assert_eq!(by_load(&machine, 0), 84_000);
        assert_eq!(by_load(&machine, 15_000), 90_500);
        assert_eq!(by_load(&machine, 200_000), 149_000);
    }
}
