//! Binary records to events, by the places of fields that the recording's `format` files give.

use super::flags::GfpMap;
use super::{EventFormat, Field};
use crate::event::{
    COMPACTION_EVENTS, Context, Kind, PFN_NONE, RECLAIM_EVENTS, compaction_place, reclaim_fields,
};

/// Where an integer lies in a record.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Place {
    fn of(field: &Field) -> Place {
        Place { offset: field.offset, size: field.size, signed: field.signed }
    }

    fn get(self, record: &[u8], big_endian: bool) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let value = match (bytes, big_endian) {
            ([byte], _) => u64::from(*byte),
            ([a, b], false) => u64::from(u16::from_le_bytes([*a, *b])),
            ([a, b], true) => u64::from(u16::from_be_bytes([*a, *b])),
            (bytes, false) if bytes.len() == 4 => {
                u64::from(u32::from_le_bytes(bytes.try_into().ok()?))
            }
            (bytes, true) if bytes.len() == 4 => {
                u64::from(u32::from_be_bytes(bytes.try_into().ok()?))
            }
            (bytes, false) => u64::from_le_bytes(bytes.try_into().ok()?),
            (bytes, true) => u64::from_be_bytes(bytes.try_into().ok()?),
        };
        if self.signed && self.size < 8 {
            let shift = 64 - 8 * self.size as u32;
            return Some(((value << shift) as i64 >> shift) as u64);
        }
        Some(value)
    }

    fn small(self, record: &[u8], big_endian: bool) -> Option<u8> {
        u8::try_from(self.get(record, big_endian)?).ok()
    }
}

/// How to decode one event.
#[derive(Clone, Debug)]
enum Plan {
    PageAlloc { pfn: Place, order: Place, migratetype: Place, gfp: Place, map: GfpMap },
    PageFree { pfn: Place, order: Place },
    PageFreeBatched { pfn: Place },
    ZoneLocked { pfn: Place, order: Place, migratetype: Place, refill: Option<Place> },
    PcpuDrain { pfn: Place, order: Place, migratetype: Place },
    Extfrag { pfn: Place, fields: [Place; 5] },
    ContentionBegin { lock: Place, flags: Place },
    ContentionEnd { lock: Place, ret: Place },
    Compaction { id: u8, a: Option<Place>, b: Option<Place>, place: [Option<Place>; 3] },
    Reclaim { id: u8, node: Option<Place>, value: Option<Place> },
    Other { name: Box<str> },
}

/// One record, decoded.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    pub(crate) pid: i32,
    pub(crate) context: Context,
    pub(crate) kind: Kind,
    /// Name, of an event that is not interpreted.
    pub(crate) other: Option<&'a str>,
}

/// Decodes records of one recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoder {
    plans: Vec<Plan>,
    /// Index into `plans`, plus one, by event id; 0 for none.
    by_id: Vec<u16>,
    big_endian: bool,
    common_type: Option<Place>,
    common_flags: Option<Place>,
    common_pid: Option<Place>,
}

impl Decoder {
    pub(crate) fn new(big_endian: bool) -> Decoder {
        Decoder { big_endian, ..Decoder::default() }
    }

