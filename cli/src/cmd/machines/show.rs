//! All of a machine file in groups, each figure with its range and source.

use pageyard_sim::machine::figure::{Decimal, Figure, LoadPoint, Spread, Stated};
use pageyard_sim::machine::spec::Spec;
use serde_json::{Value, json};

use crate::cmd::policies::layout::{COLUMNS, hanging, wrapped};

/// One field: its section, its path there, and what stands in it.
struct Row {
    section: String,
    field: String,
    /// What it is called where a reader needs more than the name.
    label: String,
    value: String,
    range: Option<(Decimal, Decimal)>,
    source: String,
}

impl Row {
    fn new(path: &str, value: String, source: &str) -> Row {
        let (section, field) = path.rsplit_once('.').unwrap_or(("", path));
        Row {
            section: section.to_string(),
            field: field.to_string(),
            label: field.to_string(),
            value,
            range: None,
            source: source.to_string(),
        }
    }

    fn figure(path: &str, figure: &Figure) -> Row {
        let range = figure.range();
        let exact = range == (figure.value, figure.value);
        let row = Row::new(path, figure.value.to_string(), &figure.source);
        Row { range: (!exact).then_some(range), ..row }
    }
}

/// Columns of field, value and range; the source has the rest.
const FIELD: usize = 32;
const VALUE: usize = 8;
const RANGE: usize = 16;

/// The machine as text.
pub fn text(spec: &Spec) -> String {
    let mut text = hanging(&spec.name, spec.name.chars().count() + 2, &spec.title);
    let mut section = String::new();
    for row in rows(spec) {
        if row.section != section {
            let heading = if row.section == "published" {
                "published: for comparison, not used by the model"
            } else {
                &row.section
            };
            text.push_str(&format!("\n{heading}\n"));
            section.clone_from(&row.section);
        }
        text.push_str(&line(&row));
    }
    text.push_str("\nsources\n");
    for (key, what) in &spec.sources {
        text.push_str(&hanging(&format!("  {key}"), 16, what));
    }
    text
}

fn line(row: &Row) -> String {
    let range = row.range.map_or(String::new(), |(low, high)| format!("{low} to {high}"));
    let head = match row.value.chars().count() {
        // A list or a matrix takes a line of its own.
        length if length > VALUE => {
            let values = wrapped(&row.value, COLUMNS - 4).join("\n    ");
            format!("  {}\n    {values}\n{:width$}", row.label, "", width = FIELD + VALUE + RANGE)
        }
        _ => format!(
            "  {:field$}{:>value$}  {:range$}",
            row.label,
            row.value,
            range,
            field = FIELD - 2,
            value = VALUE,
            range = RANGE - 2
        ),
    };
    let indent = " ".repeat(FIELD + VALUE + RANGE);
    let source = wrapped(&row.source, COLUMNS - indent.len()).join(&format!("\n{indent}"));
    format!("{head}{source}\n")
}

/// The machine as JSON: fields under their paths.
pub fn json(spec: &Spec) -> Value {
    let fields = rows(spec).into_iter().map(|row| {
        let (low, high) = row.range.unzip();
        json!({
            "field": format!("{}.{}", row.section, row.field),
            "value": row.value,
            "low": low.map(|low| low.to_string()),
            "high": high.map(|high| high.to_string()),
            "source": row.source,
        })
    });
    json!({
        "name": spec.name,
        "title": spec.title,
        "sources": spec.sources,
        "fields": fields.collect::<Vec<_>>(),
    })
}

/// Every field in the order of the file.
fn rows(spec: &Spec) -> Vec<Row> {
    let mut rows: Vec<Row> =
        spec.figures().iter().map(|(path, figure)| Row::figure(path, figure)).collect();
    for row in &mut rows {
        if let Some((section, point)) = point_of(spec, row) {
            row.label = format!("dram_loaded, {} GB/s", point.gb_per_s);
            row.field = format!("{}.ns", row.section.trim_start_matches("bandwidth."));
            row.section = section.to_string();
        }
    }
    let topology = &spec.topology;
    after(
        &mut rows,
        "topology",
        vec![
            Row::new("topology.node_memory_mib", list(&topology.node_memory_mib.value), {
                &topology.node_memory_mib.source
            }),
            matrix("topology.node_distances", &topology.node_distances),
            matrix("topology.socket_hops", &topology.socket_hops),
        ],
    );
    let prefetch = &spec.core.adjacent_line_prefetch;
    after(&mut rows, "core", vec![flag("core.adjacent_line_prefetch", prefetch)]);
    after(&mut rows, "cache.llc", vec![flag("cache.llc.inclusive", &spec.cache.llc.inclusive)]);
    rows.extend(published(spec));
    rows
}

/// The point of the loaded latency that a row is.
fn point_of<'s>(spec: &'s Spec, row: &Row) -> Option<(&'static str, &'s LoadPoint)> {
    let at = row.section.strip_prefix("bandwidth.dram_loaded[")?.strip_suffix(']')?;
    Some(("bandwidth", spec.bandwidth.dram_loaded.get(at.parse::<usize>().ok()?)?))
}

/// Puts rows behind the last one of a section.
fn after(rows: &mut Vec<Row>, section: &str, new: Vec<Row>) {
    let end = rows.iter().rposition(|row| row.section == section).map_or(rows.len(), |at| at + 1);
    rows.splice(end..end, new);
}

fn published(spec: &Spec) -> Vec<Row> {
    let published = &spec.published;
    let spreads = [
        ("published.ping_pong_smt_ns", &published.ping_pong_smt_ns),
        ("published.ping_pong_socket_ns", &published.ping_pong_socket_ns),
        ("published.ping_pong_cross_ns", &published.ping_pong_cross_ns),
    ];
    let mut rows = Vec::new();
    for (path, spread) in spreads {
        rows.extend(spread.as_ref().map(|spread: &Spread| {
            let row = Row::new(path, spread.median.to_string(), &spread.source);
            Row { range: Some((spread.p5, spread.p95)), ..row }
        }));
    }
    rows.extend(
        published.idle_latency_ns.as_ref().map(|idle| matrix("published.idle_latency_ns", idle)),
    );
    let peak = published.peak_bandwidth_gb_per_s.as_ref();
    rows.extend(peak.map(|peak| Row::figure("published.peak_bandwidth_gb_per_s", peak)));
    rows
}

fn flag(path: &str, flag: &Stated<bool>) -> Row {
    Row::new(path, if flag.value { "yes" } else { "no" }.to_string(), &flag.source)
}

fn matrix(path: &str, matrix: &Stated<Vec<Vec<Decimal>>>) -> Row {
    let rows: Vec<String> = matrix.value.iter().map(|row| list(row)).collect();
    Row::new(path, rows.join(" | "), &matrix.source)
}

fn list(numbers: &[Decimal]) -> String {
    numbers.iter().map(Decimal::to_string).collect::<Vec<_>>().join(" ")
}
