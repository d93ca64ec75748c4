//! The fields that events print: `key=value` words in any order.

use crate::event::{
    COMPACTION_EVENTS, Gfp, Kind, PFN_NONE, RECLAIM_EVENTS, compaction_place, reclaim_fields,
};
use memchr::memchr;

/// Splits a word off; `None` at the end.
fn word<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    while let [b' ', rest @ ..] = text {
        *text = rest;
    }
    if text.is_empty() {
        return None;
    }
    let end = memchr(b' ', text).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *text = rest;
    Some(word)
}

/// Splits `key=value`.
fn pair(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = word.iter().position(|byte| *byte == b'=')?;
    Some((&word[..equals], &word[equals + 1..]))
}

/// A number as printed: `0x1f`, `31`, `-1` (as u64). Kernels before 5.10 print pfns in decimal.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(hex) = text.strip_prefix(b"0x") {
        return hex_number(hex);
    }
    if let Some(digits) = text.strip_prefix(b"-") {
        return decimal(digits).map(u64::wrapping_neg);
    }
    decimal(text)
}

fn decimal(text: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!text.is_empty()).then_some(value)
}

fn hex_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let mut value = 0u64;
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        value = value << 4 | u64::from(digit);
    }
    Some(value)
}

fn small(text: &[u8]) -> Option<u8> {
    number(text).and_then(|value| u8::try_from(value).ok())
}

/// The fields that page events share.
#[derive(Default)]
struct Page {
    pfn: Option<u64>,
    /// `page=(null)`: the kernel prints pfn 0 with it when an allocation failed.
    page_is_null: bool,
    order: Option<u8>,
    migratetype: Option<u8>,
    refill: Option<bool>,
}

impl Page {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"page" => {
                let hex = value.strip_prefix(b"0x").unwrap_or(value);
                let zero = !hex.is_empty() && hex.iter().all(|byte| *byte == b'0');
                self.page_is_null = zero || value == b"(null)" || value == b"(nil)";
            }
            b"pfn" => self.pfn = Some(number(value)?),
            b"order" => self.order = Some(small(value)?),
            b"migratetype" => self.migratetype = Some(small(value)?),
            b"percpu_refill" => self.refill = Some(number(value)? != 0),
            _ => {}
        }
        Some(())
    }
}

fn page(mut text: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    while let Some(word) = word(&mut text) {
        if let Some((key, value)) = pair(word) {
            page.take(key, value)?;
        }
    }
    Some(page)
}

pub(super) fn page_alloc(mut text: &[u8], gfp: impl FnOnce(&[u8]) -> Gfp) -> Option<Kind> {
    let mut page = Page::default();
    let mut names: &[u8] = b"";
    while let Some(word) = word(&mut text) {
        match pair(word) {
            Some((b"gfp_flags", value)) => names = value,
            Some((key, value)) => page.take(key, value)?,
            None => {}
        }
    }
    let failed = page.page_is_null && page.pfn == Some(0);
    let pfn = if failed { PFN_NONE } else { page.pfn? };
    let (order, migratetype) = (page.order?, page.migratetype?);
    if names.is_empty() {
        return None;
    }
    Some(Kind::PageAlloc { pfn, order, migratetype, gfp: gfp(names) })
}

pub(super) fn page_free(text: &[u8]) -> Option<Kind> {
    let page = page(text)?;
    Some(Kind::PageFree { pfn: page.pfn?, order: page.order? })
}

pub(super) fn page_free_batched(text: &[u8]) -> Option<Kind> {
    Some(Kind::PageFreeBatched { pfn: page(text)?.pfn? })
}

pub(super) fn zone_locked(text: &[u8]) -> Option<Kind> {
    let page = page(text)?;
    // Releases before 4.19 print no percpu_refill of their own kind: order 0 meant a refill.
    let percpu_refill = page.refill.unwrap_or(page.order? == 0);
    let (order, migratetype) = (page.order?, page.migratetype?);
    Some(Kind::ZoneLocked { pfn: page.pfn?, order, migratetype, percpu_refill })
}

pub(super) fn pcpu_drain(text: &[u8]) -> Option<Kind> {
    let page = page(text)?;
    Some(Kind::PcpuDrain { pfn: page.pfn?, order: page.order?, migratetype: page.migratetype? })
}

pub(super) fn extfrag(mut text: &[u8]) -> Option<Kind> {
    let (mut pfn, mut change_ownership) = (None, None);
    let mut small_fields = [None; 4];
    while let Some(word) = word(&mut text) {
        let Some((key, value)) = pair(word) else {
            continue;
        };
        let index = match key {
            b"pfn" => {
                pfn = Some(number(value)?);
                continue;
            }
            b"change_ownership" => {
                change_ownership = Some(number(value)? != 0);
                continue;
            }
            b"alloc_order" => 0,
            b"fallback_order" => 1,
            b"alloc_migratetype" => 2,
            b"fallback_migratetype" => 3,
            _ => continue,
        };
        small_fields[index] = Some(small(value)?);
    }
    let [alloc_order, fallback_order, alloc_migratetype, fallback_migratetype] = small_fields;
    Some(Kind::Extfrag {
        pfn: pfn?,
        alloc_order: alloc_order?,
        fallback_order: fallback_order?,
        alloc_migratetype: alloc_migratetype?,
        fallback_migratetype: fallback_migratetype?,
        change_ownership: change_ownership?,
    })
}

/// The lock's address; 0 where the kernel does not print it (`(____ptrval____)`).
fn lock(text: &mut &[u8]) -> Option<u64> {
    let word = word(text)?;
    if word.starts_with(b"(") {
        return Some(0);
    }
    hex_number(word.strip_prefix(b"0x").unwrap_or(word))
}

