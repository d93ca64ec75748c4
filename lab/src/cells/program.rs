//! What each CPU of a recording asked for, as a program that any machine can run.
//!
//! A block is followed from its allocation to its free by its page frame number; the frame itself
//! is forgotten: whoever runs the program gets other pages. What the events do not say is supposed:
//! a block that is freed without having been seen allocated was there from the beginning; one whose
//! frame is allocated again was freed just before, by whoever takes it.

use std::collections::BTreeMap;

use pageyard::{MigrateType, Request, Scope, ZoneKind};
use pageyard_trace::error::TraceError;
use pageyard_trace::event::{Event, Kind, PFN_NONE};
use pageyard_trace::recording::Recording;

use crate::twin::replay::request::of_flags;

/// Largest order of the modelled machines.
const MAX_ORDER: u8 = 10;
/// Page frame numbers are less: 2^52 bytes of memory at most (x86-64).
const PFN_END: u64 = 1 << 40;

/// One thing that a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Takes a block.
    Alloc {
        /// Its number in the program.
        block: u32,
        /// What was asked for.
        request: Request,
    },
    /// Gives a block back, or a part of one that was split since it was taken.
    Free {
        /// Its number.
        block: u32,
        /// First page of the part.
        offset: u16,
        /// Order of the part.
        order: u8,
    },
}

/// A step with the time since the CPU's last one, nanoseconds.
pub type Timed = (u64, Step);

/// What the events did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supposed {
    /// Blocks in use at the first event, seen only when they were freed.
    pub in_use: u64,
    /// Of them, those whose frame had been seen free before: their allocation left no event.
    pub allocs_unseen: u64,
    /// Frees that left no event: the frame was allocated again.
    pub frees_unseen: u64,
    /// Events that no such machine can have emitted: a frame not aligned to its order, an order
    /// that does not exist.
    pub impossible: u64,
}

/// A recording, ready to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Steps of each CPU that did anything, in order of their recorded numbers.
    pub cpus: Vec<Vec<Timed>>,
    /// Blocks in use at first: number, order, and which of `cpus` frees it.
    pub held: Vec<(u32, u8, u16)>,
    /// Blocks in all.
    pub blocks: u32,
    /// Most pages in use at any time.
    pub peak_pages: u64,
    /// From the first event to the last allocation or free, nanoseconds.
    pub recorded_ns: u64,
    /// What was supposed.
    pub supposed: Supposed,
    /// Unreadable places of the file, which were passed over.
    pub damage: u64,
}

/// A part of a block that is in use: its order, its block, and its first page there.
#[derive(Clone, Copy, Debug)]
struct Part {
    order: u8,
    block: u32,
    offset: u16,
}

/// Reads events in order of time.
#[derive(Debug, Default)]
struct Builder {
    program: Program,
    /// Recorded CPU of each of the program's.
    cpu_of: BTreeMap<u16, usize>,
    last_ns: Vec<u64>,
    first_ns: Option<u64>,
    end_ns: u64,
    /// Parts in use, by their first frame. They do not overlap.
    live: BTreeMap<u64, Part>,
    /// Frames that were seen free, by the blocks that they were freed in.
    freed: BTreeMap<u64, u8>,
    pages: u64,
}

impl Builder {
    fn on_event(&mut self, event: &Event) {
        self.first_ns.get_or_insert(event.time_ns);
        match event.kind {
            Kind::PageAlloc { pfn: PFN_NONE, .. } => {}
            Kind::PageAlloc { pfn, order, migratetype, gfp } if is_block(pfn, order) => {
                // Modelled machines have one zone a node.
                let highest = ZoneKind::Movable;
                let request = Request { highest, ..of_flags(order, migratetype, gfp) };
                self.on_alloc(event, pfn, request);
            }
            Kind::PageFree { pfn, order } if is_block(pfn, order) => {
                self.on_free(event, pfn, order);
            }
            Kind::PageAlloc { .. } | Kind::PageFree { .. } => {
                self.program.supposed.impossible += 1;
            }
            _ => {}
        }
    }

    fn cpu(&mut self, event: &Event) -> usize {
        let next = self.program.cpus.len();
        let cpu = *self.cpu_of.entry(event.cpu).or_insert(next);
        if cpu == next {
            self.program.cpus.push(Vec::new());
            self.last_ns.push(self.first_ns.unwrap_or(event.time_ns));
        }
        cpu
    }

    fn step(&mut self, event: &Event, step: Step) {
        let cpu = self.cpu(event);
        // A stamp that runs backwards, as clocks of several CPUs do, adds no time.
        let gap = event.time_ns.saturating_sub(self.last_ns[cpu]);
        self.last_ns[cpu] = self.last_ns[cpu].max(event.time_ns);
        self.end_ns = self.end_ns.max(event.time_ns);
        self.program.cpus[cpu].push((gap, step));
    }

    fn new_block(&mut self, order: u8) -> u32 {
        let block = self.program.blocks;
        self.program.blocks += 1;
        self.pages += 1 << order;
        self.program.peak_pages = self.program.peak_pages.max(self.pages);
        block
    }

    /// Parts in use that have pages among these.
    fn among(&self, pfn: u64, order: u8) -> Vec<(u64, Part)> {
        let end = pfn + (1 << order);
        let around = self.live.range(..pfn).next_back();
        let around = around.filter(|&(&at, part)| at + (1 << part.order) > pfn);
        around.into_iter().chain(self.live.range(pfn..end)).map(|(at, part)| (*at, *part)).collect()
    }

