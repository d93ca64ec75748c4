//! What names, changes and files are accepted, and what the refusals say.

use std::path::Path;

use super::*;

fn refusal(text: &str) -> String {
    NamedPolicy::parse(text).unwrap_err().to_string()
}

fn from_file(text: &str) -> Result<file::PolicyFile, PolicyError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).unwrap();
    file::load(&path)
}

#[test]
fn every_name_of_the_list_is_found() {
    for name in names() {
        let named = NamedPolicy::parse(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(named.name, name);
    }
    assert!(names().len() > 47);
    let stable = NamedPolicy::parse("linux-6.1.N").unwrap();
    assert!(stable.policy.factor_bounded);
}

#[test]
fn changes_are_set_and_stand_in_the_name() {
    let text = "linux-6.18:batch_pages=15,highatomic=off";
    let named = NamedPolicy::parse(text).unwrap();
    assert_eq!(named.name, text);
    assert_eq!((named.policy.batch_pages, named.policy.highatomic), (15, false));
}

#[test]
fn refusals_name_what_was_meant() {
    let unknown = refusal("linux-6.81");
    assert!(unknown.contains("'linux-6.81'") && unknown.contains("linux-6.8"), "{unknown}");
    assert!(refusal("pcp-high-bach").contains("nearest: pcp-high-batch"));
    assert!(refusal("linux-6.18:pcp_hihg=auto").contains("nearest: pcp_high"));
    let value = refusal("linux-6.18:pcp_high=automatic");
    assert!(value.contains("it takes 6*batch, low/cpus, auto"), "{value}");
    assert!(refusal("linux-6.18:batch_pages").contains("not key=value"));
    assert!(refusal("linux-6.18:").contains("not key=value"));
    assert!(refusal("linux-6.18:scale_max=1,scale_max=2").contains("set twice"));
    let pair = refusal("linux-6.18:prefetch=t0");
    assert!(pair.contains("'prefetch'") && pair.contains("'collect'"), "{pair}");
    assert!(!refusal(&"x".repeat(100_000)).contains("nearest"));
    assert!(refusal("no/such.toml").contains("no/such.toml"));
}

#[test]
fn a_file_changes_its_base() {
    let read = from_file(
        "base = \"linux-6.18\"\nabout = \"why\"\n[set]\nbatch_pages = 0x0f\nhighatomic = false\n",
    )
    .unwrap();
    assert_eq!(read.named.name, "mine");
    assert_eq!((read.base.as_str(), read.about.as_deref()), ("linux-6.18", Some("why")));
    assert_eq!(read.named.policy.batch_pages, 15);
    assert!(!read.named.policy.highatomic);
    let named = from_file("base = \"batch-31\"\nname = \"other\"\n").unwrap().named;
    assert_eq!((named.name.as_str(), named.policy.batch_cap_pages), ("other", 128));
}

#[test]
fn a_bad_line_of_a_file_is_named() {
    let cases = [
        ("base = \"linux-6.18\"\n[set]\npcp_hihg = \"auto\"\n", "mine.toml:3:1: unknown key"),
        ("base = \"linux-6.18\"\n[set]\npcp_high = \"much\"\n", "mine.toml:3:12: key 'pcp_high'"),
        ("base = \"linux-6.18\"\n[set]\nbatch_pages = -3\n", "mine.toml:3:15: key 'batch_pages'"),
        ("base = \"linux-6.18\"\n[set]\nscale_max = 1.5\n", "mine.toml:3:13: 'scale_max' must be"),
        ("base = \"linux-6.18\"\n[set]\nprefetch = \"t0\"\n", "mine.toml:3:1: policy keys"),
        ("name = \"x\"\n", "mine.toml:1:1: no `base`"),
        ("base = \"linux-6.81\"\n", "mine.toml:1:8: base 'linux-6.81'"),
        ("base = \"linux-6.18\"\nset = 3\n", "mine.toml:2:7: 'set' must be a table"),
        ("base = 6\n", "mine.toml:1:8: 'base' must be a string"),
        ("base = \"linux-6.18\"\nbatch_pages = 3\n", "mine.toml:2:1: 'batch_pages' is none of"),
        ("base = \"linux-6.18\nx", "mine.toml:1:"),
        ("base = \"linux-6.18\"\nbase = \"linux-6.17\"\n", "mine.toml:2:"),
    ];
    for (text, expected) in cases {
        let error = from_file(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nfor {text}");
    }
}

#[test]
fn files_that_are_no_text_are_refused_within_their_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes.toml");
    std::fs::write(&path, b"base = \"\xff\"").unwrap();
    assert!(file::load(&path).unwrap_err().to_string().contains("byte 8 is not UTF-8"));
    std::fs::write(&path, vec![b'#'; (file::FILE_BYTES_MAX + 1) as usize]).unwrap();
    assert!(matches!(file::load(&path), Err(PolicyError::TooLarge { .. })));
    assert!(matches!(file::load(folder.path()), Err(PolicyError::Read { .. })));
}

#[test]
fn kernels_get_the_preset_of_their_release() {
    let named = |text| NamedPolicy::for_kernel(text).unwrap();
    assert_eq!(named("6.18.44-fc-v657").name, "linux-6.18.N");
    assert_eq!(named("6.1.0-56-cloud-amd64").name, "linux-6.1.N");
    assert_eq!(named("5.17.0\n").name, "linux-5.17");
    assert_eq!(named("5.17").policy, NamedPolicy::parse("linux-5.17").unwrap().policy);
    assert_eq!(named("5.17").remark, None);
    let newer = named("7.1.3");
    assert_eq!(newer.name, "linux-6.19.N");
    assert!(newer.remark.unwrap().contains("7.1.3 is newer"));
    assert_eq!(named("6.20-rc1").name, "linux-6.19");
    for (text, expected) in [
        ("4.9.337", "older than 4.14"),
        ("3.10", "older than 4.14"),
        ("4.25", "not a kernel release"),
        ("unknown", "not a kernel release"),
        ("", "not a kernel release"),
    ] {
        let error = NamedPolicy::for_kernel(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn the_files_of_the_project_are_policies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let read = file::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(read.about.is_some(), "{}", path.display());
        assert_ne!(Some(read.named.policy), preset::find(&read.base));
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn paths_are_told_from_names() {
    assert!(is_path("x.toml") && is_path("./x") && !is_path("numa_stat_sysctl"));
}
