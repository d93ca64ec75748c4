//! The state of a one-zone allocator as one line that a person can read and write.
//!
//! ```text
//! blocks MMU | M0: 1 3 | M3: 8 | U0@1: 5 4
//! ```
//!
//! Pageblock types in physical order; then each free list that has blocks, named by type and
//! order, its blocks from head to tail; then each per-CPU list, its CPU behind the `@`. Types are
//! the letters U M R H C I of Unmovable, Movable, Reclaimable, HighAtomic, CMA, Isolate. What is
//! on no list is in use: single pages of the type of their pageblock, unless an item such as
//! `used M2: 12` says otherwise (read, never written).

use std::fmt::Write as _;

use pageyard::{Allocator, COSTLY_ORDER, CpuId, MigrateType, Pfn, Platform, ZoneId};

use crate::layout::Layout;

const LETTERS: [char; 6] = ['U', 'M', 'R', 'H', 'C', 'I'];
const ZONE: ZoneId = ZoneId(0);

/// The letter of a type.
#[must_use]
pub fn letter(migratetype: MigrateType) -> char {
    LETTERS[migratetype as usize]
}

/// The type of a letter.
///
/// # Panics
/// There is none.
#[must_use]
pub fn type_of(letter: char) -> MigrateType {
    match LETTERS.iter().position(|&known| known == letter) {
        Some(number) => MigrateType::of(number as u32),
        None => panic!("no migratetype is written {letter:?}"),
    }
}

/// The order and type that a list of a per-CPU cache holds, by the order of pageblocks.
#[must_use]
pub fn cached(list: u8, pageblock_order: u8, lists: pageyard::policy::PcpLists) -> (u8, char) {
    use pageyard::policy::PcpLists;
    match (list, lists) {
        (0..12, _) => (list / 3, LETTERS[usize::from(list % 3)]),
        // One list for all types, or movable apart; U then stands for "not movable".
        (12, PcpLists::Thirteen) => (pageblock_order, '*'),
        (12, _) => (pageblock_order, 'U'),
        _ => (pageblock_order, 'M'),
    }
}

/// Writes the state of zone 0.
pub fn write<P: Platform>(allocator: &Allocator<P>, layout: &Layout) -> String {
    let mut text = String::from("blocks ");
    let span = layout.zones[0];
    let step = 1 << layout.pageblock_order;
    let first = span.start.0 >> layout.pageblock_order << layout.pageblock_order;
    for pfn in (first..span.start.0 + span.spanned_pages).step_by(step) {
        let pfn = pfn.max(span.start.0);
        let migratetype = allocator.pageblock_type(Pfn(pfn)).expect("in the zone");
        text.push(letter(migratetype));
    }
    for t in MigrateType::ALL {
        for order in 0..=layout.max_order {
            let mut blocks = String::new();
            allocator.visit_free(ZONE, order, t, |pfn| {
                let _ = write!(blocks, " {}", pfn.0);
            });
            if !blocks.is_empty() {
                let _ = write!(text, " | {}{order}:{blocks}", letter(t));
            }
        }
    }
    for cpu in layout.cpus() {
        for list in 0..14 {
            let mut blocks = String::new();
            allocator.visit_pcp(ZONE, cpu, list, |pfn| {
                let _ = write!(blocks, " {}", pfn.0);
            });
            if !blocks.is_empty() {
                let lists = allocator.policy().pcp_lists;
                let (order, t) = cached(list, layout.pageblock_order, lists);
                let _ = write!(text, " | {t}{order}@{}:{blocks}", cpu.0);
            }
        }
    }
    text
}

/// One item of a line.
struct Item {
    is_used: bool,
    migratetype: MigrateType,
    order: u8,
    cpu: Option<CpuId>,
    blocks: Vec<u64>,
}

fn item(text: &str) -> Item {
    let (name, blocks) = text.split_once(':').expect("NAME: BLOCKS");
    let (is_used, name) = match name.strip_prefix("used ") {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (list, cpu) = match name.split_once('@') {
        Some((list, cpu)) => (list, Some(CpuId(cpu.parse().expect("a CPU number")))),
        None => (name, None),
    };
    let (letter, order) = list.split_at(1);
    Item {
        is_used,
        migratetype: letter.chars().next().map(type_of).expect("a letter"),
        order: order.parse().expect("an order"),
        cpu,
        blocks: blocks
            .split_whitespace()
            .map(|pfn| pfn.parse().expect("a page frame number"))
            .collect(),
    }
}

/// Puts zone 0 of an empty allocator into the state of a line.
///
/// # Panics
/// The line cannot be read, or two items name the same page.
pub fn read<P: Platform>(allocator: &Allocator<P>, layout: &Layout, line: &str) {
    let span = layout.zones[0];
    let mut items = line.split(" | ");
    let blocks = items.next().and_then(|first| first.strip_prefix("blocks "));
    for (at, letter) in blocks.expect("`blocks` comes first").chars().enumerate() {
        let pfn = span.start.0 + ((at as u64) << layout.pageblock_order);
        allocator.seed_pageblock_type(Pfn(pfn), type_of(letter));
    }
    let mut named = vec![false; span.spanned_pages as usize];
    for item in items.map(item) {
        for &pfn in &item.blocks {
            for page in pfn..pfn + (1 << item.order) {
                let slot = &mut named[(page - span.start.0) as usize];
                assert!(!std::mem::replace(slot, true), "page {page} is named twice");
            }
            match item.cpu {
                _ if item.is_used => {
                    allocator.seed_allocated(Pfn(pfn), item.order, item.migratetype);
                }
                Some(cpu) => allocator.seed_pcp(cpu, Pfn(pfn), item.order, item.migratetype),
                None => allocator.seed_free(Pfn(pfn), item.order, item.migratetype),
            }
        }
    }
    for (pfn, _) in (span.start.0..).zip(named).filter(|(_, named)| !named) {
        let migratetype = allocator.pageblock_type(Pfn(pfn)).expect("in the zone");
        allocator.seed_allocated(Pfn(pfn), 0, migratetype);
    }
}

/// Whether orders of this size have a per-CPU list at all.
#[must_use]
pub fn is_cached_order(order: u8, pageblock_order: u8) -> bool {
    order <= COSTLY_ORDER || order == pageblock_order
}
