//! `/proc/buddyinfo`: free blocks per zone and order.

use super::scan::{excerpt, line_at, node_zone, strict};
use crate::error::{Damage, Fault};

/// One zone's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuddyRow {
    /// NUMA node.
    pub node: u16,
    /// Zone name, as `Normal`.
    pub zone: String,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
}

impl BuddyRow {
    /// Free pages of the row.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let sum = |pages: u64, (order, blocks): (usize, &u64)| {
            pages.saturating_add(blocks.saturating_mul(1 << order.min(63)))
        };
        self.blocks.iter().enumerate().fold(0, sum)
    }
}

/// `/proc/buddyinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuddyInfo {
    /// Rows in the order of the file (populated zones only, as the kernel prints them).
    pub rows: Vec<BuddyRow>,
    /// The text as it was read.
    pub raw: String,
}

impl BuddyInfo {
    /// Reads all that is readable; what is not goes to `damage`.
    #[must_use]
    pub fn read(text: &str, damage: &mut Damage) -> BuddyInfo {
        let mut rows = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match row(line) {
                Some(row) => rows.push(row),
                None => damage
                    .add_with(line_at(index), || format!("not a buddyinfo row: {}", excerpt(line))),
            }
        }
        BuddyInfo { rows, raw: text.to_string() }
    }

    /// Parses the whole text.
    ///
    /// # Errors
    /// The first line that is not a row.
    pub fn parse(text: &str) -> Result<BuddyInfo, Fault> {
        strict(|damage| BuddyInfo::read(text, damage))
    }

    /// The row of a zone.
    #[must_use]
    pub fn row(&self, node: u16, zone: &str) -> Option<&BuddyRow> {
        self.rows.iter().find(|row| row.node == node && row.zone == zone)
    }
}

fn row(line: &str) -> Option<BuddyRow> {
    let (node, zone, rest) = node_zone(line)?;
    let blocks: Result<Vec<u64>, _> = rest.split_ascii_whitespace().map(str::parse).collect();
    let blocks = blocks.ok()?;
    // A line cut short by a damaged file still looks like a row: only the newline tells, and a
    // row without any count never occurs.
    (!blocks.is_empty() && blocks.len() <= 64).then(|| BuddyRow {
        node,
        zone: zone.to_string(),
        blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_blocks_by_order() {
        let text = "Node 0, zone      DMA      0      0      0      0      0      0      0      0 \
                         1      1      3 \n";
        let info = BuddyInfo::parse(text).unwrap();
        assert_eq!(info.row(0, "DMA").unwrap().blocks, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3]);
        assert_eq!(info.rows[0].pages(), 256 + 512 + 3072);
        assert_eq!(info.raw, text);
    }

    #[test]
    fn a_bad_row_is_named_and_the_others_kept() {
        let mut damage = Damage::default();
        let info = BuddyInfo::read(
            "Node 0, zone DMA 1 2\nNode x, zone DMA 1\nNode 1, zone Normal 3\n",
            &mut damage,
        );
        assert_eq!(info.rows.len(), 2);
        assert_eq!(damage.faults()[0].at, line_at(1));
    }
}
