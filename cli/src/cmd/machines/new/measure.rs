//! How long this host takes: pointer chases, ping-pong, streams, each from threads that stay on
//! their CPU. Plain loads and compare-and-swaps; nothing here needs privileges.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Words of a line of 64 bytes.
const LINE_WORDS: usize = 8;
/// A chase uses one line of two, as misses may bring both.
const STEP_WORDS: usize = 2 * LINE_WORDS;
/// Lines are in random order within so many bytes: their pages fit the first-level TLB.
const BLOCK_BYTES: usize = 256 << 10;
/// Lines that one thread hands to another.
const HANDED_BYTES: usize = 16 << 10;
/// Round trips of one sample of a ping-pong.
const ROUNDS: u64 = 1000;
/// Steps of one sample of the clock, and cycles of a step: a multiplication takes 3, `xor` 1 (x86
/// from Nehalem and Zen on).
const CLOCK_STEPS: u64 = 1_000_000;
const CLOCK_CYCLES: u64 = 4;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples of each figure, from 1.
    pub samples: usize,
    /// Largest piece of memory, bytes.
    pub bytes_max: usize,
    /// Loads of one sample of a chase.
    pub loads: usize,
    /// Length of a stream.
    pub stream: Duration,
}

/// What came out of repeated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Median.
    pub value: f64,
    /// A tenth of the runs were below.
    pub low: f64,
    /// A tenth of the runs were above.
    pub high: f64,
}

impl Sample {
    /// Of at least one run.
    pub fn of(mut runs: Vec<f64>) -> Sample {
        runs.sort_by(f64::total_cmp);
        let (last, outer) = (runs.len() - 1, (runs.len() - 1) / 10);
        Sample { value: runs[last / 2], low: runs[outer], high: runs[last - outer] }
    }

    /// Half a round of one and half of the other.
    pub fn between(self, other: Sample) -> Sample {
        Sample {
            value: (self.value + other.value) / 2.0,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// CPUs that this process may run on.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Runs `f` in a thread that stays on a CPU.
pub fn on<R: Send>(cpu: usize, f: impl FnOnce() -> R + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(cpu)?;
            Ok(f())
        });
        thread.join().expect("measuring does not panic")
    })
}