/// Finds `(key=value)`.
fn bracketed<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let inner = text.trim_ascii().strip_prefix(b"(")?.strip_suffix(b")")?;
    let (found, value) = pair(inner)?;
    (found == key).then_some(value)
}

/// Lock flags of `contention_begin` (`LCB_F_*`), in bit order.
pub(crate) const LOCK_FLAGS: [&str; 6] = ["SPIN", "READ", "WRITE", "RT", "PERCPU", "MUTEX"];

/// `ADDRESS (flags=SPIN|READ)`, or raw: `lock_addr=0x… flags=1`.
pub(super) fn contention_begin(mut text: &[u8]) -> Option<Kind> {
    let raw = raw_contention(text, b"flags");
    let (lock, names) = match raw {
        Some(raw) => raw,
        None => (lock(&mut text)?, bracketed(text, b"flags")?),
    };
    let mut flags = 0u32;
    for name in names.split(|byte| *byte == b'|').filter(|name| !name.is_empty()) {
        match LOCK_FLAGS.iter().position(|known| known.as_bytes() == name) {
            Some(bit) => flags |= 1 << bit,
            None => flags |= u32::try_from(number(name)?).ok()?,
        }
    }
    Some(Kind::ContentionBegin { lock, flags })
}

/// `ADDRESS (ret=0)`, or raw: `lock_addr=0x… ret=0`.
pub(super) fn contention_end(mut text: &[u8]) -> Option<Kind> {
    let raw = raw_contention(text, b"ret");
    let (lock, ret) = match raw {
        Some(raw) => raw,
        None => (lock(&mut text)?, bracketed(text, b"ret")?),
    };
    Some(Kind::ContentionEnd { lock, ret: i32::try_from(number(ret)? as i64).ok()? })
}

/// The fields as `trace-cmd report -R` prints them.
fn raw_contention<'a>(mut text: &'a [u8], key: &[u8]) -> Option<(u64, &'a [u8])> {
    let (found, address) = pair(word(&mut text)?)?;
    let (second, value) = pair(word(&mut text)?)?;
    (found == b"lock_addr" && second == key).then_some((number(address)?, value))
}

/// Results of compaction, by code.
pub(crate) const COMPACT_RESULTS: [&str; 9] = [
    "not_suitable_zone",
    "skipped",
    "deferred",
    "no_suitable_page",
    "continue",
    "complete",
    "partial_skipped",
    "contended",
    "success",
];

/// Zone names by index, as on x86-64 (text names the zone, not its index).
pub(crate) const ZONE_NAMES: [&str; 5] = ["DMA", "DMA32", "Normal", "Movable", "Device"];

fn index_of(names: &[&str], value: &[u8]) -> Option<u64> {
    match names.iter().position(|name| name.as_bytes() == value) {
        Some(index) => Some(index as u64),
        None => number(value),
    }
}

/// Reclaim events: the node and the value of [`Kind::Reclaim`].
pub(super) fn reclaim(name: &[u8], mut text: &[u8]) -> Option<Kind> {
    let Some(id) = RECLAIM_EVENTS.iter().position(|known| known.as_bytes() == name) else {
        return Some(Kind::Other);
    };
    let (has_node, wanted) = reclaim_fields(id as u8);
    let (mut node, mut value) = ((!has_node).then_some(0), 0);
    while let Some(word) = word(&mut text) {
        match pair(word) {
            Some((b"nid", text)) if has_node => node = Some(u16::try_from(number(text)?).ok()?),
            Some((key, text)) if wanted.is_some_and(|name| name.as_bytes() == key) => {
                value = number(text)?;
            }
            _ => {}
        }
    }
    Some(Kind::Reclaim { id: id as u8, node: node?, value })
}

/// Compaction events: the two values described at [`Kind::Compaction`].
pub(super) fn compaction(name: &[u8], mut text: &[u8]) -> Option<Kind> {
    let Some(id) = COMPACTION_EVENTS.iter().position(|known| known.as_bytes() == name) else {
        return Some(Kind::Other);
    };
    let (mut a, mut b) = (0u64, 0u64);
    let (mut node, mut zone, mut order) = (0, 0, 0);
    while let Some(word) = word(&mut text) {
        let Some((key, value)) = pair(word) else {
            continue;
        };
        let value = value.strip_suffix(b",").unwrap_or(value);
        match key {
            b"zone_start" | b"nr_scanned" | b"nr_migrated" => a = number(value)?,
            b"zone_end" | b"nr_taken" | b"nr_failed" | b"priority" | b"prio" => b = number(value)?,
            b"status" | b"ret" => b = index_of(&COMPACT_RESULTS, value)?,
            b"node" | b"nid" => node = number(value)?,
            b"zone" | b"classzone_idx" | b"idx" | b"highest_zoneidx" => {
                zone = index_of(&ZONE_NAMES, value)?
            }
            b"order" => order = number(value)?,
            b"consider" | b"considered" => b |= number(value)? & 0xffff_ffff,
            b"defer_shift" => b |= (number(value)? & 63) << 32,
            b"limit" => b |= u64::from(number(value)?.checked_ilog2()?) << 32,
            _ => {}
        }
    }
    match COMPACTION_EVENTS[id] {
        "mm_compaction_try_to_compact_pages" => a = order,
        "mm_compaction_kcompactd_sleep" => a = compaction_place(node, 0, 0),
        "mm_compaction_finished"
        | "mm_compaction_suitable"
        | "mm_compaction_deferred"
        | "mm_compaction_defer_compaction"
        | "mm_compaction_defer_reset"
        | "mm_compaction_kcompactd_wake"
        | "mm_compaction_wakeup_kcompactd" => a = compaction_place(node, zone, order),
        _ => {}
    }
    Some(Kind::Compaction { id: id as u8, a, b })
}
