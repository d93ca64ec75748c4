//! Where every line is, and what it costs to reach it.
//!
//! A directory knows for each line the core that wrote it last, the cores that may have a copy and
//! the socket that it comes from. Tags know what the caches of cores and sockets have room for; a
//! line that had to go is asked for again. Contents of pages are in `contents.rs`.

use crate::bandwidth::{self, Pipe};
use crate::contents::Page;
use crate::costs::Costs;
use crate::streamer::Streamer;
use crate::tags::Tags;

/// A line of 64 bytes. Numbers are given out by the layout; contents of pages have the top bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u64);

pub(crate) const CONTENT: u64 = 1 << 63;
/// Lines of a page.
pub const PAGE_LINES: u64 = 64;
const CHUNK: usize = 256;
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

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Cores that may have a copy.
    cores: u128,
    /// Core + 1 that wrote last and has the only copy.
    owner: u16,
    home: u8,
    /// CPU + 1 whose locked instruction had the line last, and when it had it.
    locker: u16,
    locked_at: u64,
}

/// The caches and the memory of a machine.
pub struct Memory {
    pub(crate) costs: Costs,
    pub(crate) l1: Vec<Tags>,
    pub(crate) l2: Vec<Tags>,
    pub(crate) llc: Vec<Tags>,
    streamers: Vec<Streamer>,
    /// Lines that prefetchers asked for, by core, and when they are here.
    coming: Vec<Vec<(u64, u64)>>,
    directory: Vec<Option<Box<[State; CHUNK]>>>,
    home_of: Box<dyn Fn(u64) -> u8>,
    /// Memory of each socket.
    channels: Vec<Pipe>,
    /// Links by socket that sends and socket that gets.
    links: Vec<Vec<Pipe>>,
    /// Contents of pages that several CPUs use.
    pub(crate) shared: Vec<Option<Box<Page>>>,
}

impl Memory {
    /// Empty caches over `lines` lines with a directory entry; `home_of` says which socket a line's
    /// memory belongs to (contents: by page).
    #[must_use]
    pub fn new(costs: &Costs, lines: u64, home_of: Box<dyn Fn(u64) -> u8>) -> Memory {
        let (cores, sockets) = (costs.cores(), costs.sockets);
        assert!(cores <= 128, "a machine has at most 128 cores");
        let mut directory = Vec::new();
        directory.resize_with((lines as usize).div_ceil(CHUNK), || None);
        Memory {
            costs: costs.clone(),
            l1: vec![Tags::new(costs.l1); cores],
            l2: vec![Tags::new(costs.l2); cores],
            llc: vec![Tags::adaptive(costs.llc); sockets],
            streamers: vec![Streamer::default(); cores],
            coming: vec![Vec::new(); cores],
            directory,
            home_of,
            channels: vec![Pipe::new(costs.dram_bytes_per_us); sockets],
            links: vec![vec![Pipe::new(costs.link_bytes_per_us); sockets]; sockets],
            shared: Vec::new(),
        }
    }

    fn state(&mut self, line: u64) -> &mut State {
        let chunk = &mut self.directory[line as usize / CHUNK];
        let states = chunk.get_or_insert_with(|| {
            let first = line - line % CHUNK as u64;
            let mut states = Box::new([State::default(); CHUNK]);
            for (at, state) in states.iter_mut().enumerate() {
                state.home = (self.home_of)(first + at as u64);
            }
            states
        });
        &mut states[line as usize % CHUNK]
    }

    /// A CPU asks for a line to execute a locked instruction: which CPU had it for one last, and
    /// when. Requests are served in the order in which they are made: nobody gets a line that is
    /// still on its way to somebody else.
    pub fn last_locked(&mut self, line: Line) -> (Option<usize>, u64) {
        let state = self.state(line.0);
        (usize::from(state.locker).checked_sub(1), state.locked_at)
    }

    /// A CPU's locked instruction has a line from a time on.
    pub fn note_locked(&mut self, line: Line, cpu: usize, at: u64) {
        let state = self.state(line.0);
        (state.locker, state.locked_at) = (cpu as u16 + 1, at);
    }

