//! What is in pages: 64 lines each, through the same caches as everything else.
//!
//! A page of one process alone is [private](Memory::use_private): nobody keeps a directory of its
//! lines, because they are many. Pages that one CPU writes and another reads, as buffers of a
//! socket, are
//! [shared](Memory::use_shared): for each line it is known who wrote it last and who has read it
//! since. What was written and falls out of the last-level cache goes back to memory and takes room
//! there.

use crate::memory::{CONTENT, Memory, PAGE_LINES, Source, Use};

const LINE_BYTES: u64 = 64;
/// Readers of a line that are remembered; who is forgotten loses the copy.
const READERS: usize = 2;

/// Consecutive lines of page contents: page number times [`PAGE_LINES`] and on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// How many.
    pub lines: u64,
    /// Socket whose memory it is.
    pub home: u8,
}

/// Where the lines of a span came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Lines by source, in the order of [`Source::ALL`].
    pub lines: [u64; Source::ALL.len()],
    /// Latencies of lines that were in the core's or the socket's caches, added up, picoseconds.
    pub near_ps: u64,
    /// Latencies of those that came from memory or from another core, added up, picoseconds.
    pub far_ps: u64,
    /// How long the last of them waited for room in memory and links beside that, picoseconds.
    pub waited_ps: u64,
}

impl Touched {
    fn add(&mut self, found: (Source, u64)) {
        self.add_all(found, 1);
    }

    fn add_all(&mut self, (source, latency): (Source, u64), lines: u64) {
        self.lines[source as usize] += lines;
        match source {
            Source::L1 | Source::L2 | Source::Llc => self.near_ps += lines * latency,
            _ => self.far_ps += lines * latency,
        }
    }

    /// Lines of a source.
    #[must_use]
    pub fn from(&self, source: Source) -> u64 {
        self.lines[source as usize]
    }
}

/// Who has a line.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Core + 1 that wrote it, while nobody has read it since.
    writer: u16,
    /// Cores + 1 that read it since it was written, most recent first.
    readers: [u16; READERS],
    /// Memory has older contents.
    is_dirty: bool,
}

/// A shared page.
pub(crate) struct Page {
    home: u8,
    lines: [Held; PAGE_LINES as usize],
}

impl Memory {
    /// Reads or writes contents that no other CPU has.
    pub fn use_private(&mut self, core: usize, span: Span, how: Use, now: u64) -> Touched {
        debug_assert!(span.first % PAGE_LINES + span.lines <= PAGE_LINES, "lines of one page");
        let (socket, home) = (self.socket_of(core), usize::from(span.home));
        let memory_ps = self.memory_ps(socket, home, now);
        let first = span.first | CONTENT;
        // First what the core's own caches do: it depends on nothing below them.
        self.llc.bring(first);
        self.l2[core].bring_all(first, span.lines);
        self.l1[core].enter_all(first, span.lines, |_, _| {});
        let mut missed = std::mem::take(&mut self.missed);
        self.l2[core].enter_all(first, span.lines, |line, gone| missed.push((line, gone)));
        let mut touched = Touched::default();
        touched.add_all((Source::L2, self.costs.l2_ps), span.lines - missed.len() as u64);
        let sets = self.l2[core].sets();
        let gone = |(set, name)| (name != 0).then(|| sets.join(set, name));
        self.llc.look_ahead(socket, missed.iter().filter_map(|&(_, place)| gone(place)));
        let from_memory = (if socket == home { Source::Dram } else { Source::FarDram }, memory_ps);
        // Nearly always; it stays so while lines are put in that had to go from the second level,
        // which are of other pages if no two of this one share a set.
        let is_nowhere =
            self.llc.lack(first) && self.l2[core].sets().number() >= PAGE_LINES as usize;
        for &(line, place) in &missed {
            if is_nowhere {
                self.llc.miss_all(line);
                touched.add(from_memory);
            } else {
                touched.add(match self.llc.touch_all(socket, line) {
                    (_, true) => (Source::Llc, self.costs.llc_ps),
                    (Some(theirs), false) => self.reach_core(socket, theirs, home),
                    (None, false) => from_memory,
                });
            }
            if let Some(gone) = gone(place) {
                self.evict(core, gone, now);
            }
        }
        missed.clear();
        self.missed = missed;
        self.move_lines(&mut touched, (socket, home), now);
        if how == Use::Write {
            // For each line that comes in, one that was written before goes out.
            let lines = touched.from(Source::Dram) + touched.from(Source::FarDram);
            self.write_back(home, now, LINE_BYTES * lines);
        }
        touched
    }

