//! What the disassembly of the hit path holds: branches and locked instructions, executed or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process;

/// Instructions that stand in one function, cold parts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub instructions: u64,
    /// Conditional jumps.
    pub branches: u64,
    /// `lock`-prefixed instructions, and `xchg` with memory, which locks without a prefix.
    pub locked: u64,
}

/// Disassembles `program` with objdump: the shape of each of its symbols.
pub fn run(program: &Path) -> Result<BTreeMap<String, Shape>> {
    let mut command = Command::new("objdump");
    command.args(["--disassemble", "--no-show-raw-insn", "-M", "intel"]).arg(program);
    Ok(parse(&process::stdout(&mut command)?))
}

/// Reads `objdump --disassemble --no-show-raw-insn -M intel` of x86-64 code.
pub fn parse(text: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut symbol = None;
    for line in text.lines() {
        if let Some(header) = line.strip_suffix(">:") {
            symbol = header.split_once(" <").map(|(_, name)| name.to_owned());
        } else if let Some((address, instruction)) = line.split_once(":\t") {
            let is_address = address.trim().chars().all(|c| c.is_ascii_hexdigit());
            let Some(symbol) = symbol.as_ref().filter(|_| is_address) else {
                continue;
            };
            add(shapes.entry(symbol.clone()).or_default(), instruction);
        }
    }
    shapes
}

fn add(shape: &mut Shape, instruction: &str) {
    let mut words = instruction.split_whitespace();
    let mnemonic = words.next().unwrap_or_default();
    shape.instructions += 1;
    shape.branches += u64::from(mnemonic.starts_with('j') && !mnemonic.starts_with("jmp"));
    let exchanges_memory = mnemonic == "xchg" && instruction.contains('[');
    shape.locked += u64::from(mnemonic == "lock" || exchanges_memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
p:     file format elf64-x86-64

0000000000001000 <take>:
    1000:\tpush   rbp
    1001:\tlock cmpxchg DWORD PTR [rdi],esi
    1005:\tjne    1010 <take+0x10>
    1007:\tjmp    1000 <take>
    1009:\txchg   DWORD PTR [rdi],eax
    100b:\txchg   ax,ax
    100d:\tlock xadd QWORD PTR [rdi],rax

0000000000002000 <give>:
    2000:\tret
";

    #[test]
    fn branches_and_locked_instructions_are_told_apart() {
        let shapes = parse(LISTING);
        assert_eq!(shapes["take"], Shape { instructions: 7, branches: 1, locked: 3 });
        assert_eq!(shapes["give"], Shape { instructions: 1, branches: 0, locked: 0 });
    }
}
