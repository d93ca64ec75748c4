//! `pageyard simulate`: what it prints, and what it refuses.

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    // Nothing is read from, or left in, the cache of whoever runs this.
    let store = format!("{}/simulate-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    command.arg("simulate").args(args).args(["--store", &store]).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = simulate(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], expected: &str) {
    let output = simulate(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.contains(expected), "{args:?}: {error}");
    assert!(output.stdout.is_empty());
}

const CELL: [&str; 7] = ["-m", "skl-desktop", "-p", "linux-6.6", "-c", "2", "--quick"];

#[test]
fn a_cell_is_the_same_fresh_stored_and_as_text() {
    let with = |more: &[&str]| printed(&[&CELL[..], more].concat());
    let fresh = with(&["--json", "--fresh"]);
    assert_eq!(with(&["--json"]), fresh);
    let json: Value = serde_json::from_str(&fresh).unwrap();
    assert_eq!(json["cpus"], 2);
    let score = json["result"]["score_per_s"].as_u64().unwrap();
    let text = with(&[]);
    assert!(text.contains(&format!("score      {score} faults a second")), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn think_time_and_seed_matter() {
    let score = |more: &[&str]| {
        let json: Value = serde_json::from_str(&printed(&[&CELL[..], more].concat())).unwrap();
        json["result"]["score_per_s"].as_u64().unwrap()
    };
    let base = score(&["--json"]);
    assert!(score(&["--json", "--think-ns", "5000"]) < base);
    assert_ne!(score(&["--json", "--seed", "2"]), base);
}

#[test]
fn unknown_names_and_too_many_cpus_are_refused_with_what_was_meant() {
    refused(&["-m", "skl-dekstop", "-p", "linux-6.6"], "nearest: skl-desktop");
    refused(&["-m", "skl-desktop", "-p", "linux-66"], "nearest: linux-");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6:batchpages=3"], "batch_pages");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-w", "pagefault1"], "nearest: page_fault1");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-c", "9"], "has 8 CPUs, not 9");
    refused(&["-m", "skl-desktop", "-p", "linux-6.6", "-c", "0"], "0");
}

#[test]
fn every_workload_runs_and_prints_what_is_its_own() {
    let run = |workload: &str, policy: &str, param: &str| {
        let base = ["-m", "skl-desktop", "-p", policy, "-w", workload, "-c", "4", "--quick"];
        printed(&[&base[..], &["--param", param]].concat())
    };
    let bench = run("page_bench03", "linux-4.14:numa_threshold=48", "rounds=300");
    assert!(bench.contains("cycles-per-page") && bench.contains("pages a second"), "{bench}");
    assert!(bench.contains("none was taken"), "it stays in its cache: {bench}");
    let bulk = run("bulk", "linux-6.0", "pages=9000");
    assert!(bulk.contains("get-ns") && bulk.contains("zone refill"), "{bulk}");
    let free = run("free_all", "linux-4.18", "pages=40000");
    assert!(free.contains("zone bulk free") && !free.contains("unmapping"), "{free}");
    let faults = printed(&CELL);
    assert!(faults.contains("lines of page contents: "), "{faults}");
    for text in [bench, bulk, free, faults] {
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn processes_are_spread_over_as_much_of_their_cycle_as_is_asked_for() {
    let base = ["-m", "skl-desktop", "-p", "linux-4.19", "-w", "page_fault1", "--quick"];
    let with = |spread| printed(&[&base[..], &["--think-ns", "100", "--param", spread]].concat());
    let (apart, together) = (with("spread=100"), with("spread=25"));
    assert_ne!(apart, together);
    for site in ["zone refill", "zone bulk free"] {
        assert!(together.contains(site), "{together}");
    }
    assert_eq!(together, with("spread=25"));
}

#[test]
fn parameters_are_the_workloads_own() {
    let with = |param: &'static str, workload: &'static str| {
        ["-m", "skl-desktop", "-p", "linux-6.6", "-w", workload, "--param", param]
    };
    refused(&with("pages=9", "page_fault1"), "no parameter 'pages'; there are: lru-kernel, spread");
    refused(&with("page=9", "bulk"), "nearest: pages");
    refused(&with("pages=0", "bulk"), "must be from 1 to");
    refused(&with("pages", "bulk"), "write NAME=NUMBER");
}

/// A recording that comes along, of two CPUs.
const RECORDING: &str =
    concat!("trace:", env!("CARGO_MANIFEST_DIR"), "/../traces/udplimit-6.18-2cpu");

/// One of a single CPU, a quarter of a second long.
const RECORDING_OF_ONE: &str =
    concat!("trace:", env!("CARGO_MANIFEST_DIR"), "/../traces/pagefault-6.18-2cpu");

#[test]
fn a_recording_is_a_workload_and_more_cpus_run_copies() {
    let on =
        |cpus| printed(&["-m", "skl-desktop", "-p", "linux-6.18", "-w", RECORDING, "-c", cpus]);
    let (one, two) = (on("2"), on("4"));
    let figure = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a figure");
        line.split_whitespace().nth(1).expect("a number").parse::<f64>().expect("a number")
    };
    assert_eq!(figure(&one, "allocs ") * 2.0, figure(&two, "allocs "));
    assert_eq!((figure(&one, "failed "), figure(&one, "damage ")), (0.0, 0.0));
    assert!(figure(&one, "length-ns ") > figure(&one, "recorded-ns "));
    // Without a word about CPUs it runs on as many as were recorded.
    let base = ["-m", "skl-desktop", "-p", "linux-6.18", "-w", RECORDING];
    assert_eq!(printed(&base), one);
}

#[test]
fn a_recording_that_does_not_fit_or_is_none_is_refused() {
    let with = |workload: &'static str, more: &[&'static str]| {
        [&["-m", "skl-desktop", "-p", "linux-6.18", "-w", workload], more].concat()
    };
    refused(&with(RECORDING, &["-c", "3"]), "takes 2 CPUs, or a multiple of that, not 3");
    refused(&with(RECORDING, &["--think-ns", "5"]), "think times are the recorded ones");
    refused(&with("trace:/nowhere", &[]), "/nowhere");
    refused(&with("trace", &[]), "write trace:RECORDING");
}

