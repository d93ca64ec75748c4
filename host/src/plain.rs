//! Real memory and threads, the plain way: mapped tables, queue spin locks, per-CPU caches
//! entered by try-lock.
//!
//! The CPU is where the kernel says the thread runs, a hint that may be stale: caches have locks
//! of their own, so it costs time and never correctness. An embedder whose threads are its CPUs
//! (a hypervisor, a test) registers them with [`set_thread_cpu`].

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use pageyard::platform::{Ordering, Platform, PrefetchHint, TableId, TableSpec, Work};
use pageyard::{Bug, CpuId, Event, NodeId};

use crate::counters::Notes;
use crate::lock::{Contention, QueueLocks};
use crate::map::Mapping;
use crate::words::{Word, Words};

/// Answers [`Platform::work`]: what to do, for which node and order; returns progress.
pub type Worker = dyn Fn(Work, NodeId, u8) -> u64 + Send + Sync;

/// Page records are mapped at multiples of this: a huge page may back them whole.
const RECORDS_ALIGN: usize = 2 << 20;
/// Other tables begin at a page.
const TABLE_ALIGN: usize = 4096;

/// The machine that we run on. `N` hears the events: `()`, [`crate::Counters`], or an `Option`.
pub struct Plain<N = ()> {
    notes: N,
    contention: Arc<Contention>,
    bug_hook: Option<fn(&Bug)>,
    worker: Option<Box<Worker>>,
    /// The first made of the two interleaved tables of page records: which one, how many
    /// records, and its memory, until the second one is made.
    half: Mutex<Option<(TableId, usize, Arc<Mapping>)>>,
}

impl Plain {
    /// A machine that tells nobody what happens.
    #[must_use]
    pub fn new() -> Plain {
        Plain::with_notes(())
    }
}

impl Default for Plain {
    fn default() -> Plain {
        Plain::new()
    }
}

impl<N: Notes> Plain<N> {
    /// A machine that tells `notes` what happens.
    #[must_use]
    pub fn with_notes(notes: N) -> Plain<N> {
        Plain {
            notes,
            contention: Arc::default(),
            bug_hook: None,
            worker: None,
            half: Mutex::new(None),
        }
    }

    /// Calls `hook` when the allocator is misused, before the thread panics; the hook may end
    /// the process instead. It runs on the thread at fault, possibly under a lock of the
    /// allocator: it must not call the allocator.
    #[must_use]
    pub fn on_bug(self, hook: fn(&Bug)) -> Plain<N> {
        Plain { bug_hook: Some(hook), ..self }
    }

    /// Answers requests for reclaim and compaction, on the thread that allocates, with no lock
    /// held; it may free. Without one nothing makes progress.
    #[must_use]
    pub fn on_work(
        self,
        worker: impl Fn(Work, NodeId, u8) -> u64 + Send + Sync + 'static,
    ) -> Plain<N> {
        Plain { worker: Some(Box::new(worker)), ..self }
    }

    /// Who hears the events.
    #[must_use]
    pub fn notes(&self) -> &N {
        &self.notes
    }

    /// How often entries to the locks found them held.
    #[must_use]
    pub fn contention(&self) -> &Contention {
        &self.contention
    }

    fn table<A: Word>(&self, spec: TableSpec) -> Words<A> {
        Words::over(map::<A>(spec, TABLE_ALIGN), spec, 0)
    }

    /// One of the two tables of page records, over the memory of the other if that waits.
    fn page_records(&self, spec: TableSpec) -> Words<AtomicU32> {
        // A panic in between leaves the old half, which is whole.
        let mut half = self.half.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match half.take() {
            Some((id, records, memory)) if id != spec.id && records == spec.records => memory,
            _ => {
                let memory = map::<AtomicU32>(spec, RECORDS_ALIGN);
                *half = Some((spec.id, spec.records, Arc::clone(&memory)));
                memory
            }
        };
        let offset = if spec.id == TableId::Pages { 0 } else { 3 };
        Words::over(memory, spec, offset)
    }
}

fn map<A: Word>(spec: TableSpec, align: usize) -> Arc<Mapping> {
    let bytes = Words::<A>::bytes(spec).unwrap_or(usize::MAX);
    match Mapping::zeroed(bytes, align) {
        Ok(memory) => Arc::new(memory),
        Err(error) => panic!(
            "cannot map {bytes} bytes for table {:?} of the page allocator: {error}; describe \
             less memory, or raise `ulimit -v` or vm.overcommit_memory",
            spec.id
        ),
    }
}

thread_local! {
    /// The CPU that this thread registered as, plus one; zero asks the kernel.
    static THREAD_CPU: Cell<u32> = const { Cell::new(0) };
}

/// Makes this thread work as `cpu` on every plain machine, wherever the kernel runs it; `None`
/// asks the kernel again. Threads may share a CPU: their caches have locks.
pub fn set_thread_cpu(cpu: Option<CpuId>) {
    THREAD_CPU.set(cpu.map_or(0, |cpu| u32::from(cpu.0) + 1));
}

