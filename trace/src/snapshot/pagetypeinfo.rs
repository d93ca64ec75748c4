//! `/proc/pagetypeinfo`: free blocks per zone, migratetype and order; pageblocks per type.

use super::scan::{excerpt, line_at, node_zone, strict};
use crate::error::{Damage, Fault};

/// A count that the kernel may have stopped at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number printed.
    pub value: u64,
    /// Printed as `>100000`: the kernel stopped counting, the truth is `value` or more.
    pub at_least: bool,
}

/// Free blocks of one type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRow {
    /// NUMA node.
    pub node: u16,
    /// Zone name.
    pub zone: String,
    /// Migratetype name, as `Unmovable`.
    pub migratetype: String,
    /// Free blocks by order.
    pub blocks: Vec<Count>,
}

/// Pageblocks by type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// NUMA node.
    pub node: u16,
    /// Zone name.
    pub zone: String,
    /// Pageblocks, in the order of [`PageTypeInfo::types`].
    pub blocks: Vec<u64>,
}

/// `/proc/pagetypeinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// Order of a pageblock (9 on x86 with huge pages).
    pub pageblock_order: Option<u32>,
    /// Pages of a pageblock.
    pub pageblock_pages: Option<u64>,
    /// Migratetypes in the kernel's order, as the second table's heading names them.
    pub types: Vec<String>,
    /// Free blocks.
    pub free: Vec<FreeRow>,
    /// Pageblocks by type.
    pub pageblocks: Vec<BlockRow>,
    /// The text as it was read.
    pub raw: String,
}

impl PageTypeInfo {
    /// Reads all that is readable; what is not goes to `damage`.
    #[must_use]
    pub fn read(text: &str, damage: &mut Damage) -> PageTypeInfo {
        let mut info = PageTypeInfo { raw: text.to_string(), ..PageTypeInfo::default() };
        for (index, line) in text.lines().enumerate() {
            if info.line(line).is_none() {
                damage.add_with(line_at(index), || {
                    format!("not a pagetypeinfo line: {}", excerpt(line))
                });
            }
        }
        if info.types.is_empty() && !info.free.is_empty() {
            for row in &info.free {
                if !info.types.contains(&row.migratetype) && info.types.len() < 64 {
                    info.types.push(row.migratetype.clone());
                }
            }
        }
        info
    }

    /// Parses the whole text.
    ///
    /// # Errors
    /// The first line that is none of the format's.
    pub fn parse(text: &str) -> Result<PageTypeInfo, Fault> {
        strict(|damage| PageTypeInfo::read(text, damage))
    }

    /// Free blocks of one type in one zone.
    #[must_use]
    pub fn free_row(&self, node: u16, zone: &str, migratetype: &str) -> Option<&FreeRow> {
        self.free.iter().find(|r| r.node == node && r.zone == zone && r.migratetype == migratetype)
    }

    /// Pageblocks by type of one zone.
    #[must_use]
    pub fn block_row(&self, node: u16, zone: &str) -> Option<&BlockRow> {
        self.pageblocks.iter().find(|row| row.node == node && row.zone == zone)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with("Free pages count per migrate type") {
            return Some(());
        }
        if let Some(order) = trimmed.strip_prefix("Page block order:") {
            self.pageblock_order = Some(order.trim().parse().ok()?);
            return Some(());
        }
        if let Some(pages) = trimmed.strip_prefix("Pages per block:") {
            self.pageblock_pages = Some(pages.trim().parse().ok()?);
            return Some(());
        }
        if let Some(types) = trimmed.strip_prefix("Number of blocks type") {
            self.types = types.split_ascii_whitespace().take(64).map(str::to_string).collect();
            return Some(());
        }
        // `Number of mixed blocks` (page_owner kernels) has the same heading shape.
        if trimmed.starts_with("Number of mixed blocks") {
            return Some(());
        }
        self.row(trimmed)
    }

    fn row(&mut self, line: &str) -> Option<()> {
        let (node, zone, rest) = node_zone(line)?;
        let zone = zone.to_string();
        if let Some(rest) = rest.strip_prefix(',') {
            let rest = rest.trim_start().strip_prefix("type")?.trim_start();
            let (migratetype, rest) = rest.split_once(' ')?;
            let blocks: Option<Vec<Count>> = rest.split_ascii_whitespace().map(count).collect();
            let blocks = blocks.filter(|blocks| !blocks.is_empty())?;
            self.free.push(FreeRow { node, zone, migratetype: migratetype.to_string(), blocks });
            return Some(());
        }
        let blocks: Result<Vec<u64>, _> = rest.split_ascii_whitespace().map(str::parse).collect();
        let blocks = blocks.ok().filter(|blocks| !blocks.is_empty())?;
        if self.block_row(node, &zone).is_none() {
            self.pageblocks.push(BlockRow { node, zone, blocks });
        }
        Some(())
    }
}

fn count(word: &str) -> Option<Count> {
    let (number, at_least) = match word.strip_prefix('>') {
        Some(number) => (number, true),
        None => (word, false),
    };
    Some(Count { value: number.parse().ok()?, at_least })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Page block order: 9\nPages per block:  512\n\n\
        Free pages count per migrate type at order       0      1 \n\
        Node    0, zone   Normal, type    Unmovable      1 >100000 \n\
        Node    0, zone   Normal, type      Movable      4      2 \n\n\
        Number of blocks type     Unmovable      Movable \n\
        Node 0, zone   Normal          212         3144 \n";

    #[test]
    fn both_tables_are_read() {
        let info = PageTypeInfo::parse(TEXT).unwrap();
        assert_eq!((info.pageblock_order, info.pageblock_pages), (Some(9), Some(512)));
        assert_eq!(info.types, ["Unmovable", "Movable"]);
        assert_eq!(info.block_row(0, "Normal").unwrap().blocks, [212, 3144]);
        let row = info.free_row(0, "Normal", "Unmovable").unwrap();
        assert_eq!(row.blocks[1], Count { value: 100_000, at_least: true });
    }

    #[test]
    fn a_foreign_line_is_named() {
        let fault = PageTypeInfo::parse("Page block order: 9\nhello\n").unwrap_err();
        assert_eq!(fault.at, line_at(1));
    }
}