    /// Learns an event; why it cannot be decoded when a field that it needs is missing (it is then
    /// counted as uninterpreted).
    pub(crate) fn learn(&mut self, format: &EventFormat) -> Result<(), String> {
        let common = |name| format.field(name).map(Place::of);
        self.common_type = self.common_type.or_else(|| common("common_type"));
        self.common_flags = self.common_flags.or_else(|| common("common_flags"));
        self.common_pid = self.common_pid.or_else(|| common("common_pid"));
        let plan = plan(format);
        let missing = plan.is_none();
        let other = || Plan::Other { name: format.name.as_str().into() };
        let id = usize::from(format.id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        if self.by_id[id] == 0 {
            self.plans.push(plan.unwrap_or_else(other));
            // An id is a u16 and learnt once, so their number fits one too but for the very last.
            self.by_id[id] = u16::try_from(self.plans.len()).unwrap_or(0);
        }
        if missing {
            return Err(format!("event {} lacks a field that is needed", format.name));
        }
        Ok(())
    }

    /// Number of events learnt.
    pub(crate) fn events(&self) -> usize {
        self.plans.len()
    }

    /// Decodes one record; why not, when it is no event that was learnt or is cut short.
    pub(crate) fn decode(&self, record: &[u8]) -> Result<Decoded<'_>, &'static str> {
        let big = self.big_endian;
        let get = |place: Option<Place>| place.and_then(|place| place.get(record, big));
        let id = get(self.common_type).ok_or("record too short for its type")?;
        let pid = get(self.common_pid).ok_or("record too short for its pid")? as i32;
        let context = context(get(self.common_flags).unwrap_or(0) as u8);
        let index = self.by_id.get(id as usize).copied().unwrap_or(0);
        let plan = self.plans.get(usize::from(index).wrapping_sub(1));
        let plan = plan.ok_or("record of an event without a format")?;
        if let Plan::Other { name } = plan {
            return Ok(Decoded { pid, context, kind: Kind::Other, other: Some(name) });
        }
        let kind = plan.kind(record, big).ok_or("record too short, or a field out of range")?;
        Ok(Decoded { pid, context, kind, other: None })
    }
}

/// `enum trace_flag_type` of the kernel (include/linux/trace_events.h) to our bits.
fn context(flags: u8) -> Context {
    let mut bits = 0;
    let pairs = [
        (0x01, Context::IRQS_OFF),
        (0x04, Context::NEED_RESCHED),
        (0x08, Context::HARDIRQ),
        (0x10, Context::SOFTIRQ),
        (0x20, Context::NEED_RESCHED),
        (0x40, Context::NMI),
        (0x80, Context::BH_OFF),
    ];
    for (kernel, ours) in pairs {
        bits |= if flags & kernel != 0 { ours } else { 0 };
    }
    Context(bits)
}

/// `None` when a field is missing.
fn plan(format: &EventFormat) -> Option<Plan> {
    let need = |name: &str| format.field(name).map(Place::of);
    Some(match format.name.as_str() {
        "mm_page_alloc" => Plan::PageAlloc {
            pfn: need("pfn")?,
            order: need("order")?,
            migratetype: need("migratetype")?,
            gfp: need("gfp_flags")?,
            map: GfpMap::from_print_fmt(&format.print_fmt),
        },
        "mm_page_free" => Plan::PageFree { pfn: need("pfn")?, order: need("order")? },
        "mm_page_free_batched" => Plan::PageFreeBatched { pfn: need("pfn")? },
        "mm_page_alloc_zone_locked" => Plan::ZoneLocked {
            pfn: need("pfn")?,
            order: need("order")?,
            migratetype: need("migratetype")?,
            refill: need("percpu_refill"),
        },
        "mm_page_pcpu_drain" => Plan::PcpuDrain {
            pfn: need("pfn")?,
            order: need("order")?,
            migratetype: need("migratetype")?,
        },
        "mm_page_alloc_extfrag" => Plan::Extfrag {
            pfn: need("pfn")?,
            fields: [
                need("alloc_order")?,
                need("fallback_order")?,
                need("alloc_migratetype")?,
                need("fallback_migratetype")?,
                need("change_ownership")?,
            ],
        },
        "contention_begin" => {
            Plan::ContentionBegin { lock: need("lock_addr")?, flags: need("flags")? }
        }
        "contention_end" => Plan::ContentionEnd { lock: need("lock_addr")?, ret: need("ret")? },
        name => match COMPACTION_EVENTS.iter().position(|known| *known == name) {
            Some(id) => compaction(id as u8, format),
            None => match RECLAIM_EVENTS.iter().position(|known| *known == name) {
                Some(id) => reclaim(id as u8, format)?,
                None => Plan::Other { name: name.into() },
            },
        },
    })
}

fn reclaim(id: u8, format: &EventFormat) -> Option<Plan> {
    let place = |name: &str| format.field(name).map(Place::of);
    let (has_node, value) = reclaim_fields(id);
    let node = if has_node { Some(place("nid")?) } else { None };
    Some(Plan::Reclaim { id, node, value: value.and_then(place) })
}

fn compaction(id: u8, format: &EventFormat) -> Plan {
    let first = |names: &[&str]| names.iter().find_map(|name| format.field(name)).map(Place::of);
    let placed = format.field("nid").is_some();
    let a = ["zone_start", "nr_scanned", "nr_migrated"];
    let b = ["status", "ret", "zone_end", "nr_taken", "nr_failed", "prio"];
    let order = first(&["order"]);
    Plan::Compaction {
        id,
        a: if placed { None } else { first(&a).or(order) },
        b: first(&b),
        place: [first(&["nid"]), first(&["idx", "highest_zoneidx", "classzone_idx"]), order],
    }
    .with_deferral(format)
}

impl Plan {
    /// The `defer` events pack two fields into `b`: recognised by having both.
    fn with_deferral(self, format: &EventFormat) -> Plan {
        let Plan::Compaction { id, a, b, place } = self else {
            return self;
        };
        let considered = format.field("considered").map(Place::of);
        let shift = format.field("defer_shift").map(Place::of);
        match (considered, shift) {
            (Some(considered), Some(shift)) if considered.offset + 4 == shift.offset => {
                // Two neighbouring u32: read as one word, considered in its low half.
                let both = Place { offset: considered.offset, size: 8, signed: false };
                Plan::Compaction { id, a, b: Some(both), place }
            }
            _ => Plan::Compaction { id, a, b, place },
        }
    }

