//! Events as the kernel's `trace` file prints them.

use std::io::{self, Write};

use super::fields::{COMPACT_RESULTS, LOCK_FLAGS, ZONE_NAMES};
use crate::event::{COMPACTION_EVENTS, Context, Event, Kind, PFN_NONE, reclaim_fields};

/// Writes events as ftrace text: what [`crate::recording::Recording`] reads back as the same
/// events, and what scripts made for the kernel's own text understand.
///
/// What an [`Event`] does not hold is printed as the kernel prints what it hides or does not know:
/// addresses of pages as `(____ptrval____)`, depth of preemption as `.`, pageblock order as 9.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextWriter {
    /// Nine digits after the point instead of the kernel's six.
    pub nanos: bool,
}

/// The heading that the kernel prints, by which scripts find the columns.
const HEADING: &str = "\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

impl TextWriter {
    /// Writes the heading. It has no count of events: one pass does not know it beforehand.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn heading(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"# tracer: nop\n#\n")?;
        out.write_all(HEADING.as_bytes())
    }

    /// Writes one event; false when it is of a kind without text ([`Kind::Other`]).
    ///
    /// # Errors
    /// Those of the writer.
    pub fn event(
        self,
        out: &mut impl Write,
        event: &Event,
        comm: Option<&str>,
    ) -> io::Result<bool> {
        if event.kind == Kind::Other {
            return Ok(false);
        }
        let comm = comm.unwrap_or("<...>");
        let flags = flags(event.context);
        write!(out, "{comm:>16}-{:<7} [{:03}] {flags}", event.pid, event.cpu)?;
        // Six digits are rounded, as the kernel does.
        let time_ns = event.time_ns.saturating_add(if self.nanos { 0 } else { 500 });
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        if self.nanos {
            write!(out, " {seconds:5}.{rest:09}: ")?;
        } else {
            write!(out, " {seconds:5}.{:06}: ", rest / 1000)?;
        }
        kind(out, &event.kind)?;
        out.write_all(b"\n")?;
        Ok(true)
    }
}

fn flags(context: Context) -> &'static str {
    let has = |bit| context.0 & bit != 0;
    let irqs = match (has(Context::IRQS_OFF), has(Context::BH_OFF)) {
        (true, true) => 3,
        (true, false) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    let level = match (has(Context::NMI), has(Context::HARDIRQ), has(Context::SOFTIRQ)) {
        (true, true, _) => 5,
        (true, false, _) => 4,
        (false, true, true) => 3,
        (false, true, false) => 2,
        (false, false, true) => 1,
        (false, false, false) => 0,
    };
    let index = irqs * 12 + usize::from(has(Context::NEED_RESCHED)) * 6 + level;
    FLAGS[index]
}

/// By interrupts (`.`, `b`, `d`, `D`), need-resched (`.`, `N`) and level (`.shHzZ`).
const FLAGS: [&str; 48] = [
    ".....", "..s..", "..h..", "..H..", "..z..", "..Z..", ".N...", ".Ns..", ".Nh..", ".NH..",
    ".Nz..", ".NZ..", "b....", "b.s..", "b.h..", "b.H..", "b.z..", "b.Z..", "bN...", "bNs..",
    "bNh..", "bNH..", "bNz..", "bNZ..", "d....", "d.s..", "d.h..", "d.H..", "d.z..", "d.Z..",
    "dN...", "dNs..", "dNh..", "dNH..", "dNz..", "dNZ..", "D....", "D.s..", "D.h..", "D.H..",
    "D.z..", "D.Z..", "DN...", "DNs..", "DNh..", "DNH..", "DNz..", "DNZ..",
];

const PAGE: &str = "page=(____ptrval____)";

