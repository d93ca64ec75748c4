//! Format files for the events that Pageyard writes itself, with the kernel's names of fields.

use std::fmt::Write;

use crate::event::{COMPACTION_EVENTS, Context, Event, Gfp, Kind, RECLAIM_EVENTS, reclaim_fields};

/// Id of the first event; ids of the kernel's own static events begin below.
const FIRST_ID: u16 = 1000;

/// One event that can be written.
struct Form {
    system: &'static str,
    name: &'static str,
    /// C type, name and size of each field; a size of 8 or 4.
    fields: &'static [(&'static str, &'static str, usize)],
    print: &'static str,
}

const PFN: (&str, &str, usize) = ("unsigned long", "pfn", 8);
const ORDER: (&str, &str, usize) = ("unsigned int", "order", 4);
const MIGRATETYPE: (&str, &str, usize) = ("int", "migratetype", 4);
const LOCK: (&str, &str, usize) = ("void *", "lock_addr", 8);

const FORMS: &[Form] = &[
    Form {
        system: "kmem",
        name: "mm_page_alloc",
        fields: &[PFN, ("unsigned long", "gfp_flags", 8), ORDER, MIGRATETYPE],
        print: "\"pfn=0x%lx order=%d migratetype=%d gfp_flags=%s\", REC->pfn, REC->order, \
                REC->migratetype, \
                (REC->gfp_flags) ? __print_flags(REC->gfp_flags, \"|\", @) : \"none\"",
    },
    Form {
        system: "kmem",
        name: "mm_page_free",
        fields: &[PFN, ORDER],
        print: "\"pfn=0x%lx order=%d\", REC->pfn, REC->order",
    },
    Form {
        system: "kmem",
        name: "mm_page_free_batched",
        fields: &[PFN],
        print: "\"pfn=0x%lx order=0\", REC->pfn",
    },
    Form {
        system: "kmem",
        name: "mm_page_alloc_zone_locked",
        fields: &[PFN, ORDER, MIGRATETYPE, ("int", "percpu_refill", 4)],
        print: "\"pfn=0x%lx order=%u migratetype=%d percpu_refill=%d\", REC->pfn, REC->order, \
                REC->migratetype, REC->percpu_refill",
    },
    Form {
        system: "kmem",
        name: "mm_page_pcpu_drain",
        fields: &[PFN, ORDER, MIGRATETYPE],
        print: "\"pfn=0x%lx order=%d migratetype=%d\", REC->pfn, REC->order, REC->migratetype",
    },
    Form {
        system: "kmem",
        name: "mm_page_alloc_extfrag",
        fields: &[
            PFN,
            ("int", "alloc_order", 4),
            ("int", "fallback_order", 4),
            ("int", "alloc_migratetype", 4),
            ("int", "fallback_migratetype", 4),
            ("int", "change_ownership", 4),
        ],
        print: "\"pfn=0x%lx alloc_order=%d fallback_order=%d alloc_migratetype=%d \
                fallback_migratetype=%d change_ownership=%d\", REC->pfn, REC->alloc_order, \
                REC->fallback_order, REC->alloc_migratetype, REC->fallback_migratetype, \
                REC->change_ownership",
    },
    Form {
        system: "lock",
        name: "contention_begin",
        fields: &[LOCK, ("unsigned int", "flags", 4)],
        print: "\"%p (flags=%s)\", REC->lock_addr, __print_flags(REC->flags, \"|\", {1, \"SPIN\"}, \
                {2, \"READ\"}, {4, \"WRITE\"}, {8, \"RT\"}, {16, \"PERCPU\"}, {32, \"MUTEX\"})",
    },
    Form {
        system: "lock",
        name: "contention_end",
        fields: &[LOCK, ("int", "ret", 4)],
        print: "\"%p (ret=%d)\", REC->lock_addr, REC->ret",
    },
];

