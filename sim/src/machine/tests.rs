//! Machine files: which load, which are refused and how.

use std::path::Path;

use super::builtin::BUILTIN;
use super::figure::Decimal;
use super::load::{self, MachineError};
use super::{Machine, Spec, find, names};

fn bundled() -> Vec<(&'static str, Spec, Machine)> {
    let all = names().into_iter().map(|name| {
        let spec = find(name).unwrap_or_else(|error| panic!("{error}"));
        let machine = Machine::from_spec(&spec).unwrap();
        (name, spec, machine)
    });
    all.collect()
}

fn text_of(name: &str) -> &'static str {
    BUILTIN.iter().find(|(builtin, _)| *builtin == name).unwrap().1
}

/// Line, from 1, of a piece of text that stands once in a bundled file.
fn line_of(name: &str, piece: &str) -> usize {
    let text = text_of(name);
    assert_eq!(text.matches(piece).count(), 1, "`{piece}` stands more or less than once");
    text[..text.find(piece).unwrap()].matches('\n').count() + 1
}

/// A bundled file with one piece of text replaced is refused at the line of another piece, at this
/// field, with these words.
fn refused_at(name: &str, [from, to]: [&str; 2], at: &str, field: &str, words: &str) {
    line_of(name, from);
    let line = line_of(name, at);
    let changed = text_of(name).replace(from, to);
    let error = load::parse(&changed, "x.toml").unwrap_err().to_string();
    assert!(error.starts_with(&format!("x.toml:{line}:")), "line {line}: {error}");
    assert!(error.contains(&format!(": {field}: ")), "{field}: {error}");
    assert!(error.contains(words), "{words}: {error}");
}

/// The same, refused at the line of the change.
fn refused(name: &str, from: &str, to: &str, field: &str, words: &str) {
    refused_at(name, [from, to], from, field, words);
}

