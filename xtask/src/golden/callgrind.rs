//! Counting with callgrind: what each function executed, event by event.
//!
//! Only the cost lines of the output are read. The format is described in valgrind's manual,
//! "Callgrind Format Specification": `events:` names the columns, `fn=` says whose lines follow,
//! `calls=` makes the next line the callee's (inclusive) cost, which is not ours to add.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// The columns that we keep, with their meaning.
pub const EVENTS: [(&str, &str); 6] = [
    ("Ir", "instructions"),
    ("Dr", "loads"),
    ("Dw", "stores"),
    ("Bc", "conditional branches"),
    ("Bi", "indirect branches"),
    ("Ge", "locked instructions"),
];

/// Executions of each of [`EVENTS`], in that order.
pub type Counts = [u64; EVENTS.len()];

/// One run of the probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub total: Counts,
    /// Own counts by linker symbol; code without a symbol stands under `???`.
    pub functions: BTreeMap<String, Counts>,
}

/// Runs `probe PAIRS` under callgrind; `scratch` is overwritten.
pub fn run(probe: &Path, pairs: u64, scratch: &Path) -> Result<Profile> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--branch-sim=yes", "--cache-sim=yes", "--collect-bus=yes"])
        .args(["--demangle=no", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", scratch.display()))
        .arg(probe)
        .arg(pairs.to_string());
    process::output(&mut command)?;
    let text = std::fs::read_to_string(scratch)
        .with_context(|| format!("read what callgrind wrote to {}", scratch.display()))?;
    parse(&text).with_context(|| format!("cannot read {}", scratch.display()))
}

/// Reads callgrind's output format, version 1.
pub fn parse(text: &str) -> Result<Profile> {
    let mut columns: Option<[Option<usize>; EVENTS.len()]> = None;
    let mut profile = Profile::default();
    let mut function = String::new();
    let mut skip_next = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(names) = line.strip_prefix("events:") {
            let names: Vec<&str> = names.split_whitespace().collect();
            columns = Some(EVENTS.map(|(event, _)| names.iter().position(|name| *name == event)));
        } else if let Some(name) = line.strip_prefix("fn=") {
            // `'2` marks a second level of recursion.
            function = name.split('\'').next().unwrap_or(name).to_owned();
        } else if line.starts_with("calls=") {
            skip_next = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            if std::mem::take(&mut skip_next) {
                continue;
            }
            let columns = columns.context("costs stand before the line `events:`")?;
            let costs = costs(line, &columns).with_context(|| format!("line {}", index + 1))?;
            let own = profile.functions.entry(function.clone()).or_default();
            for (at, cost) in costs.into_iter().enumerate() {
                own[at] += cost;
                profile.total[at] += cost;
            }
        }
    }
    if columns.is_none_or(|columns| columns[0].is_none()) {
        bail!("no line `events:` with Ir: this is no output of callgrind");
    }
    Ok(profile)
}

/// One position, then one number a column; columns left out at the end are zero.
fn costs(line: &str, columns: &[Option<usize>; EVENTS.len()]) -> Result<Counts> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let mut counts = Counts::default();
    for (count, column) in counts.iter_mut().zip(columns) {
        if let Some(word) = column.and_then(|column| words.get(column)) {
            *count = word.parse().with_context(|| format!("`{word}` is no count"))?;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
# callgrind format
version: 1
positions: line
events: Ir Dr Dw I1mr Bc Bcm Bi Bim Ge

fl=???
fn=take
0 10 3 2 0 1 0 0 0 1
cfn=leaf
calls=4 0
0 400 9 9 9 9 9 9 9 9
0 5 1
fn=take'2
0 2
fn=leaf
0 100 0 0 0 8
totals: 117 4 2 0 9 0 0 0 1
";

    #[test]
    fn own_costs_are_summed_and_those_of_callees_are_not() {
        let profile = parse(OUTPUT).unwrap();
        assert_eq!(profile.functions["take"], [17, 4, 2, 1, 0, 1]);
        assert_eq!(profile.functions["leaf"], [100, 0, 0, 8, 0, 0]);
        assert_eq!(profile.total, [117, 4, 2, 9, 0, 1]);
    }

    #[test]
    fn something_else_is_refused() {
        assert!(parse("hello\n").is_err());
        assert!(parse("0 1 2\n").is_err());
        assert!(parse("events: Ir\nfn=a\n0 x\n").is_err());
    }
}