/// Lets this thread work as `cpu` for a while.
pub(crate) fn as_thread_cpu<R>(cpu: CpuId, work: impl FnOnce() -> R) -> R {
    let before = THREAD_CPU.replace(u32::from(cpu.0) + 1);
    let result = work();
    THREAD_CPU.set(before);
    result
}

/// CPUs that the system is configured for, online or not: above every number that
/// [`Platform::cpu`] answers.
#[must_use]
pub fn configured_cpus() -> u16 {
    // SAFETY: reads a number of the system.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u16::try_from(cpus.max(1)).unwrap_or(u16::MAX)
}

#[inline]
fn kernel_cpu() -> u32 {
    #[cfg(not(miri))]
    {
        // SAFETY: reads the number of the CPU, from the C library's restartable-sequence area
        // or by a call into the vDSO.
        let cpu = unsafe { libc::sched_getcpu() };
        if cpu >= 0 {
            return cpu as u32;
        }
    }
    register_thread()
}

/// Where the kernel does not tell the CPU, threads are numbered as they come, for good.
#[cold]
fn register_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: a number of its own is all that a thread needs.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(configured_cpus());
    THREAD_CPU.set(number + 1);
    number
}

impl<N: Notes> Platform for Plain<N> {
    type Owned = Words<AtomicU32>;
    type Shared = Words<AtomicU32>;
    type Wide = Words<AtomicU64>;
    type Locks = QueueLocks;

    /// # Panics
    /// The system has no memory to map.
    fn owned(&self, spec: TableSpec) -> Words<AtomicU32> {
        match spec.id {
            TableId::Pages => self.page_records(spec),
            _ => self.table(spec),
        }
    }

    /// # Panics
    /// The system has no memory to map.
    fn shared(&self, spec: TableSpec) -> Words<AtomicU32> {
        match spec.id {
            TableId::PageStates => self.page_records(spec),
            _ => self.table(spec),
        }
    }

    /// # Panics
    /// The system has no memory to map.
    fn wide(&self, spec: TableSpec) -> Words<AtomicU64> {
        self.table(spec)
    }

    fn locks(&self, spec: TableSpec) -> QueueLocks {
        QueueLocks::new(spec.records, Arc::clone(&self.contention))
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        match THREAD_CPU.get() {
            0 => CpuId(kernel_cpu() as u16),
            registered => CpuId((registered - 1) as u16),
        }
    }

    fn now_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the one struct that it is given; the monotonic clock always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Elsewhere than on x86-64 a hint for nobody: Rust has no stable prefetch there.
    #[inline(always)]
    fn prefetch(&self, pages: &Words<AtomicU32>, page: usize, hint: PrefetchHint) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{
                _MM_HINT_NTA, _MM_HINT_T0, _MM_HINT_T2, _mm_prefetch as prefetch,
            };
            let record = pages.address(page).cast::<i8>();
            // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
            unsafe {
                match hint {
                    PrefetchHint::T0 => prefetch::<_MM_HINT_T0>(record),
                    PrefetchHint::T2 => prefetch::<_MM_HINT_T2>(record),
                    PrefetchHint::Nta => prefetch::<_MM_HINT_NTA>(record),
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (pages, page, hint);
    }

    #[inline(always)]
    fn note(&self, event: Event) {
        self.notes.note(event);
    }

    fn work(&self, work: Work, node: NodeId, order: u8) -> u64 {
        let worker = self.worker.as_ref();
        worker.map_or(0, |worker| worker(work, node, order))
    }

    #[cold]
    fn bug(&self, bug: Bug) -> ! {
        if let Some(hook) = self.bug_hook {
            hook(&bug);
        }
        panic!("{bug}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::platform::{Field, Owned, Shared};

    #[test]
    fn page_records_are_interleaved_once_and_never_shared_by_two_allocators() {
        let plain = Plain::new();
        let spec = |id, fields| TableSpec { id, records: 64, fields };
        let (links, states) = (spec(TableId::Pages, 3), spec(TableId::PageStates, 1));
        let (first, first_states) = (plain.owned(links), plain.shared(states));
        let gap = first_states.address(5).addr() - first.address(5).addr();
        assert_eq!(gap, 12, "the state follows three words of links");
        let (second, second_states) = (plain.owned(links), plain.shared(states));
        first.set(5, Field(0), 1);
        first_states.store(5, Field(0), 2, Ordering::Relaxed);
        assert_eq!(second.get(5, Field(0)), 0);
        assert_eq!(second_states.peek(5, Field(0)), 0);
    }

    #[test]
    fn a_thread_works_as_the_cpu_it_registered_as() {
        let plain = Plain::new();
        assert!(plain.cpu().0 < configured_cpus());
        set_thread_cpu(Some(CpuId(u16::MAX)));
        assert_eq!(plain.cpu(), CpuId(u16::MAX));
        set_thread_cpu(None);
        assert!(plain.cpu().0 < configured_cpus());
    }

    #[test]
    fn the_clock_does_not_run_backwards() {
        let plain = Plain::new();
        let before = plain.now_ns();
        assert!(before > 0 && plain.now_ns() >= before);
    }
}