    /// Reads or writes contents that other CPUs use, too.
    pub fn use_shared(&mut self, core: usize, span: Span, how: Use, now: u64) -> Touched {
        let (socket, home) = (self.socket_of(core), usize::from(span.home));
        let memory_ps = self.memory_ps(socket, home, now);
        let mut touched = Touched::default();
        for line in span.first..span.first + span.lines {
            let others = self.others(core, line, span.home);
            let is_here = self.l2[core].touch(line | CONTENT);
            let found = match (how, is_here) {
                (Use::Read, true) => (Source::L2, self.costs.l2_ps),
                (Use::Read, false) => self.find(core, line, &others, home, memory_ps),
                (Use::Write, _) => self.own(core, line, is_here, &others, home, memory_ps),
            };
            touched.add(found);
            self.fill(core, line | CONTENT, now);
            self.note_use(core, line, how, now);
        }
        self.move_lines(&mut touched, (socket, home), now);
        touched
    }

    /// What came from memory takes room there.
    fn move_lines(&mut self, touched: &mut Touched, (socket, home): (usize, usize), now: u64) {
        let lines = touched.from(Source::Dram) + touched.from(Source::FarDram);
        if lines > 0 {
            touched.waited_ps = self.transfer(socket, home, now, LINE_BYTES * lines);
        }
    }

    fn held(&mut self, line: u64, home: u8) -> &mut Held {
        let page = (line / PAGE_LINES) as usize;
        if self.shared.len() <= page {
            self.shared.resize_with(page + 1, || None);
        }
        let new = || Box::new(Page { home, lines: [Held::default(); PAGE_LINES as usize] });
        &mut self.shared[page].get_or_insert_with(new).lines[(line % PAGE_LINES) as usize]
    }

    /// Other cores whose second level has the line; the first slot is for who wrote it.
    fn others(&mut self, core: usize, line: u64, home: u8) -> [Option<usize>; 1 + READERS] {
        let held = *self.held(line, home);
        [held.writer, held.readers[0], held.readers[1]].map(|who| {
            let other = usize::from(who).checked_sub(1)?;
            (other != core && self.l2[other].has(line | CONTENT)).then_some(other)
        })
    }

    /// Where a line is that this core has not.
    fn find(
        &mut self,
        core: usize,
        line: u64,
        others: &[Option<usize>; 1 + READERS],
        home: usize,
        memory_ps: u64,
    ) -> (Source, u64) {
        let socket = self.socket_of(core);
        if let Some(writer) = others[0] {
            return self.reach_core(socket, self.socket_of(writer), home);
        }
        if self.llc.touch(socket, line | CONTENT) {
            return (Source::Llc, self.costs.llc_ps);
        }
        let readers = others[1..].iter().flatten();
        let mut sockets = readers.map(|&reader| self.socket_of(reader));
        if sockets.clone().any(|theirs| theirs == socket) {
            return (Source::Core, self.costs.clean_socket_ps);
        }
        let far = sockets.next().or_else(|| {
            (0..self.costs.sockets).find(|&s| s != socket && self.llc.has(s, line | CONTENT))
        });
        match far {
            Some(theirs) => self.reach_core(socket, theirs, home),
            None => (if socket == home { Source::Dram } else { Source::FarDram }, memory_ps),
        }
    }

    /// Makes a line this core's alone: brings it, and tells all others that it is gone.
    fn own(
        &mut self,
        core: usize,
        line: u64,
        is_here: bool,
        others: &[Option<usize>; 1 + READERS],
        home: usize,
        memory_ps: u64,
    ) -> (Source, u64) {
        let socket = self.socket_of(core);
        let is_mine = usize::from(self.held(line, home as u8).writer) == core + 1;
        let fetched = match (is_here, is_mine) {
            (true, true) => (Source::L2, self.costs.l2_ps),
            // Here, but to be written only once the socket's directory has said so.
            (true, false) => (Source::Llc, self.costs.llc_ps),
            (false, _) => self.find(core, line, others, home, memory_ps),
        };
        let mut slowest = fetched;
        for &other in others.iter().flatten() {
            let told = self.reach_core(socket, self.socket_of(other), home);
            slowest = if told.1 > slowest.1 { told } else { slowest };
            self.l1[other].remove(line | CONTENT);
            self.l2[other].remove(line | CONTENT);
        }
        for of in 0..self.costs.sockets {
            if of != socket || !self.costs.llc_inclusive {
                self.llc.remove(of, line | CONTENT);
            }
        }
        slowest
    }

