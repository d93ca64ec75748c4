//! Every sequence of a few operations on a zone of 16 pages, one policy of each kind: what no
//! random draw would be trusted to come by. About 20 seconds on two CPUs.

use pageyard::{Allocator, CpuId, MigrateType, Pfn, Request, ZoneId};
use pageyard_check::layout::{Layout, make_exact, policy, set_caches};
use pageyard_check::oracle::model::Model;
use pageyard_check::oracle::walk;
use pageyard_host::seq::Seq;

/// Operations of the longest sequences.
const LENGTH: u32 = 6;

/// The alphabet.
const OPERATIONS: [Operation; 9] = [
    Operation::Alloc(0, MigrateType::Movable),
    Operation::Alloc(0, MigrateType::Unmovable),
    Operation::Alloc(2, MigrateType::Movable),
    Operation::Alloc(1, MigrateType::Reclaimable),
    Operation::FreeOldest,
    Operation::FreeNewest,
    Operation::OtherCpu,
    Operation::Drain,
    Operation::BusyFreeNewest,
];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Alloc(u8, MigrateType),
    FreeOldest,
    FreeNewest,
    /// What follows happens on the other CPU.
    OtherCpu,
    /// Empties the caches of this CPU.
    Drain,
    /// Frees while the cache is busy.
    BusyFreeNewest,
}

/// A zone that begins full of movable blocks, and its model.
struct Bench {
    allocator: Allocator<Seq<()>>,
    model: Model,
    blocks: Vec<u64>,
    cpu: CpuId,
}

impl Bench {
    fn new(layout: &Layout, text: &str) -> Bench {
        let policy = policy(text);
        let allocator = layout.build_full(Seq::new(()), policy);
        make_exact(&allocator);
        set_caches(&allocator, 2, [2, 3, 4]);
        Bench { allocator, model: Model::new(layout, policy), blocks: Vec::new(), cpu: CpuId(0) }
    }

    fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::Alloc(order, mobility) => {
                let request = Request { mobility, ..Request::kernel(order) };
                match self.allocator.alloc(&request) {
                    Ok(pfn) => {
                        self.model.take(&self.allocator, &request, self.cpu, pfn);
                        self.blocks.push(pfn.0);
                    }
                    Err(_) => self.model.refused(&self.allocator, &request, self.cpu, true),
                }
            }
            Operation::FreeOldest if !self.blocks.is_empty() => {
                let pfn = self.blocks.remove(0);
                self.free(pfn);
            }
            Operation::FreeNewest => {
                if let Some(pfn) = self.blocks.pop() {
                    self.free(pfn);
                }
            }
            Operation::BusyFreeNewest => {
                self.allocator.platform().fail_next_pcp_try();
                if let Some(pfn) = self.blocks.pop() {
                    self.free(pfn);
                }
                self.allocator.platform().forget_failures();
            }
            Operation::FreeOldest => {}
            Operation::OtherCpu => {
                self.cpu = CpuId(1 - self.cpu.0);
                self.allocator.platform().run_on(self.cpu);
            }
            Operation::Drain => self.allocator.drain_cpu(self.cpu),
        }
    }

    fn free(&mut self, pfn: u64) {
        let order = self.model.give(pfn);
        self.allocator.free(Pfn(pfn), order);
    }

    fn compare(&self) {
        self.model.compare(&self.allocator);
        walk::everything(&self.model, &self.allocator);
    }

    /// Frees everything: the zone is whole again, whatever happened to it.
    fn finish(&mut self) {
        while let Some(pfn) = self.blocks.pop() {
            self.free(pfn);
        }
        for cpu in [CpuId(0), CpuId(1)] {
            self.allocator.platform().run_on(cpu);
            self.allocator.drain_cpu(cpu);
        }
        let whole = |t| self.allocator.free_blocks(ZoneId(0), 4, t);
        let blocks: u64 = MigrateType::ALL.into_iter().map(whole).sum();
        assert_eq!(blocks, 1, "everything merged");
    }
}

/// Sequence `number` of those of `length`: its digits to the base of the alphabet.
fn sequence(mut number: u64, length: u32) -> Vec<Operation> {
    let base = OPERATIONS.len() as u64;
    let digits = (0..length).map(|_| {
        let digit = number % base;
        number /= base;
        OPERATIONS[digit as usize]
    });
    digits.collect()
}

/// Every sequence up to the longest. A sequence is compared at its end only: what it begins with
/// is a sequence of its own.
fn enumerate(text: &str, length_max: u32) {
    let layout = Layout::flat(16, 4, 3, 2);
    let mut sequences = 0u64;
    for length in 1..=length_max {
        for number in 0..(OPERATIONS.len() as u64).pow(length) {
            let operations = sequence(number, length);
            let run = std::panic::catch_unwind(|| {
                let mut bench = Bench::new(&layout, text);
                for &operation in &operations {
                    bench.perform(operation);
                }
                bench.compare();
                bench.finish();
            });
            assert!(run.is_ok(), "{text}: {operations:?}");
            sequences += 1;
        }
    }
    let expected = if length_max == LENGTH { 597_870 } else { 66_429 };
    assert_eq!(sequences, expected, "nine operations, up to {length_max} of them");
}

#[test]
fn three_lists_and_six_batches() {
    enumerate("linux-5.13", LENGTH);
}

#[test]
fn free_factor_and_mixing_fallback() {
    enumerate("linux-6.6", LENGTH);
}

#[test]
fn claims_and_free_count() {
    enumerate("linux-6.19", LENGTH);
}

#[test]
fn other_releases_with_shorter_sequences() {
    for text in ["linux-4.14", "linux-5.17", "linux-6.12", "linux-6.14"] {
        enumerate(text, LENGTH - 1);
    }
}
