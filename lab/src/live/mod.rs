//! Workloads on this machine: the bodies of [`crate::cells::work`] on real threads and real memory.
//!
//! What comes out is a measurement of this host, not of a model, and no published table is held
//! against it. Start at [`Plan::round`]. [`stage`] is the machine, [`watch`] the clock, [`list`]
//! the page records, `shelf` the blocks of a recording, `sockets` what messages go through;
//! `runs`, `mixed`, `netperf` and `recording` set the workloads up.

mod error;
pub mod list;
pub mod memory;
mod mixed;
mod netperf;
mod recording;
mod runs;
mod shelf;
mod sockets;
pub mod stage;
pub mod watch;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pageyard::platform::Site;
use pageyard::{CpuId, Policy, Tuning};
use pageyard_host::plain::{Plain, configured_cpus, set_thread_cpu};
use pageyard_host::{HostAllocator, Share, pin};
use serde::{Deserialize, Serialize};

use crate::cells::lru::KERNEL;
use crate::cells::yard::min_free_kbytes;
use crate::experiment::outcome::site_name;
use crate::experiment::workload::{Cpus, Workload};
pub use error::LiveError;
use list::Pages;
use stage::{Ground, Live, OutOfMemory, Pace};
use watch::{Clock, Done, Eye};

/// What to run, once.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload.
    pub workload: Workload,
    /// What stood behind its colon; empty for most.
    pub argument: String,
    /// CPUs that a recording shows at work; 0 for other workloads.
    pub recorded_cpus: usize,
    /// All its parameters.
    pub parameters: BTreeMap<String, u64>,
    /// The policy.
    pub policy: Policy,
    /// CPUs that run it.
    pub cpus: usize,
    /// Time of a unit of work outside of what is run, picoseconds.
    pub think_ps: u64,
    /// Seed of the moments at which pairs of CPUs and copies of a recording begin.
    pub seed: u64,
    /// Memory that the allocator believes the machine has, MiB; `None` is what it has.
    pub memory_mib: Option<u64>,
    /// Pages of a process that faults: [`PAGES`](crate::cells::page_fault1::PAGES) but in tests.
    pub process_pages: usize,
    /// Time to warm up, and to measure.
    pub times: (Duration, Duration),
}

/// What one round measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Units of work a second, all CPUs together.
    pub score_per_s: u64,
    /// Units that this is counted from.
    pub units: u64,
    /// Time that a unit took of a CPU's, picoseconds: without that in which the CPU did something
    /// else.
    pub cpu_ps: u64,
    /// Thousandths of the measured time that threads were on their CPUs.
    pub on_cpu_thousandths: u64,
    /// Figures of the workload's own, by name: thousandths of their unit.
    pub own: BTreeMap<String, u64>,
    /// Entries to locks that had to wait, or that gave up, by call site, from start to end.
    pub waited: BTreeMap<String, u64>,
    /// CPUs that threads were pinned to; none if the system refused.
    pub pinned: Vec<u16>,
    /// Pages that were given out and were all free again at the end.
    pub pages: u64,
}

/// CPUs that this process may use.
///
/// # Errors
/// The system does not tell.
pub fn cpus() -> Result<Vec<u16>, LiveError> {
    pin::allowed_cpus().map_err(LiveError::Affinity)
}

pub use runs::is_netperf;

/// Workloads that run on this host.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    runs::RUNS.iter().map(|&(name, _)| name)
}

/// CPUs that run a workload unless told otherwise, where so many may be used: those of a recording
/// if it is one.
#[must_use]
pub fn default_cpus(workload: Workload, recorded_cpus: usize, has: usize) -> usize {
    if recorded_cpus > 0 {
        return recorded_cpus;
    }
    let wanted = match workload.cpus {
        Cpus::All | Cpus::CoresOfNode => has,
        Cpus::One => 1,
        Cpus::Two => 2,
        Cpus::Half => (has / 4).max(1) * 2,
    };
    wanted.min(has)
}