#[test]
fn too_little_memory_is_a_result_with_the_state_of_nodes() {
    let end = |workload: &str, policy: &str, mib: &str| {
        let base = ["-m", "skl-desktop", "-p", policy, "-w", workload, "-c", "4", "--quick"];
        let all = [&base[..], &["--memory-mib", mib]].concat();
        let output = simulate(&all);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*error), (Some(1), ""), "{all:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("out of memory on CPU ") && text.contains("min mark"), "{text}");
        let json = simulate(&[&all[..], &["--json"]].concat());
        assert_eq!(json.status.code(), Some(1));
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let end = &json["result"]["out_of_memory"];
        let taken = end["taken"].as_u64().unwrap();
        let node = &end["nodes"][0];
        assert_eq!(taken + node["free"].as_u64().unwrap(), node["pages"].as_u64().unwrap());
        let free = node["free"].as_u64().unwrap();
        // The next order-0 request would go below the mark, or the last page is gone.
        assert!(free <= node["min_mark"].as_u64().unwrap() + 2048, "{free}");
    };
    end("page_fault1", "linux-4.18", "128");
    end("bulk", "linux-6.0", "64");
    end("free_all", "linux-4.18", "256");
}

#[test]
fn caches_that_hold_everything_end_by_work_and_say_so() {
    let text = printed(&["-m", "skl-desktop", "-p", "linux-6.18", "-c", "4", "--quick"]);
    assert!(text.contains("ended by work done: the CPU with the fewest held"), "{text}");
}

#[test]
fn machines_that_cannot_be_are_refused_with_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../machines/skl-2s.toml");
    let bundled = std::fs::read_to_string(bundled).unwrap();
    let with = |from: &str, to: &str| {
        let line = bundled.lines().find(|line| line.trim_start().starts_with(from)).unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, bundled.replacen(line, to, 1)).unwrap();
        path.to_string_lossy().into_owned()
    };
    let cores = "cores_per_socket = { value = 129, source = \"estimate: none\" }";
    let path = with("cores_per_socket", cores);
    refused(&["-m", &path, "-p", "linux-6.6"], "cores_per_socket: 258 cores in all, of which at");
    let memory = "node_memory_mib = { value = [0, 0], source = \"estimate: none\" }";
    let path = with("node_memory_mib", memory);
    refused(&["-m", &path, "-p", "linux-6.6"], "node_memory_mib");
    let path = with("cores_per_socket", "cores_per_socket = { value = 0 }");
    refused(&["-m", &path, "-p", "linux-6.6"], "mine.toml:");
}

