//! An allocator as a kernel would show it: `/proc` files, `numastat` and the debugfs indices, for
//! the tools that read those of a kernel.
//!
//! [`write_proc`] takes a snapshot of the recorded kernel as its template. The files have that
//! kernel's fields in its order and form: what the allocator models is the allocator's (counters
//! since boot go on from the snapshot), everything else is copied and named in the [`Report`].
//! `fields` builds the contents, [`text`] prints them.

mod fields;
pub mod report;
pub mod text;
mod zones;

use std::io::Write;
use std::path::{Path, PathBuf};

use pageyard::platform::Platform;
use pageyard::{Allocator, Geometry};
use pageyard_trace::snapshot::{BuddyRow, Snapshot};

use fields::View;
pub use report::{FileReport, Report};
use text::Index;

/// Where a kernel has these files, below `/` or a folder that stands in for it.
const NODES: &str = "sys/devices/system/node";
const EXTFRAG: &str = "sys/kernel/debug/extfrag";
/// The report among the files.
pub const FIELDS: &str = "FIELDS";

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The allocator was built over something else.
    #[error("the geometry has {geometry} zones, the allocator {allocator}: not the same machine")]
    OtherMachine {
        /// Zones of the geometry.
        geometry: usize,
        /// Zones of the allocator.
        allocator: usize,
    },
    /// A file or folder could not be made.
    #[error("cannot write {}: {source}; give a folder that can be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Files as they would be written: paths below the folder, and contents.
#[derive(Clone, Debug)]
pub struct Files {
    /// Path and content, in the order of writing.
    pub texts: Vec<(String, String)>,
    /// Which fields are the allocator's, and which the snapshot's.
    pub report: Report,
}

impl Files {
    /// Builds the files of an allocator at rest. `geometry` is the one it was built over;
    /// `template` is the kernel's state at the moment from which the allocator was seeded.
    ///
    /// # Errors
    /// The geometry is another machine's.
    pub fn of<P: Platform>(
        allocator: &Allocator<P>,
        geometry: &Geometry<'_>,
        template: &Snapshot,
    ) -> Result<Files, ProcError> {
        if geometry.zones.len() != allocator.zone_count_total() {
            return Err(ProcError::OtherMachine {
                geometry: geometry.zones.len(),
                allocator: allocator.zone_count_total(),
            });
        }
        let view = View::of(allocator, geometry);
        let mut files = Files { texts: Vec::new(), report: Report::default() };
        let buddy = view.buddyinfo(template.buddyinfo.as_ref());
        files.add("buddyinfo", text::buddyinfo(&buddy.0), Some(buddy.1));
        let types = view.pagetypeinfo(template.pagetypeinfo.as_ref());
        files.add("pagetypeinfo", text::pagetypeinfo(&types.0), Some(types.1));
        let zones = view.zoneinfo(template.zoneinfo.as_ref());
        files.add("zoneinfo", text::zoneinfo(&zones.0), Some(zones.1));
        let vm = view.vmstat(template.vmstat.as_ref());
        files.add("vmstat", text::vmstat(&vm.0), Some(vm.1));
        let (numa, report) = view.numastat(template.numastat.as_ref());
        files.add("numastat", text::numastat(&numa), Some(report));
        for node in &numa.nodes {
            let path = format!("{NODES}/node{}/numastat", node.node);
            files.add(&path, text::node_numastat(node), None);
        }
        for index in [Index::Extfrag, Index::Unusable] {
            // Of other zones nothing is known but a row that may be damaged.
            let own = |row: &&BuddyRow| view.zone(row.node, &row.zone).is_some();
            let rows = buddy.0.rows.iter().filter(own).map(|row| {
                let thousandths = fields::indices(index, &row.blocks);
                text::index_row(row.node, &row.zone, index, &thousandths)
            });
            let path = format!("{EXTFRAG}/{}", index.file());
            files.add(&path, rows.collect(), None);
        }
        Ok(files)
    }

    fn add(&mut self, path: &str, text: String, report: Option<FileReport>) {
        self.texts.push((path.to_string(), text));
        self.report.files.extend(report);
    }
}

/// Writes `buddyinfo`, `pagetypeinfo`, `zoneinfo`, `vmstat` and `numastat` into `out`, below it
/// `sys/` with each node's `numastat` and `extfrag/`, and last `FIELDS`, the report. `out` is
/// made if need be, and can then be given to tools as their `/proc`.
///
/// # Errors
/// The geometry is another machine's, or `out` cannot be written. No file is ever partly there.
pub fn write_proc<P: Platform>(
    allocator: &Allocator<P>,
    geometry: &Geometry<'_>,
    template: &Snapshot,
    out: &Path,
) -> Result<Report, ProcError> {
    let Files { texts, report } = Files::of(allocator, geometry, template)?;
    for (path, text) in &texts {
        write_whole(&out.join(path), text)?;
    }
    write_whole(&out.join(FIELDS), &report.to_string())?;
    Ok(report)
}

/// Writes a file under a name of the moment, then gives it its own.
fn write_whole(path: &Path, text: &str) -> Result<(), ProcError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ProcError::Write { path, source }
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    let partial = path.with_extension("part");
    let written = std::fs::File::create(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|source| {
        // What is left of it is of no use; that it could not be written is what matters.
        let _ = std::fs::remove_file(&partial);
        failed(path)(source)
    })
}

#[cfg(test)]
mod exporter_tests;
#[cfg(test)]
mod fields_tests;
#[cfg(test)]
mod seeded;
#[cfg(test)]
mod text_tests;
