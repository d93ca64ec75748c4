//! The bundled recordings are read whole.

use super::*;
use crate::event::Kind;

fn bundled(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces").join(name);
    Recording::open(path).unwrap()
}

#[test]
fn a_folder_gives_events_and_snapshots() {
    let recording = bundled("udplimit-6.18-2cpu");
    assert_eq!(recording.kernel(), Some("6.18.44-fc-v657"));
    assert_eq!(recording.name(), "udplimit-6.18-2cpu");
    assert!(recording.sysctl("vm.min_free_kbytes").is_some());
    assert_eq!(recording.caches.len(), 8);
    let mut reader = recording.events().unwrap();
    let (mut block, mut events, mut allocs) = (Vec::new(), 0, 0);
    while reader.read_block(&mut block).unwrap() {
        events += block.len() as u64;
        allocs += block.iter().filter(|e| matches!(e.kind, Kind::PageAlloc { .. })).count();
    }
    // The ring's own count, read by the recording script.
    let entries: u64 = recording.ring_stats.iter().map(|stats| stats.entries).sum();
    assert_eq!(events, entries);
    assert!(allocs > 0 && reader.damage().is_empty() && !reader.lost().any());
    assert!(recording.damage.is_empty());
}

#[test]
fn snapshots_agree_with_themselves() {
    for name in ["build-6.18-2cpu", "numa-6.1-8cpu-2node"] {
        let recording = bundled(name);
        for snapshot in [recording.before.unwrap(), recording.after.unwrap()] {
            assert!(snapshot.damage.is_empty(), "{:?}", snapshot.damage);
            let zones = snapshot.zoneinfo.unwrap();
            let buddy = snapshot.buddyinfo.unwrap();
            let types = snapshot.pagetypeinfo.unwrap();
            for row in &buddy.rows {
                let zone = zones.zone(row.node, &row.zone).unwrap();
                // Read one after the other on a live machine: a few batches of pages apart.
                assert!(
                    row.pages().abs_diff(zone.free) < 4096,
                    "{name} {} {}",
                    row.pages(),
                    zone.free
                );
                assert!(zone.pagesets.iter().all(|set| set.stat_threshold.is_some()));
                let of_zone =
                    types.free.iter().filter(|r| r.node == row.node && r.zone == row.zone);
                assert_eq!(of_zone.count(), types.types.len());
            }
            assert!(snapshot.vmstat.unwrap().get("pgfree").unwrap() > 0);
            assert!(snapshot.numastat.unwrap().node(0).unwrap().values.len() == 6);
        }
    }
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let error = Recording::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap_err();
    assert!(matches!(error, TraceError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("byte 0"), "{error}");
}