    fn kind(&self, record: &[u8], big: bool) -> Option<Kind> {
        Some(match self {
            Plan::PageAlloc { pfn, order, migratetype, gfp, map } => Kind::PageAlloc {
                pfn: match pfn.get(record, big)? {
                    // -1 of a 32-bit kernel.
                    0xffff_ffff if pfn.size == 4 => PFN_NONE,
                    number => number,
                },
                order: order.small(record, big)?,
                migratetype: migratetype.small(record, big)?,
                gfp: map.decode(gfp.get(record, big)?),
            },
            Plan::PageFree { pfn, order } => {
                Kind::PageFree { pfn: pfn.get(record, big)?, order: order.small(record, big)? }
            }
            Plan::PageFreeBatched { pfn } => Kind::PageFreeBatched { pfn: pfn.get(record, big)? },
            Plan::ZoneLocked { pfn, order, migratetype, refill } => {
                let order = order.small(record, big)?;
                let percpu_refill = match refill {
                    Some(place) => place.get(record, big)? != 0,
                    None => order == 0,
                };
                let migratetype = migratetype.small(record, big)?;
                Kind::ZoneLocked { pfn: pfn.get(record, big)?, order, migratetype, percpu_refill }
            }
            Plan::PcpuDrain { pfn, order, migratetype } => Kind::PcpuDrain {
                pfn: pfn.get(record, big)?,
                order: order.small(record, big)?,
                migratetype: migratetype.small(record, big)?,
            },
            Plan::ContentionBegin { lock, flags } => Kind::ContentionBegin {
                lock: lock.get(record, big)?,
                flags: flags.get(record, big)? as u32,
            },
            Plan::ContentionEnd { lock, ret } => Kind::ContentionEnd {
                lock: lock.get(record, big)?,
                ret: ret.get(record, big)? as i32,
            },
            _ => self.other_kind(record, big)?,
        })
    }

    /// The kinds beside those of pages taken and given.
    fn other_kind(&self, record: &[u8], big: bool) -> Option<Kind> {
        let get = |place: &Option<Place>| match place {
            Some(place) => place.get(record, big),
            None => Some(0),
        };
        Some(match self {
            Plan::Compaction { id, a, b, place } => {
                let [node, zone, order] = place;
                let a = match a {
                    Some(_) => get(a)?,
                    None => compaction_place(get(node)?, get(zone)?, get(order)?),
                };
                let b = get(b)?;
                Kind::Compaction { id: *id, a, b }
            }
            Plan::Reclaim { id, node, value } => {
                Kind::Reclaim { id: *id, node: get(node)? as u16, value: get(value)? }
            }
            Plan::Extfrag { pfn, fields } => {
                let small = |index: usize| fields[index].small(record, big);
                Kind::Extfrag {
                    pfn: pfn.get(record, big)?,
                    alloc_order: small(0)?,
                    fallback_order: small(1)?,
                    alloc_migratetype: small(2)?,
                    fallback_migratetype: small(3)?,
                    change_ownership: fields[4].get(record, big)? != 0,
                }
            }
            _ => Kind::Other,
        })
    }
}
