//! One line of a tracer's text: who, where, when, and which event.
//!
//! The shapes, told apart line by line (a file may hold several):
//! ```text
//!        bash-1234    [001] d..3.  1588.171218: mm_page_alloc: page=… pfn=0x2393c9 …   ftrace
//!        bash-1234    (   1230) [001] d..3.  1588.171218: …                            with TGID
//!        bash-1234  [001]  1588.171218: mm_page_alloc:        page=…                   trace-cmd
//!        bash  1234/1234  [001]  1588.171218:       kmem:mm_page_alloc: page=…         perf script
//! ```

use memchr::{memchr, memmem};

use super::fields;
use crate::event::{Context, Event, Gfp, Kind};
use crate::reader::Pass;

/// What a line was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Event(Event),
    /// A comment, a blank, a mark of loss, part of a stack trace.
    Nothing,
    Bad(&'static str),
}

/// Parses lines; remembers the last flag names, which repeat from line to line.
#[derive(Debug)]
pub(crate) struct Parser {
    gfp_text: Vec<u8>,
    gfp: Gfp,
    /// CPUs that lost events just before their next one.
    lost_before: Option<u16>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser { gfp_text: Vec::with_capacity(128), gfp: Gfp::NONE, lost_before: None }
    }
}

/// What stands before an event's name.
struct Head<'a> {
    comm: &'a [u8],
    pid: i32,
    cpu: u16,
    context: Context,
    time_ns: u64,
    /// From the event's name on.
    rest: &'a [u8],
}

impl Parser {
    /// Parses one line without its newline.
    pub(crate) fn line(&mut self, line: &[u8], pass: &mut Pass) -> Line {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.first() {
            None | Some(b'\t') => return Line::Nothing,
            Some(b'#') => return comment(line, pass),
            _ => {}
        }
        let Some(head) = head(line) else {
            return self.odd(line, pass);
        };
        pass.comm(head.pid, head.comm);
        let Some((name, text)) = split_name(head.rest) else {
            return Line::Bad("no event name");
        };
        let Some(kind) = self.kind(name, text) else {
            return Line::Bad("event with a field missing or not a number");
        };
        if kind == Kind::Other {
            pass.other(name);
        }
        if self.lost_before == Some(head.cpu) {
            self.lost_before = None;
            pass.lost.mark(head.time_ns, head.cpu);
        }
        Line::Event(Event {
            time_ns: head.time_ns,
            cpu: head.cpu,
            pid: head.pid,
            context: head.context,
            kind,
        })
    }

    fn kind(&mut self, name: &[u8], text: &[u8]) -> Option<Kind> {
        match name {
            b"mm_page_alloc" => fields::page_alloc(text, |names| self.gfp(names)),
            b"mm_page_free" => fields::page_free(text),
            b"mm_page_free_batched" => fields::page_free_batched(text),
            b"mm_page_alloc_zone_locked" => fields::zone_locked(text),
            b"mm_page_pcpu_drain" => fields::pcpu_drain(text),
            b"mm_page_alloc_extfrag" => fields::extfrag(text),
            b"contention_begin" => fields::contention_begin(text),
            b"contention_end" => fields::contention_end(text),
            _ if name.starts_with(b"mm_compaction_") => fields::compaction(name, text),
            _ if name.starts_with(b"mm_vmscan_") => fields::reclaim(name, text),
            _ => Some(Kind::Other),
        }
    }

    fn gfp(&mut self, names: &[u8]) -> Gfp {
        if self.gfp_text != names {
            self.gfp = Gfp::parse(names);
            self.gfp_text.clear();
            self.gfp_text.extend_from_slice(names);
        }
        self.gfp
    }