/// All parameters of a workload that this host knows, as given or else as they are by default; an
/// area that this host's memory, or the memory told of, cannot hold is half of it by default.
///
/// # Errors
/// One is unknown, out of its range, or for modelled machines only.
pub fn fill(
    workload: Workload,
    given: &BTreeMap<String, u64>,
    quick: bool,
    memory_mib: Option<u64>,
) -> Result<BTreeMap<String, u64>, LiveError> {
    let mut all = workload.fill(given, quick)?;
    let is_known = |name: &str| runs::is_known(workload.name, name);
    if let Some((name, &value)) = given.iter().find(|(name, _)| !is_known(name)) {
        return Err(LiveError::Parameter { workload: workload.name, name: name.clone(), value });
    }
    all.retain(|name, _| is_known(name));
    if workload.name == "free_all" && !given.contains_key("pages") {
        let machine = memory_mib.map_or_else(memory::total_pages, |mib| mib << 8);
        all.entry("pages".to_string()).and_modify(|pages| *pages = (*pages).min(machine / 2));
    }
    Ok(all)
}

/// A thread's part of a run.
pub(crate) struct Part<'c, 'g> {
    pub(crate) stage: Live<'g>,
    pub(crate) eye: Eye<'c>,
    pub(crate) cpu: usize,
}

impl Plan {
    /// Looks whether this host can run it.
    ///
    /// # Errors
    /// See [`LiveError`]: no such workload here, too many CPUs.
    pub fn check(&self) -> Result<(), LiveError> {
        let name = self.workload.name;
        if !workloads().any(|known| known == name) {
            let known = workloads().collect::<Vec<_>>().join(", ");
            return Err(LiveError::Workload { name, known });
        }
        let (has, recorded) = (cpus()?.len(), self.recorded_cpus);
        if recorded > has {
            return Err(LiveError::RecordedCpus { recorded, has });
        }
        if self.cpus == 0 || self.cpus > has {
            return Err(LiveError::Cpus { has, wanted: self.cpus });
        }
        if recorded > 0 && !self.cpus.is_multiple_of(recorded) {
            return Err(LiveError::Copies { recorded, wanted: self.cpus });
        }
        if runs::is_in_pairs(name) && !self.cpus.is_multiple_of(2) {
            return Err(LiveError::Odd { name });
        }
        Ok(())
    }