#[test]
fn this_host_measures_and_says_that_it_is_no_model() {
    let base = ["-m", "host", "-p", "linux-6.6", "-c", "1", "--quick", "--rounds", "2"];
    let with = |more: &[&str]| printed_despite_debug(&[&base[..], more].concat());
    let text = with(&["-w", "page_bench01"]);
    assert!(text.starts_with("measured on this host, not simulated: page_bench01, 1 of"), "{text}");
    assert!(text.contains("median") && text.contains("pages a second"), "{text}");
    let beside = with(&["-w", "page_bench04", "-p", "linux-6.1", "--beside", "skl-desktop"]);
    assert!(beside.contains("the last column is simulated, on skl-desktop"), "{beside}");
    for line in text.lines().chain(beside.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let json: Value = serde_json::from_str(&with(&["-w", "free_all", "--json"])).unwrap();
    let policies = json["policies"].as_array().unwrap();
    assert_eq!((policies.len(), policies[0]["rounds"].as_array().unwrap().len()), (1, 2));
    assert!(policies[0]["score_per_s"]["median"].as_u64().unwrap() > 0, "{json}");
}

/// What is printed; a build without optimisation says so beside it.
fn printed_despite_debug(args: &[&str]) -> String {
    let output = simulate(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    assert!(error.is_empty() || error.contains("built without optimisation"), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_recording_runs_on_this_host_with_its_think_times() {
    let base = ["-m", "host", "-p", "linux-6.18", "--rounds", "1", "-w", RECORDING_OF_ONE];
    let json: Value =
        serde_json::from_str(&printed_despite_debug(&[&base[..], &["--json"]].concat())).unwrap();
    assert_eq!((&json["cpus"], &json["workload"]), (&1.into(), &RECORDING_OF_ONE.into()));
    let own = &json["policies"][0]["rounds"][0]["own"];
    let figure = |name: &str| own[name].as_u64().unwrap();
    assert_eq!((figure("failed"), figure("damage")), (0, 0));
    assert!(figure("length-ns") >= figure("recorded-ns"), "{own}");
    let text = printed_despite_debug(&base);
    assert!(text.contains("think times as recorded") && text.contains("alloc-call-ns"), "{text}");
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn this_host_refuses_what_it_cannot_do_and_models_what_is_this_hosts() {
    let host = |more: &[&'static str]| [&["-m", "host", "-p", "linux-6.6"], more].concat();
    refused(&host(&["-w", "page_bench01", "-c", "60000"]), "CPUs, not 60000");
    refused(&host(&["-w", "netperf_udp_stream", "-c", "1"]), "give an even number of CPUs");
    refused(&host(&["-w", "netperf_udp_stream", "--param", "warm=9"]), "warm = 9: is for modelled");
    refused(&host(&["-w", "trace:/nowhere"]), "/nowhere");
    refused(&host(&["-w", RECORDING_OF_ONE, "--think-ns", "5"]), "are the recorded ones");
    refused(&host(&["-w", "page_bench01", "--param", "warm=9"]), "warm = 9: is for modelled");
    refused(&host(&["-w", "page_bench01", "--beside", "skl-dekstop"]), "nearest: skl-desktop");
    let modelled = ["-m", "skl-desktop", "-p", "linux-6.6", "-c", "1"];
    refused(&[&modelled[..], &["--rounds", "2"]].concat(), "--rounds is for --machine host");
    refused(&[&modelled[..], &["-p", "linux-6.1"]].concat(), "takes one at a time");
    let small = ["--memory-mib", "16", "-w", "page_fault1", "-c", "1", "--rounds", "1"];
    let output = simulate(&host(&small));
    assert_eq!(output.status.code(), Some(1), "running out of memory is a result");
    assert!(String::from_utf8_lossy(&output.stdout).contains("out of memory"));
}