    /// Lines that are no events: marks of loss, and what tracers print around them.
    fn odd(&mut self, line: &[u8], pass: &mut Pass) -> Line {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"=>") || text.starts_with(b"<stack trace>") {
            return Line::Nothing;
        }
        // `CPU:1 [LOST 23 EVENTS]`, `CPU:1 [LOST EVENTS]`; trace-cmd: `CPU:1 [23 EVENTS DROPPED]`.
        // trace-cmd prints the name of the buffer before, where there are several.
        if let Some(start) = memmem::find(text, b"CPU:") {
            let rest = &text[start + 4..];
            let (cpu, rest) = leading_number(rest);
            let lost = memmem::find(rest, b"LOST").or_else(|| memmem::find(rest, b"DROPPED"));
            if let (Some(cpu), Some(_)) = (cpu.and_then(|cpu| u16::try_from(cpu).ok()), lost) {
                let digits = rest.iter().position(u8::is_ascii_digit);
                let count = digits.and_then(|start| leading_number(&rest[start..]).0);
                pass.lost.add(Some(cpu), count);
                self.lost_before = Some(cpu);
                return Line::Nothing;
            }
        }
        let known = [
            &b"cpus="[..],
            b"version = ",
            b"CPU ",
            b"trace-cmd ",
            b"[FAILED TO PARSE]",
            b"trace.dat",
        ];
        if known.iter().any(|prefix| text.starts_with(prefix)) {
            return Line::Nothing;
        }
        // `##### CPU 1 buffer started ####` begins with '#'. A callchain of perf script is
        // indented hexadecimal without a time stamp.
        if line[0] == b' ' && memchr(b'[', line).is_none() && memchr(b':', line).is_none() {
            return Line::Nothing;
        }
        Line::Bad("not a line of a trace")
    }
}

/// `# entries-in-buffer/entries-written: 88843/90000   #P:2` tells how many were overwritten.
fn comment(line: &[u8], pass: &mut Pass) -> Line {
    if let Some(rest) = line.strip_prefix(b"# entries-in-buffer/entries-written: ") {
        let (kept, rest) = leading_number(rest);
        let written = rest.strip_prefix(b"/").and_then(|rest| leading_number(rest).0);
        if let (Some(kept), Some(written)) = (kept, written)
            && written > kept
        {
            pass.lost.add(None, Some(written - kept));
        }
    }
    Line::Nothing
}

/// Splits `  1234rest` into the number and what follows; no number when none is there.
pub(super) fn leading_number(text: &[u8]) -> (Option<u64>, &[u8]) {
    let text = text.trim_ascii_start();
    let mut value: Option<u64> = None;
    let mut used = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            break;
        }
        let digit = u64::from(byte - b'0');
        value = value.unwrap_or(0).checked_mul(10).and_then(|value| value.checked_add(digit));
        if value.is_none() {
            return (None, text);
        }
        used += 1;
    }
    (value, &text[used..])
}

/// Parses up to the event's name. A task's name may hold any character, `[` and `-` too: of all
/// brackets the first counts before which a pid stands and after which a time stamp does.
fn head(line: &[u8]) -> Option<Head<'_>> {
    let mut from = 0;
    loop {
        let open = from + memchr(b'[', &line[from..])?;
        if let Some(head) = head_at(line, open) {
            return Some(head);
        }
        from = open + 1;
    }
}

fn head_at(line: &[u8], open: usize) -> Option<Head<'_>> {
    let (cpu, rest) = leading_number(&line[open + 1..]);
    let cpu = u16::try_from(cpu?).ok()?;
    let rest = rest.strip_prefix(b"]")?.trim_ascii_start();
    let (context, rest) = match rest.first()? {
        b'0'..=b'9' => (Context::default(), rest),
        _ => flags(rest)?,
    };
    let (time_ns, rest) = time(rest)?;
    let (comm, pid) = task(&line[..open])?;
    Some(Head { comm, pid, cpu, context, time_ns, rest })
}

/// Parses `d..3.` (4 characters before 5.17, 5 since) up to the blanks after it.
fn flags(rest: &[u8]) -> Option<(Context, &[u8])> {
    let length = memchr(b' ', rest)?;
    if !(3..=8).contains(&length) {
        return None;
    }
    let mut bits = match rest[0] {
        b'd' => Context::IRQS_OFF,
        b'D' => Context::IRQS_OFF | Context::BH_OFF,
        b'b' => Context::BH_OFF,
        b'.' | b'X' | b'-' => 0,
        _ => return None,
    };
    if rest[1] != b'.' {
        bits |= Context::NEED_RESCHED;
    }
    bits |= match rest[2] {
        b'h' => Context::HARDIRQ,
        b's' => Context::SOFTIRQ,
        b'H' => Context::HARDIRQ | Context::SOFTIRQ,
        b'z' => Context::NMI,
        b'Z' => Context::NMI | Context::HARDIRQ,
        _ => 0,
    };
    Some((Context(bits), rest[length..].trim_ascii_start()))
}

