//! `numastat` of every node: a line `nodeN`, then that node's counters.

use super::scan::{excerpt, line_at, name_value, strict};
use crate::error::{Damage, Fault};

/// Counters of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStat {
    /// NUMA node.
    pub node: u16,
    /// `numa_hit`, `numa_miss`, `numa_foreign`, `interleave_hit`, `local_node`, `other_node`.
    pub values: Vec<(String, u64)>,
}

impl NodeStat {
    /// A counter by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// `/sys/devices/system/node/node*/numastat`, each below a line with its node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaStat {
    /// Nodes in the order of the file.
    pub nodes: Vec<NodeStat>,
    /// The text as it was read.
    pub raw: String,
}

impl NumaStat {
    /// Reads all that is readable; what is not goes to `damage`.
    #[must_use]
    pub fn read(text: &str, damage: &mut Damage) -> NumaStat {
        let mut nodes: Vec<NodeStat> = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            if let Some(node) = line.trim().strip_prefix("node").and_then(|n| n.parse().ok()) {
                nodes.push(NodeStat { node, values: Vec::new() });
                continue;
            }
            match (nodes.last_mut(), name_value(line)) {
                (Some(node), Some((name, value))) => node.values.push((name.to_string(), value)),
                (None, Some(_)) => damage.add(line_at(index), "a counter before any `nodeN` line"),
                (_, None) => damage.add_with(line_at(index), || {
                    format!("not a `name value` line: {}", excerpt(line))
                }),
            }
        }
        NumaStat { nodes, raw: text.to_string() }
    }

    /// Parses the whole text.
    ///
    /// # Errors
    /// The first line that is neither a node's name nor a counter.
    pub fn parse(text: &str) -> Result<NumaStat, Fault> {
        strict(|damage| NumaStat::read(text, damage))
    }

    /// Counters of one node.
    #[must_use]
    pub fn node(&self, node: u16) -> Option<&NodeStat> {
        self.nodes.iter().find(|known| known.node == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_belong_to_the_node_above_them() {
        let stat = NumaStat::parse("node0\nnuma_hit 5\nnode1\nnuma_hit 7\n").unwrap();
        assert_eq!(stat.node(1).unwrap().get("numa_hit"), Some(7));
        assert_eq!(NumaStat::parse("numa_hit 5\n").unwrap_err().at, line_at(0));
    }
}
