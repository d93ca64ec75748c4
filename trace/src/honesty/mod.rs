//! Can this recording be trusted? What was lost, what left no event, what does not fit.
//!
//! [`Report::of`] reads a recording once; [`Report::verdicts`] says what follows.

mod between;
mod gather;
mod lists;
mod pages;
mod print;
mod reconcile;
mod verdict;

pub use gather::Contention;
pub use lists::{FreeListChange, FreeLists};
pub use pages::PageCounts;
pub use reconcile::{Reconciled, Window};
pub use verdict::{Grade, Verdict};

use crate::error::TraceError;
use crate::reader::{EventReader, Lost};
use crate::recording::Recording;

/// One kind of event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KindRow {
    /// The kernel's name.
    pub name: String,
    /// Events.
    pub events: u64,
    /// Events by CPU, in the order of [`Report::cpus`]; empty for events that are only counted.
    pub per_cpu: Vec<u64>,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CpuRow {
    /// Its number.
    pub cpu: u16,
    /// Events.
    pub events: u64,
    /// First event, nanoseconds of the recording's clock.
    pub first_ns: u64,
    /// Last event.
    pub last_ns: u64,
    /// Longest time without an event on this CPU.
    pub gap_ns: u64,
    /// When that began.
    pub gap_at_ns: u64,
    /// Events lost, as marked in the events.
    pub lost_marked: u64,
    /// Events lost, by the ring buffer's own statistics.
    pub lost_ring: u64,
}

/// All that is known about a recording's honesty.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// File or folder.
    pub name: String,
    /// Format with its version.
    pub format: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Trace clock.
    pub clock: Option<String>,
    /// What ran.
    pub command: Option<String>,
    /// Events read.
    pub events: u64,
    /// First and last time stamp.
    pub first_ns: u64,
    /// Last time stamp.
    pub last_ns: u64,
    /// Events by kind, the most first.
    pub kinds: Vec<KindRow>,
    /// CPUs with events, losses or statistics.
    pub cpus: Vec<CpuRow>,
    /// Losses that belong to no CPU.
    pub lost_elsewhere: u64,
    /// Losses marked without a number.
    pub lost_uncounted: u64,
    /// Pages.
    pub pages: PageCounts,
    /// Failed allocations by order.
    pub failed_by_order: Vec<(u8, u64)>,
    /// Waiting for locks.
    pub contention: Contention,
    /// Events against the kernel's own counters; empty without two snapshots of vmstat.
    pub reconciled: Vec<Reconciled>,
    /// Pages that were freed without an event, by `pgfree`, whenever vmstat was looked at within
    /// its readings; none where the times of these are not known, or not within the traced time.
    pub freed_unseen: Option<u64>,
    /// The free lists against the events; none where that cannot be told.
    pub free_lists: Option<FreeLists>,
    /// Where the snapshots lie.
    pub window: Window,
    /// Events whose time is before that of the event before.
    pub backwards: u64,
    /// Number of a text's last line when it was cut off.
    pub unfinished_line: Option<u64>,
    /// What could not be read: file and fault.
    pub damage: Vec<String>,
    /// Faults in all, of which `damage` names the first.
    pub damage_count: u64,
    /// What follows.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Reads a recording whole. `progress` is called now and then with the reader; false stops.
    ///
    /// # Errors
    /// Those of reading; damage is no error, it is reported.
    pub fn of(
        recording: &Recording,
        progress: impl FnMut(&EventReader) -> bool,
    ) -> Result<Report, TraceError> {
        gather::gather(recording, progress)
    }

    /// True when nothing forbids to draw conclusions from the recording.
    #[must_use]
    pub fn trusted(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.grade != Grade::Bad)
    }

    /// Events lost: marked in the events or counted by the ring buffers, whichever is more.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let marked = self.cpus.iter().map(|cpu| cpu.lost_marked).sum::<u64>() + self.lost_elsewhere;
        let ring: u64 = self.cpus.iter().map(|cpu| cpu.lost_ring).sum();
        marked.max(ring)
    }

    /// The report as text of at most 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        print::text(self)
    }

    fn put_losses(&mut self, lost: &Lost, recording: &Recording) {
        self.lost_elsewhere = lost.elsewhere;
        self.lost_uncounted = lost.uncounted;
        for (cpu, count) in &lost.per_cpu {
            self.cpu_row(*cpu).lost_marked = *count;
        }
        for (cpu, stats) in recording.ring_stats.iter().enumerate() {
            if let (Ok(cpu), true) = (u16::try_from(cpu), stats.lost() > 0) {
                self.cpu_row(cpu).lost_ring = stats.lost();
            }
        }
    }

    fn cpu_row(&mut self, cpu: u16) -> &mut CpuRow {
        let index = match self.cpus.binary_search_by_key(&cpu, |row| row.cpu) {
            Ok(index) => index,
            Err(index) => {
                self.cpus.insert(index, CpuRow { cpu, ..CpuRow::default() });
                for kind in self.kinds.iter_mut().filter(|kind| !kind.per_cpu.is_empty()) {
                    kind.per_cpu.insert(index, 0);
                }
                index
            }
        };
        &mut self.cpus[index]
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
