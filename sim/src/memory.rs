//! Where every line is, and what it costs to reach it.
//!
//! A directory knows for each line the core that wrote it last, the cores that may have a copy and
//! the socket that it comes from. Tags know what the caches of cores and sockets have room for; a
//! line that had to go is asked for again. Contents of pages are in `contents.rs`.

use crate::bandwidth::{self, Pipe};
use crate::contents::Page;
use crate::costs::Costs;
use crate::directory::{Cores, Directory, State};
use crate::last_level::LastLevel;
use crate::streamer::Streamer;
use crate::tags::Tags;

/// A line of 64 bytes. Numbers are given out by the layout; contents of pages have the top bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u64);

/// Flag of lines that are contents of pages.
pub(crate) const CONTENT: u64 = 1 << 63;
/// Lines of a page.
pub const PAGE_LINES: u64 = 64;
const LINE_BYTES: u64 = 64;

/// What is done to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Read.
    Read,
    /// Written, or read to be written.
    Write,
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// First-level cache.
    L1,
    /// Second-level cache.
    L2,
    /// Last-level cache of the socket.
    Llc,
    /// Memory of the own socket.
    Dram,
    /// Memory of another socket.
    FarDram,
    /// Written by, or to be taken from, another core of the socket.
    Core,
    /// The same in another socket.
    FarCore,
}

impl Source {
    /// All, nearest first.
    pub const ALL: [Source; 7] = [
        Source::L1,
        Source::L2,
        Source::Llc,
        Source::Dram,
        Source::FarDram,
        Source::Core,
        Source::FarCore,
    ];
}

/// Lines that a core's prefetchers asked for.
#[derive(Clone, Debug, Default)]
struct Coming {
    /// Each, and when it is here.
    lines: Vec<(u64, u64)>,
    /// A bit for the last six bits of each: nearly every use of a line ends with this.
    some: u64,
}

impl Coming {
    const fn bit(line: u64) -> u64 {
        1 << (line % 64)
    }

    #[inline]
    fn lacks(&self, line: u64) -> bool {
        self.some & Coming::bit(line) == 0
    }

    /// Takes a line out: when it is here.
    fn take(&mut self, line: u64) -> Option<u64> {
        if self.lacks(line) {
            return None;
        }
        let at = self.lines.iter().position(|&(coming, _)| coming == line)?;
        let (_, ready) = self.lines.swap_remove(at);
        self.mark();
        Some(ready)
    }

    /// Adds a line, and forgets those that are here by now.
    fn add(&mut self, line: u64, now: u64, ready: u64) {
        self.lines.retain(|&(_, ready)| ready > now);
        self.lines.push((line, ready));
        self.mark();
    }

    fn mark(&mut self) {
        self.some = self.lines.iter().fold(0, |some, &(line, _)| some | Coming::bit(line));
    }
}

/// The caches and the memory of a machine.
pub struct Memory {
    pub(crate) costs: Costs,
    pub(crate) l1: Vec<Tags>,
    pub(crate) l2: Vec<Tags>,
    pub(crate) llc: LastLevel,
    /// Socket of each core.
    sockets: Vec<u8>,
    /// Cores of each socket.
    of_socket: Vec<Cores>,
    streamers: Vec<Streamer>,
    /// Lines that prefetchers asked for, by core.
    coming: Vec<Coming>,
    directory: Directory,
    /// Memory of each socket.
    channels: Vec<Pipe>,
    /// Links by socket that sends and socket that gets.
    links: Vec<Vec<Pipe>>,
    /// Contents of pages that several CPUs use.
    pub(crate) shared: Vec<Option<Box<Page>>>,
    /// Room for lines of a page that the core did not have, each with set and name of the one that
    /// had to go.
    pub(crate) missed: Vec<(u64, (usize, u32))>,
}

