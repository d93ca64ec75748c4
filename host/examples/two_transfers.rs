//! What a list costs whose records another core wrote last: one transfer of a line for each record,
//! or two?
//!
//! Core B links records in an order of chance and leaves them in its cache. Core A takes them off
//! the list as a kernel does that checks neighbours first: it loads a word of the next record,
//! compares it, and then stores to it. Between two records it executes so many more instructions.
//!
//! With few of them A has loaded the next records before its stores leave, and all is one chain of
//! loads. With more than its reorder buffer holds, the store asks for the line alone before the
//! next record's links are loaded, and that load waits for the second transfer.
//!
//!     cargo run --release -p pageyard-host --example two_transfers
//!
//! Nanoseconds a record, the tenth part from below and the median of 300 rounds of 1000 records.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Instant;

use pageyard_host::pin::{allowed_cpus, pin_thread};

const RECORDS: usize = 2048;
/// Records between two that are used: a line's neighbours are nobody's, so that no prefetcher
/// helps.
const APART: u32 = 4;
const POPS: usize = 1000;
const ROUNDS: usize = 300;
const NEXT: usize = 0;
const PREV: usize = 1;
const STATE: usize = 2;
const OWNER: usize = 3;

#[repr(align(64))]
#[derive(Default)]
struct Record([AtomicU32; 16]);

/// Records 0 and 1 are heads: of the list that is taken from, and of the one that is put to.
struct Lists(Vec<Record>);

impl Lists {
    fn get(&self, record: u32, word: usize) -> u32 {
        self.0[record as usize].0[word].load(Relaxed)
    }

    fn set(&self, record: u32, word: usize, value: u32) {
        self.0[record as usize].0[word].store(value, Relaxed);
    }

    fn link(&self, order: &[u32]) {
        let mut last = 0;
        for &record in order {
            self.set(last, NEXT, record);
            self.set(record, PREV, last);
            self.set(record, STATE, 0);
            last = record;
        }
        self.set(last, NEXT, 0);
        self.set(0, PREV, last);
    }

    /// Takes the first record off one list and puts it at the end of the other.
    fn pop(&self) {
        let record = self.get(0, NEXT);
        let (next, prev) = (self.get(record, NEXT), self.get(record, PREV));
        assert!(self.get(prev, NEXT) == record && self.get(next, PREV) == record, "a list is torn");
        self.set(next, PREV, prev);
        self.set(prev, NEXT, next);
        assert_eq!(self.get(record, STATE), 0, "a record is taken once");
        self.set(record, OWNER, 1);
        let last = self.get(1, PREV);
        self.set(record, NEXT, 1);
        self.set(record, PREV, last);
        self.set(last, NEXT, record);
        self.set(1, PREV, record);
    }
}

/// 18 instructions a step: three chains that do not wait for each other.
fn work(steps: u32) {
    let mut words = [1u64, 2, 3];
    for _ in 0..steps {
        for word in &mut words {
            *word ^= *word << 13;
            *word ^= *word >> 7;
            *word ^= *word << 17;
        }
    }
    black_box(words);
}

fn main() {
    let cpus = allowed_cpus().unwrap_or_default();
    let &[a, b, ..] = cpus.as_slice() else {
        println!("skipped: two CPUs are needed, one that writes and one that reads");
        return;
    };
    let mut order: Vec<u32> = (1..=RECORDS as u32).map(|at| APART * at).collect();
    let mut word = 88_172_645_463_325_252_u64;
    for at in (1..order.len()).rev() {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        order.swap(at, (word % (at as u64 + 1)) as usize);
    }
    let lists = Lists((0..APART as usize * (RECORDS + 1)).map(|_| Record::default()).collect());
    let (turn_of_b, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_thread(b).expect("a CPU that this process may use");
            while !ends.load(SeqCst) {
                if turn_of_b.load(SeqCst) {
                    lists.link(&order);
                    turn_of_b.store(false, SeqCst);
                }
                spin_loop();
            }
        });
        pin_thread(a).expect("a CPU that this process may use");
        println!("{:>22} {:>12} {:>12}", "instructions between", "p10, ns", "median, ns");
        for steps in [0, 2, 4, 6, 8, 12, 16, 24] {
            let round = |_| {
                turn_of_b.store(true, SeqCst);
                while turn_of_b.load(SeqCst) {
                    spin_loop();
                }
                lists.set(1, NEXT, 1);
                lists.set(1, PREV, 1);
                let begun = Instant::now();
                for _ in 0..POPS {
                    lists.pop();
                    work(steps);
                }
                begun.elapsed().as_nanos() as u64 / POPS as u64
            };
            let mut took: Vec<u64> = (0..ROUNDS).map(round).collect();
            took.sort_unstable();
            println!("{:>22} {:>12} {:>12}", 18 * steps, took[ROUNDS / 10], took[ROUNDS / 2]);
        }
        ends.store(true, SeqCst);
    });
}