    /// Remembers who has the line now.
    fn note_use(&mut self, core: usize, line: u64, how: Use, now: u64) {
        let me = core as u16 + 1;
        let held = self.held(line, 0);
        if how == Use::Write {
            *held = Held { writer: me, readers: [0; READERS], is_dirty: true };
            return;
        }
        if held.writer == me || held.readers[0] == me {
            return;
        }
        let writer = std::mem::take(&mut held.writer);
        if held.readers[1] == me {
            held.readers.swap(0, 1);
            return;
        }
        let mut before = [held.readers[0], held.readers[1]];
        if writer != 0 {
            before = [writer, before[0]];
        }
        let forgotten = if writer != 0 { held.readers } else { [held.readers[1], 0] };
        held.readers = [me, before[0]];
        let forgotten = forgotten.into_iter().filter(|&who| who != 0 && who != before[0]);
        for other in forgotten {
            let other = usize::from(other) - 1;
            self.l1[other].remove(line | CONTENT);
            self.l2[other].remove(line | CONTENT);
        }
        if let Some(writer) = usize::from(writer).checked_sub(1) {
            // What was written goes to the last level of whoever wrote and whoever reads.
            self.keep_last(self.socket_of(writer), line | CONTENT, now);
            self.keep_last(self.socket_of(core), line | CONTENT, now);
        }
    }

    /// Puts a line into a socket's last-level cache; what has to go and was written goes to memory.
    pub(crate) fn keep_last(&mut self, socket: usize, line: u64, now: u64) {
        let Some(gone) = self.llc.insert(socket, line) else {
            return;
        };
        if gone & CONTENT == 0 {
            return;
        }
        let gone = gone & !CONTENT;
        let page = self.shared.get_mut((gone / PAGE_LINES) as usize).and_then(Option::as_mut);
        let Some(page) = page else {
            return;
        };
        let (home, held) = (page.home, &mut page.lines[(gone % PAGE_LINES) as usize]);
        if std::mem::take(&mut held.is_dirty) {
            self.write_back(usize::from(home), now, LINE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Costs;
    use crate::costs::tests::round;

    fn machine() -> Memory {
        Memory::new(&round(2, 4), 1 << 10, Box::new(|_| 0))
    }

    fn page(at: u64) -> Span {
        Span { first: at * PAGE_LINES, lines: PAGE_LINES, home: 0 }
    }

    fn all(source: Source) -> [u64; 7] {
        let mut lines = [0; 7];
        lines[source as usize] = PAGE_LINES;
        lines
    }

    #[test]
    fn what_one_core_writes_another_reads_from_there() {
        let mut m = machine();
        let mut shared = |core, how| m.use_shared(core, page(3), how, 0).lines;
        assert_eq!(shared(0, Use::Write), all(Source::Dram));
        assert_eq!(shared(0, Use::Write), all(Source::L2));
        assert_eq!(shared(1, Use::Read), all(Source::Core));
        assert_eq!(shared(1, Use::Read), all(Source::L2));
        assert_eq!(shared(0, Use::Read), all(Source::L2), "both have it now");
        assert_eq!(shared(0, Use::Write), all(Source::Core), "the reader has to be told");
        assert_eq!(shared(1, Use::Read), all(Source::Core));
        assert_eq!(shared(4, Use::Read), all(Source::FarCore), "of the last level over there");
        assert_eq!(shared(2, Use::Read), all(Source::Llc));
    }

    #[test]
    fn what_left_the_writers_cache_is_nearer_to_the_reader() {
        let mut m = machine();
        // Twice the second level.
        for at in 0..512 {
            m.use_shared(0, page(at), Use::Write, 0);
        }
        assert_eq!(m.use_shared(1, page(0), Use::Read, 0).lines, all(Source::Llc));
        assert_eq!(m.use_shared(1, page(511), Use::Read, 0).lines, all(Source::Core));
        let (far, near) = (m.use_shared(0, page(511), Use::Write, 0), page(0));
        assert_eq!(far.lines, all(Source::Core));
        let again = m.use_shared(0, near, Use::Write, 0);
        assert_eq!(again.lines, all(Source::Core), "the reader has a copy still");
    }

    #[test]
    fn what_was_written_and_falls_out_takes_room_in_memory() {
        let mut m = Memory::new(
            &Costs { dram_bytes_per_us: 100_000, ..round(1, 1) },
            1 << 10,
            Box::new(|_| 0),
        );
        // Second and last level: 1280 pages. Nothing was written when the first fall out.
        let mut waited = |from: u64, how, now| {
            (from..from + 1400).map(|at| m.use_shared(0, page(at), how, now).waited_ps).max()
        };
        let read = waited(0, Use::Read, 0);
        let written = waited(2_000, Use::Write, 1_000_000_000_000);
        let both = waited(4_000, Use::Write, 2_000_000_000_000);
        assert!(read.is_some() && read <= written && written < both, "{read:?} {both:?}");
    }

    #[test]
    fn private_contents_are_where_they_were_left() {
        let mut m = machine();
        assert_eq!(m.use_private(0, page(0), Use::Write, 0).lines, all(Source::Dram));
        assert_eq!(m.use_private(0, page(0), Use::Write, 0).lines, all(Source::L2));
        for at in 1..=512 {
            m.use_private(0, page(at), Use::Write, 0);
        }
        assert_eq!(m.use_private(0, page(0), Use::Write, 0).lines, all(Source::Llc));
    }
}
