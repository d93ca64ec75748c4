//! Virtual CPUs and the order in which they run.
//!
//! Each CPU is a coroutine with a clock of its own. The one with the least time runs; ties go to
//! the lower number. A CPU gives way only where others could see it: before it takes or leaves a
//! lock and before it uses a word that CPUs race on. It may be suspended inside a lock's closure,
//! so whoever wants that lock then waits in the lock's queue, without any clock running on.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use pageyard::Event;
use pageyard::platform::{Field, Site};

use crate::contents::{Span, Touched};
use crate::costs::{Costs, STREAM_LINES};
use crate::flow::Flow;
use crate::guess::{Guesses, Place};
use crate::instructions::Work;
use crate::layout::{Layout, Structure};
use crate::memory::{Line, Memory, PAGE_LINES, Source, Use};
use crate::platform::coroutine::{Resumer, Thread};
use crate::stats::{LineCounts, LockAt, LockTime, Stats};
use crate::turns::Turns;
use crate::window::Window;

/// Instructions that stand behind one access to a table. In integer code about 36 of 100
/// instructions load or store (SPECint 2006: 26 % and 10 %; Hennessy and Patterson, Computer
/// Architecture, 5th edition, appendix A), so that one access comes with 2.8 instructions.
pub const INSTRUCTIONS_PER_ACCESS: u64 = 3;
struct Cpu {
    /// Its core, and the other thread of that.
    core: usize,
    sibling: Option<usize>,
    window: Window,
    flow: Flow,
    guesses: Guesses,
    /// Time of an instruction, in thousandths of the time alone: more while its sibling works.
    slower: u64,
    /// The locks it holds, outermost first, and where their uses of lines are counted.
    held: Vec<(LockAt, usize)>,
}

impl Cpu {
    fn execute(&mut self, instructions: u64) {
        self.window.execute(instructions, self.slower);
    }
}

/// A modelled machine at work.
pub struct World {
    /// Figures of the machine.
    pub costs: Costs,
    /// Lines of the tables.
    pub layout: Layout,
    memory: RefCell<Memory>,
    cpus: RefCell<Vec<Cpu>>,
    running: Cell<usize>,
    ready: RefCell<BinaryHeap<Reverse<(u64, usize)>>>,
    resumers: RefCell<Vec<Resumer>>,
    is_charging: Cell<bool>,
    stats: RefCell<Stats>,
    lines: RefCell<LineCounts>,
    turns: RefCell<Turns>,
}

/// What a virtual CPU runs.
pub type Job = Box<dyn FnOnce()>;

impl World {
    /// A machine at time 0 with empty caches. Nothing costs anything until [`World::run`].
    #[must_use]
    pub fn new(costs: Costs, layout: Layout) -> Rc<World> {
        let homes = layout.clone();
        let memory = Memory::new(&costs, layout.lines(), Box::new(move |line| homes.home(line)));
        let (cores, all) = (costs.cores(), costs.cpus());
        let sibling = |cpu| (costs.threads_per_core > 1).then(|| (cpu + cores) % all);
        let cpu = |cpu| Cpu {
            core: costs.core_of(cpu),
            sibling: sibling(cpu),
            window: Window::new(costs.window),
            flow: Flow::default(),
            guesses: Guesses::default(),
            slower: 1000,
            held: Vec::new(),
        };
        let cpus: Vec<Cpu> = (0..costs.cpus()).map(cpu).collect();
        Rc::new(World {
            memory: RefCell::new(memory),
            resumers: RefCell::new(vec![Resumer::default(); cpus.len()]),
            cpus: RefCell::new(cpus),
            running: Cell::new(0),
            ready: RefCell::new(BinaryHeap::new()),
            is_charging: Cell::new(false),
            stats: RefCell::default(),
            lines: RefCell::default(),
            turns: RefCell::default(),
            costs,
            layout,
        })
    }

