//! The experiments that come with Pageyard, and the published tables that nothing reproduces yet.

use super::load::{Experiment, LoadError, parse};

macro_rules! bundled {
    ($($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../experiments/", $name, ".toml")),
            include_str!(concat!("../../../experiments/published/", $name, ".json")),
        )),+]
    };
}

/// Name, experiment and published table of each, in the order in which they are shown.
pub const BUNDLED: &[(&str, &str, &str)] = bundled![
    "batch_latency_cascade_lake",
    "batch_latency_ice_lake",
    "batch_latency_coffee_lake",
    "batch_sweep_lkp-skl-4sp1",
    "batch_sweep_lkp-bdw-ex1",
    "batch_sweep_lkp-skl-2sp2",
    "batch_phase2_will_it_scale_page_fault2_processes",
    "prefetch_v3_v4",
    "f26b3fa046_nr_pcp_high",
    "f26b3fa046_pcphigh_vs_cache_icl",
    "lkp_39907a939a",
    "lazy_merge_contention",
    "lazy_merge_order0_vs_thp",
    "numa_stat_threshold_v1",
    "numa_stat_threshold_v2_merged",
    "numa_stat_sysctl",
    "llfree_cores_bulk_o0",
];

/// Published tables without an experiment, and what is missing for one.
pub const NOT_MODELLED: &[(&str, &str)] = &[];

/// Every published table that is known here, reproduced or not.
pub fn names() -> impl Iterator<Item = &'static str> {
    let bundled = BUNDLED.iter().map(|(name, ..)| *name);
    bundled.chain(NOT_MODELLED.iter().map(|(name, _)| *name))
}

/// A bundled experiment by name.
///
/// # Errors
/// Its file is wrong, which a test rules out.
pub fn load(name: &str) -> Option<Result<Experiment, LoadError>> {
    let (name, experiment, table) = BUNDLED.iter().find(|(known, ..)| *known == name)?;
    Some(parse(experiment, &format!("experiments/{name}.toml"), table))
}

/// A published table that comes with Pageyard, as its file has it.
#[must_use]
pub fn published(name: &str) -> Option<&'static str> {
    BUNDLED.iter().find(|(known, ..)| *known == name).map(|(.., table)| *table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_experiment_is_whole_and_bears_the_name_of_its_table() {
        for (name, ..) in BUNDLED {
            let experiment = load(name).expect("it is in the list");
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(experiment.table.id, *name);
            let judged = experiment.groups.iter().map(|group| {
                let points = group.points.iter().filter(|point| point.within.is_some()).count();
                points + group.slopes.iter().filter(|slope| slope.within.is_some()).count()
            });
            assert!(judged.min() > Some(0), "{name} judges nothing on some machine");
        }
    }

    #[test]
    fn no_table_is_both_reproduced_and_not() {
        for (name, _) in NOT_MODELLED {
            assert!(load(name).is_none(), "{name}");
        }
    }
}
