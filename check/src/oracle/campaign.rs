//! Many runs, each from a seed of its own, and what is said when one fails.

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use super::op::Op;
use super::reach::Reach;
use super::run::Run;

/// Operations of one run.
pub const RUN_OPS: usize = 4000;
/// Seeds of runs lie this far apart, so that campaigns from neighbouring seeds share none.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Attempts at cutting a failing run shorter.
const CUTS_MAX: usize = 400;
/// Operations shown of a failing run.
const OPS_SHOWN: usize = 40;

/// Performs runs `first`, `first + stride`, … of a campaign of `ops` operations in all.
///
/// # Panics
/// A run fails: says its seed, policy and machine, and the fewest operations found that fail.
pub fn part(seed: u64, ops: u64, first: u64, stride: u64) -> Reach {
    let runs = ops.div_ceil(RUN_OPS as u64);
    let mut reach = Reach::default();
    for at in (first..runs).step_by(stride as usize) {
        let run = Run::draw(seed.wrapping_add(at.wrapping_mul(SEED_STEP)), RUN_OPS);
        match attempt(&run) {
            Ok(met) => reach.add(&met),
            Err((step, why)) => panic!("{}", report(&run, step, &why)),
        }
    }
    reach
}

/// Performs a run; in case of failure, the operation at work and the message.
fn attempt(run: &Run) -> Result<Reach, (usize, String)> {
    let step = Cell::new(0);
    catch_unwind(AssertUnwindSafe(|| run.perform(&step))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (step.get(), text.unwrap_or_else(|| "a panic without text".to_owned()))
    })
}

/// Cuts out pieces of a failing run as long as what is left still fails.
fn cut(run: &Run, step: usize) -> Run {
    let mut best = run.clone();
    best.ops.truncate(step + 1);
    let mut piece = best.ops.len().div_ceil(2);
    let mut cuts = 0;
    while piece > 0 && cuts < CUTS_MAX {
        let mut at = 0;
        while at < best.ops.len() && cuts < CUTS_MAX {
            let mut shorter = best.clone();
            shorter.ops.drain(at..(at + piece).min(best.ops.len()));
            cuts += 1;
            match attempt(&shorter) {
                Err((step, _)) => {
                    shorter.ops.truncate(step + 1);
                    best = shorter;
                }
                Ok(_) => at += piece,
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    best
}

thread_local! {
    static IS_HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether panics of this thread are printed: those of the attempts at a shorter run would bury
/// the one that matters.
fn hush(on: bool) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_HUSHED.get() {
                print(panic);
            }
        }));
    });
    IS_HUSHED.set(on);
}

fn report(run: &Run, step: usize, why: &str) -> String {
    hush(true);
    let short = cut(run, step);
    let why_short = attempt(&short).err().map_or_else(String::new, |(_, why)| why);
    hush(false);
    let mut text = format!(
        "{why}\n  at operation {step} of a run\n  seed: {}\n  policy: {}\n  machine: {:?}\n  \
         again: PAGEYARD_SEED={} PAGEYARD_SOAK_OPS={RUN_OPS} cargo test -p pageyard-check --test \
         oracle\n  {} operations are enough for: {why_short}\n",
        run.seed,
        run.policy,
        run.layout,
        run.seed,
        short.ops.len(),
    );
    let shown = short.ops.len().saturating_sub(OPS_SHOWN);
    for op in &short.ops[shown..] {
        let _ = writeln!(text, "    {}", line(op));
    }
    text
}

fn line(op: &Op) -> String {
    let busy = if op.busy > 0 { ", cache busy" } else { "" };
    format!("cpu {}{busy}: {:?}", op.cpu.0, op.action)
}