fn kind(out: &mut impl Write, kind: &Kind) -> io::Result<()> {
    match *kind {
        Kind::PageAlloc { pfn, order, migratetype, gfp } => {
            let (page, pfn) = if pfn == PFN_NONE { ("page=(null)", 0) } else { (PAGE, pfn) };
            write!(out, "mm_page_alloc: {page} pfn={pfn:#x} order={order} ")?;
            let mut names = Vec::with_capacity(128);
            gfp.write_names(&mut names);
            write!(out, "migratetype={migratetype} gfp_flags=")?;
            out.write_all(&names)
        }
        Kind::PageFree { pfn, order } => {
            write!(out, "mm_page_free: {PAGE} pfn={pfn:#x} order={order}")
        }
        Kind::PageFreeBatched { pfn } => {
            write!(out, "mm_page_free_batched: {PAGE} pfn={pfn:#x} order=0")
        }
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => write!(
            out,
            "mm_page_alloc_zone_locked: {PAGE} pfn={pfn:#x} order={order} \
             migratetype={migratetype} percpu_refill={}",
            u8::from(percpu_refill)
        ),
        Kind::PcpuDrain { pfn, order, migratetype } => write!(
            out,
            "mm_page_pcpu_drain: {PAGE} pfn={pfn:#x} order={order} migratetype={migratetype}"
        ),
        Kind::Extfrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => write!(
            out,
            "mm_page_alloc_extfrag: {PAGE} pfn={pfn:#x} alloc_order={alloc_order} \
             fallback_order={fallback_order} pageblock_order=9 \
             alloc_migratetype={alloc_migratetype} fallback_migratetype={fallback_migratetype} \
             fragmenting={} change_ownership={}",
            u8::from(fallback_order < 9),
            u8::from(change_ownership)
        ),
        Kind::ContentionBegin { lock, flags } => contention_begin(out, lock, flags),
        Kind::ContentionEnd { lock, ret } => write!(out, "contention_end: {lock:016x} (ret={ret})"),
        Kind::Compaction { id, a, b } => compaction(out, id, a, b),
        Kind::Reclaim { id, node, value } => reclaim(out, kind.name(), id, (node, value)),
        Kind::Other => Ok(()),
    }
}

/// Prints what a [`Kind::Reclaim`] holds; the flags of the request are left out.
fn reclaim(out: &mut impl Write, name: &str, id: u8, (node, value): (u16, u64)) -> io::Result<()> {
    write!(out, "{name}:")?;
    let (has_node, field) = reclaim_fields(id);
    if has_node {
        write!(out, " nid={node}")?;
    }
    match field {
        Some(field) => write!(out, " {field}={value}"),
        None => Ok(()),
    }
}

fn contention_begin(out: &mut impl Write, lock: u64, flags: u32) -> io::Result<()> {
    write!(out, "contention_begin: {lock:016x} (flags=")?;
    let mut rest = flags;
    let mut between = "";
    let set = LOCK_FLAGS.iter().enumerate().filter(|(bit, _)| (flags >> bit) & 1 == 1);
    for (bit, name) in set {
        write!(out, "{between}{name}")?;
        rest &= !(1 << bit);
        between = "|";
    }
    if rest != 0 {
        write!(out, "{between}{rest:#x}")?;
    }
    out.write_all(b")")
}