/// Parses `1588.171218:` (microseconds or nanoseconds) or a plain count of some trace clocks, and
/// drops the blanks after it.
fn time(rest: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = leading_number(rest);
    let whole = whole?;
    let (time_ns, rest) = match rest.strip_prefix(b".") {
        None => (whole, rest),
        Some(fraction) => {
            let mut nanos = 0u64;
            let mut scale = 100_000_000u64;
            let mut used = 0;
            while let Some(digit) = fraction.get(used).filter(|byte| byte.is_ascii_digit()) {
                nanos += u64::from(digit - b'0') * scale;
                scale /= 10;
                used += 1;
                if used > 9 {
                    return None;
                }
            }
            (whole.checked_mul(1_000_000_000)?.checked_add(nanos)?, &fraction[used..])
        }
    };
    // A mark of a long delay (`+`, `!`, `#`, `*`, `@`, `$`) may stand before the colon.
    let rest = match rest {
        [b'+' | b'!' | b'#' | b'*' | b'@' | b'$', rest @ ..] => rest,
        _ => rest,
    };
    Some((time_ns, rest.strip_prefix(b":")?.trim_ascii_start()))
}

/// Parses `comm-pid`, `comm-pid (tgid)`, `comm pid`, `comm pid/tid`.
fn task(text: &[u8]) -> Option<(&[u8], i32)> {
    let mut text = text.trim_ascii_end();
    if text.last() == Some(&b')') {
        let open = memchr::memrchr(b'(', text)?;
        let inner = &text[open + 1..text.len() - 1];
        let tgid = inner.iter().all(|byte| matches!(byte, b' ' | b'-' | b'0'..=b'9'));
        if tgid {
            text = text[..open].trim_ascii_end();
        }
    }
    let digits = |text: &[u8]| text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let mut count = digits(text);
    let mut tid_end = text.len();
    if count > 0 && text.len() > count && text[text.len() - count - 1] == b'/' {
        // perf script prints pid/tid; the kernel's events carry the tid.
        let before = &text[..text.len() - count - 1];
        let pid_digits = digits(before);
        if pid_digits > 0 {
            let tid = number_i32(&text[text.len() - count..])?;
            return finish_task(&before[..before.len() - pid_digits], tid);
        }
    }
    if count == 0 {
        return None;
    }
    // perf prints -1 for a task it does not know: `:-1    -1 [000]`.
    let minus = text.get(text.len().wrapping_sub(count + 1)) == Some(&b'-');
    let lone = minus && text.len() >= count + 2 && text[text.len() - count - 2] == b' ';
    if lone {
        count += 1;
        tid_end -= count;
        return Some((text[..tid_end].trim_ascii(), -1));
    }
    let pid = number_i32(&text[tid_end - count..])?;
    finish_task(&text[..tid_end - count], pid)
}

fn finish_task(before: &[u8], pid: i32) -> Option<(&[u8], i32)> {
    match before.last()? {
        // The name stands right-aligned in 16 columns; trace-cmd prints the buffer's name before.
        b'-' => {
            let name = &before[..before.len() - 1];
            Some((name[name.len().saturating_sub(16)..].trim_ascii(), pid))
        }
        b' ' => Some((before.trim_ascii(), pid)),
        _ => None,
    }
}

fn number_i32(digits: &[u8]) -> Option<i32> {
    leading_number(digits).0.and_then(|number| i32::try_from(number).ok())
}

/// Splits `kmem:mm_page_alloc: page=…` into `mm_page_alloc` and the fields.
fn split_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = memchr(b' ', rest).unwrap_or(rest.len());
    let (name, text) = rest.split_at(word);
    let name = name.strip_suffix(b":")?;
    let name = match memchr(b':', name) {
        Some(colon) => &name[colon + 1..],
        None => name,
    };
    (!name.is_empty()).then(|| (name, text.trim_ascii_start()))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