impl Memory {
    /// Empty caches over `lines` lines with a directory entry; `home_of` says which socket a line's
    /// memory belongs to (contents: by page).
    #[must_use]
    pub fn new(costs: &Costs, lines: u64, home_of: Box<dyn Fn(u64) -> u8>) -> Memory {
        let (cores, sockets) = (costs.cores(), costs.sockets);
        let per = costs.cores_per_socket;
        Memory {
            costs: costs.clone(),
            l1: vec![Tags::new(costs.l1); cores],
            l2: vec![Tags::new(costs.l2); cores],
            llc: LastLevel::new(costs.llc, sockets, lines),
            sockets: (0..cores).map(|core| costs.socket_of(core) as u8).collect(),
            of_socket: (0..sockets).map(|socket| Cores::span(socket * per, per)).collect(),
            streamers: vec![Streamer::default(); cores],
            coming: vec![Coming::default(); cores],
            directory: Directory::new(lines, cores, home_of),
            channels: vec![Pipe::new(costs.dram_bytes_per_us); sockets],
            links: vec![vec![Pipe::new(costs.link_bytes_per_us); sockets]; sockets],
            shared: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// Socket of a core.
    #[inline]
    pub(crate) fn socket_of(&self, core: usize) -> usize {
        usize::from(self.sockets[core])
    }

    /// A CPU asks for a line to execute a locked instruction: which CPU had it for one last, and
    /// when. Requests are served in the order in which they are made: nobody gets a line that is
    /// still on its way to somebody else.
    pub fn last_locked(&mut self, line: Line) -> (Option<usize>, u64) {
        let state = self.directory.state(line.0);
        (usize::from(state.locker).checked_sub(1), state.locked_at)
    }

    /// Brings what is known of a line near on the host: it will be used soon.
    #[inline]
    pub fn bring(&self, line: Line) {
        self.directory.bring(line.0);
    }

    /// A CPU's locked instruction has a line from a time on.
    pub fn note_locked(&mut self, line: Line, cpu: usize, at: u64) {
        let state = self.directory.state(line.0);
        (state.locker, state.locked_at) = (cpu as u16 + 1, at);
    }

    /// Uses a line on a core at a time: where it was, and after how long it is there, picoseconds.
    #[inline]
    pub fn access(&mut self, core: usize, line: Line, how: Use, now: u64) -> (Source, u64) {
        let line = line.0;
        debug_assert!(line & CONTENT == 0);
        let (owner, has) = self.directory.owner_and_has(line, core);
        let is_free = has && (how == Use::Read || usize::from(owner) == core + 1);
        // By far the most.
        if is_free && self.coming[core].lacks(line) && self.l1[core].touch(line) {
            return (Source::L1, self.costs.l1_ps);
        }
        self.reach(core, line, (how, is_free), now)
    }

    /// The same for a line that is not in the first level, or not to be used there as it is:
    /// `is_free` says that the core need ask nobody.
    #[inline(never)]
    fn reach(
        &mut self,
        core: usize,
        line: u64,
        (how, is_free): (Use, bool),
        now: u64,
    ) -> (Source, u64) {
        let state = *self.directory.state(line);
        if is_free {
            let found = self.own_copy(core, line, state.home, now);
            if found.0 != Source::L1 {
                self.stream(core, line, now);
            }
            return found;
        }
        let (me, cores) = (Cores::one(core), self.directory.cores(line));
        let (source, latency) = match how {
            Use::Read => self.fetch(core, line, (state, cores), now),
            Use::Write => self.take(core, line, (state, cores), now),
        };
        self.fill(core, line, now);
        // Filling may have put out this very line's copies elsewhere: they are asked for again.
        let (cores, owner) = match how {
            Use::Read => (self.directory.cores(line).and(me), 0),
            Use::Write => (me, core as u16 + 1),
        };
        self.directory.set_cores(line, cores);
        self.directory.state(line).owner = owner;
        if self.costs.adjacent_line && matches!(source, Source::Dram | Source::FarDram) {
            self.fetch_along(core, line ^ 1, now);
        }
        self.stream(core, line, now);
        (source, latency)
    }

    fn stream(&mut self, core: usize, line: u64, now: u64) {
        for next in self.streamers[core].on_line(line) {
            self.fetch_along(core, next, now);
        }
    }

    fn own_copy(&mut self, core: usize, line: u64, home: u8, now: u64) -> (Source, u64) {
        if let Some(ready) = self.coming[core].take(line)
            && ready > now
        {
            self.l1[core].insert(line);
            return (Source::L2, (ready - now).max(self.costs.l2_ps));
        }
        if self.l1[core].touch(line) {
            return (Source::L1, self.costs.l1_ps);
        }
        if self.l2[core].touch(line) {
            self.l1[core].insert(line);
            return (Source::L2, self.costs.l2_ps);
        }
        // The directory says more than the tags remember: contents pushed it out.
        let found = self.below(core, line, home, now);
        self.fill(core, line, now);
        found
    }

    /// From the last-level cache of the socket, else from memory.
    fn below(&mut self, core: usize, line: u64, home: u8, now: u64) -> (Source, u64) {
        let socket = self.socket_of(core);
        if self.llc.touch(socket, line) {
            return (Source::Llc, self.costs.llc_ps);
        }
        if self.costs.llc_inclusive {
            self.keep_last(socket, line, now);
        }
        self.reach_memory(socket, usize::from(home), now)
    }

    fn reach_memory(&mut self, socket: usize, home: usize, now: u64) -> (Source, u64) {
        let latency = self.memory_ps(socket, home, now);
        let waited = self.transfer(socket, home, now, LINE_BYTES);
        (if socket == home { Source::Dram } else { Source::FarDram }, latency + waited)
    }

    /// Latency of a socket's memory from another at its load of the moment.
    pub(crate) fn memory_ps(&self, socket: usize, home: usize, now: u64) -> u64 {
        let added = bandwidth::added(&self.costs.loaded, self.channels[home].load(now));
        self.costs.dram_ps[socket][home] + added
    }

    /// Brings bytes from a socket's memory to another socket: how long they wait for room.
    pub(crate) fn transfer(&mut self, socket: usize, home: usize, now: u64, bytes: u64) -> u64 {
        let waited = self.channels[home].send(now, bytes);
        if socket == home { waited } else { waited.max(self.links[home][socket].send(now, bytes)) }
    }

    /// Takes bytes back to a socket's memory. Nobody waits for that, but it takes room.
    pub(crate) fn write_back(&mut self, home: usize, now: u64, bytes: u64) {
        self.channels[home].send(now, bytes);
    }

    /// Reads a line that this core has no copy of.
    fn fetch(
        &mut self,
        core: usize,
        line: u64,
        (state, cores): (State, Cores),
        now: u64,
    ) -> (Source, u64) {
        let socket = self.socket_of(core);
        if let Some(owner) = usize::from(state.owner).checked_sub(1).filter(|&owner| owner != core)
        {
            let theirs = self.socket_of(owner);
            // What was written goes to the last-level cache of whoever wrote and whoever reads.
            self.keep_last(theirs, line, now);
            self.keep_last(socket, line, now);
            return self.reach_core(socket, theirs, usize::from(state.home));
        }
        let in_socket = cores.within(self.of_socket[socket]);
        // An inclusive last level has the line, too, but a single core may have written it since.
        let is_asked = self.costs.llc_inclusive && in_socket.is_one();
        if !in_socket.is_empty() && (!self.llc.touch(socket, line) || is_asked) {
            // Another core of the socket has it clean, and the snoop filter knows.
            return (Source::Llc, self.costs.clean_socket_ps);
        }
        self.below(core, line, state.home, now)
    }

    /// Makes a line this core's alone.
    fn take(
        &mut self,
        core: usize,
        line: u64,
        (state, cores): (State, Cores),
        now: u64,
    ) -> (Source, u64) {
        let (me, socket) = (Cores::one(core), self.socket_of(core));
        let fetched = match cores.within(me).is_empty() {
            false => self.own_copy(core, line, state.home, now),
            true => self.fetch(core, line, (state, cores), now),
        };
        let others = cores.without(me);
        if others.is_empty() || matches!(fetched.0, Source::Core | Source::FarCore) {
            return fetched;
        }
        let far = others.without(self.of_socket[socket]);
        let theirs = far.last().map_or(socket, |core| self.socket_of(core));
        let told = self.reach_core(socket, theirs, usize::from(state.home));
        if told.1 > fetched.1 { told } else { fetched }
    }

    pub(crate) fn reach_core(&self, socket: usize, theirs: usize, home: usize) -> (Source, u64) {
        let source = if socket == theirs { Source::Core } else { Source::FarCore };
        (source, self.costs.dirty_ps[socket][theirs][home])
    }

    /// Puts a line into a core's caches; what has to go from the second level goes to the last.
    pub(crate) fn fill(&mut self, core: usize, line: u64, now: u64) {
        self.l1[core].insert(line);
        if let Some(gone) = self.l2[core].insert(line) {
            self.evict(core, gone, now);
        }
    }

    pub(crate) fn evict(&mut self, core: usize, gone: u64, now: u64) {
        let socket = self.socket_of(core);
        self.keep_last(socket, gone, now);
        if gone & CONTENT != 0 {
            return;
        }
        let cores = self.directory.cores(gone).without(Cores::one(core));
        self.directory.set_cores(gone, cores);
        let state = self.directory.state(gone);
        if usize::from(state.owner) == core + 1 {
            state.owner = 0;
        }
    }

    /// A line nobody asked for comes along, if nobody is writing it.
    fn fetch_along(&mut self, core: usize, line: u64, now: u64) {
        if !self.directory.has(line) {
            return;
        }
        let (state, cores) = (*self.directory.state(line), self.directory.cores(line));
        let me = Cores::one(core);
        if state.owner != 0 || !cores.within(me).is_empty() {
            return;
        }
        let socket = self.socket_of(core);
        let latency = if self.llc.touch(socket, line) {
            self.costs.llc_ps
        } else {
            self.reach_memory(socket, usize::from(state.home), now).1
        };
        self.coming[core].add(line, now, now + latency);
        if let Some(gone) = self.l2[core].insert(line) {
            self.evict(core, gone, now);
        }
        let cores = self.directory.cores(line).and(me);
        self.directory.set_cores(line, cores);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Span;
    use crate::costs::tests::round;

    fn machine() -> Memory {
        Memory::new(&round(2, 4), 1 << 20, Box::new(|line| u8::from(line >= 1 << 19)))
    }

    #[test]
    fn a_line_costs_what_its_place_costs() {
        let mut m = machine();
        let line = Line(5);
        assert_eq!(m.access(0, line, Use::Read, 0), (Source::Dram, 80_000));
        assert_eq!(m.access(0, line, Use::Read, 0), (Source::L1, 1_000));
        assert_eq!(m.access(1, line, Use::Read, 0), (Source::Llc, 20_000));
        assert_eq!(m.access(4, line, Use::Read, 0), (Source::FarDram, 140_000));
        // Every other copy must go: the far one takes longest.
        assert_eq!(m.access(0, line, Use::Write, 0), (Source::FarCore, 170_000));
        assert_eq!(m.access(0, line, Use::Write, 0), (Source::L1, 1_000));
        assert_eq!(m.access(1, line, Use::Read, 0), (Source::Core, 50_000));
        assert_eq!(m.access(1, line, Use::Write, 0), (Source::Core, 50_000));
        assert_eq!(m.access(5, line, Use::Write, 0), (Source::FarCore, 110_000));
        let far = Line((1 << 19) + 3);
        assert_eq!(m.access(0, far, Use::Write, 0), (Source::FarDram, 140_000));
        assert_eq!(m.access(5, far, Use::Read, 0), (Source::FarCore, 170_000));
    }

    #[test]
    fn cores_beyond_the_first_128_are_told_apart() {
        let mut m = Memory::new(&round(2, 96), 1 << 10, Box::new(|_| 0));
        let line = Line(5);
        assert_eq!(m.access(130, line, Use::Read, 0), (Source::FarDram, 140_000));
        assert_eq!(m.access(191, line, Use::Read, 0), (Source::Llc, 20_000));
        assert_eq!(m.access(2, line, Use::Read, 0).0, Source::Dram);
        // The furthest copies are told: those of the other socket, and not of core 130 - 128.
        assert_eq!(m.access(2, line, Use::Write, 0), (Source::FarCore, 170_000));
        assert_eq!(m.access(2, line, Use::Write, 0), (Source::L1, 1_000));
        assert_eq!(m.access(130, line, Use::Write, 0), (Source::FarCore, 110_000));
        assert_eq!(m.access(130, line, Use::Write, 0), (Source::L1, 1_000));
        assert_eq!(m.access(191, line, Use::Read, 0), (Source::Core, 50_000));
    }

    #[test]
    fn what_no_longer_fits_is_fetched_again() {
        let mut m = machine();
        for line in 0..40_000 {
            m.access(0, Line(line), Use::Write, 0);
        }
        assert_eq!(m.access(0, Line(39_999), Use::Read, 0).0, Source::L1);
        assert_eq!(m.access(0, Line(39_000), Use::Read, 0).0, Source::L2);
        assert_eq!(m.access(0, Line(5), Use::Read, 0).0, Source::Llc);
    }

    #[test]
    fn contents_push_out_records() {
        let mut m = machine();
        m.access(0, Line(7), Use::Write, 0);
        let span = |page| Span { first: page * PAGE_LINES, lines: PAGE_LINES, home: 0 };
        for page in 0..=512 {
            m.use_private(0, span(page), Use::Write, 0);
        }
        assert_eq!(m.access(0, Line(7), Use::Read, 0).0, Source::Llc);
    }
}