/// Prints the values that a [`Kind::Compaction`] holds under the kernel's names; others are left
/// out rather than made up.
fn compaction(out: &mut impl Write, id: u8, a: u64, b: u64) -> io::Result<()> {
    let Some(name) = COMPACTION_EVENTS.get(usize::from(id)) else {
        return Ok(());
    };
    write!(out, "{name}: ")?;
    // An order of -1 stands for compaction for no allocation's sake.
    let (node, order) = ((a >> 16) & 0xffff, a as u8 as i8);
    let zone = ZONE_NAMES.get(((a >> 8) & 0xff) as usize).copied().unwrap_or("?");
    let result = COMPACT_RESULTS.get(b as usize).copied().unwrap_or("unknown");
    match name.trim_start_matches("mm_compaction_") {
        "begin" => write!(out, "zone_start={a:#x} zone_end={b:#x}"),
        "end" => write!(out, "zone_start={a:#x} status={result}"),
        "finished" | "suitable" => {
            write!(out, "node={node} zone={zone:<8} order={order} ret={result}")
        }
        "deferred" | "defer_compaction" | "defer_reset" => {
            let (considered, limit) = (b & 0xffff_ffff, 1u64 << ((b >> 32) & 63));
            write!(
                out,
                "node={node} zone={zone:<8} order={order} consider={considered} limit={limit}"
            )
        }
        "migratepages" => write!(out, "nr_migrated={a} nr_failed={b}"),
        "try_to_compact_pages" => write!(out, "order={a} priority={b}"),
        "kcompactd_sleep" => write!(out, "nid={node}"),
        "kcompactd_wake" | "wakeup_kcompactd" => {
            write!(out, "nid={node} order={order} classzone_idx={zone:<8}")
        }
        _ => write!(out, "nr_scanned={a} nr_taken={b}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Gfp, compaction_place};
    use crate::reader::Pass;
    use crate::text::{Line, Parser};

    fn check(kind: Kind, context: u8) {
        let event =
            Event { time_ns: 12_345_678_901, cpu: 130, pid: 77, context: Context(context), kind };
        let mut line = Vec::new();
        let writer = TextWriter { nanos: true };
        assert!(writer.event(&mut line, &event, Some("a b")).unwrap());
        let line = line.strip_suffix(b"\n").unwrap();
        let parsed = Parser::default().line(line, &mut Pass::default());
        assert_eq!(parsed, Line::Event(event), "{}", String::from_utf8_lossy(line));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let gfp = Gfp::HIGHUSER_MOVABLE.union(Gfp::ZERO);
        check(Kind::PageAlloc { pfn: 5, order: 9, migratetype: 1, gfp }, 0);
        check(Kind::PageAlloc { pfn: PFN_NONE, order: 9, migratetype: 1, gfp: Gfp::NONE }, 59);
        check(Kind::PageFree { pfn: 0x1234, order: 3 }, Context::HARDIRQ);
        check(Kind::PageFreeBatched { pfn: 0 }, Context::IRQS_OFF | Context::SOFTIRQ);
        check(Kind::ZoneLocked { pfn: 1, order: 0, migratetype: 2, percpu_refill: true }, 2);
        check(Kind::PcpuDrain { pfn: 1, order: 0, migratetype: 2 }, Context::NMI);
        check(Kind::ContentionBegin { lock: 0xffff_8880_0000_1000, flags: 5 | 1 << 9 }, 16);
        check(Kind::ContentionEnd { lock: 1, ret: -4 }, 32);
        let extfrag = Kind::Extfrag {
            pfn: 512,
            alloc_order: 0,
            fallback_order: 9,
            alloc_migratetype: 0,
            fallback_migratetype: 1,
            change_ownership: true,
        };
        check(extfrag, 0);
    }

    #[test]
    fn written_reclaim_events_are_read_back() {
        for id in 0..crate::event::RECLAIM_EVENTS.len() as u8 {
            let (has_node, field) = reclaim_fields(id);
            let node = if has_node { 3 } else { 0 };
            let value = if field.is_some() { 9 } else { 0 };
            check(Kind::Reclaim { id, node, value }, 0);
        }
    }

    #[test]
    fn written_compaction_events_are_read_back() {
        for (id, name) in COMPACTION_EVENTS.iter().enumerate() {
            let (a, b) = match *name {
                "mm_compaction_finished" | "mm_compaction_suitable" => {
                    (compaction_place(1, 2, 9), 8)
                }
                "mm_compaction_kcompactd_sleep" => (compaction_place(1, 0, 0), 0),
                name if name.contains("kcompactd") => (compaction_place(1, 2, 9), 0),
                name if name.contains("defer") => (compaction_place(1, 2, 9), 3 << 32 | 1),
                _ => (7, 8),
            };
            check(Kind::Compaction { id: id as u8, a, b }, 0);
        }
    }
}
