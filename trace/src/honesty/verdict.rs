//! From counts to sentences: what the recording can and cannot be used for.

use super::print::{number, per_cent};
use super::{FreeLists, Report};
use crate::recording::Recording;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// Conclusions must take it into account.
    Care,
    /// The recording cannot be trusted.
    Bad,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// Its weight.
    pub grade: Grade,
    /// The finding, with its numbers.
    pub text: String,
}

/// Share of pages allocated while in use, in millionths, above which frees must have been lost: a
/// complete recording has none, and a few can come from readers that merge CPUs by microseconds.
const REUSED_PPM_MAX: u64 = 1000;
/// Share of pages without an event, in thousandths, above which it is worth a word.
const MISSING_PER_MILLE: u64 = 10;

/// All findings, in the order in which one should read them.
pub(super) fn of(report: &Report, recording: &Recording) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut say = |grade, text: String| verdicts.push(Verdict { grade, text });
    events(report, &mut say);
    losses(report, &mut say);
    pages(report, &mut say);
    counters(report, &mut say);
    unseen(report, &mut say);
    snapshots(report, recording, &mut say);
    verdicts
}

fn events(report: &Report, say: &mut impl FnMut(Grade, String)) {
    let has = |name: &str| report.kinds.iter().any(|kind| kind.name == name);
    if report.pages.alloc_events + report.pages.free_events == 0 {
        say(Grade::Bad, "there is no allocation and no free in it".to_string());
    } else if report.pages.free_events == 0 || report.pages.alloc_events == 0 {
        let (had, not) = if report.pages.free_events == 0 {
            ("mm_page_alloc", "mm_page_free")
        } else {
            ("mm_page_free", "mm_page_alloc")
        };
        say(
            Grade::Bad,
            format!("it holds {had} but not one {not}: half of the traffic is missing"),
        );
    }
    for (name, loss) in [
        ("mm_page_free_batched", "when batched frees reach the per-CPU lists is not known"),
        ("mm_page_alloc_zone_locked", "refills cannot be checked"),
        ("mm_page_pcpu_drain", "drains cannot be checked"),
    ] {
        if !has(name) {
            say(Grade::Care, format!("no {name} (not recorded, or none happened): {loss}"));
        }
    }
    if report.damage_count > 0 {
        let first = report.damage.first().map_or("", String::as_str);
        let count = number(report.damage_count);
        say(Grade::Bad, format!("{count} places could not be read, the first: {first}"));
    }
    if let Some(line) = report.unfinished_line {
        let text = format!("the last line ({line}) was cut off and is not read");
        say(Grade::Care, text);
    }
    if report.backwards > 0 {
        let count = number(report.backwards);
        say(
            Grade::Care,
            format!(
                "time goes back at {count} events: CPUs' clocks differ, or the \
             order within a microsecond is lost"
            ),
        );
    }
}

fn losses(report: &Report, say: &mut impl FnMut(Grade, String)) {
    let lost = report.lost();
    if lost > 0 {
        let share = per_cent(lost, lost.saturating_add(report.events));
        say(Grade::Bad, format!("{} events were lost ({share} of all)", number(lost)));
    } else if report.lost_uncounted > 0 {
        let count = number(report.lost_uncounted);
        say(Grade::Bad, format!("events were lost at {count} places; how many is not recorded"));
    } else if report.cpus.iter().any(|cpu| cpu.events > 0) {
        say(Grade::Good, "no loss of events is recorded".to_string());
    }
}

fn pages(report: &Report, say: &mut impl FnMut(Grade, String)) {
    let pages = &report.pages;
    let again = pages.allocated_while_used;
    if again > 0 {
        let bad = again.saturating_mul(1_000_000) > pages.allocated.saturating_mul(REUSED_PPM_MAX);
        let grade = if bad { Grade::Bad } else { Grade::Care };
        let share = per_cent(again, pages.allocated);
        let text = format!(
            "{} pages ({share}) are allocated while in use: their frees are missing",
            number(again)
        );
        say(grade, text);
    } else if pages.allocated > 0 {
        say(Grade::Good, "no page is allocated while it is in use".to_string());
    }
    if pages.freed_while_free > 0 {
        let text = format!(
            "{} pages were freed twice in a row: they were taken in between without \
             an event (bulk allocation, compaction)",
            number(pages.freed_while_free)
        );
        say(Grade::Care, text);
    }
}

