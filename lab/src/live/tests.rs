//! Every workload on this machine for a few milliseconds: it does something, and all pages are free
//! at the end. No time decides anything.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::named::NamedPolicy;

/// Pages of a process, fewer than a page table's worth.
const PROCESS_PAGES: usize = 1500;

fn plan(workload: &str, policy: &str, cpus: usize) -> Plan {
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
        parameters: fill(workload, &given, true, Some(1024)).expect("in range"),
        policy: NamedPolicy::parse(policy).expect("a policy").policy,
        cpus,
        think_ps: 1000,
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
    let has = cpus().expect("the system tells").len();
    for policy in ["linux-4.18", "linux-6.6"] {
        for name in workloads() {
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
        let odd = error(&plan("page_bench05", "linux-6.6", 3));
        assert!(odd.contains("even number"), "{odd}");
    }
    let faults = plan("page_fault1", "linux-6.6", 1);
    let given = BTreeMap::from([("in-step".to_string(), 1)]);
    let in_step = fill(faults.workload, &given, true, None).expect_err("not here").to_string();
    assert!(in_step.contains("in-step = 1: is for modelled machines only"), "{in_step}");
    let trace = Plan { workload: Workload::named("trace").expect("one"), ..faults };
    assert!(error(&trace).contains("there are: page_fault1"), "{}", error(&trace));
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