    /// The CPU that runs.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.running.get()
    }

    /// Lets set-up work as a CPU, at no cost.
    pub fn set_up_as(&self, cpu: usize) {
        self.running.set(cpu);
    }

    /// Time of the CPU that runs, picoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.cpus.borrow()[self.cpu()].window.now()
    }

    /// Time of a CPU, picoseconds. If it waits for a lock, that is when it began to.
    #[must_use]
    pub fn time_of(&self, cpu: usize) -> u64 {
        self.cpus.borrow()[cpu].window.now()
    }

    /// What was counted since the last reset.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.borrow().clone();
        self.lines.borrow().tell(&mut stats);
        stats
    }

    /// Forgets what was counted; clocks and caches stay.
    pub fn reset_stats(&self) {
        *self.stats.borrow_mut() = Stats::default();
        self.lines.borrow_mut().reset();
    }

    /// Runs one job on each of the first CPUs until all have ended.
    pub fn run(self: &Rc<World>, jobs: Vec<Job>) {
        assert!(jobs.len() <= self.costs.cpus(), "more jobs than CPUs");
        let mut coroutines = Vec::with_capacity(jobs.len());
        let at_work = jobs.len();
        for (cpu, job) in jobs.into_iter().enumerate() {
            let world = Rc::clone(self);
            coroutines.push(Thread::new(move |resumer| {
                world.resumers.borrow_mut()[cpu] = resumer;
                job();
            }));
            {
                let state = &mut self.cpus.borrow_mut()[cpu];
                if state.sibling.is_some_and(|sibling| sibling < at_work) {
                    state.window.share(self.costs.window);
                }
            }
            self.set_idle(cpu, false);
            self.ready.borrow_mut().push(Reverse((self.time_of(cpu), cpu)));
        }
        self.is_charging.set(true);
        let mut left = coroutines.len();
        while left > 0 {
            let next = self.ready.borrow_mut().pop();
            let Reverse((_, cpu)) = next.expect("some CPU can run: a lock is never lost");
            self.running.set(cpu);
            if coroutines[cpu].resume() {
                self.set_idle(cpu, true);
                left -= 1;
            }
        }
        self.is_charging.set(false);
    }

    fn suspend(&self) {
        let resumer = self.resumers.borrow()[self.cpu()];
        resumer.suspend();
    }

    /// Gives way to every CPU whose time is less.
    pub fn sync(&self) {
        if !self.is_charging.get() {
            return;
        }
        let me = (self.now(), self.cpu());
        let is_first = self.ready.borrow().peek().is_none_or(|&Reverse(other)| me < other);
        if !is_first {
            self.ready.borrow_mut().push(Reverse(me));
            self.suspend();
        }
    }

    /// Waits, off the ready queue, until somebody calls [`World::wake`].
    pub fn park(&self) {
        let cpu = self.cpu();
        self.set_idle(cpu, true);
        self.suspend();
        self.set_idle(cpu, false);
    }

    /// Lets a parked CPU go on at a time.
    pub fn wake(&self, cpu: usize, time: u64) {
        let now = {
            let window = &mut self.cpus.borrow_mut()[cpu].window;
            window.wait_until(time);
            window.now()
        };
        self.ready.borrow_mut().push(Reverse((now, cpu)));
    }

    /// Whether time passes; set-up is free.
    #[inline]
    #[must_use]
    pub fn is_charging(&self) -> bool {
        self.is_charging.get()
    }

    /// A CPU waits in a lock's queue or has ended, or works again: its sibling has the core to
    /// itself, or no longer. Told when it changes, because it is needed with every access.
    fn set_idle(&self, cpu: usize, is_idle: bool) {
        let cpus = &mut *self.cpus.borrow_mut();
        if let Some(sibling) = cpus[cpu].sibling {
            cpus[sibling].slower = if is_idle { 1000 } else { self.costs.smt_slower };
        }
    }

    /// Executes instructions on the CPU that runs.
    pub fn execute(&self, instructions: u64) {
        if self.is_charging.get() {
            self.cpus.borrow_mut()[self.cpu()].execute(instructions);
        }
    }

    /// Executes instructions and the stores among them, which hit the first level.
    pub fn work(&self, work: Work) {
        if self.is_charging.get() {
            let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
            cpu.execute(work.instructions);
            (0..work.stores).for_each(|_| cpu.window.store_here());
        }
    }

    /// Spends time that is no instruction's: a think time.
    pub fn spend(&self, ps: u64) {
        if self.is_charging.get() {
            let window = &mut self.cpus.borrow_mut()[self.cpu()].window;
            window.wait_until(window.now() + ps);
        }
    }

    fn reach(&self, cpu: &Cpu, line: Line, how: Use, now: u64) -> (Source, u64) {
        let (core, place) = (cpu.core, cpu.held.last().map_or(LineCounts::NO_LOCK, |held| held.1));
        let mut found = self.memory.borrow_mut().access(core, line, how, now);
        let structure = self.layout.structure(line);
        if structure == Structure::Counters {
            found = self.turns.borrow_mut().take(core, line, found.0, found.1, now);
        }
        self.lines.borrow_mut().count(structure, found.0, place);
        found
    }

    /// Brings what is known of a line near on the host: it will be used soon. Costs no time of the
    /// machine and changes nothing.
    #[inline]
    pub fn bring(&self, line: Line) {
        self.memory.borrow().bring(line);
    }

    /// Reads a line.
    pub fn read(&self, line: Line) {
        self.use_line(line, Use::Read, None, None);
    }

    /// Writes a line.
    pub fn write(&self, line: Line) {
        self.use_line(line, Use::Write, None, None);
    }

    /// Uses a word of the record of a page: not before the page's number is known. Returns when the
    /// value is known. A link that was just stored is known though its line is not here; of other
    /// words the kernel also reads some that it did not just store (flags).
    pub fn use_record(&self, line: Line, page: usize, link: Option<Field>, how: Use) -> u64 {
        let word = link.map(|field| (page as u64) << 8 | u64::from(field.0));
        self.use_line(line, how, Some(page), word)
    }

    /// Uses a line whose address is known. Returns when the value is known.
    pub fn use_head(&self, line: Line, how: Use) -> u64 {
        self.use_line(line, how, None, None)
    }

    /// A link of a neighbour on a list is loaded and compared before it is changed
    /// (`CONFIG_DEBUG_LIST`, set in the kernels whose instructions were counted): its line is
    /// waited for as any other load's. Its instructions are among those counted. Not during set-up,
    /// which is free.
    pub fn check_neighbour(&self, line: Line, page: usize) {
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        self.touch(cpu, line, Use::Read, Some(page), None);
    }

    /// The CPU that runs loaded a pointer to a page, which it knows at a time.
    pub fn points(&self, page: usize, at: u64) {
        if self.is_charging.get() {
            self.cpus.borrow_mut()[self.cpu()].flow.points(page, at);
        }
    }

    fn use_line(&self, line: Line, how: Use, page: Option<usize>, word: Option<u64>) -> u64 {
        if !self.is_charging.get() {
            return 0;
        }
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        cpu.execute(INSTRUCTIONS_PER_ACCESS);
        self.touch(cpu, line, how, page, word)
    }

    /// Loads or stores, at no instruction's time. Returns when the value is known, or the store
    /// seen.
    fn touch(
        &self,
        cpu: &mut Cpu,
        line: Line,
        how: Use,
        page: Option<usize>,
        word: Option<u64>,
    ) -> u64 {
        let now = cpu.window.now();
        let (source, latency) = self.reach(cpu, line, how, now);
        let Cpu { window, flow, .. } = cpu;
        let begins = page.map_or(now, |page| flow.known(page, now));
        match how {
            Use::Read => {
                let arrives = flow.arrives(line, begins);
                let mut done = (begins + latency).max(arrives.unwrap_or(0));
                if source != Source::L1 {
                    flow.asked(line, begins, done, now);
                }
                if arrives.is_some() && word.is_some_and(|word| flow.is_stored(word)) {
                    done = begins + self.costs.l1_ps;
                }
                match source {
                    Source::L1 if begins == now && arrives.is_none() => {}
                    Source::L1 => window.wait_for(done - now),
                    _ => window.load(done - now),
                }
                flow.loaded = done;
                done
            }
            Use::Write => {
                // A line is asked for when the store leaves: when all that was loaded before is
                // known. It waits for what is on its way then.
                let leaves = begins.max(window.loaded());
                let arrives = flow.arrives(line, leaves);
                let done = leaves.max(arrives.unwrap_or(0)) + latency;
                if source != Source::L1 {
                    flow.asked(line, leaves, done, now);
                }
                if source == Source::L1 && leaves == now && arrives.is_none() {
                    window.store_here();
                } else {
                    window.store(done - now);
                }
                if let Some(word) = word {
                    flow.stores(word);
                }
                done
            }
        }
    }

    /// Loads a line whose address is the last load's result, and waits for it, as a pointer chase
    /// does. Latencies are from load to use: the one instruction is in them.
    pub fn load_and_wait(&self, line: Line) {
        if !self.is_charging.get() {
            return;
        }
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        let now = cpu.window.now();
        let (_, latency) = self.reach(cpu, line, Use::Read, now);
        let Cpu { window, flow, .. } = cpu;
        window.wait_until(flow.arrives(line, now).unwrap_or(0).max(now + latency));
    }

    /// Branches on whether a page, which was just loaded, begins a free block. Guessed right, the
    /// CPU runs on; guessed wrong, it begins again when the load is here.
    pub fn branch(&self, page: usize, is_free: bool) {
        if !self.is_charging.get() {
            return;
        }
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        let place = match cpu.held.last() {
            Some((LockAt::Zone(Site::Refill | Site::Direct), _)) => Place::Take,
            Some((LockAt::Zone(_), _)) => Place::Give,
            _ => Place::Else,
        };
        if !cpu.guesses.is_right(place, page, is_free) {
            cpu.window.wait_until(cpu.flow.loaded);
            cpu.window.wait_until(cpu.window.now() + self.costs.mispredict_ps);
        }
    }

    /// Calls through a pointer, in a kernel with retpolines.
    pub fn call_through_retpoline(&self) {
        self.spend(self.costs.retpoline_ps);
    }

    /// The allocator took a block, or halved one: the search through the orders had found only
    /// empty lists before it. Whether a list is empty is known once the link of the block that was
    /// taken from it last is: a wrong guess is found out then.
    pub fn searched(&self, event: &Event) {
        if !self.is_charging.get() {
            return;
        }
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        let is_found = match event {
            Event::ZoneTake { .. } => true,
            Event::Split { .. } => false,
            _ => return,
        };
        if !cpu.guesses.is_search_right(is_found) {
            cpu.window.wait_until(cpu.flow.pointed);
            cpu.window.wait_until(cpu.window.now() + self.costs.mispredict_ps);
        }
    }

    /// Brings a line near without waiting for it.
    pub fn prefetch(&self, line: Line) {
        if self.is_charging.get() {
            let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
            cpu.execute(2);
            let now = cpu.window.now();
            let (source, latency) = self.reach(cpu, line, Use::Read, now);
            if source != Source::L1 {
                cpu.window.prefetch(latency);
                let now = cpu.window.now();
                cpu.flow.asked(line, now, now + latency, now);
            }
        }
    }

    /// A locked instruction on a line: everything before it is done first, and the line is here
    /// once whoever asked for it earlier has had it.
    pub fn locked(&self, line: Line) {
        if !self.is_charging.get() {
            return;
        }
        let me = self.cpu();
        let cpu = &mut self.cpus.borrow_mut()[me];
        cpu.execute(INSTRUCTIONS_PER_ACCESS);
        cpu.window.fence();
        let (last, at) = self.memory.borrow_mut().last_locked(line);
        let other = last.filter(|&last| last != me);
        let is_siblings =
            other.is_some_and(|other| self.costs.core_of(other) == self.costs.core_of(me));
        let now = cpu.window.now();
        let begins = if other.is_some() { now.max(at) } else { now };
        let (source, latency) = self.reach(cpu, line, Use::Write, begins);
        // Published transfers are measured with locked instructions: they are in the latency.
        let latency = match source {
            Source::L1 if is_siblings => self.costs.atomic_ps + self.costs.sibling_ps,
            Source::L1 => self.costs.atomic_ps,
            _ => latency,
        };
        self.memory.borrow_mut().note_locked(line, me, begins + latency);
        cpu.window.wait_until(begins + latency);
    }

    /// A plain store that others wait for: returns when they can see it. The CPU goes on.
    pub fn publish(&self, line: Line) -> u64 {
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        let (_, latency) = self.reach(cpu, line, Use::Write, cpu.window.now());
        cpu.window.store(latency);
        cpu.window.visible()
    }

    /// The same where other CPUs have asked for the line: once they have had it.
    pub(crate) fn publish_in_turn(&self, line: Line) -> u64 {
        let served = self.memory.borrow_mut().last_locked(line).1;
        let cpu = &mut self.cpus.borrow_mut()[self.cpu()];
        let begins = cpu.window.now().max(served);
        let (_, latency) = self.reach(cpu, line, Use::Write, begins);
        cpu.window.store(begins - cpu.window.now() + latency);
        cpu.window.visible()
    }

    /// Somebody is served a line up to a time: whoever asks for it comes after.
    pub(crate) fn served(&self, line: Line, cpu: usize, until: u64) {
        self.memory.borrow_mut().note_locked(line, cpu, until);
    }

    /// What another CPU pays to see a line at a time, and to write it too.
    pub fn seen_by(&self, cpu: usize, line: Line, how: Use, time: u64) -> u64 {
        self.reach(&self.cpus.borrow()[cpu], line, how, time).1
    }

    /// When everything this CPU wrote is visible.
    #[must_use]
    pub fn visible(&self) -> u64 {
        self.cpus.borrow()[self.cpu()].window.visible()
    }

    /// Writes all the contents of a page that nobody else uses; `bytes_per_instruction` at a time.
    pub fn contents(&self, page: u64, home: u8, bytes_per_instruction: u64) {
        self.private(page, home, Use::Write, bytes_per_instruction);
    }

    /// Reads or writes all the contents of a page that nobody else uses.
    pub fn private(&self, page: u64, home: u8, how: Use, bytes_per_instruction: u64) {
        if self.is_charging.get() {
            let core = self.costs.core_of(self.cpu());
            let span = Span { first: page * PAGE_LINES, lines: PAGE_LINES, home };
            let touched = self.memory.borrow_mut().use_private(core, span, how, self.now());
            self.stream([touched], 4096, bytes_per_instruction);
        }
    }

    /// Copies contents between pages that other CPUs use, too; both spans have the same lines.
    pub fn copy(&self, from: Span, to: Span, bytes_per_instruction: u64) {
        if self.is_charging.get() {
            let core = self.costs.core_of(self.cpu());
            let now = self.now();
            let touched = {
                let mut memory = self.memory.borrow_mut();
                let read = memory.use_shared(core, from, Use::Read, now);
                [read, memory.use_shared(core, to, Use::Write, now)]
            };
            self.stream(touched, 64 * from.lines, bytes_per_instruction);
        }
    }

    /// Lines stream in as fast as their places allow: from caches, as many are under way as there
    /// are fill buffers; from memory, as the prefetcher has room for. Instructions go on meanwhile.
    fn stream<const N: usize>(&self, touched: [Touched; N], bytes: u64, per_instruction: u64) {
        let from = self.now();
        self.execute(bytes / per_instruction.max(1));
        let buffers = self.costs.window.fill_buffers as u64;
        let of = |sum: fn(&Touched) -> u64| touched.iter().map(sum).sum::<u64>();
        let waited = touched.iter().map(|touched| touched.waited_ps).max().unwrap_or(0);
        let took = of(|t| t.near_ps) / buffers + of(|t| t.far_ps) / STREAM_LINES + waited;
        self.cpus.borrow_mut()[self.cpu()].window.wait_until(from + took);
        let mut stats = self.stats.borrow_mut();
        for (source, lines) in Source::ALL.into_iter().zip(0..) {
            let lines: u64 = touched.iter().map(|touched| touched.lines[lines]).sum();
            stats.events += lines;
            if lines > 0 {
                *stats.contents.entry(source).or_default() += lines;
            }
        }
    }

    /// The CPU that runs goes on with a lock, or leaves it.
    pub fn holds(&self, at: Option<LockAt>) {
        let held = &mut self.cpus.borrow_mut()[self.cpu()].held;
        match at {
            Some(at) => held.push((at, self.lines.borrow_mut().place(at))),
            None => drop(held.pop()),
        }
    }

    /// Counts time at a lock.
    pub fn count_lock(&self, at: LockAt, wait_ps: Option<u64>, hold_ps: u64) {
        if !self.is_charging.get() {
            return;
        }
        let mut stats = self.stats.borrow_mut();
        let time: &mut LockTime = stats.locks.entry(at).or_default();
        time.taken += 1;
        time.waited += u64::from(wait_ps.is_some());
        time.wait_ps += wait_ps.unwrap_or(0);
        time.hold_ps += hold_ps;
        time.hold_max_ps = time.hold_max_ps.max(hold_ps);
    }

    /// What a line belongs to.
    #[must_use]
    pub fn structure(&self, line: Line) -> Structure {
        self.layout.structure(line)
    }
}
