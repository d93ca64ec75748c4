//! How much memory this host has.

/// Pages of a machine that does not tell: 4 GiB.
const PAGES_UNKNOWN: u64 = 1 << 20;

/// A line of /proc/meminfo, or of a node's `meminfo`, where `Node 0` stands before its name: KiB.
#[must_use]
pub fn kib(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(head, _)| head.split_whitespace().last() == Some(name))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn read(name: &str) -> Option<u64> {
    kib(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Pages of 4 KiB in all.
pub(super) fn total_pages() -> u64 {
    read("MemTotal").map_or(PAGES_UNKNOWN, |kib| kib / 4)
}

/// MiB that programs can have without swapping; everything if the system does not tell.
pub(super) fn available_mib() -> u64 {
    read("MemAvailable").map_or(u64::MAX, |kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "MemTotal:       24576 kB\nMemAvailable:    2048 kB\nHugePages_Total:       0\n";
        assert_eq!(kib(text, "MemTotal"), Some(24576));
        assert_eq!(kib(text, "MemAvailable"), Some(2048));
        assert_eq!(kib(text, "Mem"), None);
        assert_eq!(kib("Node 3 MemTotal:  8192 kB\nNode 3 MemFree: 1 kB\n", "MemFree"), Some(1));
        assert_eq!(kib(text, "HugePages_Total"), None, "not in kB");
    }
}