#[test]
fn every_bundled_file_loads_under_its_name_and_has_its_folder_entry() {
    for (name, spec, machine) in bundled() {
        assert_eq!((machine.name.as_str(), spec.name.as_str()), (name, name));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names = names();
    names.sort_unstable();
    assert_eq!(files, names);
}

#[test]
fn each_figure_and_both_ends_of_its_range_make_a_machine_or_say_what_they_contradict() {
    for (name, spec, _) in bundled() {
        for (path, figure) in spec.figures() {
            let (low, high) = figure.range();
            assert!(low <= figure.value && figure.value <= high, "{name} {path}");
            for end in [low, high] {
                let mut moved = spec.clone();
                moved.figure_mut(&path).unwrap().value = end;
                if let Err((field, problem)) = Machine::from_spec(&moved) {
                    let words = problem.to_string();
                    assert!(words.contains("faster") || words.contains("load"), "{field} {words}");
                }
            }
        }
    }
}

#[test]
fn no_source_is_listed_without_use() {
    for (name, text) in BUILTIN {
        for key in find(name).unwrap().sources.keys() {
            let uses = text.matches(&format!("source = \"{key}\"")).count()
                + text.matches(&format!("source = \"{key}:")).count()
                + text.matches(&format!("source = \"estimate: {key}")).count();
            assert!(uses > 0, "{name}: {key}");
        }
    }
}

#[test]
fn the_machines_are_those_of_the_published_tables() {
    let expected = [
        ("skl-desktop", 8, 16),
        ("cfl-desktop", 16, 32),
        ("bdw-2s", 88, 128),
        ("bdw-4s", 192, 496),
        ("skl-2s", 112, 128),
        ("skl-4s", 192, 768),
        ("clx-2s", 96, 128),
        ("icx-2s", 128, 128),
        ("icx-5320", 52, 256),
    ];
    let found: Vec<(&str, u32, u64)> = bundled()
        .iter()
        .map(|(name, _, machine)| {
            let memory: u64 = machine.node_memory_bytes.iter().sum();
            (*name, machine.cpus(), memory >> 30)
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn one_or_two_cpus_at_work_run_at_the_turbo_clock() {
    let machine = Machine::named("bdw-2s").unwrap();
    assert_eq!(machine.with_at_work(3), machine);
    let few = machine.with_at_work(2);
    assert_eq!((machine.clock_khz, few.clock_khz), (2_800_000, 3_600_000));
    // As many cycles for what a core does by itself; the way beyond it takes as long.
    let cycles = |machine: &Machine, ps: u64| ps * machine.clock_khz / 1_000_000_000;
    let (slow, fast) = (&machine.latency, &few.latency);
    assert_eq!(cycles(&machine, slow.l2_ps), cycles(&few, fast.l2_ps));
    assert_eq!(slow.llc_ps - slow.l2_ps, fast.llc_ps - fast.l2_ps);
    assert_eq!(slow.dram_local_ps, fast.dram_local_ps);
    let without = Machine::named("icx-5320").unwrap();
    assert_eq!(without.with_at_work(1), without, "no turbo clock: the same");
}

#[test]
fn figures_become_whole_numbers_of_the_units_of_the_model() {
    let machine = Machine::named("icx-2s").unwrap();
    assert_eq!((machine.clock_khz, machine.tsc_khz), (3_200_000, 2_600_000));
    assert_eq!((machine.l1d.bytes, machine.l1d.ways, machine.l1d.sets()), (48 << 10, 12, 64));
    assert_eq!((machine.llc.bytes, machine.llc.sets()), (48 << 20, 65_536));
    assert_eq!(machine.latency.dram_local_ps, 88_900);
    assert_eq!(machine.bandwidth.link_bytes_per_us, Some(55_700));
    assert_eq!(machine.core.smt_throughput_thousandths, 1200);
    assert_eq!(machine.distance(0, 1), 21);
    assert_eq!((machine.dram_ps(1, 1), machine.dram_ps(0, 1)), (88_900, 143_000));
    assert_eq!(Machine::named("icx-5320").unwrap().core.smt_throughput_thousandths, 1000);
    assert_eq!(Machine::named("icx-5320").unwrap().latency.smt_transfer_ps, None);
}

#[test]
fn a_written_line_costs_by_writer_reader_and_home() {
    let machine = Machine::named("skl-4s").unwrap();
    let latency = machine.latency.clone();
    assert_eq!(machine.hitm_ps(2, 2, 0), latency.hitm_socket_ps);
    assert_eq!(machine.hitm_ps(0, 1, 1), latency.hitm_remote_home_writer_ps[0]);
    assert_eq!(machine.hitm_ps(0, 1, 0), latency.hitm_remote_home_reader_ps[0]);
    assert_eq!(machine.hitm_ps(0, 1, 3), latency.hitm_remote_home_third_ps[0]);
}

#[test]
fn impossible_topologies_are_refused() {
    let cores = "cores_per_socket = { value = 28";
    let to = |value: &str| format!("cores_per_socket = {{ value = {value}");
    let path = "topology.cores_per_socket.value";
    refused("skl-2s", cores, &to("0"), path, "more than 0");
    refused("skl-2s", cores, &to("2.5"), path, "whole number");
    refused("skl-2s", cores, &to("300"), path, "1200 CPUs");
    refused("skl-2s", cores, &to("-28"), path, "below 0");
    let threads = "threads_per_core = { value = 2";
    let three = "threads_per_core = { value = 3";
    refused("skl-2s", threads, three, "topology.threads_per_core.value", "from 1 to 2");
    let memory = "node_memory_mib = { value = [65536, 65536]";
    let path = "topology.node_memory_mib.value";
    let none = "node_memory_mib = { value = [0, 0]";
    refused("skl-2s", memory, none, path, "no node has memory");
    let one = "node_memory_mib = { value = [65536]";
    refused("skl-2s", memory, one, path, "1 entries for 2 socket(s)");
    // Sixteen nodes of this would not fit 32-bit page numbers.
    let huge = "node_memory_mib = { value = [65536, 2097152]";
    refused("skl-2s", memory, huge, &format!("{path}[1]"), "1048576");
}

#[test]
fn matrices_must_be_square_symmetric_and_local_on_the_diagonal() {
    let distances = "[[10, 21], [21, 10]]";
    let path = "topology.node_distances.value";
    refused("skl-2s", distances, "[[10, 21], [21]]", &format!("{path}[1]"), "1 entries");
    refused("skl-2s", distances, "[[10, 21]]", path, "1 entries");
    refused(
        "skl-2s",
        distances,
        "[[10, 21], [31, 10]]",
        &format!("{path}[0][1]"),
        "there and back",
    );
    refused("skl-2s", distances, "[[10, 10], [10, 10]]", &format!("{path}[0][1]"), "from 11");
    refused("skl-2s", distances, "[[20, 21], [21, 10]]", &format!("{path}[0][0]"), "must be 10");
    let hops = ["[[0, 1], [1, 0]]", "[[0, 2], [2, 0]]"];
    let list = "latency.dram_remote_ns";
    refused_at("skl-2s", hops, "dram_remote_ns = [", list, "1 figure(s), but");
}

#[test]
fn a_value_outside_its_range_is_refused() {
    let llc = "value = 22, low = 17, high = 27";
    let path = "latency.llc_ns";
    refused(
        "skl-2s",
        llc,
        "value = 22, low = 23, high = 27",
        &format!("{path}.low"),
        "above the value",
    );
    refused(
        "skl-2s",
        llc,
        "value = 28, low = 17, high = 27",
        &format!("{path}.high"),
        "below the value",
    );
    refused("skl-2s", llc, "value = 22, low = 0, high = 27", &format!("{path}.low"), "more than 0");
    refused_at("skl-2s", [llc, "value = 22"], "llc_ns = {", path, "needs `low` and `high`");
}

#[test]
fn what_is_farther_cannot_be_faster() {
    let remote = "value = 131, low = 130.6";
    let path = "latency.dram_remote_ns[0].value";
    refused("skl-2s", remote, "value = 70, low = 60", path, "70 is faster than latency.dram_local");
    let slow = ["value = 22, low = 17, high = 27", "value = 90, low = 17, high = 97"];
    let path = "latency.dram_local_ns.value";
    refused_at("skl-2s", slow, "dram_local_ns = ", path, "faster than latency.llc_ns = 90");
    let writer = "value = 112, low = 111";
    let path = "latency.hitm_remote_home_writer_ns[0].value";
    refused("skl-2s", writer, "value = 40, low = 30", path, "hitm_socket_ns = 48.5");
}

#[test]
fn load_rises_up_to_the_peak_and_latency_with_it() {
    let path = "bandwidth.dram_loaded[1]";
    let second = "gb_per_s = 6.7, ns = { value = 84";
    let less = "gb_per_s = 3, ns = { value = 84";
    refused("skl-2s", second, less, &format!("{path}.gb_per_s"), "not above 3.3");
    let beyond = "gb_per_s = 200, ns = { value = 84";
    refused("skl-2s", second, beyond, &format!("{path}.gb_per_s"), "the peak of 73.9");
    let faster = "gb_per_s = 6.7, ns = { value = 83";
    refused("skl-2s", second, faster, &format!("{path}.ns.value"), "83 is faster than");
}

#[test]
fn the_form_is_checked_down_to_the_field() {
    let llc = "ways = { value = 11, source = \"wikichip\" }";
    let path = "cache.llc";
    refused(
        "skl-2s",
        llc,
        "wasy = { value = 11 }",
        &format!("{path}.wasy"),
        "unknown field `wasy`",
    );
    refused("skl-2s", llc, "ways = 11", &format!("{path}.ways"), "expected a figure: { value");
    let text = "ways = { value = \"11\", source = \"wikichip\" }";
    refused("skl-2s", llc, text, &format!("{path}.ways.value"), "expected a number from 0");
    let fine = "ways = { value = 11.0001, source = \"wikichip\" }";
    refused("skl-2s", llc, fine, &format!("{path}.ways.value"), "more than three decimals");
    refused(
        "skl-2s",
        llc,
        "ways = { value = 11 }",
        &format!("{path}.ways"),
        "missing field `source`",
    );
    let odd = "ways = { value = 13, source = \"wikichip\" }";
    refused("skl-2s", llc, odd, &format!("{path}.ways.value"), "39424 KiB do not divide");
    let load = "gb_per_s = 13.3, ns";
    let text = "gb_per_s = \"13.3\", ns";
    refused("skl-2s", load, text, "bandwidth.dram_loaded[2].gb_per_s", "expected a number");
    let remote = "value = 131, low = 130.6";
    let path = "latency.dram_remote_ns[0].lwo";
    refused("skl-2s", remote, "value = 131, lwo = 130.6", path, "unknown field");
    let memory = "node_memory_mib = { value = [65536, 65536]";
    let path = "topology.node_memory_mib.value[1]";
    refused("skl-2s", memory, "node_memory_mib = { value = [65536, true]", path, "a number");
    let error = load::parse("name = ", "x.toml").unwrap_err().to_string();
    assert!(error.starts_with("x.toml:1:"), "{error}");
    let error = load::parse("name = \"x\"\ntitle = \"\"\n", "x.toml").unwrap_err().to_string();
    assert!(error.contains("missing field `topology`"), "{error}");
}

#[test]
fn sources_are_named_or_own_words() {
    let llc = "inclusive = { value = false, source = \"wikichip\" }";
    let path = "cache.llc.inclusive.source";
    let to = |source: &str| format!("inclusive = {{ value = false, source = \"{source}\" }}");
    refused("skl-2s", llc, &to("hearsay"), path, "`hearsay` is no source");
    refused("skl-2s", llc, &to("estimate"), path, "estimate: why");
    for source in ["estimate: why not", "measured: by reading", "wikichip: a page"] {
        load::parse(&text_of("skl-2s").replace(llc, &to(source)), "x.toml").unwrap();
    }
}

#[test]
fn fields_without_meaning_are_refused_and_needed_ones_asked_for() {
    let smt = "threads_per_core = { value = 1";
    let smt_line = "smt_throughput = { value = 1.2, low = 1, high = 2, source = \"llfree\" }";
    let extra = format!("{smt_line}\nadjacent_line_prefetch = {{");
    let text = text_of("icx-5320").replace("adjacent_line_prefetch = {", &extra);
    let error = load::parse(&text, "x.toml").unwrap_err().to_string();
    assert!(error.contains("core.smt_throughput: has no meaning without"), "{error}");
    let two = smt.replace('1', "2");
    let error = load::parse(&text_of("icx-5320").replace(smt, &two), "x.toml").unwrap_err();
    assert!(error.to_string().contains("smt_throughput: is missing"), "{error}");
}

#[test]
fn an_unknown_name_suggests_the_nearest() {
    let refusal = |name: &str| find(name).unwrap_err().to_string();
    assert!(refusal("skl-4").contains("nearest: skl-4s;"));
    assert!(refusal("icx2s").contains("nearest: icx-2s;"));
    assert!(!refusal("vax").contains("nearest"));
    assert!(!refusal(&"x".repeat(100_000)).contains("nearest"));
    assert!(matches!(find("no/such.toml"), Err(MachineError::Read { .. })));
}

#[test]
fn a_file_is_a_machine_like_a_bundled_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines/bdw-2s.toml");
    let machine = Machine::named(path.to_str().unwrap()).unwrap();
    assert_eq!(machine, Machine::named("bdw-2s").unwrap());
    assert_eq!(machine, Machine::read(&path).unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(matches!(Machine::read(folder), Err(MachineError::Read { .. })));
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let text = text_of("skl-4s");
    let mut refusals = 0;
    for at in (0..text.len()).step_by(37).filter(|at| text.is_char_boundary(*at)) {
        refusals += usize::from(load::parse(&text[..at], "x.toml").is_err());
        let mut damaged = text.to_string();
        damaged.replace_range(at..=at, "[");
        refusals += usize::from(load::parse(&damaged, "x.toml").is_err());
    }
    assert!(refusals > 100, "{refusals}");
    let deep = format!("name = {}", "[".repeat(100_000));
    assert!(load::parse(&deep, "x.toml").is_err());
    let dotted = format!("{}x = 1", "a.".repeat(50_000));
    assert!(load::parse(&dotted, "x.toml").is_err());
}

#[test]
fn numbers_keep_three_decimals_exactly() {
    let parse = |text: &str| {
        let table: std::collections::BTreeMap<String, Decimal> =
            toml::from_str(&format!("n = {text}")).map_err(|error| error.message().to_string())?;
        Ok::<u64, String>(table["n"].thousandths())
    };
    assert_eq!(parse("50"), Ok(50_000));
    assert_eq!(parse("0.001"), Ok(1));
    assert_eq!(parse("8.3"), Ok(8_300));
    assert_eq!(parse("9999999999.999"), Ok(9_999_999_999_999));
    for wrong in ["-1", "-0.1", "nan", "inf", "1e300", "10000000001", "1.2345", "true"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(
        format!("{:>6}|{}", Decimal::from_thousandths(2_050), Decimal::whole(7)),
        "  2.05|7"
    );
}

#[test]
fn the_manual_explains_every_field() {
    let manual = include_str!("../../../docs/MACHINES.md");
    for (path, _) in find("skl-4s").unwrap().figures() {
        let path = path.trim_end_matches(".ns").split('[').next().unwrap().to_string();
        let field = path.rsplit('.').next().unwrap();
        assert!(manual.contains(&format!("`{field}`")), "{path}");
    }
}
