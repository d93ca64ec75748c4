//! `/proc/vmstat`: names and values, in order.

use super::scan::{excerpt, line_at, name_value, strict};
use crate::error::{Damage, Fault};

/// `/proc/vmstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmStat {
    /// Name and value, in the order of the file.
    pub values: Vec<(String, u64)>,
    /// The text as it was read.
    pub raw: String,
}

impl VmStat {
    /// Reads all that is readable; what is not goes to `damage`.
    #[must_use]
    pub fn read(text: &str, damage: &mut Damage) -> VmStat {
        let mut values = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match name_value(line) {
                Some((name, value)) => values.push((name.to_string(), value)),
                None => damage.add_with(line_at(index), || {
                    format!("not a `name value` line: {}", excerpt(line))
                }),
            }
        }
        VmStat { values, raw: text.to_string() }
    }

    /// Parses the whole text.
    ///
    /// # Errors
    /// The first line that is not `name value`.
    pub fn parse(text: &str) -> Result<VmStat, Fault> {
        strict(|damage| VmStat::read(text, damage))
    }

    /// A counter by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Sum of the counters whose names start with `prefix` (as `pgalloc_`).
    #[must_use]
    pub fn sum(&self, prefix: &str) -> u64 {
        let matching = self.values.iter().filter(|(name, _)| name.starts_with(prefix));
        matching.fold(0, |sum, (_, value)| sum.wrapping_add(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_prefixes_add_up() {
        let stat = VmStat::parse("pgalloc_dma 1\npgalloc_normal 40\npgfree 7\n").unwrap();
        assert_eq!((stat.sum("pgalloc_"), stat.get("pgfree"), stat.get("x")), (41, Some(7), None));
        assert_eq!(stat.values[2].0, "pgfree");
        assert_eq!(VmStat::parse("a 1\nb\n").unwrap_err().at, line_at(1));
    }
}
