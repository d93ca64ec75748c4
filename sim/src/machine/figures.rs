//! All figures of a machine file under their paths: to check them, to show them, and to move one to
//! an end of its range.

use std::slice::{from_mut, from_ref};

use super::figure::Figure;
use super::spec::Spec;

/// The table of figures in the order of the file; once for reading, once for writing. Each row has
/// the section, the field, and how it holds figures: one, perhaps one, a list.
macro_rules! rows {
    ($spec:ident, $one:ident, $slice:ident, [$($mutable:tt)?]) => {
        vec![
            ("topology.sockets", $one(& $($mutable)? $spec.topology.sockets)),
            ("topology.cores_per_socket", $one(& $($mutable)? $spec.topology.cores_per_socket)),
            ("topology.threads_per_core", $one(& $($mutable)? $spec.topology.threads_per_core)),
            ("core.turbo_mhz", $spec.core.turbo_mhz.$slice()),
            ("core.clock_mhz", $one(& $($mutable)? $spec.core.clock_mhz)),
            ("core.tsc_mhz", $one(& $($mutable)? $spec.core.tsc_mhz)),
            ("core.base_ipc", $one(& $($mutable)? $spec.core.base_ipc)),
            ("core.rob_instructions", $one(& $($mutable)? $spec.core.rob_instructions)),
            ("core.fill_buffers", $one(& $($mutable)? $spec.core.fill_buffers)),
            ("core.store_buffer", $one(& $($mutable)? $spec.core.store_buffer)),
            ("core.pause_cycles", $spec.core.pause_cycles.$slice()),
            ("core.smt_throughput", $spec.core.smt_throughput.$slice()),
            ("cache.l1d.size_kib", $one(& $($mutable)? $spec.cache.l1d.size_kib)),
            ("cache.l1d.ways", $one(& $($mutable)? $spec.cache.l1d.ways)),
            ("cache.l2.size_kib", $one(& $($mutable)? $spec.cache.l2.size_kib)),
            ("cache.l2.ways", $one(& $($mutable)? $spec.cache.l2.ways)),
            ("cache.llc.size_kib", $one(& $($mutable)? $spec.cache.llc.size_kib)),
            ("cache.llc.ways", $one(& $($mutable)? $spec.cache.llc.ways)),
            ("latency.l1_ns", $one(& $($mutable)? $spec.latency.l1_ns)),
            ("latency.l2_ns", $one(& $($mutable)? $spec.latency.l2_ns)),
            ("latency.llc_ns", $one(& $($mutable)? $spec.latency.llc_ns)),
            ("latency.locked_ns", $one(& $($mutable)? $spec.latency.locked_ns)),
            ("latency.dram_local_ns", $one(& $($mutable)? $spec.latency.dram_local_ns)),
            ("latency.dram_remote_ns[]", $spec.latency.dram_remote_ns.$slice()),
            ("latency.smt_transfer_ns", $spec.latency.smt_transfer_ns.$slice()),
            ("latency.hit_socket_ns", $one(& $($mutable)? $spec.latency.hit_socket_ns)),
            ("latency.hitm_socket_ns", $one(& $($mutable)? $spec.latency.hitm_socket_ns)),
            (
                "latency.hitm_remote_home_writer_ns[]",
                $spec.latency.hitm_remote_home_writer_ns.$slice(),
            ),
            (
                "latency.hitm_remote_home_reader_ns[]",
                $spec.latency.hitm_remote_home_reader_ns.$slice(),
            ),
            (
                "latency.hitm_remote_home_third_ns[]",
                $spec.latency.hitm_remote_home_third_ns.$slice(),
            ),
            (
                "bandwidth.dram_socket_gb_per_s",
                $one(& $($mutable)? $spec.bandwidth.dram_socket_gb_per_s),
            ),
            ("bandwidth.link_gb_per_s", $spec.bandwidth.link_gb_per_s.$slice()),
        ]
    };
}

impl Spec {
    /// Every figure that the model uses, under its path, such as `latency.llc_ns` or
    /// `latency.dram_remote_ns[0]`, in the order of the file.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let rows: Vec<(&str, &[Figure])> = rows!(self, from_ref, as_slice, []);
        let mut all = Vec::new();
        for (path, figures) in rows {
            all.extend(figures.iter().enumerate().map(|(at, figure)| (indexed(path, at), figure)));
        }
        for (at, point) in self.bandwidth.dram_loaded.iter().enumerate() {
            all.push((format!("bandwidth.dram_loaded[{at}].ns"), &point.ns));
        }
        all
    }

    /// The figure under a path as [`Spec::figures`] gives it, to be changed; the result must be
    /// resolved again.
    pub fn figure_mut(&mut self, path: &str) -> Option<&mut Figure> {
        let rows: Vec<(&str, &mut [Figure])> = rows!(self, from_mut, as_mut_slice, [mut]);
        for (row, figures) in rows {
            for (at, figure) in figures.iter_mut().enumerate() {
                if indexed(row, at) == path {
                    return Some(figure);
                }
            }
        }
        let points = self.bandwidth.dram_loaded.iter_mut().enumerate();
        let mut points = points.map(|(at, point)| (at, &mut point.ns));
        let found = points.find(|(at, _)| format!("bandwidth.dram_loaded[{at}].ns") == path);
        found.map(|(_, figure)| figure)
    }
}

fn indexed(path: &str, at: usize) -> String {
    match path.strip_suffix("[]") {
        Some(list) => format!("{list}[{at}]"),
        None => path.to_string(),
    }
}
