//! Drives the fuzz targets on their corpus: every seed is understood, and no mutation of one makes
//! a reader panic, hang or take memory out of proportion.
//!
//! The mutations come from a fixed seed, so a failure repeats. `PAGEYARD_FUZZ_ITERS` sets the
//! number of mutations of each file (200 unless set).

use std::path::Path;

use pageyard_trace::fuzz;

/// Iterations of each file when the environment sets none.
const ITERATIONS: u64 = 200;

/// A generator of 64-bit numbers: splitmix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Values that lengths and offsets must survive.
const EXTREMES: [u64; 6] = [0, 1, u64::MAX, i64::MAX as u64, u32::MAX as u64, 1 << 31];

fn mutate(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len().max(1);
        let at = random.below(length);
        match random.below(7) {
            0 => bytes.truncate(at),
            1 | 2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            4 => {
                let value = EXTREMES[random.below(EXTREMES.len())].to_le_bytes();
                let width = [2, 4, 8][random.below(3)];
                for (byte, new) in bytes.iter_mut().skip(at).zip(&value[..width]) {
                    *byte = *new;
                }
            }
            5 => {
                let end = (at + random.below(64)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            _ if !other.is_empty() => {
                let from = random.below(other.len());
                let to = (from + random.below(64)).min(other.len());
                let at = at.min(bytes.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => {}
        }
    }
    bytes
}

/// `VmHWM` in kB; 0 where there is no `/proc`.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn drive(name: &str, target: fn(&[u8]) -> u64) {
    let iterations = std::env::var("PAGEYARD_FUZZ_ITERS").ok();
    let iterations = iterations.and_then(|text| text.parse().ok()).unwrap_or(ITERATIONS);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds in {}", folder.display());
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut random = Random(name.bytes().fold(1, |sum, byte| sum * 31 + u64::from(byte)));
    target(&[]);
    for (path, seed) in paths.iter().zip(&seeds) {
        assert!(target(seed) > 0, "{} is not understood", path.display());
        for _ in 0..iterations {
            let other = &seeds[random.below(seeds.len())];
            target(&mutate(&mut random, seed, other));
        }
    }
    // Readers keep windows of some MB; lengths made up by a mutation reach 2^63.
    let peak = peak_kb();
    assert!(peak < 400 << 10, "{name}: {peak} kB at most");
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                drive(stringify!($name), fuzz::$name);
            }
        )*
    };
}

targets! { text dat perf zoneinfo buddyinfo pagetypeinfo vmstat numastat kpageflags }