/// The fields of a compaction event that an [`Event`] holds.
fn compaction_fields(name: &str) -> &'static [(&'static str, &'static str, usize)] {
    const A8: &str = "unsigned long";
    match name.trim_start_matches("mm_compaction_") {
        "begin" => &[(A8, "zone_start", 8), (A8, "zone_end", 8)],
        "end" => &[(A8, "zone_start", 8), ("int", "status", 4)],
        "finished" | "suitable" => {
            &[("int", "nid", 4), ("int", "idx", 4), ("int", "order", 4), ("int", "ret", 4)]
        }
        "deferred" | "defer_compaction" | "defer_reset" => &[
            ("int", "nid", 4),
            ("int", "idx", 4),
            ("int", "order", 4),
            ("unsigned int", "considered", 4),
            ("unsigned int", "defer_shift", 4),
        ],
        "migratepages" => &[(A8, "nr_migrated", 8), (A8, "nr_failed", 8)],
        "try_to_compact_pages" => &[("int", "order", 4), ("int", "prio", 4)],
        "kcompactd_sleep" => &[("int", "nid", 4)],
        "kcompactd_wake" | "wakeup_kcompactd" => {
            &[("int", "nid", 4), ("int", "order", 4), ("int", "highest_zoneidx", 4)]
        }
        _ => &[(A8, "nr_scanned", 8), (A8, "nr_taken", 8)],
    }
}

/// The fields of a reclaim event that an [`Event`] holds.
fn reclaim_form(id: u8) -> Vec<(&'static str, &'static str, usize)> {
    let (has_node, value) = reclaim_fields(id);
    let node = has_node.then_some(("int", "nid", 4));
    let value = value.map(|name| match name {
        "order" => ("int", name, 4),
        _ => ("unsigned long", name, 8),
    });
    node.into_iter().chain(value).collect()
}

/// A format file whose fields are printed as plain numbers.
fn plain_format(name: &str, id: u16, fields: &[(&str, &str, usize)]) -> String {
    let words: Vec<String> = fields.iter().map(|(_, field, _)| format!("{field}=%ld")).collect();
    let values: Vec<String> = fields.iter().map(|(_, field, _)| format!("REC->{field}")).collect();
    let print = format!("\"{}\", {}", words.join(" "), values.join(", "));
    format(name, id, fields, &print)
}

