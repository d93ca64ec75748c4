//! The small files beside a trace: ring statistics, caches, settings.

use crate::error::{At, Damage};

/// Statistics of one CPU's ring buffer, from its `stats` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Events in the buffer when the statistics were read.
    pub entries: u64,
    /// Events overwritten by newer ones.
    pub overrun: u64,
    /// Events lost since an interrupt filled the buffer.
    pub commit_overrun: u64,
    /// Events refused because the buffer was full.
    pub dropped: u64,
}

impl RingStats {
    /// Events lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }
}

/// One cache of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// CPU.
    pub cpu: u32,
    /// Level: 1 is nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// CPUs that share it.
    pub shared: Vec<u32>,
}

/// Parses `stats` files laid end to end: each CPU's begins with `entries:`.
pub(super) fn ring_stats(text: &str, damage: &mut Damage) -> Vec<RingStats> {
    let mut all: Vec<RingStats> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let name = name.trim();
        if name == "entries" {
            all.push(RingStats::default());
        }
        let field = match (name, all.last_mut()) {
            ("entries", Some(stats)) => &mut stats.entries,
            ("overrun", Some(stats)) => &mut stats.overrun,
            ("commit overrun", Some(stats)) => &mut stats.commit_overrun,
            ("dropped events", Some(stats)) => &mut stats.dropped,
            // `bytes`, `oldest event ts`, `now ts`, `read events` say nothing about losses.
            _ => continue,
        };
        match value.parse() {
            Ok(number) => *field = number,
            Err(_) => damage.add(At::Line(index as u64 + 1), format!("{name}: not a number")),
        }
    }
    all
}

/// Most CPUs of a file's statistics.
const CPUS_MAX: usize = 16 << 10;

/// Adds up the statistics in a trace.dat by the CPU that each names: there is one set for every
/// buffer, the top one and each instance.
pub(super) fn ring_stats_by_cpu(texts: &[String]) -> Vec<RingStats> {
    let mut all: Vec<RingStats> = Vec::new();
    for text in texts {
        let cpu = text.lines().find_map(|line| line.strip_prefix("CPU:"));
        let Some(cpu) = cpu.and_then(|cpu| cpu.trim().parse::<usize>().ok()) else {
            continue;
        };
        if cpu >= CPUS_MAX {
            continue;
        }
        if all.len() <= cpu {
            all.resize(cpu + 1, RingStats::default());
        }
        for stats in ring_stats(text, &mut Damage::default()) {
            let sum = &mut all[cpu];
            sum.entries = sum.entries.saturating_add(stats.entries);
            sum.overrun = sum.overrun.saturating_add(stats.overrun);
            sum.commit_overrun = sum.commit_overrun.saturating_add(stats.commit_overrun);
            sum.dropped = sum.dropped.saturating_add(stats.dropped);
        }
    }
    all
}

/// Parses `cpu0 L3 Unified 266240K shared 0-1`.
pub(super) fn caches(text: &str, damage: &mut Damage) -> Vec<Cache> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match cache(line) {
            Some(cache) => all.push(cache),
            None => damage.add(At::Line(index as u64 + 1), "not `cpuN LN KIND SIZE shared LIST`"),
        }
    }
    all
}

fn cache(line: &str) -> Option<Cache> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let level = words.next()?.strip_prefix('L')?.parse().ok()?;
    let kind = words.next()?.to_string();
    let bytes = bytes(words.next()?)?;
    let shared = match (words.next()?, words.next()) {
        ("shared", Some(list)) => cpu_list(list)?,
        _ => return None,
    };
    Some(Cache { cpu, level, kind, bytes, shared })
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1u64),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a list as the kernel prints it: `0-3,8,10-11`. At most 65,536 CPUs.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last > 0xffff || cpus.len() > 0xffff {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// When a piece of a snapshot was read, by the recording's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTime {
    /// File of the snapshot, as `vmstat.before`.
    pub file: String,
    /// First byte of the piece (kpageflags is read in many).
    pub first_byte: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Before the read.
    pub begin_ns: u64,
    /// After it.
    pub end_ns: u64,
}

/// Parses `file first_byte bytes begin_ns end_ns`; `#` begins a comment.
pub(super) fn read_times(text: &str, damage: &mut Damage) -> Vec<ReadTime> {
    let mut all = Vec::new();
    let lines = text.lines().enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        match read_time(line) {
            Some(time) => all.push(time),
            None => {
                damage
                    .add(At::Line(index as u64 + 1), "not `file first_byte bytes begin_ns end_ns`");
            }
        }
    }
    all
}

fn read_time(line: &str) -> Option<ReadTime> {
    let mut words = line.split_ascii_whitespace();
    let file = words.next()?.to_string();
    let mut number = || words.next()?.parse().ok();
    let (first_byte, bytes) = (number()?, number()?);
    Some(ReadTime { file, first_byte, bytes, begin_ns: number()?, end_ns: number()? })
}

/// Parses `vm.swappiness = 60`.
pub(super) fn sysctl(text: &str, damage: &mut Damage) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match line.split_once('=') {
            Some((name, value)) => all.push((name.trim().to_string(), value.trim().to_string())),
            None => damage.add(At::Line(index as u64 + 1), "not `name = value`"),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_lines_give_size_and_sharers() {
        let mut damage = Damage::default();
        let caches = caches("cpu1 L3 Unified 266240K shared 0-1,4\nnonsense\n", &mut damage);
        assert_eq!(caches[0].bytes, 260 << 20);
        assert_eq!((caches[0].cpu, caches[0].level, &caches[0].shared[..]), (1, 3, &[0, 1, 4][..]));
        assert_eq!(damage.faults()[0].at, At::Line(2));
    }

    #[test]
    fn ring_statistics_start_anew_at_each_cpu() {
        let text =
            "entries: 5\noverrun: 2\ncommit overrun: 0\nbytes: 9\ndropped events: 1\nentries: 7\n";
        let stats = ring_stats(text, &mut Damage::default());
        assert_eq!((stats.len(), stats[0].lost(), stats[1].entries), (2, 3, 7));
    }
}
