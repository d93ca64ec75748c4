//! Which events are recorded, by default and by `--events`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::error::RecordError;
use super::instance::Instance;

/// The page events, without which a recording cannot be replayed.
pub const PAGE_EVENTS: &[&str] = &[
    "kmem:mm_page_alloc",
    "kmem:mm_page_free",
    "kmem:mm_page_free_batched",
    "kmem:mm_page_alloc_zone_locked",
    "kmem:mm_page_pcpu_drain",
    "kmem:mm_page_alloc_extfrag",
];
/// Who waited for which lock.
pub const LOCK_EVENTS: &[&str] = &["lock:contention_begin", "lock:contention_end"];
/// When background and direct reclaim ran, which decides how a zone is treated; rare events.
pub const RECLAIM_EVENTS: &[&str] = &[
    "vmscan:mm_vmscan_kswapd_wake",
    "vmscan:mm_vmscan_kswapd_sleep",
    "vmscan:mm_vmscan_wakeup_kswapd",
    "vmscan:mm_vmscan_direct_reclaim_begin",
    "vmscan:mm_vmscan_direct_reclaim_end",
];
/// The groups recorded unless `--events` says otherwise.
pub const GROUPS_DEFAULT: &[&str] = &["page", "lock", "compaction", "reclaim"];

/// What is recorded: `SYSTEM:EVENT`, sorted, and what the kernel does not have of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Events to turn on.
    pub events: BTreeSet<String>,
    /// Events of a group that this kernel lacks.
    pub missing: BTreeSet<String>,
}

/// Resolves group names, systems and events against `available`, lines of `SYSTEM:EVENT`.
/// Returns the first name that means nothing to this kernel as the error.
fn choose(names: &[String], available: &BTreeSet<&str>) -> Result<Choice, String> {
    let mut choice = Choice::default();
    for name in names {
        let group = match name.as_str() {
            "page" => PAGE_EVENTS,
            "lock" => LOCK_EVENTS,
            "reclaim" => RECLAIM_EVENTS,
            _ => &[],
        };
        for event in group {
            let known = available.contains(event);
            let set = if known { &mut choice.events } else { &mut choice.missing };
            set.insert((*event).to_string());
        }
        if !group.is_empty() {
            continue;
        }
        let prefix = format!("{name}:");
        let matching: Vec<&str> = available
            .iter()
            .copied()
            .filter(|event| event == name || event.starts_with(&prefix))
            .collect();
        match matching.as_slice() {
            [] if name == "compaction" => _ = choice.missing.insert("compaction:*".to_string()),
            [] => return Err(name.clone()),
            _ => choice.events.extend(matching.iter().map(ToString::to_string)),
        }
    }
    Ok(choice)
}

/// Resolves `names` for the kernel of `instance`.
///
/// # Errors
/// When the kernel has no page events at all, or not one that was asked for by its name.
pub fn resolve(names: &[String], root: &Path) -> Result<Choice, RecordError> {
    let list = root.join("available_events");
    let text = fs::read_to_string(&list).map_err(|reason| RecordError::Tracefs {
        doing: "list the kernel's events",
        path: list.clone(),
        reason,
    })?;
    let available: BTreeSet<&str> = text.lines().collect();
    if !available.contains(PAGE_EVENTS[0]) {
        return Err(RecordError::NoPageEvents { events: root.join("events") });
    }
    choose(names, &available).map_err(|name| RecordError::UnknownEvent { name, list })
}

/// Turns the events on in the instance, where nothing is traced until `tracing_on` is set.
///
/// # Errors
/// When the kernel refuses one.
pub fn enable(choice: &Choice, instance: &Instance) -> Result<(), RecordError> {
    for event in &choice.events {
        let file = format!("events/{}/enable", event.replacen(':', "/", 1));
        instance.write(&file, "1", "turn an event on")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], events: &[&str], missing: &[&str]) {
        let available = BTreeSet::from(["kmem:mm_page_alloc", "compaction:a", "compaction:b"]);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let choice = choose(&names, &available).unwrap();
        assert_eq!(choice.events.iter().map(String::as_str).collect::<Vec<_>>(), events);
        assert_eq!(choice.missing.iter().map(String::as_str).collect::<Vec<_>>(), missing);
    }

    #[test]
    fn a_group_tells_what_the_kernel_lacks() {
        check(&["lock"], &[], LOCK_EVENTS);
        check(&["kmem:mm_page_alloc", "lock"], &["kmem:mm_page_alloc"], LOCK_EVENTS);
    }

    #[test]
    fn a_system_means_all_of_its_events() {
        check(&["compaction"], &["compaction:a", "compaction:b"], &[]);
    }

    #[test]
    fn an_unknown_name_is_refused_but_compaction_may_be_absent() {
        let names = ["compaction".to_string(), "nonsense".to_string()];
        assert_eq!(choose(&names, &BTreeSet::new()), Err("nonsense".to_string()));
    }
}