    /// Runs it once, in this process.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn round(&self) -> Result<Round, LiveError> {
        self.check()?;
        let run = runs::RUNS.iter().find(|(name, _)| *name == self.workload.name);
        let (_, run) = run.expect("it was checked");
        run(self)
    }

    /// A parameter of the workload.
    fn parameter(&self, name: &str) -> u64 {
        self.parameters[name]
    }

    /// Memory for a workload that uses so many pages, `touched` if it writes into them.
    fn ground(&self, pages: u64, touched: bool) -> Result<Ground, LiveError> {
        let machine = self.memory_mib.map_or_else(memory::total_pages, |mib| mib << 8);
        // Marks keep a part free; caches of CPUs hold some.
        let room = pages + machine / 200 + 65_536 + 8192 * self.cpus as u64;
        let pages = room.next_multiple_of(1 << 10).min(machine);
        let bytes_of_page = if touched { 4096 + 80 } else { 80 };
        let (needs, has) = ((pages * bytes_of_page) >> 20, memory::available_mib());
        if needs > has {
            let has_pages = self.parameters.contains_key("pages");
            let name = self.workload.name;
            return Err(LiveError::Memory { name, needs, has, has_pages });
        }
        let plain = Plain::new();
        let tuning =
            Tuning { min_free_kbytes: min_free_kbytes(&[machine * 4096]), ..Tuning::default() };
        let of_machine = Share { pages, machine_pages: machine, tuning };
        let mut host = HostAllocator::part_of(plain, of_machine, configured_cpus(), self.policy)?;
        if touched {
            host.populate();
        }
        let lru_kernel = self.parameters.get("lru-kernel").copied().unwrap_or(KERNEL);
        let pages = Pages::new(host.region().first(), pages as usize);
        Ok(Ground { host, pages, lru_locked: if lru_kernel < 417 { 1 } else { 3 } })
    }

    /// Runs `body` on every CPU, measured by the clock; what each did, and what to say of locks.
    fn timed<'g>(
        &self,
        ground: &'g Ground,
        times: (Duration, Duration),
        body: impl for<'c> Fn(&Part<'c, 'g>) + Sync,
    ) -> Result<(Vec<Done>, Round), LiveError> {
        let allowed = cpus()?;
        let run = Run { ground, clock: &Clock::new(self.cpus), left: &AtomicUsize::new(self.cpus) };
        let mut waited = Vec::new();
        let ended = std::thread::scope(|scope| {
            let one = |(cpu, &number)| {
                let body = &body;
                scope.spawn(move || run.thread(cpu, number, body))
            };
            let threads: Vec<_> = allowed[..self.cpus].iter().enumerate().map(one).collect();
            run.clock.run(times.0, times.1, || waited.push(waits(ground)));
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let (mut done, mut round) = (Vec::new(), Round::default());
        for (ended, &number) in ended.into_iter().zip(&allowed) {
            let (mine, is_pinned) = ended.and_then(|ended| ended).map_err(|end| self.why(end))?;
            done.push(mine);
            round.pinned.extend(is_pinned.then_some(number));
        }
        if round.pinned.len() < self.cpus {
            round.pinned.clear();
        }
        for (at, count) in waited.pop().unwrap_or_default() {
            let before = waited.first().and_then(|first| first.get(&at)).copied().unwrap_or(0);
            round.waited.insert(at, count - before);
        }
        round.waited.retain(|_, count| *count > 0);
        Ok((done, round))
    }

    /// Runs what sets a workload up.
    fn set_up<T>(&self, work: impl FnOnce() -> T) -> Result<T, LiveError> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|end| self.why(end))
    }

    /// Why a thread ended early.
    fn why(&self, end: Box<dyn Any + Send>) -> LiveError {
        match end.downcast_ref::<OutOfMemory>() {
            Some(&OutOfMemory { order }) => {
                LiveError::OutOfMemory { workload: self.workload.name, order }
            }
            None => resume_unwind(end),
        }
    }

    /// Once every block was given back: all pages are free.
    fn settle(&self, ground: &Ground, round: &mut Round) -> Result<(), LiveError> {
        let (free, pages) = (ground.host.settle(), ground.host.region().pages());
        assert_eq!(ground.pages.listed(), 0, "a page that is free is on no list");
        if free != pages {
            return Err(LiveError::Lost { lost: pages.abs_diff(free), pages });
        }
        round.pages = pages;
        Ok(())
    }
}

/// Entries to locks so far that had to wait, or gave up, by call site.
fn waits(ground: &Ground) -> BTreeMap<String, u64> {
    let of_site = |(site, waits, refusals)| {
        let lock = match site {
            Site::PcpAlloc | Site::PcpFree | Site::PcpDrain | Site::PcpAdmin => "pcp",
            _ => "zone",
        };
        (format!("{lock} {}", site_name(site)), waits + refusals)
    };
    let sites = ground.host.platform().contention().all().map(of_site);
    sites.chain([("lru".to_string(), ground.pages.waits())]).collect()
}

/// What a thread did and whether it stayed on its CPU, or what ended it.
type Ended = Result<(Done, bool), Box<dyn Any + Send>>;

/// What the threads of a run share.
#[derive(Clone, Copy)]
struct Run<'c, 'g> {
    ground: &'g Ground,
    clock: &'c Clock,
    /// Threads that have not ended.
    left: &'c AtomicUsize,
}

impl<'c, 'g> Run<'c, 'g> {
    fn thread(self, cpu: usize, number: u16, body: &impl Fn(&Part<'c, 'g>)) -> Ended {
        let is_pinned = pin::pin_thread(number).is_ok();
        set_thread_cpu(Some(CpuId(number)));
        let stage = Live::new(self.ground, Pace::take());
        let part = Part { stage, eye: Eye::new(self.clock), cpu };
        self.clock.wait();
        part.eye.start();
        // Not broken by an unwinding body: it owns its pages and gives them back.
        let ended = catch_unwind(AssertUnwindSafe(|| body(&part)));
        let done = part.eye.done();
        // Relaxed: who comes last ends the clock; joining orders the rest.
        if ended.is_err() || self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.clock.end();
        }
        ended.map(|()| (done, is_pinned))
    }
}

#[cfg(test)]
mod tests;
