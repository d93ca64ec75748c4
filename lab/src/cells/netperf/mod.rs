//! netperf on localhost: UDP_STREAM, TCP_STREAM and SCTP_STREAM_MANY. A sender takes pages, fills
//! them, and a receiver on another core of the socket copies them out and frees them there.
//!
//! What both sides do is in [`work::netperf`](super::work::netperf).

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pageyard::{GeometryError, Policy};
use pageyard_sim::machine::Machine;
use pageyard_sim::world::Job;

use super::dice::Dice;
use super::modelled::Modelled;
pub use super::work::netperf::Test;
use super::work::netperf::path::{Pair, leave_holes, message_bytes};
use super::work::netperf::socket::Socket;
use super::work::{Stage, Watch};
use super::yard::{Measured, Yard};

/// Pages of each node that page records exist for: more than caches and sockets can hold.
const REACH: u64 = 1 << 17;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which test.
    pub test: Test,
    /// Senders, each with a receiver: CPU 2 n sends, CPU 2 n + 1 receives.
    pub pairs: usize,
    /// Time that the sender of a message needs outside of what is modelled, picoseconds. The
    /// receiver needs a part of it.
    pub think_ps: u64,
    /// Blocks of order 3 of each node that are taken beforehand, as many free ones left between
    /// them: what is freed there cannot be joined. 0 is memory as after a start.
    pub holes: u64,
    /// Messages a pair before measuring, and while measuring.
    pub messages: (u64, u64),
    /// Seed of the starting points.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The measured stretch; the unit of work is a message that was sent.
    pub measured: Measured,
    /// Bits of a message.
    pub message_bits: u64,
    /// Messages that were dropped.
    pub dropped: u64,
    /// Blocks taken from the allocator while measuring.
    pub taken: u64,
    /// Different ones among them.
    pub distinct: u64,
    /// How often the five most used ones were taken, most used first.
    pub most_used: Vec<u64>,
}

impl Outcome {
    /// Throughput as netperf tells it: 10^6 bits a second, of one sender.
    #[must_use]
    pub fn mbps(&self) -> u64 {
        let bits = u128::from(self.measured.work) * u128::from(self.message_bits);
        let senders = self.measured.cpus as u128 / 2;
        (bits * 1_000_000 / u128::from(self.measured.elapsed_ps.max(1)) / senders.max(1)) as u64
    }
}

/// Counts messages and says when measuring begins and ends.
pub(crate) struct Meter {
    yard: Rc<Yard>,
    config: Config,
    sent: Cell<u64>,
    dropped: Cell<u64>,
    from_ps: Cell<Option<u64>>,
    /// How often each block was taken.
    blocks: RefCell<BTreeMap<u64, u64>>,
    result: RefCell<Option<Measured>>,
}

impl Watch for Meter {
    fn is_over(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// Messages were sent, of any pair.
    fn did(&self, messages: u64) {
        if self.is_over() {
            return;
        }
        self.sent.set(self.sent.get() + messages);
        let world = &self.yard.world;
        let pairs = self.config.pairs as u64;
        match self.from_ps.get() {
            None if self.sent.get() == pairs * self.config.messages.0 => {
                self.from_ps.set(Some(world.now()));
                self.sent.set(0);
                self.dropped.set(0);
            }
            Some(from_ps) if self.sent.get() == pairs * self.config.messages.1 => {
                *self.result.borrow_mut() = Some(Measured {
                    elapsed_ps: world.now() - from_ps,
                    work: self.sent.get(),
                    stats: world.stats(),
                    cpus: 2 * self.config.pairs,
                    holds_least: 0,
                    holds_wanted: 0,
                });
                return;
            }
            _ => return,
        }
        world.reset_stats();
    }

    /// Not told apart.
    fn spent(&self, _: usize, _: u64, _: u64) {}

    fn noted(&self, _: usize, dropped: u64) {
        if !self.is_over() {
            self.dropped.set(self.dropped.get() + dropped);
        }
    }

    fn took(&self, frame: u64) {
        if self.from_ps.get().is_some() && !self.is_over() {
            *self.blocks.borrow_mut().entry(frame).or_default() += 1;
        }
    }
}

/// Takes blocks of every node, with free ones between them.
fn punch(yard: &Yard, stage: &Modelled, holes: u64) {
    for node in 0..yard.world.costs.sockets {
        // A node without memory is nobody's: nothing can be taken from it.
        let cpu = yard.cpu_nodes.iter().position(|of| usize::from(of.0) == node);
        let Some(cpu) = cpu else { continue };
        yard.world.set_up_as(cpu);
        leave_holes(stage, holes);
    }
}

/// Runs one cell.
///
/// # Errors
/// The policy contradicts itself, or no such machine can be built.
pub fn run(machine: &Machine, policy: Policy, config: &Config) -> Result<Outcome, GeometryError> {
    let yard = Rc::new(Yard::new(machine, policy, REACH)?);
    let meter = Rc::new(Meter {
        yard: Rc::clone(&yard),
        config: *config,
        sent: Cell::new(0),
        dropped: Cell::new(0),
        from_ps: Cell::new(None),
        blocks: RefCell::default(),
        result: RefCell::new(None),
    });
    // Measured by messages, not by holds of locks.
    yard.allocator.platform().listen(Box::new(|_, _| {}));
    let stage = Modelled::new(&yard);
    punch(&yard, &stage, config.holes);
    let mut jobs: Vec<Job> = Vec::new();
    let (test, think_ps) = (config.test, config.think_ps);
    for (pair, late_ps) in late(config.seed, think_ps, config.pairs).enumerate() {
        let socket = Rc::new(Socket::new(&stage, test, pair));
        for is_sender in [true, false] {
            let (stage, socket, meter) = (stage.clone(), Rc::clone(&socket), Rc::clone(&meter));
            jobs.push(Box::new(move || {
                let (stage, socket) = (&stage, &*socket);
                stage.spend(late_ps);
                let pair = Pair { stage, socket, test, pair, think_ps };
                if is_sender { pair.send_all(&*meter) } else { pair.receive_all(&*meter) }
            }));
        }
    }
    yard.world.run(jobs);
    let measured = meter.result.borrow().clone().expect("it ran until it was measured");
    let blocks = meter.blocks.borrow();
    let mut most_used: Vec<u64> = blocks.values().copied().collect();
    most_used.sort_unstable_by(|a, b| b.cmp(a));
    most_used.truncate(5);
    Ok(Outcome {
        measured,
        message_bits: 8 * message_bytes(config.test),
        dropped: meter.dropped.get(),
        taken: blocks.values().sum(),
        distinct: blocks.len() as u64,
        most_used,
    })
}

/// When each pair begins, picoseconds: not all at one moment.
pub(crate) fn late(seed: u64, think_ps: u64, pairs: usize) -> impl Iterator<Item = u64> {
    let mut dice = Dice(seed);
    (0..pairs).map(move |_| dice.below(think_ps + 1_000_000))
}
