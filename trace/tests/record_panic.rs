//! A recorder that panics takes its trace instance and its unfinished folder with it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use pageyard_trace::record::{self, Clock, Options, Progress, Until};

#[test]
fn a_panic_while_recording_leaves_nothing() {
    let instances = Path::new("/sys/kernel/tracing/instances");
    let ours = || {
        let mark = format!("pageyard-{}-", std::process::id());
        let entries = fs::read_dir(instances).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mark)).count()
    };
    let scratch = std::env::temp_dir().join(format!("pageyard-panic-{}", std::process::id()));
    fs::create_dir(&scratch).expect("a fresh folder");
    let options = Options {
        out: scratch.join("out"),
        until: Until::Duration(Duration::from_secs(60)),
        buffer_kb: 64,
        buffer_percent: record::BUFFER_PERCENT_DEFAULT,
        events: vec!["page".to_string()],
        clock: Clock::Mono,
        kpageflags: false,
        zstd_level: None,
    };
    let mut seen = 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        record::record(&options, true, &mut |progress| {
            if let Progress::Recording { .. } = progress {
                seen = ours();
                panic!("on purpose, by the test");
            }
        })
    }));
    let left = fs::read_dir(&scratch).expect("still there").count();
    fs::remove_dir_all(&scratch).expect("ours");
    if let Ok(result) = result {
        let error = result.expect_err("a panic ends it long before its time is over");
        println!("skipped: {error}");
        return;
    }
    assert_eq!(seen, 1, "it was recording when it panicked");
    assert_eq!(ours(), 0);
    assert_eq!(left, 0);
}
