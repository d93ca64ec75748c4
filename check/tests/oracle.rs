//! Random operations on random machines under random policies, compared with the model after
//! each one. A million in all; `PAGEYARD_SOAK_OPS` sets another number, `PAGEYARD_SEED` another
//! beginning. About half a minute on two CPUs.

use pageyard_check::oracle::campaign;
use pageyard_check::oracle::reach::Reach;
use pageyard_check::settings;

const OPERATIONS: u64 = 1_000_000;
const THREADS: u64 = 2;

#[test]
fn the_allocator_agrees_with_the_model() {
    let (seed, operations) = (settings::seed(), settings::operations(OPERATIONS));
    let parts: Vec<_> = (0..THREADS)
        .map(|first| std::thread::spawn(move || campaign::part(seed, operations, first, THREADS)))
        .collect();
    let mut reach = Reach::default();
    let mut failed = false;
    for part in parts {
        match part.join() {
            Ok(met) => reach.add(&met),
            Err(_) => failed = true,
        }
    }
    assert!(!failed, "see the report above");
    if operations >= OPERATIONS {
        assert_eq!(reach.missing(), Vec::<&str>::new(), "never met in {operations} operations");
    }
}