fn counters(report: &Report, say: &mut impl FnMut(Grade, String)) {
    for row in report.reconciled.iter().filter(|row| !row.counter.contains('_')) {
        let missing = row.missing();
        let what = if row.counter == "pgfree" { "freed" } else { "allocated" };
        let share = per_cent(missing.unsigned_abs(), row.counted);
        let weighs = missing.unsigned_abs().saturating_mul(1000)
            > row.counted.saturating_mul(MISSING_PER_MILLE);
        if !weighs {
            let text =
                format!("the kernel's counter of pages {what} agrees with the events ({share})");
            say(Grade::Good, text);
        } else if missing > 0 {
            let text = format!(
                "{} of {} pages {what} ({share}) left no event",
                number(missing.unsigned_abs()),
                number(row.counted)
            );
            say(Grade::Care, text);
        } else {
            let text = format!(
                "the events hold {} pages {what} more than the kernel counted ({share}): \
                 the snapshots cover less time",
                number(missing.unsigned_abs())
            );
            say(Grade::Care, text);
        }
    }
}

/// Pages without an event, to the page: even one is proof, where the relative figures round it off.
fn unseen(report: &Report, say: &mut impl FnMut(Grade, String)) {
    if report.lost() > 0 || report.lost_uncounted > 0 {
        return;
    }
    if let Some(pages) = report.freed_unseen.filter(|pages| *pages > 0) {
        let text = format!(
            "{} freed without an event: some task's events are withheld from tracing, by the \
             kernel or by a tracer's filter; {WITHHELD}",
            number_were(pages)
        );
        say(Grade::Care, text);
    }
    let Some(lists) = &report.free_lists else {
        return;
    };
    let (left, joined) = lists.unseen();
    if left == 0 && joined == 0 {
        let text = "the free lists changed by exactly what the events say";
        say(Grade::Good, text.to_string());
    }
    for (pages, verb) in [(left, "left"), (joined, "joined")] {
        if pages > 0 {
            let what = if pages == 1 { "page" } else { "pages" };
            let why = list_reason(lists, pages, verb == "left");
            let pages = number(pages);
            say(
                Grade::Care,
                format!("{pages} {what} {verb} the free lists without an event: {why}"),
            );
        }
    }
}

/// What withheld events mean, and what to do.
const WITHHELD: &str =
    "the twin's figures of the CPU concerned may be off by that; where it matters, record again";
/// Largest blocks that a kernel isolates at a time to report them (`PAGE_REPORTING_CAPACITY`).
const REPORTED_BLOCKS_MAX: u64 = 32;

fn number_were(pages: u64) -> String {
    format!("{} {}", number(pages), if pages == 1 { "page was" } else { "pages were" })
}

/// Why pages may have left or joined the free lists unseen.
fn list_reason(lists: &FreeLists, pages: u64, left: bool) -> String {
    let largest = lists.largest_pages;
    if largest > 1 && pages.is_multiple_of(largest) && pages / largest <= REPORTED_BLOCKS_MAX {
        return format!(
            "{} of the largest blocks, as free page reporting to a hypervisor takes up to \
             {REPORTED_BLOCKS_MAX} of them for a moment; no CPU's list is concerned, but the twin \
             begins or ends with other free blocks: turn reporting off, or record again",
            pages / largest
        );
    }
    if lists.compaction {
        return "compaction worked meanwhile, which takes and keeps free pages in ways that no \
                event tells; otherwise some task's events are withheld from tracing"
            .to_string();
    }
    let how = if left {
        "a CPU's list was refilled, or a block taken, by a task whose events are withheld from \
         tracing (by the kernel or by a tracer's filter), or a hypervisor's agent (balloon, page \
         reporting) took them"
    } else {
        "a CPU's list was drained by a task whose events are withheld from tracing (by the kernel \
         or by a tracer's filter), a free found the list locked and passed it by, or a \
         hypervisor's agent (balloon, page reporting) gave them back"
    };
    format!("{how}; {WITHHELD}")
}

fn snapshots(report: &Report, recording: &Recording, say: &mut impl FnMut(Grade, String)) {
    let window = &report.window;
    match (window.before, window.after) {
        (true, true) => {}
        (false, false) => {
            say(Grade::Care, "no snapshots: the state it begins from must be guessed".to_string());
        }
        (false, true) => {
            say(Grade::Care, "no snapshot before: its start must be guessed".to_string())
        }
        (true, false) => {
            say(Grade::Care, "no snapshot after: its end cannot be checked".to_string())
        }
    }
    if window.before && window.after {
        match window.inside {
            Some(true) => {
                say(Grade::Good, "the snapshots were read within the traced time".to_string());
            }
            Some(false) => {
                let text = "the snapshots were read outside the traced time: what happened between \
                    is not in the events";
                say(Grade::Care, text.to_string());
            }
            None => say(Grade::Care, "when the snapshots were read is not recorded".to_string()),
        }
    }
    if recording.kernel().is_none() {
        say(
            Grade::Care,
            "the kernel's release is not recorded: name the policy yourself".to_string(),
        );
    }
}