/// Fails before anybody waits for a thread that cannot be where it should.
fn try_pins(cpus: &[usize]) -> io::Result<()> {
    cpus.iter().try_for_each(|&cpu| on(cpu, || ()))
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lines that name the next one: a pointer chase in safe code.
pub struct Ring(Vec<AtomicU64>);

impl Ring {
    /// Over so many bytes. The memory is on the node of the thread that makes it.
    pub fn new(bytes: usize) -> Ring {
        let words = (bytes / 8).max(2 * STEP_WORDS);
        let block = BLOCK_BYTES / 8 / STEP_WORDS;
        let mut order: Vec<usize> = (0..words / STEP_WORDS).collect();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for lines in order.chunks_mut(block) {
            for at in (1..lines.len()).rev() {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                lines.swap(at, (seed % (at as u64 + 1)) as usize);
            }
        }
        let ring: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let nexts = order.iter().skip(1).chain(order.first());
        for (&line, &next) in order.iter().zip(nexts) {
            ring[line * STEP_WORDS].store((next * STEP_WORDS) as u64, Ordering::Relaxed);
        }
        Ring(ring)
    }

    fn lines(&self) -> usize {
        self.0.len() / STEP_WORDS
    }

    /// Follows `loads` lines from one on; returns the line it came to.
    fn follow(&self, from: u64, loads: usize) -> u64 {
        let mut at = from;
        for _ in 0..loads {
            at = self.0[at as usize].load(Ordering::Relaxed);
        }
        at
    }

    /// Nanoseconds a load, once for each sample.
    pub fn chase(&self, effort: &Effort) -> Sample {
        let mut at = self.follow(0, self.lines());
        let run = |_| {
            let from = Instant::now();
            at = self.follow(at, effort.loads);
            nanoseconds(from.elapsed()) / effort.loads as f64
        };
        let runs = (0..effort.samples).map(run).collect();
        std::hint::black_box(at);
        Sample::of(runs)
    }

    fn write_all(&self) {
        for word in self.0.iter().step_by(STEP_WORDS) {
            word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Waits for a turn; gives the CPU away where the other may be waiting for it.
fn await_turn(turn: &AtomicU64, mine: u64) {
    let mut tries = 0u32;
    while turn.load(Ordering::Acquire) != mine {
        tries += 1;
        if tries.is_multiple_of(1 << 14) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// A word with its line and the neighbouring one for itself.
fn lonely() -> Vec<AtomicU64> {
    (0..4 * STEP_WORDS).map(|_| AtomicU64::new(0)).collect()
}

/// One way of a compare-and-swap ping-pong, nanoseconds.
pub fn ping_pong(a: usize, b: usize, effort: &Effort) -> io::Result<Sample> {
    try_pins(&[a, b])?;
    let words = on(a, lonely)?;
    let word = &words[STEP_WORDS];
    let samples = 4 * effort.samples as u64;
    let play = |mine: u64, rounds: u64| {
        for _ in 0..rounds {
            let swap =
                || word.compare_exchange(mine, 1 - mine, Ordering::AcqRel, Ordering::Relaxed);
            while swap().is_err() {}
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| on(b, || play(1, (samples + 1) * ROUNDS)));
        let runs = on(a, || {
            play(0, ROUNDS);
            let run = |_| {
                let from = Instant::now();
                play(0, ROUNDS);
                nanoseconds(from.elapsed()) / (2 * ROUNDS) as f64
            };
            (0..samples).map(run).collect()
        });
        other.join().expect("measuring does not panic")?;
        runs.map(Sample::of)
    })
}

/// A locked instruction on a line that the core owns, nanoseconds.
pub fn locked(cpu: usize, effort: &Effort) -> io::Result<Sample> {
    on(cpu, || {
        let words = lonely();
        let run = |_| {
            let from = Instant::now();
            for _ in 0..effort.loads {
                words[STEP_WORDS].fetch_add(1, Ordering::AcqRel);
            }
            nanoseconds(from.elapsed()) / effort.loads as f64
        };
        Sample::of((0..effort.samples).map(run).collect())
    })
}

/// Loads of lines that a thread on another CPU has written (or only loaded, if they are to be
/// clean), in memory of a third one's node, nanoseconds.
pub fn handed(
    reader: usize,
    other: usize,
    home: usize,
    clean: bool,
    effort: &Effort,
) -> io::Result<Sample> {
    try_pins(&[reader, other, home])?;
    let ring = on(home, || Ring::new(HANDED_BYTES))?;
    let sweep =
        if clean { on(home, || Ring::new(effort.bytes_max.min(32 << 20)))? } else { lone() };
    let turn = AtomicU64::new(0);
    let samples = 4 * effort.samples;
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let work = |_| {
                await_turn(&turn, 1);
                match clean {
                    true => drop(std::hint::black_box(ring.follow(0, ring.lines()))),
                    false => ring.write_all(),
                }
                turn.store(0, Ordering::Release);
            };
            on(other, || (0..samples).for_each(work))
        });
        let runs = on(reader, || {
            let run = |_| {
                if clean {
                    ring.write_all();
                    std::hint::black_box(sweep.follow(0, sweep.lines()));
                }
                turn.store(1, Ordering::Release);
                await_turn(&turn, 0);
                let from = Instant::now();
                std::hint::black_box(ring.follow(0, ring.lines()));
                nanoseconds(from.elapsed()) / ring.lines() as f64
            };
            (0..samples).map(run).collect()
        });
        theirs.join().expect("measuring does not panic")?;
        runs.map(Sample::of)
    })
}

fn lone() -> Ring {
    Ring::new(0)
}

/// Clock with all these CPUs at work, MHz: the best run of each.
pub fn clock_mhz(cpus: &[usize], effort: &Effort) -> io::Result<Sample> {
    try_pins(cpus)?;
    let start = Barrier::new(cpus.len());
    let best = |cpu: usize| {
        on(cpu, || {
            start.wait();
            let run = |_| {
                let (factor, mask) = std::hint::black_box((0x5851_f42d_4c95_7f2d_u64, 1));
                let from = Instant::now();
                let step = |x: u64, _| (x ^ mask).wrapping_mul(factor);
                std::hint::black_box((0..CLOCK_STEPS).fold(1, step));
                (CLOCK_STEPS * CLOCK_CYCLES) as f64 / (from.elapsed().as_secs_f64() * 1e6)
            };
            (0..2 * effort.samples).map(run).fold(0.0, f64::max)
        })
    };
    let best = &best;
    let runs: io::Result<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || best(cpu))).collect();
        threads.into_iter().map(|thread| thread.join().expect("measuring does not panic")).collect()
    });
    runs.map(Sample::of)
}

