//! The text of every bundled snapshot comes back byte for byte; the rest of the format by hand.

use std::path::{Path, PathBuf};

use pageyard::watermark::{extfrag_index, unusable_index};
use pageyard_trace::snapshot::{BlockRow, BuddyInfo, BuddyRow, Count, FreeRow, NumaStat};
use pageyard_trace::snapshot::{PageTypeInfo, VmStat, ZoneInfo};

use super::text::{self, Index};

/// Files of the bundled recordings with this name before the dot: path and text.
fn snapshots(name: &str) -> Vec<(PathBuf, String)> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(traces).unwrap() {
        for moment in ["before", "after"] {
            let path = folder.as_ref().unwrap().path().join(format!("{name}.{moment}"));
            if let Ok(text) = std::fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    assert!(found.len() >= 10, "{} bundled {name} files", found.len());
    found
}

fn comes_back(name: &str, rebuild: impl Fn(&str) -> String) {
    for (path, raw) in snapshots(name) {
        let rebuilt = rebuild(&raw);
        for (at, (was, is)) in raw.split('\n').zip(rebuilt.split('\n')).enumerate() {
            assert_eq!(is, was, "{}:{}", path.display(), at + 1);
        }
        assert_eq!(rebuilt.len(), raw.len(), "{}", path.display());
    }
}

#[test]
fn buddyinfo_comes_back() {
    comes_back("buddyinfo", |raw| text::buddyinfo(&BuddyInfo::parse(raw).unwrap()));
}

#[test]
fn pagetypeinfo_comes_back() {
    comes_back("pagetypeinfo", |raw| text::pagetypeinfo(&PageTypeInfo::parse(raw).unwrap()));
}

#[test]
fn zoneinfo_comes_back() {
    comes_back("zoneinfo", |raw| text::zoneinfo(&ZoneInfo::parse(raw).unwrap()));
    let forms = snapshots("zoneinfo");
    let has = |piece: &str| forms.iter().any(|(_, text)| text.contains(piece));
    assert!(has("              high_min: ") && has("              high:  "), "both forms");
}

#[test]
fn vmstat_comes_back() {
    comes_back("vmstat", |raw| text::vmstat(&VmStat::parse(raw).unwrap()));
}

#[test]
fn numastat_comes_back() {
    comes_back("numastat", |raw| text::numastat(&NumaStat::parse(raw).unwrap()));
}

#[test]
fn a_large_count_keeps_the_columns_of_a_kernel() {
    let info = BuddyInfo {
        rows: vec![BuddyRow {
            node: 12,
            zone: "Normal".to_string(),
            blocks: vec![0, 1_234_567, 7],
        }],
        raw: String::new(),
    };
    assert_eq!(text::buddyinfo(&info), "Node 12, zone   Normal      0 1234567      7 \n");
}

#[test]
fn pagetypeinfo_stops_counting_at_100000() {
    let counts = [99_999, 100_000, 2_000_000].map(text::count);
    let stopped = Count { value: 100_000, at_least: true };
    assert_eq!(counts, [Count { value: 99_999, at_least: false }, stopped, stopped]);
    let info = PageTypeInfo {
        pageblock_order: Some(9),
        pageblock_pages: Some(512),
        types: ["Unmovable", "Movable"].map(str::to_string).to_vec(),
        free: vec![FreeRow {
            node: 0,
            zone: "Normal".to_string(),
            migratetype: "Unmovable".to_string(),
            blocks: counts.to_vec(),
        }],
        pageblocks: vec![BlockRow { node: 0, zone: "Normal".to_string(), blocks: vec![212, 3144] }],
        raw: String::new(),
    };
    let expected = "Page block order: 9\nPages per block:  512\n\n\
        Free pages count per migrate type at order       0      1      2 \n\
        Node    0, zone   Normal, type    Unmovable  99999 >100000 >100000 \n\n\
        Number of blocks type     Unmovable      Movable \n\
        Node 0, zone   Normal          212         3144 \n";
    assert_eq!(text::pagetypeinfo(&info), expected);
    assert_eq!(text::pagetypeinfo(&PageTypeInfo::parse(expected).unwrap()), expected);
}

/// Rows as a running 6.18 printed them beside these counts of free blocks.
#[test]
fn indices_print_as_debugfs_does() {
    let row = |index, blocks: &[u64; 11]| {
        let thousandths: Vec<i64> = (0..11)
            .map(|order| match index {
                Index::Extfrag => extfrag_index(blocks, order),
                Index::Unusable => unusable_index(blocks, order) as i64,
            })
            .collect();
        text::index_row(0, "Normal", index, &thousandths)
    };
    let normal = [4959, 3518, 5516, 3033, 2801, 2652, 2014, 1465, 907, 10, 22];
    assert_eq!(
        row(Index::Unusable, &normal),
        "Node 0, zone   Normal 0.000 0.006 0.015 0.044 0.076 0.134 0.245 0.414 0.660 0.963 0.970 \n"
    );
    assert_eq!(
        row(Index::Extfrag, &normal),
        format!("Node 0, zone   Normal {}\n", "-1.000 ".repeat(11))
    );
    let mut pieces = [0; 11];
    pieces[0] = 1000;
    let expected = concat!(
        "Node 0, zone   Normal -1.000  0.499  0.749  0.874  0.937  0.968 ",
        " 0.984  0.992  0.996  0.998  0.999 \n"
    );
    assert_eq!(row(Index::Extfrag, &pieces), expected);
}
