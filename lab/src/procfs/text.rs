//! The kernel's account of its free memory as text, byte for byte as `/proc`, `/sys` and debugfs
//! print it, trailing blanks included.
//!
//! The forms were taken from running kernels, 6.18 and 6.1 (snapshots of both are the tests);
//! `zoneinfo` prints a page set of the longer form where it has `high_min`, as 6.18 does.

use std::fmt::Write;

use pageyard_trace::snapshot::{BuddyInfo, NodeStat, NumaStat, PageTypeInfo, VmStat, ZoneInfo};
use pageyard_trace::snapshot::{Count, PageSet, Zone};

/// From this many free blocks on, `pagetypeinfo` stops counting a list.
pub const BLOCKS_COUNTED_MAX: u64 = 100_000;

/// Appends a formatted piece: writing to a `String` cannot fail.
macro_rules! put {
    ($text:expr, $($piece:tt)*) => {{
        let _ = write!($text, $($piece)*);
    }};
}

/// `/proc/buddyinfo`.
#[must_use]
pub fn buddyinfo(info: &BuddyInfo) -> String {
    let mut text = String::new();
    for row in &info.rows {
        put!(text, "Node {}, zone {:>8} ", row.node, row.zone);
        row.blocks.iter().for_each(|blocks| put!(text, "{blocks:>6} "));
        text.push('\n');
    }
    text
}

/// `/proc/pagetypeinfo`: both tables once for each node, as the kernel repeats them.
#[must_use]
pub fn pagetypeinfo(info: &PageTypeInfo) -> String {
    let mut text = String::new();
    let mut nodes: Vec<u16> = Vec::new();
    for row in &info.free {
        if !nodes.contains(&row.node) {
            nodes.push(row.node);
        }
    }
    for node in nodes {
        if let Some(order) = info.pageblock_order {
            put!(text, "Page block order: {order}\n");
        }
        if let Some(pages) = info.pageblock_pages {
            put!(text, "Pages per block:  {pages}\n");
        }
        let rows = || info.free.iter().filter(move |row| row.node == node);
        let orders = rows().map(|row| row.blocks.len()).max().unwrap_or(0);
        put!(text, "\n{:<43} ", "Free pages count per migrate type at order");
        (0..orders).for_each(|order| put!(text, "{order:>6} "));
        text.push('\n');
        for row in rows() {
            let (zone, migratetype) = (&row.zone, &row.migratetype);
            put!(text, "Node {node:>4}, zone {zone:>8}, type {migratetype:>12} ");
            row.blocks.iter().for_each(|count| put_count(&mut text, count));
            text.push('\n');
        }
        put!(text, "\n{:<23}", "Number of blocks type ");
        info.types.iter().for_each(|name| put!(text, "{name:>12} "));
        text.push('\n');
        for row in info.pageblocks.iter().filter(|row| row.node == node) {
            put!(text, "Node {node}, zone {:>8} ", row.zone);
            row.blocks.iter().for_each(|blocks| put!(text, "{blocks:>12} "));
            text.push('\n');
        }
    }
    text
}

fn put_count(text: &mut String, count: &Count) {
    let mark = if count.at_least { ">" } else { "" };
    put!(text, "{mark}{:>6} ", count.value);
}

/// Free blocks as `pagetypeinfo` counts them.
#[must_use]
pub fn count(blocks: u64) -> Count {
    Count { value: blocks.min(BLOCKS_COUNTED_MAX), at_least: blocks >= BLOCKS_COUNTED_MAX }
}

/// `/proc/zoneinfo`.
#[must_use]
pub fn zoneinfo(info: &ZoneInfo) -> String {
    let mut text = String::new();
    info.zones.iter().for_each(|zone| put_zone(&mut text, zone));
    text
}

