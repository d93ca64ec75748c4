//! Truncated, flipped, empty and foreign files: an error with its place, and what was readable.

use std::path::{Path, PathBuf};

use pageyard_trace::error::TraceError;
use pageyard_trace::event::Event;
use pageyard_trace::reader::EventReader;
use pageyard_trace::recording::Recording;

fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name)
}

fn drain(recording: &Recording) -> (Vec<Event>, EventReader) {
    let mut reader = recording.events().unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.read_block(&mut block).unwrap() {
        all.extend_from_slice(&block);
    }
    (all, reader)
}

/// The unpacked bytes of a test file.
fn unpacked(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(data(name)).unwrap();
    if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

fn with_bytes<T>(bytes: &[u8], check: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    check(&path)
}

#[test]
fn a_file_cut_short_gives_what_was_before_and_the_place() {
    for name in ["small-v6.dat.zst", "small-v7-zstd.dat", "perf-p.data.zst", "small.trace.txt.zst"]
    {
        let bytes = unpacked(name);
        let (whole, _) = drain(&Recording::open(data(name)).unwrap());
        // A version 7 file has its options, and perf.data its formats, near the end: without them
        // nothing can be read.
        let cut =
            bytes.len() - if name.contains("v6") || name.contains("txt") { 30_000 } else { 700 };
        with_bytes(&bytes[..cut], |path| match Recording::open(path) {
            Ok(recording) => {
                let (part, reader) = drain(&recording);
                assert!(part.len() <= whole.len() && !part.is_empty(), "{name}: {}", part.len());
                let noted = !reader.damage().is_empty() || reader.unfinished().is_some();
                assert!(noted, "{name}");
                let all_known = part.iter().all(|event| whole.contains(event));
                assert!(all_known, "{name}: an event that the whole file does not have");
            }
            Err(error) => assert!(error.to_string().contains("byte "), "{name}: {error}"),
        });
    }
}

#[test]
fn a_packed_file_cut_short_gives_the_text_before() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/udpstream-6.18-2cpu");
    let zstd = std::fs::read(bundled.join("trace.txt.zst")).unwrap();
    let gzip = std::fs::read(data("small.report-raw.txt.gz")).unwrap();
    for bytes in [&zstd[..zstd.len() / 2], &gzip[..gzip.len() / 2]] {
        with_bytes(bytes, |path| {
            let (events, reader) = drain(&Recording::open(path).unwrap());
            assert!(!events.is_empty());
            let fault = reader.damage().faults().last().unwrap().to_string();
            assert!(fault.contains("byte ") || fault.contains("line "), "{fault}");
        });
    }
    with_bytes(&zstd[..40], |path| assert!(Recording::open(path).is_err()));
}

#[test]
fn damaged_pages_are_skipped_and_the_others_read() {
    let mut bytes = unpacked("small-v6.dat.zst");
    let (whole, _) = drain(&Recording::open(data("small-v6.dat.zst")).unwrap());
    // The last page of the file: its count of bytes becomes impossible.
    let page = bytes.len() - 4096;
    bytes[page + 8..page + 16].copy_from_slice(&0xffff_u64.to_le_bytes());
    with_bytes(&bytes, |path| {
        let (part, reader) = drain(&Recording::open(path).unwrap());
        assert!(part.len() < whole.len() && part.len() > whole.len() / 2);
        assert_eq!(reader.damage().count(), 1);
        let fault = reader.damage().faults()[0].to_string();
        assert!(fault.starts_with(&format!("byte {}", page + 8)), "{fault}");
    });
}

#[test]
fn foreign_and_empty_files_are_refused_with_what_they_look_like() {
    for (bytes, what) in [
        (&b""[..], "empty"),
        (&b"\x7fELF\x02\x01"[..], "7f 45 4c 46"),
        (&b"hello world\n"[..], "hello world"),
        (&[0u8; 5000][..], "00 00"),
    ] {
        with_bytes(bytes, |path| {
            let error = Recording::open(path).unwrap_err();
            assert!(matches!(error, TraceError::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        });
    }
    let error = Recording::open("/no/such/file").unwrap_err().to_string();
    assert!(error.contains("/no/such/file: cannot open"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no trace in this folder"), "{error}");
}

#[test]
fn lines_that_are_none_are_counted_by_number_and_never_stop_the_pass() {
    let good = "  a-1  [001] .....  1.000001: mm_page_free: page=1 pfn=0x1 order=0\n";
    let long = "x".repeat(3 << 20);
    let text = format!("{good}garbage\n{good}{long}\n{good}\u{0}\u{1}\n{good}");
    with_bytes(text.as_bytes(), |path| {
        let (events, reader) = drain(&Recording::open(path).unwrap());
        assert_eq!(events.len(), 4);
        let places: Vec<String> =
            reader.damage().faults().iter().map(|fault| fault.at.to_string()).collect();
        assert_eq!(places, ["line 2", "line 4", "line 6"]);
    });
}

#[test]
fn a_damaged_snapshot_names_its_line_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/build-6.18-2cpu");
    for name in ["trace.txt.zst", "zoneinfo.before", "buddyinfo.before"] {
        std::fs::copy(bundled.join(name), folder.path().join(name)).unwrap();
    }
    let path = folder.path().join("zoneinfo.before");
    let text =
        std::fs::read_to_string(&path).unwrap().replacen("managed  3840", "managed  38x0", 1);
    std::fs::write(&path, text).unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    let before = recording.before.unwrap();
    assert_eq!(before.damage.len(), 1);
    assert_eq!(before.damage[0].0, "zoneinfo.before");
    assert!(before.damage[0].1.to_string().contains("line "));
    assert!(before.zoneinfo.unwrap().zones.len() > 3);
    assert!(before.buddyinfo.is_some() && before.vmstat.is_none());
}