/// A format file.
fn format(name: &str, id: u16, fields: &[(&str, &str, usize)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short", "common_type", 0, 2, 0),
        ("unsigned char", "common_flags", 2, 1, 0),
        ("unsigned char", "common_preempt_count", 3, 1, 0),
        ("int", "common_pid", 4, 4, 1),
    ];
    for (kind, field, offset, size, signed) in common {
        let _ = writeln!(
            text,
            "\tfield:{kind} {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
    }
    text.push('\n');
    let mut offset = 8;
    for (kind, field, size) in fields {
        let signed = u8::from(*kind == "int");
        let _ = writeln!(
            text,
            "\tfield:{kind} {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
        offset += size;
    }
    let _ = write!(text, "\nprint fmt: {print}\n");
    text
}

/// All format files by system, in the order of their ids.
pub(super) fn systems() -> Vec<(&'static str, Vec<String>)> {
    let mut systems: Vec<(&str, Vec<String>)> = Vec::new();
    let mut put = |system, text| match systems.iter_mut().find(|(name, _)| *name == system) {
        Some((_, formats)) => formats.push(text),
        None => systems.push((system, vec![text])),
    };
    let mut id = FIRST_ID;
    for form in FORMS {
        put(form.system, format(form.name, id, form.fields, &form.print.replace('@', &flags())));
        id += 1;
    }
    for name in COMPACTION_EVENTS {
        put("compaction", plain_format(name, id, compaction_fields(name)));
        id += 1;
    }
    for (at, name) in RECLAIM_EVENTS.iter().enumerate() {
        put("vmscan", plain_format(name, id, &reclaim_form(at as u8)));
        id += 1;
    }
    systems
}

/// The table of allocation flags, in our own numbering.
fn flags() -> String {
    let entries = Gfp::names().iter().map(|(name, flag)| format!("{{{:#x}, \"{name}\"}}", flag.0));
    entries.collect::<Vec<_>>().join(", ")
}

/// Appends an event's record; false for kinds without a form.
pub(super) fn record(event: &Event, out: &mut Vec<u8>) -> bool {
    let name = event.kind.name();
    let form = FORMS.iter().position(|form| form.name == name);
    let index = match (form, event.kind) {
        (Some(index), _) => index,
        (None, Kind::Compaction { id, .. }) => FORMS.len() + usize::from(id),
        (None, Kind::Reclaim { id, .. }) => FORMS.len() + COMPACTION_EVENTS.len() + usize::from(id),
        _ => return false,
    };
    let Ok(index) = u16::try_from(index) else {
        return false;
    };
    out.extend_from_slice(&(FIRST_ID + index).to_ne_bytes());
    out.extend_from_slice(&[common_flags(event.context), 0]);
    out.extend_from_slice(&event.pid.to_ne_bytes());
    fields(&event.kind, out);
    true
}

/// The fields of an event's own, in the order of its form.
fn fields(kind: &Kind, out: &mut Vec<u8>) {
    let mut long = |value: u64| out.extend_from_slice(&value.to_ne_bytes());
    match *kind {
        Kind::PageAlloc { pfn, order, migratetype, gfp } => {
            long(pfn);
            long(gfp.0);
            ints(out, &[order.into(), migratetype.into()]);
        }
        Kind::PageFree { pfn, order } => {
            long(pfn);
            ints(out, &[order.into()]);
        }
        Kind::PageFreeBatched { pfn } => long(pfn),
        Kind::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
            long(pfn);
            ints(out, &[order.into(), migratetype.into(), percpu_refill.into()]);
        }
        Kind::PcpuDrain { pfn, order, migratetype } => {
            long(pfn);
            ints(out, &[order.into(), migratetype.into()]);
        }
        Kind::Extfrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
        } => {
            long(pfn);
            let types = [alloc_migratetype.into(), fallback_migratetype.into()];
            ints(out, &[alloc_order.into(), fallback_order.into()]);
            ints(out, &[types[0], types[1], change_ownership.into()]);
        }
        Kind::ContentionBegin { lock, flags } => {
            long(lock);
            ints(out, &[flags]);
        }
        Kind::ContentionEnd { lock, ret } => {
            long(lock);
            ints(out, &[ret as u32]);
        }
        Kind::Compaction { a, b, .. } => compaction(kind.name(), a, b, out),
        Kind::Reclaim { id, node, value } => {
            for (_, field, size) in reclaim_form(id) {
                let value = if field == "nid" { u64::from(node) } else { value };
                sized(out, value, size);
            }
        }
        Kind::Other => {}
    }
}

fn ints(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

fn compaction(name: &str, a: u64, b: u64, out: &mut Vec<u8>) {
    for (_, field, size) in compaction_fields(name) {
        let value = match *field {
            "nid" => a >> 16 & 0xffff,
            "idx" | "highest_zoneidx" => a >> 8 & 0xff,
            // -1 when memory is compacted for no allocation's sake.
            "order" => i64::from(a as u8 as i8) as u64,
            "considered" => b & 0xffff_ffff,
            "defer_shift" => b >> 32,
            "zone_start" | "nr_scanned" | "nr_migrated" => a,
            _ => b,
        };
        sized(out, value, *size);
    }
}

fn sized(out: &mut Vec<u8>, value: u64, size: usize) {
    match size {
        4 => out.extend_from_slice(&(value as u32).to_ne_bytes()),
        _ => out.extend_from_slice(&value.to_ne_bytes()),
    }
}

/// The inverse of what the readers do with `enum trace_flag_type`.
fn common_flags(context: Context) -> u8 {
    let pairs = [
        (Context::IRQS_OFF, 0x01),
        (Context::NEED_RESCHED, 0x04),
        (Context::HARDIRQ, 0x08),
        (Context::SOFTIRQ, 0x10),
        (Context::NMI, 0x40),
        (Context::BH_OFF, 0x80),
    ];
    pairs
        .iter()
        .fold(0, |bits, (ours, kernel)| bits | if context.0 & ours != 0 { *kernel } else { 0 })
}