fn put_zone(text: &mut String, zone: &Zone) {
    put!(text, "Node {}, zone {:>8}\n", zone.node, zone.name);
    if !zone.per_node.is_empty() {
        text.push_str("  per-node stats\n");
        put_counters(text, &zone.per_node);
    }
    put!(text, "  pages free     {}\n", zone.free);
    let lines = [
        ("boost", zone.boost),
        ("min", Some(zone.min)),
        ("low", Some(zone.low)),
        ("high", Some(zone.high)),
        ("promo", zone.promo),
        ("spanned", Some(zone.spanned)),
        ("present", Some(zone.present)),
        ("managed", Some(zone.managed)),
        ("cma", zone.cma),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            put!(text, "        {name:<8} {value}\n");
        }
    }
    let protection: Vec<String> = zone.protection.iter().map(u64::to_string).collect();
    put!(text, "        protection: ({})\n", protection.join(", "));
    put_counters(text, &zone.counters);
    // The kernel says no more of a zone without pages.
    if zone.populated() || !zone.pagesets.is_empty() {
        text.push_str("  pagesets\n");
    }
    zone.pagesets.iter().for_each(|set| put_pageset(text, set));
    if let Some(value) = zone.node_unreclaimable {
        put!(text, "  node_unreclaimable:  {value}\n");
    }
    if let Some(pfn) = zone.start_pfn {
        put!(text, "  start_pfn:           {pfn}\n");
    }
}

fn put_counters(text: &mut String, counters: &[(String, u64)]) {
    for (name, value) in counters {
        put!(text, "      {name:<12} {value}\n");
    }
}

fn put_pageset(text: &mut String, set: &PageSet) {
    put!(text, "    cpu: {}\n", set.cpu);
    let (count, high, batch) = (set.count, set.high, set.batch);
    match (set.high_min, set.high_max) {
        (Some(high_min), Some(high_max)) => {
            let lines = [
                ("count:", count),
                ("high:", high),
                ("batch:", batch),
                ("high_min:", high_min),
                ("high_max:", high_max),
            ];
            for (name, value) in lines {
                put!(text, "              {name:<9} {value}\n");
            }
        }
        _ => {
            for (name, value) in [("count:", count), ("high:", high), ("batch:", batch)] {
                put!(text, "              {name:<6} {value}\n");
            }
        }
    }
    if let Some(threshold) = set.stat_threshold {
        put!(text, "  vm stats threshold: {threshold}\n");
    }
}

/// `/proc/vmstat`.
#[must_use]
pub fn vmstat(stat: &VmStat) -> String {
    let mut text = String::new();
    for (name, value) in &stat.values {
        put!(text, "{name} {value}\n");
    }
    text
}

/// `numastat` of every node, each below a line with its node's name.
#[must_use]
pub fn numastat(stat: &NumaStat) -> String {
    let mut text = String::new();
    for node in &stat.nodes {
        put!(text, "node{}\n{}", node.node, node_numastat(node));
    }
    text
}

/// `numastat` of one node, as in its folder under `/sys/devices/system/node`.
#[must_use]
pub fn node_numastat(node: &NodeStat) -> String {
    let mut text = String::new();
    for (name, value) in &node.values {
        put!(text, "{name} {value}\n");
    }
    text
}

/// Which index of `debugfs/extfrag` a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// `extfrag_index`: -1.000 where a block is free.
    Extfrag,
    /// `unusable_index`.
    Unusable,
}

impl Index {
    /// Name of the file.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Index::Extfrag => "extfrag_index",
            Index::Unusable => "unusable_index",
        }
    }
}

/// A row of `extfrag_index` or `unusable_index`, from thousandths by order.
#[must_use]
pub fn index_row(node: u16, zone: &str, index: Index, thousandths: &[i64]) -> String {
    // A running 6.18 sets extfrag two wide, so that -1.000 stands under 0.998; unusable is one.
    let width = match index {
        Index::Extfrag => 2,
        Index::Unusable => 1,
    };
    let mut text = format!("Node {node}, zone {zone:>8} ");
    for value in thousandths {
        put!(text, "{:>width$}.{:03} ", value / 1000, value % 1000);
    }
    text.push('\n');
    text
}
