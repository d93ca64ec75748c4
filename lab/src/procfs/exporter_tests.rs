//! A real reader of `/proc`, the Prometheus node exporter, reads our files: every number that it
//! serves must be ours. Skipped with a message where it is not installed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use pageyard::Request;
use pageyard_trace::snapshot::{BuddyInfo, VmStat, Zone, ZoneInfo};

use super::seeded::{Seeded, policy, recordings, snapshot};
use super::write_proc;

const EXPORTER: &str = "prometheus-node-exporter";

/// A running exporter; ends with the test.
struct Exporter {
    child: Child,
    port: u16,
    /// Kept open: a Go program whose standard error is gone dies of its next message.
    log: BufReader<ChildStderr>,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Exporter {
    /// `None` where it is not installed.
    fn start(procfs: &Path) -> Option<Exporter> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let spawned = Command::new(EXPORTER)
            .args(["--collector.disable-defaults", "--web.disable-exporter-metrics"])
            .args(["--collector.buddyinfo", "--collector.zoneinfo", "--collector.vmstat"])
            .args(["--collector.vmstat.fields", "."])
            .arg(format!("--path.procfs={}", procfs.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match spawned {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            spawned => spawned.unwrap(),
        };
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut exporter = Exporter { child, port, log };
        let mut said = String::new();
        while exporter.log.read_line(&mut said).unwrap() > 0 {
            if said.contains("Listening on") {
                return Some(exporter);
            }
        }
        panic!("{EXPORTER} did not listen:\n{said}");
    }

    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_string()
    }
}

/// One line of the exporter's answer.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> &str {
        let found = self.labels.split(',').find_map(|label| {
            let (known, value) = label.split_once('=')?;
            (known == name).then(|| value.trim_matches('"'))
        });
        found.unwrap_or_else(|| panic!("{} has no label {name}", self.name))
    }
}

fn samples(text: &str) -> Vec<Sample<'_>> {
    let lines = text.lines().filter(|line| line.starts_with("node_"));
    // What it says of itself.
    let lines = lines.filter(|line| !line.starts_with("node_exporter_"));
    lines
        .map(|line| {
            let (metric, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
            Sample { name, labels: labels.trim_end_matches('}'), value: value.parse().unwrap() }
        })
        .collect()
}

/// Our number behind a metric of the zoneinfo collector, which appends units to the names.
fn zone_field(zone: &Zone, metric: &str) -> Option<u64> {
    if let Some(index) = metric.strip_prefix("protection_") {
        return zone.protection.get(index.parse::<usize>().ok()?).copied();
    }
    let field = |name: &str| match name {
        "min" => Some(zone.min),
        "low" => Some(zone.low),
        "high" => Some(zone.high),
        "spanned" => Some(zone.spanned),
        "present" => Some(zone.present),
        "managed" => Some(zone.managed),
        _ => {
            let mut known = zone.counters.iter().chain(&zone.per_node);
            known.find(|(known, _)| known == name).map(|(_, value)| *value)
        }
    };
    let names = [Some(metric), metric.strip_suffix("_pages"), metric.strip_suffix("_total")];
    let plural = metric.strip_suffix('s');
    names.into_iter().chain([plural]).flatten().find_map(field)
}

#[test]
fn the_node_exporter_reads_our_numbers() {
    for name in ["numa-6.1-8cpu-2node", "build-6.18-2cpu"] {
        let folder = recordings().into_iter().find(|folder| folder.ends_with(name)).unwrap();
        let template = snapshot(&folder, "before");
        let seeded = Seeded::of(&template, policy(&folder));
        let mut pages = Vec::new();
        (0..3000).for_each(|_| pages.push(seeded.allocator.alloc(&Request::user(0)).unwrap()));
        pages.drain(..1000).for_each(|pfn| seeded.allocator.free(pfn, 0));
        let out = tempfile::tempdir().unwrap();
        write_proc(&seeded.allocator, &seeded.geometry(), &template, out.path()).unwrap();
        let Some(exporter) = Exporter::start(out.path()) else {
            println!("skipped: {EXPORTER} is not installed");
            return;
        };
        compare(&exporter.scrape(), out.path());
    }
}

fn compare(answer: &str, out: &Path) {
    let read = |file: &str| std::fs::read_to_string(out.join(file)).unwrap();
    let buddy = BuddyInfo::parse(&read("buddyinfo")).unwrap();
    let zones = ZoneInfo::parse(&read("zoneinfo")).unwrap();
    let vmstat = VmStat::parse(&read("vmstat")).unwrap();
    let mut seen = [0; 3];
    for sample in samples(answer) {
        let what = format!("{}{{{}}}", sample.name, sample.labels);
        let (file, ours) = if sample.name == "node_buddyinfo_blocks" {
            let node = sample.label("node").parse().unwrap();
            let row = buddy.row(node, sample.label("zone")).unwrap();
            (0, row.blocks[sample.label("size").parse::<usize>().unwrap()])
        } else if let Some(metric) = sample.name.strip_prefix("node_zoneinfo_") {
            let node = sample.label("node").parse().unwrap();
            let zone = zones.zone(node, sample.label("zone")).unwrap();
            (1, zone_field(zone, metric).unwrap_or_else(|| panic!("{what}: not ours")))
        } else if let Some(field) = sample.name.strip_prefix("node_vmstat_") {
            (2, vmstat.get(field).unwrap_or_else(|| panic!("{what}: not ours")))
        } else {
            let ours = sample.name.starts_with("node_scrape_collector_");
            assert!(ours, "{what}: of no collector that was asked for");
            let failed = sample.name.ends_with("_success") && sample.value != 1.0;
            assert!(!failed, "{what}: the collector failed");
            continue;
        };
        assert_eq!(sample.value, ours as f64, "{what}");
        seen[file] += 1;
    }
    let blocks: usize = buddy.rows.iter().map(|row| row.blocks.len()).sum();
    assert_eq!((seen[0], seen[2]), (blocks, vmstat.values.len()));
    assert!(seen[1] >= 20 * zones.zones.iter().filter(|zone| zone.populated()).count());
}
