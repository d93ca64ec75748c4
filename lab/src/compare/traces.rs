//! Finding recordings: those that were named, or those that come with the project.

use std::path::{Path, PathBuf};

/// The folder of bundled recordings.
const FOLDER: &str = "traces";

/// Why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// None was named and none is bundled.
    #[error(
        "no recordings: neither ./{FOLDER} nor {0} has any; name some with --trace, or make one \
         with `pageyard record`"
    )]
    None(String),
    /// A named one is not there.
    #[error("--trace {0}: no such file or folder")]
    Missing(String),
    /// One was named twice.
    #[error("--trace {0}: named twice; each recording counts once")]
    Twice(String),
}

/// The recordings named, as given; without any, the bundled ones by name: those of `./traces`,
/// else of the checkout that the program was built in.
///
/// # Errors
/// One is missing or named twice, or there are none.
pub fn find(named: &[PathBuf]) -> Result<Vec<PathBuf>, FindError> {
    let mut seen = Vec::new();
    for path in named {
        let shown = path.display().to_string();
        let real = path.canonicalize().map_err(|_| FindError::Missing(shown.clone()))?;
        if seen.contains(&real) {
            return Err(FindError::Twice(shown));
        }
        seen.push(real);
    }
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FOLDER);
    [PathBuf::from(FOLDER), checkout.clone()]
        .iter()
        .map(|folder| recordings_in(folder))
        .find(|found| !found.is_empty())
        .ok_or_else(|| FindError::None(checkout.display().to_string()))
}

/// Folders that hold a recording: they have a trace in them. By name.
fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| has_trace(path))
        .collect();
    found.sort();
    found
}

fn has_trace(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten();
    files
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .any(|name| name.starts_with("trace.") || name.starts_with("perf.data"))
}
