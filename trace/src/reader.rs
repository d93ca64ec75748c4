//! One pass over a recording's events, whatever its format.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Damage, TraceError};
use crate::event::Event;
use crate::source::Consumed;

/// Events in a full block: 2.5 MiB, small beside a cache miss per event, large beside a call.
pub const BLOCK_EVENTS: usize = 64 << 10;

/// Events that the tracer lost, as the recording itself says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events lost, by CPU.
    pub per_cpu: BTreeMap<u16, u64>,
    /// Events lost that the recording ascribes to no CPU.
    pub elsewhere: u64,
    /// Times that a loss was marked without a number.
    pub uncounted: u64,
    /// Times of the first event after each loss (the first 64), with its CPU.
    pub at: Vec<(u64, u16)>,
}

impl Lost {
    /// Events known to be lost.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.per_cpu.values().fold(self.elsewhere, |sum, count| sum.saturating_add(*count))
    }

    /// True when the recording marks any loss.
    #[must_use]
    pub fn any(&self) -> bool {
        self.total() > 0 || self.uncounted > 0
    }

    pub(crate) fn add(&mut self, cpu: Option<u16>, count: Option<u64>) {
        match (cpu, count) {
            (_, None) => self.uncounted += 1,
            (None, Some(count)) => self.elsewhere = self.elsewhere.saturating_add(count),
            (Some(cpu), Some(count)) => {
                let sum = self.per_cpu.entry(cpu).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }

    pub(crate) fn mark(&mut self, time_ns: u64, cpu: u16) {
        if self.at.len() < 64 {
            self.at.push((time_ns, cpu));
        }
    }
}

/// What a pass gathers besides the events.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    comms: HashMap<i32, Box<str>>,
    comm_last: (i32, [u8; 16]),
    pub(crate) damage: Damage,
    pub(crate) lost: Lost,
    others: BTreeMap<Box<str>, u64>,
    /// Last line of a text, if it has no newline.
    pub(crate) unfinished: Option<u64>,
    pub(crate) backwards: u64,
    time_last_ns: u64,
}

/// Names of uninterpreted events that are counted apart; further names are counted together, so
/// that a foreign file cannot fill memory.
const OTHER_NAMES_MAX: usize = 4096;

impl Pass {
    /// Remembers the name of a task.
    pub(crate) fn comm(&mut self, pid: i32, comm: &[u8]) {
        let mut padded = [0u8; 16];
        let kept = &comm[..comm.len().min(15)];
        padded[..kept.len()].copy_from_slice(kept);
        if self.comm_last == (pid, padded) {
            return;
        }
        self.comm_last = (pid, padded);
        match self.comms.get(&pid) {
            Some(known) if known.as_bytes() == kept => {}
            _ => {
                self.comms.insert(pid, String::from_utf8_lossy(kept).into());
            }
        }
    }

    /// A new task has its parent's name until it takes one of its own.
    pub(crate) fn comm_inherited(&mut self, pid: i32, parent: i32) {
        if let Some(comm) = self.comms.get(&parent).cloned() {
            self.comm_last = (0, [0; 16]);
            self.comms.insert(pid, comm);
        }
    }

    /// Counts an event that is not interpreted.
    pub(crate) fn other(&mut self, name: &[u8]) {
        let text = String::from_utf8_lossy(&name[..name.len().min(64)]);
        if let Some(count) = self.others.get_mut(text.as_ref()) {
            *count += 1;
        } else if self.others.len() < OTHER_NAMES_MAX {
            self.others.insert(text.into(), 1);
        } else {
            *self.others.entry("(further names)".into()).or_default() += 1;
        }
    }

    fn check_order(&mut self, events: &[Event]) {
        for event in events {
            self.backwards += u64::from(event.time_ns < self.time_last_ns);
            self.time_last_ns = event.time_ns;
        }
    }
}

/// A format's decoder: appends events in time order; false when there are no more.
pub(crate) trait Feed: Send {
    fn fill(&mut self, out: &mut Vec<Event>, pass: &mut Pass) -> Result<bool, TraceError>;
}

/// One pass over a recording's events, in time order over all CPUs.
pub struct EventReader {
    feed: Box<dyn Feed>,
    pass: Pass,
    consumed: Consumed,
    total: u64,
    events: u64,
}

impl EventReader {
    pub(crate) fn new(feed: Box<dyn Feed>, consumed: Consumed, total: u64) -> Self {
        EventReader { feed, pass: Pass::default(), consumed, total, events: 0 }
    }

    /// Clears `block` and fills it with the next events, about [`BLOCK_EVENTS`] at most. False at
    /// the end (the block is then empty).
    ///
    /// # Errors
    /// Only when the system refuses to read. Damage in the file is skipped or ends the pass, and is
    /// found in [`EventReader::damage`].
    pub fn read_block(&mut self, block: &mut Vec<Event>) -> Result<bool, TraceError> {
        block.clear();
        while block.is_empty() {
            if !self.feed.fill(block, &mut self.pass)? {
                break;
            }
        }
        self.pass.check_order(block);
        self.events += block.len() as u64;
        Ok(!block.is_empty())
    }

    /// Name of the task, as seen so far (its latest).
    #[must_use]
    pub fn comm(&self, pid: i32) -> Option<&str> {
        self.pass.comms.get(&pid).map(|comm| &**comm)
    }

    /// All tasks seen so far with their latest names, by pid.
    #[must_use]
    pub fn comms(&self) -> Vec<(i32, &str)> {
        let mut all: Vec<_> = self.pass.comms.iter().map(|(pid, comm)| (*pid, &**comm)).collect();
        all.sort_unstable_by_key(|(pid, _)| *pid);
        all
    }

    /// What was unreadable so far.
    #[must_use]
    pub fn damage(&self) -> &Damage {
        &self.pass.damage
    }

    /// Number of a text's last line when it has no end: the text was cut off while it was written,
    /// as when reading `trace_pipe` is interrupted. The line is not read.
    #[must_use]
    pub fn unfinished(&self) -> Option<u64> {
        self.pass.unfinished
    }

    /// Events that the tracer lost, as marked so far.
    #[must_use]
    pub fn lost(&self) -> &Lost {
        &self.pass.lost
    }

    /// Events seen as [`crate::event::Kind::Other`], by name.
    pub fn others(&self) -> impl Iterator<Item = (&str, u64)> {
        self.pass.others.iter().map(|(name, count)| (&**name, *count))
    }

    /// Events whose time stamp is smaller than that of the event before.
    #[must_use]
    pub fn backwards(&self) -> u64 {
        self.pass.backwards
    }

    /// Events delivered so far.
    #[must_use]
    pub fn events_read(&self) -> u64 {
        self.events
    }

    /// Bytes of the (packed) file consumed, and its length: for a progress line.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.consumed.bytes().min(self.total), self.total)
    }
}