    fn on_alloc(&mut self, event: &Event, pfn: u64, request: Request) {
        for (at, part) in self.among(pfn, request.order) {
            self.program.supposed.frees_unseen += 1;
            self.give_back(event, at, part);
        }
        let block = self.new_block(request.order);
        self.live.insert(pfn, Part { order: request.order, block, offset: 0 });
        self.step(event, Step::Alloc { block, request });
    }

    fn on_free(&mut self, event: &Event, pfn: u64, order: u8) {
        let found = self.among(pfn, order);
        match found[..] {
            [] => self.on_first_seen(event, pfn, order),
            [(at, part)] if part.order > order => {
                let part = self.split(at, part, pfn, order);
                self.give_back(event, pfn, part);
            }
            _ => found.into_iter().for_each(|(at, part)| self.give_back(event, at, part)),
        }
    }

    fn on_first_seen(&mut self, event: &Event, pfn: u64, order: u8) {
        self.program.supposed.in_use += 1;
        self.program.supposed.allocs_unseen += u64::from(self.freed.contains_key(&pfn));
        let cpu = self.cpu(event) as u16;
        let block = self.new_block(order);
        self.program.held.push((block, order, cpu));
        self.give_back(event, pfn, Part { order, block, offset: 0 });
    }

    /// Halves a part until one of its parts is the wanted one, which is returned.
    fn split(&mut self, at: u64, mut part: Part, pfn: u64, order: u8) -> Part {
        let mut at = at;
        self.live.remove(&at);
        while part.order > order {
            part.order -= 1;
            let half = 1u64 << part.order;
            let upper = Part { offset: part.offset + half as u16, ..part };
            if pfn >= at + half {
                self.live.insert(at, part);
                (at, part) = (at + half, upper);
            } else {
                self.live.insert(at + half, upper);
            }
        }
        part
    }

    fn give_back(&mut self, event: &Event, pfn: u64, part: Part) {
        self.live.remove(&pfn);
        self.freed.insert(pfn, part.order);
        self.pages -= 1 << part.order;
        let Part { order, block, offset } = part;
        self.step(event, Step::Free { block, offset, order });
    }

    fn finish(self) -> Program {
        let mut program = self.program;
        program.recorded_ns = self.end_ns.saturating_sub(self.first_ns.unwrap_or(0));
        // Whatever was there at first is there all the time.
        let first: u64 = program.held.iter().map(|&(_, order, _)| 1 << order).sum();
        program.peak_pages += first;
        // By recorded number, not by who came first.
        let mut cpus = std::mem::take(&mut program.cpus);
        let mut numbers = vec![0; cpus.len()];
        for (new, &old) in self.cpu_of.values().enumerate() {
            program.cpus.push(std::mem::take(&mut cpus[old]));
            numbers[old] = new as u16;
        }
        for (_, _, cpu) in &mut program.held {
            *cpu = numbers[usize::from(*cpu)];
        }
        program
    }
}

fn is_block(pfn: u64, order: u8) -> bool {
    order <= MAX_ORDER && pfn < PFN_END && pfn & ((1 << order) - 1) == 0
}

/// A request for a block that was in use at first: nothing tells its type, and most such pages are
/// a process' own.
#[must_use]
pub fn request_of_held(order: u8) -> Request {
    Request { mobility: MigrateType::Movable, ..Request::user(order) }
}

/// What recorded requests differ in, beside their order.
fn bits_of(request: &Request) -> u64 {
    let flags = [
        request.may_wait,
        request.may_wake,
        request.high_priority,
        request.non_block,
        request.no_marks,
        request.no_retry,
        request.retry_may_fail,
        request.scope == Scope::ThisNode,
    ];
    let bits = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
    bits << 8 | request.mobility as u64
}

impl Program {
    /// Reads a recording. Unreadable places are passed over, and counted.
    ///
    /// # Errors
    /// There is no such recording, or the system refuses to read it.
    pub fn read(recording: &Recording) -> Result<Program, TraceError> {
        let mut builder = Builder::default();
        let mut reader = recording.events()?;
        let mut block = Vec::new();
        while reader.read_block(&mut block)? {
            block.iter().for_each(|event| builder.on_event(event));
        }
        let mut program = builder.finish();
        program.damage = reader.damage().count();
        Ok(program)
    }

    /// A text that differs if anything does that a run depends on.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut bytes = Vec::new();
        let mut number = |n: u64| bytes.extend_from_slice(&n.to_le_bytes());
        for &(block, order, cpu) in &self.held {
            [u64::from(block), u64::from(order), u64::from(cpu)].into_iter().for_each(&mut number);
        }
        for cpu in &self.cpus {
            number(cpu.len() as u64);
            for (gap, step) in cpu {
                number(*gap);
                match *step {
                    Step::Alloc { block, request } => {
                        [0, u64::from(block), u64::from(request.order)]
                            .into_iter()
                            .for_each(&mut number);
                        number(bits_of(&request));
                    }
                    Step::Free { block, offset, order } => {
                        [1, block.into(), offset.into(), order.into()]
                            .into_iter()
                            .for_each(&mut number);
                    }
                }
            }
        }
        format!("{:032x}", crate::fnv::hash(&bytes))
    }

    /// The program of events in order of time.
    #[must_use]
    pub fn of_events(events: &[Event]) -> Program {
        let mut builder = Builder::default();
        events.iter().for_each(|event| builder.on_event(event));
        builder.finish()
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
