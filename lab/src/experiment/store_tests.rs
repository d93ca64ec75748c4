//! The store and the pool on a small machine: nothing runs twice, damage is noticed, the number of
//! workers changes nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::cell::{Cell, Ready, Workload};
use super::super::pool::{Ended, Options, Pool, Stop};
use super::*;

fn cells() -> Vec<Ready> {
    let cell = |seed, policy: &str| Cell {
        machine: "skl-desktop".to_string(),
        workload: Workload::named("page_fault1").unwrap(),
        argument: String::new(),
        parameters: std::collections::BTreeMap::new(),
        policy: policy.to_string(),
        cpus: 2,
        think_ps: 500_000,
        seed,
        quick: true,
    };
    // Seed 2 has a process that maps from its cache for as long as it is measured.
    let cells = [cell(1, "linux-6.6"), cell(3, "linux-6.6"), cell(1, "linux-6.6:batch_pages=31")];
    cells.iter().map(|cell| Ready::of(cell).unwrap()).collect()
}

type Results = Result<Vec<CellResult>, Stop>;

fn run(cells: &[Ready], store: Option<Store>, workers: usize, fresh: bool) -> (Results, Ended) {
    let options = Options { store, fresh, workers, stop: &|| false, progress: &|_| {} };
    Pool::with(options, |pool| pool.run(cells))
}

#[test]
fn results_are_the_same_again_and_with_any_number_of_workers() {
    let cells = cells();
    let as_text = |workers| {
        let (results, ended) = run(&cells, None, workers, false);
        assert_eq!((ended.progress.done, ended.progress.stored), (3, 0));
        serde_json::to_string(&results.unwrap()).unwrap()
    };
    let one = as_text(1);
    assert_eq!(as_text(1), one);
    assert_eq!(as_text(2), one);
    assert_eq!(as_text(7), one);
}

#[test]
fn a_cell_that_two_ask_for_at_once_runs_once() {
    let cell = cells().swap_remove(0);
    let runs = std::sync::Mutex::new(Vec::new());
    let progress = |progress: super::super::pool::Progress| {
        runs.lock().unwrap().push(progress.running.len());
    };
    let options =
        Options { store: None, fresh: true, workers: 3, stop: &|| false, progress: &progress };
    let asked = [cell.clone(), cell.clone(), cell];
    let (results, ended) = Pool::with(options, |pool| pool.run(&asked));
    let results = results.unwrap();
    assert!(results[0].score_per_s > 0);
    assert!(results.iter().all(|result| *result == results[0]));
    assert_eq!((ended.progress.done, ended.progress.stored), (3, 2));
    assert_eq!(runs.into_inner().unwrap().into_iter().max(), Some(1), "never two at a time");
}

#[test]
fn a_cell_measures_what_its_name_says() {
    let results = run(&cells(), None, 2, false).0.unwrap();
    for result in &results {
        assert!(result.score_per_s > 100_000 && result.simulated_ps > 0, "{result:?}");
        // Every CPU holds a zone lock so many times, to take pages or to give them back.
        let (alloc, free) = (&result.zone_alloc, &result.zone_free);
        let wanted = result.holds_wanted.expect("it counts holds");
        assert!(wanted >= 6 && result.holds_least >= wanted, "{result:?}");
        assert!(alloc.taken + free.taken >= 2 * wanted, "{result:?}");
        assert!(alloc.taken > 0 && alloc.hold_mean_ps > 0, "{result:?}");
        assert!(result.unmapping_thousandths > 0, "few CPUs are seen mapping and unmapping");
        assert!(result.locks.iter().any(|lock| lock.at == "zone refill"));
        assert!(result.lines.iter().any(|line| line.structure == "Page"));
    }
    assert_ne!(results[0], results[1], "another seed starts elsewhere");
    // Half the batch: a hold takes about half the time.
    let holds = [&results[0], &results[2]].map(|result| result.zone_alloc.hold_mean_ps);
    assert!(holds[1] * 3 < holds[0] * 2, "{holds:?}");
}

#[test]
fn a_stored_cell_is_not_run_again_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = || Some(Store::at(&folder.path().join("new")));
    let cells = cells();
    let (first, ended) = run(&cells, store(), 2, false);
    assert_eq!((ended.progress.stored, ended.not_stored), (0, None));
    let (again, ended) = run(&cells, store(), 2, false);
    assert_eq!(ended.progress.stored, 3);
    assert_eq!(first.unwrap(), again.unwrap());
    assert_eq!(run(&cells, store(), 2, true).1.progress.stored, 0);
    let files = std::fs::read_dir(folder.path().join("new")).unwrap();
    assert_eq!(files.count(), 3, "no partial files");
}

#[test]
fn a_damaged_entry_is_computed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    let cells = &cells()[..1];
    let key = cells[0].key();
    let result = run(cells, Some(store.clone()), 1, false).0.unwrap().swap_remove(0);
    let path = store.path(&key);
    let whole = std::fs::read_to_string(&path).unwrap();
    let score = format!("\"score_per_s\": {}", result.score_per_s);
    assert!(whole.contains(&score));
    let damaged = [
        whole[..whole.len() / 2].to_string(),
        whole.replacen(&score, "\"score_per_s\": 1", 1),
        whole.replacen("model", "MODEL", 1),
        String::new(),
    ];
    for text in damaged {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(store.get(&key), None, "{text:.100}");
        let (results, ended) = run(cells, Some(store.clone()), 1, false);
        assert_eq!((results.unwrap().swap_remove(0), ended.progress.stored), (result.clone(), 0));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }
}

#[test]
fn a_folder_that_cannot_be_written_costs_the_storing_only() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (results, ended) = run(&cells()[..1], Some(Store::at(file.path())), 1, false);
    assert!(results.is_ok());
    assert!(ended.not_stored.is_some());
}

#[test]
fn an_end_asked_for_keeps_the_finished_cells() {
    let folder = tempfile::tempdir().unwrap();
    let cells = cells();
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let options = Options {
        store: Some(Store::at(folder.path())),
        fresh: false,
        workers: 1,
        stop: &|| stop.load(Ordering::SeqCst),
        progress: &|progress| {
            done.store(progress.done, Ordering::SeqCst);
            stop.store(progress.done >= 1, Ordering::SeqCst);
        },
    };
    let (results, ended) = Pool::with(options, |pool| pool.run(&cells));
    assert!(matches!(results, Err(Stop::Interrupted)));
    assert_eq!((done.load(Ordering::SeqCst), ended.progress.done), (1, 1));
    assert_eq!(run(&cells, Some(Store::at(folder.path())), 1, false).1.progress.stored, 1);
}

#[test]
fn a_key_holds_what_matters_and_no_names() {
    let key = |policy: &str, think_ps| {
        let mut cell = cells()[0].cell.clone();
        cell.policy = policy.to_string();
        cell.think_ps = think_ps;
        Ready::of(&cell).unwrap().key()
    };
    assert_eq!(key("prefetch-nta", 1), key("linux-4.17", 1));
    assert_ne!(key("linux-4.17", 1), key("linux-4.17", 2));
    assert_ne!(key("linux-4.17", 1), key("linux-4.16", 1));
}
