//! Every workload on this machine for a few milliseconds: it does something, and all pages are free
//! at the end. No time decides anything.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::named::NamedPolicy;

/// Pages of a process, fewer than a page table's worth.
const PROCESS_PAGES: usize = 1500;

pub(super) fn plan(workload: &str, policy: &str, cpus: usize) -> Plan {
    let workload = Workload::named(workload).expect("a workload");
    let few = [("pages", 700), ("rounds", 3), ("ring", 64)];
    let knows = |name: &str| {
        let has = workload.parameters.iter().any(|parameter| parameter.name == name);
        has && runs::is_known(workload.name, name)
    };
    let few = few.iter().filter(|(name, _)| knows(name));
    let given: BTreeMap<String, u64> = few.map(|&(name, n)| (name.to_string(), n)).collect();
    Plan {
        workload,
        argument: String::new(),
        recorded_cpus: 0,
        seed: 1,
        parameters: fill(workload, &given, true, Some(1024)).expect("in range"),
        policy: NamedPolicy::parse(policy).expect("a policy").policy,
        cpus,
        think_ps: if workload.name == "trace" { 0 } else { 1000 },
        memory_mib: Some(1024),
        process_pages: PROCESS_PAGES,
        times: (Duration::from_millis(2), Duration::from_millis(6)),
    }
}

fn check(plan: &Plan) {
    let (name, cpus) = (plan.workload.name, plan.cpus);
    // `round` fails if a page is lost or still listed.
    let round = plan.round().unwrap_or_else(|error| panic!("{name}, {cpus} CPUs: {error}"));
    assert!(round.pages > 0 && round.pinned.len() <= cpus, "{name}: {round:?}");
    // A busy host may run nobody while it is measured; what was done then has a rate.
    assert_eq!(round.units > 0, round.score_per_s > 0, "{name}: {round:?}");
    // What ends by itself does all of its work, however long that takes.
    match name {
        "bulk" => assert_eq!(round.units, 3 * 700 * cpus as u64),
        "free_all" => assert_eq!(round.units, 700),
        _ => {}
    }
}

#[test]
fn every_workload_runs_on_one_cpu_and_on_two_and_loses_no_page() {
    let all = Workload::all().all(|workload| workloads().any(|name| name == workload.name));
    assert!(all, "a workload runs on modelled machines only");
    let has = cpus().expect("the system tells").len();
    for policy in ["linux-4.18", "linux-6.6"] {
        // A recording is what stands behind its colon: below.
        for name in workloads().filter(|name| *name != "trace") {
            for cpus in [1, 2] {
                if cpus > has {
                    println!("skipped {name} on 2 CPUs: this process may use {has}");
                } else if !(runs::is_in_pairs(name) && cpus == 1) {
                    check(&plan(name, policy, cpus));
                }
            }
        }
    }
}

#[test]
fn what_this_host_cannot_run_is_refused_with_what_it_can() {
    let error = |plan: &Plan| plan.round().expect_err("impossible").to_string();
    let has = cpus().expect("the system tells").len();
    let many = error(&plan("page_fault1", "linux-6.6", has + 1));
    assert!(many.contains(&format!("use {has} CPUs, not {}", has + 1)), "{many}");
    if has > 2 {
        for name in ["page_bench05", "netperf_udp_stream"] {
            let odd = error(&plan(name, "linux-6.6", 3));
            assert!(odd.contains("even number"), "{odd}");
        }
    }
    let faults = plan("page_fault1", "linux-6.6", 1);
    let given = BTreeMap::from([("spread".to_string(), 60)]);
    let spread = fill(faults.workload, &given, true, None).expect_err("not here").to_string();
    assert!(spread.contains("spread = 60: is for modelled machines only"), "{spread}");
    let trace = |recorded_cpus, cpus| Plan { recorded_cpus, ..plan("trace", "linux-6.6", cpus) };
    let wide = error(&trace(has + 5, has + 5));
    assert!(wide.contains(&format!("shows {} CPUs", has + 5)), "{wide}");
    assert!(wide.contains(&format!("lets this process use {has}")), "{wide}");
    if has > 1 {
        let copies = error(&trace(2, 1));
        assert!(copies.contains("takes 2 CPUs, or a multiple of that, not 1"), "{copies}");
    }
    let nowhere = Plan { argument: "/nowhere".to_string(), ..trace(1, 1) };
    assert!(error(&nowhere).contains("/nowhere"), "{}", error(&nowhere));
    let thinks = Plan { think_ps: 5, ..trace(1, 1) };
    assert!(error(&thinks).contains("think times are the recorded ones"), "{}", error(&thinks));
}

