//! The stored table: its text, and what differs between two of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

/// Rows in a fixed order of their own, and what they were made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// `rustc -vV` in one line: counts of two compilers are not comparable.
    pub compiler: String,
    /// In hundredths, so that equality means what it says.
    pub rows: BTreeMap<String, u64>,
}

const HEADER: &str = "\
# Fast path: what one allocation and one free cost, both served by a per-CPU list.
# Executed counts are per pair, by callgrind; stored counts are what stands in the functions of
# that path, cold parts included, by objdump. Callgrind offers no restartable sequences, so a
# platform that uses them is counted on its fallback. Made by `cargo xtask golden --bless`.
# A change here needs a sentence in the commit that makes it.
";

impl Table {
    /// The file as it is stored.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}compiler: {}\n\n", self.compiler);
        let width = self.rows.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in &self.rows {
            writeln!(text, "{name:width$}  {:>10}", shown(*value)).expect("strings have room");
        }
        text
    }

    /// Reads what [`Table::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Table> {
        let mut table = Table::default();
        for (index, line) in text.lines().enumerate() {
            if let Some(compiler) = line.strip_prefix("compiler: ") {
                table.compiler = compiler.to_owned();
            } else if !line.starts_with('#') && !line.trim().is_empty() {
                let row = row(line).with_context(|| format!("line {}: `{line}`", index + 1))?;
                table.rows.insert(row.0, row.1);
            }
        }
        Ok(table)
    }

    /// One line for each row that is not the same in `now`.
    pub fn differences(&self, now: &Table) -> Vec<String> {
        let mut names: Vec<&String> = self.rows.keys().chain(now.rows.keys()).collect();
        names.sort();
        names.dedup();
        let value = |row: Option<&u64>| row.map_or("absent".to_owned(), |value| shown(*value));
        names
            .into_iter()
            .filter(|name| self.rows.get(*name) != now.rows.get(*name))
            .map(|name| {
                let (old, new) = (self.rows.get(name), now.rows.get(name));
                format!("{name}: {} -> {}", value(old), value(new))
            })
            .collect()
    }
}

fn row(line: &str) -> Result<(String, u64)> {
    let (name, value) =
        line.trim_end().rsplit_once("  ").context("no two blanks before a value")?;
    let (whole, part) = value.trim().split_once('.').context("the value has no two decimals")?;
    let part = if part.len() == 2 { part.parse::<u64>()? } else { anyhow::bail!("two decimals") };
    Ok((name.trim().to_owned(), whole.parse::<u64>()? * 100 + part))
}

fn shown(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, u64)]) -> Table {
        let rows = rows.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        Table { compiler: "rustc 1.95.0 x86_64".into(), rows }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let table = table(&[("executed conditional branches", 1207), ("executed loads", 99900)]);
        assert_eq!(Table::parse(&table.to_text()).unwrap(), table);
    }

    #[test]
    fn a_damaged_row_names_its_line() {
        let error = Table::parse("# x\nloads  many\n").unwrap_err();
        assert!(format!("{error:#}").contains("line 2"));
    }

    #[test]
    fn differences_name_row_old_and_new() {
        let old = table(&[("a b", 100), ("c", 5)]);
        let new = table(&[("a b", 200), ("d", 5)]);
        assert_eq!(
            old.differences(&new),
            ["a b: 1.00 -> 2.00", "c: 0.05 -> absent", "d: absent -> 0.05"]
        );
        assert!(old.differences(&old).is_empty());
    }
}
