//! The kernel's own count of what a ring buffer took, gave and lost.

/// Numbers of the tracefs file `per_cpu/cpuN/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Events in the buffer and events read from it before.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt filled the buffer while another was being written.
    pub commit_overrun: u64,
    /// Events refused.
    pub dropped: u64,
}

impl RingStats {
    /// Reads the file; a line that is not there counts as zero.
    #[must_use]
    pub fn parse(text: &str) -> RingStats {
        let value = |key: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        RingStats {
            entries: value("entries:") + value("read events:"),
            overrun: value("overrun:"),
            commit_overrun: value("commit overrun:"),
            dropped: value("dropped events:"),
        }
    }

    /// Events lost, for whatever reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }

    /// Four lines of the file `ringstats`.
    #[must_use]
    pub fn text(&self) -> String {
        let RingStats { entries, overrun, commit_overrun, dropped } = self;
        format!(
            "entries: {entries}\noverrun: {overrun}\ncommit overrun: {commit_overrun}\n\
             dropped events: {dropped}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_count_as_entries() {
        let text = "entries: 2\noverrun: 3\ncommit overrun: 4\nbytes: 9\n\
                    oldest event ts:  1.5\nnow ts:  2.5\ndropped events: 5\nread events: 7\n";
        let stats = RingStats::parse(text);
        assert_eq!((stats.entries, stats.lost()), (9, 12));
        let written = "entries: 9\noverrun: 3\ncommit overrun: 4\ndropped events: 5\n";
        assert_eq!(stats.text(), written);
        assert_eq!(RingStats::parse(written), stats);
    }
}