#[test]
fn bundled_recordings_run_with_their_think_times() {
    let has = cpus().expect("the system tells").len();
    for (name, recorded_cpus) in [("pagefault-6.18-2cpu", 1), ("udpfraction5000-6.18-2cpu", 2)] {
        if recorded_cpus > has {
            println!("skipped {name}: {recorded_cpus} CPUs, this process may use {has}");
            continue;
        }
        let argument = format!("{}/../traces/{name}", env!("CARGO_MANIFEST_DIR"));
        let plan = plan("trace", "linux-6.18", recorded_cpus);
        let round = Plan { argument, recorded_cpus, ..plan }.round().expect("it runs");
        assert!(round.own["length-ns"] >= round.own["recorded-ns"], "{name}: {round:?}");
        let calls = round.own["allocs"] + round.own["frees"];
        assert_eq!((round.own["failed"], calls), (0, round.units * 1000), "{name}");
    }
}

#[test]
fn a_stream_that_is_measured_sends_messages_in_blocks_that_go_round() {
    let has = cpus().expect("the system tells").len();
    if has < 2 {
        println!("skipped: two CPUs are needed, this process may use {has}");
        return;
    }
    let long = (Duration::from_millis(20), Duration::from_millis(200));
    for name in ["netperf_udp_stream", "netperf_tcp_stream", "netperf_sctp_stream_many"] {
        let mut plan = Plan { times: long, ..plan(name, "linux-5.18", 2) };
        plan.parameters.insert("holes".to_string(), 3);
        let round = plan.round().expect("it runs");
        // A host that is busy with other things may let nobody send.
        if round.units > 0 {
            assert!(round.own["distinct-blocks"] > 0, "{name}: {round:?}");
            assert!(round.own["dropped-pct"] <= 100_000, "{name}: {round:?}");
        }
        assert!(name.contains("udp") || round.own["dropped-pct"] == 0, "{name}: {round:?}");
    }
}

#[test]
fn huge_faults_have_blocks_where_pages_merge_at_once() {
    let has = cpus().expect("the system tells").len();
    if has < 2 {
        println!("skipped: two CPUs are needed, this process may use {has}");
        return;
    }
    let times = (Duration::from_millis(20), Duration::from_millis(200));
    let round = Plan { times, ..plan("mixed", "linux-4.19", 2) }.round().expect("it runs");
    assert_eq!(round.own["huge-missed"], 0, "{round:?}");
    assert_eq!(round.own["huge-per-s"] > 0, round.own["huge-had"] > 0, "{round:?}");
}

#[test]
fn running_out_of_memory_ends_every_thread_and_says_so() {
    for cpus in 1..=cpus().expect("the system tells").len().min(2) {
        let mut plan = plan("page_fault1", "linux-6.6", cpus);
        plan.memory_mib = Some(64);
        plan.process_pages = 1 << 15;
        // Long: it is not the clock that ends it.
        plan.times = (Duration::from_secs(600), Duration::from_secs(600));
        let error = plan.round().expect_err("128 MiB do not fit");
        assert!(matches!(error, LiveError::OutOfMemory { order: 0, .. }), "{error}");
    }
}

#[test]
fn a_workload_that_does_not_fit_this_host_is_refused_before_it_takes_anything() {
    let mut plan = plan("bulk", "linux-6.6", 1);
    plan.parameters.insert("pages".to_string(), 1 << 40);
    plan.memory_mib = Some(1 << 40);
    match plan.round() {
        Err(error @ LiveError::Memory { .. }) => {
            assert!(error.to_string().contains("--param pages"), "{error}");
        }
        other => assert_eq!(memory::available_mib(), u64::MAX, "{other:?}"),
    }
}