/// Reads of these CPUs from memory of the home's node (their own, without one), 10^9 bytes a second
/// in all; and loads of a chaser from `beside` meanwhile, nanoseconds.
pub fn stream(
    cpus: &[usize],
    home: Option<usize>,
    beside: Option<(usize, &Ring)>,
    effort: &Effort,
) -> io::Result<(f64, Option<Sample>)> {
    let bytes = (effort.bytes_max / cpus.len().max(1)).max(1 << 20);
    let (start, over) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    let reader = |cpu: usize| -> io::Result<f64> {
        let words = on(home.unwrap_or(cpu), || vec![1u64; bytes / 8]);
        let words = match words {
            Ok(words) => words,
            Err(error) => {
                start.wait();
                return Err(error);
            }
        };
        let rate = on(cpu, || {
            start.wait();
            let (from, mut read) = (Instant::now(), 0);
            // One word of each line, a piece of 64 KiB at a time.
            for piece in words.chunks(BLOCK_BYTES / 32).cycle() {
                let sum = piece.chunks(LINE_WORDS).map(|line| line[0]);
                std::hint::black_box(sum.fold(0u64, u64::wrapping_add));
                read += 8 * piece.len();
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            read as f64 / nanoseconds(from.elapsed())
        });
        if rate.is_err() {
            start.wait();
        }
        rate
    };
    let reader = &reader;
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || reader(cpu))).collect();
        start.wait();
        let latency = match beside {
            Some((cpu, ring)) => on(cpu, || ring.chase(effort)).map(Some),
            None => {
                std::thread::sleep(effort.stream);
                Ok(None)
            }
        };
        over.store(true, Ordering::Relaxed);
        let rates =
            threads.into_iter().map(|thread| thread.join().expect("measuring does not panic"));
        let rates: io::Result<Vec<f64>> = rates.collect();
        Ok((rates?.iter().sum(), latency?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_visits_every_line_once() {
        let ring = Ring::new(1 << 20);
        let mut seen = vec![false; ring.lines()];
        let mut at = 0;
        for _ in 0..ring.lines() {
            assert!(!std::mem::replace(&mut seen[at as usize / STEP_WORDS], true));
            at = ring.follow(at, 1);
        }
        assert_eq!((at, ring.lines()), (0, (1 << 20) / 128));
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn the_median_stands_between_the_outer_tenths() {
        let sample = Sample::of((0..21).rev().map(f64::from).collect());
        assert_eq!(sample, Sample { value: 10.0, low: 2.0, high: 18.0 });
        let other = Sample { value: 20.0, low: 12.0, high: 30.0 };
        assert_eq!(sample.between(other), Sample { value: 15.0, low: 2.0, high: 30.0 });
    }
}
