//! Gives the model a version: the hash of every source file that a simulated result depends on.
//!
//! A number that somebody has to remember to raise would one day show figures of an older model as
//! those of this one. A changed comment costs a run; a forgotten number costs trust.

#[path = "src/fnv.rs"]
mod fnv;

use std::path::PathBuf;

/// The allocator; first of the sources.
const ALLOCATOR: &str = "../core/src";

/// The allocator, the machine, the workloads, how a cell runs them and what it keeps; relative to
/// this package.
const SOURCES: [&str; 7] = [
    ALLOCATOR,
    "../sim/src",
    "src/cells",
    "src/experiment/cell.rs",
    "src/experiment/outcome.rs",
    "src/experiment/workloads",
    "src/twin/replay/request.rs",
];

fn main() -> std::io::Result<()> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let (mut text, mut core) = (Vec::new(), Vec::new());
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        let mut files = Vec::new();
        collect(package.join(source), &mut files)?;
        files.sort();
        for file in files {
            let name = file.strip_prefix(&package).unwrap_or(&file);
            text.extend_from_slice(name.to_string_lossy().as_bytes());
            text.push(0);
            text.extend_from_slice(&std::fs::read(&file)?);
            text.push(0);
        }
        if source == ALLOCATOR {
            core.clone_from(&text);
        }
    }
    println!("cargo::rustc-env=PAGEYARD_MODEL={:032x}", fnv::hash(&text));
    // Apart, so that two builds can tell a changed allocator from a changed machine.
    println!("cargo::rustc-env=PAGEYARD_ALLOCATOR={:032x}", fnv::hash(&core));
    println!("cargo::rustc-env=PAGEYARD_MACHINES={:032x}", fnv::hash(&text[core.len()..]));
    Ok(())
}

fn collect(path: PathBuf, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(entry?.path(), files)?;
    }
    Ok(())
}