    /// Uses a line on a core at a time: where it was, and after how long it is there, picoseconds.
    pub fn access(&mut self, core: usize, line: Line, how: Use, now: u64) -> (Source, u64) {
        let line = line.0;
        debug_assert!(line & CONTENT == 0);
        let bit = 1u128 << core;
        let state = *self.state(line);
        let has = state.cores & bit != 0;
        let owns = usize::from(state.owner) == core + 1;
        if has && (owns || how == Use::Read) {
            let found = self.own_copy(core, line, now);
            if found.0 != Source::L1 {
                self.stream(core, line, now);
            }
            return found;
        }
        let (source, latency) = match how {
            Use::Read => self.fetch(core, line, state, now),
            Use::Write => self.take(core, line, state, now),
        };
        self.fill(core, line, now);
        let others = self.state(line);
        match how {
            Use::Read => (others.cores, others.owner) = (others.cores | bit, 0),
            Use::Write => (others.cores, others.owner) = (bit, core as u16 + 1),
        }
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

    fn own_copy(&mut self, core: usize, line: u64, now: u64) -> (Source, u64) {
        let coming = &mut self.coming[core];
        if let Some(at) = coming.iter().position(|&(coming, _)| coming == line) {
            let (_, ready) = coming.swap_remove(at);
            if ready > now {
                self.l1[core].insert(line);
                return (Source::L2, (ready - now).max(self.costs.l2_ps));
            }
        }
        if self.l1[core].touch(line) {
            return (Source::L1, self.costs.l1_ps);
        }
        if self.l2[core].touch(line) {
            self.l1[core].insert(line);
            return (Source::L2, self.costs.l2_ps);
        }
        // The directory says more than the tags remember: contents pushed it out.
        let state = *self.state(line);
        let found = self.below(core, line, state.home, now);
        self.fill(core, line, now);
        found
    }

    /// From the last-level cache of the socket, else from memory.
    fn below(&mut self, core: usize, line: u64, home: u8, now: u64) -> (Source, u64) {
        let socket = self.costs.socket_of(core);
        if self.llc[socket].touch(line) {
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
    fn fetch(&mut self, core: usize, line: u64, state: State, now: u64) -> (Source, u64) {
        let socket = self.costs.socket_of(core);
        if let Some(owner) = usize::from(state.owner).checked_sub(1).filter(|&owner| owner != core)
        {
            let theirs = self.costs.socket_of(owner);
            // What was written goes to the last-level cache of whoever wrote and whoever reads.
            self.keep_last(theirs, line, now);
            self.keep_last(socket, line, now);
            return self.reach_core(socket, theirs, usize::from(state.home));
        }
        let in_socket = state.cores & self.cores_of(socket);
        // An inclusive last level has the line, too, but a single core may have written it since.
        let is_asked = self.costs.llc_inclusive && in_socket.count_ones() == 1;
        if in_socket != 0 && (!self.llc[socket].touch(line) || is_asked) {
            // Another core of the socket has it clean, and the snoop filter knows.
            return (Source::Llc, self.costs.clean_socket_ps);
        }
        self.below(core, line, state.home, now)
    }

    /// Makes a line this core's alone.
    fn take(&mut self, core: usize, line: u64, state: State, now: u64) -> (Source, u64) {
        let bit = 1u128 << core;
        let socket = self.costs.socket_of(core);
        let has = state.cores & bit != 0;
        let fetched =
            if has { self.own_copy(core, line, now) } else { self.fetch(core, line, state, now) };
        let others = state.cores & !bit;
        if others == 0 || matches!(fetched.0, Source::Core | Source::FarCore) {
            return fetched;
        }
        let far = others & !self.cores_of(socket);
        let told = match far {
            0 => self.reach_core(socket, socket, usize::from(state.home)),
            _ => {
                let theirs = self.costs.socket_of(127 - far.leading_zeros() as usize);
                self.reach_core(socket, theirs, usize::from(state.home))
            }
        };
        if told.1 > fetched.1 { told } else { fetched }
    }

    pub(crate) fn reach_core(&self, socket: usize, theirs: usize, home: usize) -> (Source, u64) {
        let source = if socket == theirs { Source::Core } else { Source::FarCore };
        (source, self.costs.dirty_ps[socket][theirs][home])
    }

    fn cores_of(&self, socket: usize) -> u128 {
        let per = self.costs.cores_per_socket;
        let ones = if per == 128 { u128::MAX } else { (1u128 << per) - 1 };
        ones << (socket * per)
    }

    /// Puts a line into a core's caches; what has to go from the second level goes to the last.
    pub(crate) fn fill(&mut self, core: usize, line: u64, now: u64) {
        self.l1[core].insert(line);
        if let Some(gone) = self.l2[core].insert(line) {
            self.evict(core, gone, now);
        }
    }

    fn evict(&mut self, core: usize, gone: u64, now: u64) {
        let socket = self.costs.socket_of(core);
        self.keep_last(socket, gone, now);
        if gone & CONTENT != 0 {
            return;
        }
        let state = self.state(gone);
        state.cores &= !(1u128 << core);
        if usize::from(state.owner) == core + 1 {
            state.owner = 0;
        }
    }

    /// A line nobody asked for comes along, if nobody is writing it.
    fn fetch_along(&mut self, core: usize, line: u64, now: u64) {
        if line as usize / CHUNK >= self.directory.len() {
            return;
        }
        let state = *self.state(line);
        let bit = 1u128 << core;
        if state.owner != 0 || state.cores & bit != 0 {
            return;
        }
        let socket = self.costs.socket_of(core);
        let latency = if self.llc[socket].touch(line) {
            self.costs.llc_ps
        } else {
            self.reach_memory(socket, usize::from(state.home), now).1
        };
        let coming = &mut self.coming[core];
        coming.retain(|&(_, ready)| ready > now);
        coming.push((line, now + latency));
        if let Some(gone) = self.l2[core].insert(line) {
            self.evict(core, gone, now);
        }
        self.state(line).cores |= bit;
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
