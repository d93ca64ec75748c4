//! The manual says what the keys and presets do, and docs/POLICIES.md is the manual.

use std::path::Path;

use super::*;

#[test]
fn every_key_and_value_has_its_entry() {
    let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let entries: Vec<&str> = ENTRIES.iter().map(|entry| entry.key).collect();
    assert_eq!(entries, keys);
    for key in KEYS {
        match (names(key.accepts), entry(key).takes) {
            (Some(names), Takes::Values(values)) => {
                let told: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
                assert_eq!(told, names, "{}", key.name);
            }
            (None, Takes::Range(..) | Takes::ZeroOr(..)) => {}
            (names, takes) => panic!("{}: {names:?} against {takes:?}", key.name),
        }
    }
}

#[test]
fn ranges_are_those_that_the_policy_checks() {
    let refused = |key: &Key, value: u64| {
        let mut policy = Policy::linux(Release::new(6, 1));
        match policy.set(key.name, &value.to_string()) {
            Ok(()) => policy.check().is_err_and(|c| (c.key, c.other) == (key.name, key.name)),
            Err(_) => true,
        }
    };
    let mut seen = 0;
    for key in KEYS {
        let (zero, from, to) = match entry(key).takes {
            Takes::Values(_) => continue,
            Takes::Range(from, to) => (from == 0, from, to),
            Takes::ZeroOr(_, from, to) => (true, from, to),
        };
        let (from, to) = (u64::from(from), u64::from(to));
        assert!(!refused(key, from) && !refused(key, to), "{}", key.name);
        assert!(refused(key, to + 1), "{} = {}", key.name, to + 1);
        assert_eq!(refused(key, 0), !zero, "{} = 0", key.name);
        if from > 1 {
            assert!(refused(key, from - 1), "{} = {}", key.name, from - 1);
        }
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[test]
fn releases_are_read_off_the_presets() {
    let key = |name: &str| KEYS.iter().find(|key| key.name == name).unwrap();
    assert_eq!(releases(key("prefetch"), "nta"), "4.17 to 5.17");
    assert_eq!(releases(key("prefetch"), "none"), "4.14 to 4.16, 5.18 to 6.19");
    assert_eq!(releases(key("prefetch"), "t0"), "");
    assert_eq!(releases(key("fallback"), "c"), "6.14");
    assert_eq!(releases(key("fallback"), "d"), "6.15 to 6.19; stable 6.12, 6.14");
    // Where free_high is not `all`, no release has a limit for it.
    assert_eq!(releases(key("free_high_limit"), "0"), "5.18 to 6.6");
    assert_eq!(releases(key("factor_bounded"), "on"), "stable 5.14 to 6.6");
    let policy = Policy::linux(Release::new(6, 18));
    for key in KEYS.iter().filter(|key| entry(key).matters(&policy)) {
        let value = (key.get)(&policy).to_string();
        assert!(!releases(key, &value).is_empty(), "{}", key.name);
    }
}

#[test]
fn conditions_name_keys_and_values_that_exist() {
    for (key, values) in ENTRIES.iter().filter_map(|entry| entry.only_with) {
        let known = KEYS.iter().find(|known| known.name == key).unwrap();
        for value in values {
            let mut policy = Policy::linux(Release::new(6, 18));
            assert_eq!(policy.set(key, value), Ok(()));
            assert_eq!((known.get)(&policy).to_string(), *value);
        }
    }
}

/// Rewrites the page where `PAGEYARD_BLESS` is set.
#[test]
fn the_page_is_the_manual() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/POLICIES.md");
    if std::env::var_os("PAGEYARD_BLESS").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    let hint = "run this test with PAGEYARD_BLESS=1 and read the difference";
    assert!(page == markdown(), "docs/POLICIES.md is not what the keys say: {hint}");
}

#[test]
fn the_file_that_the_page_shows_is_a_policy() {
    let (_, after) = PREFACE.split_once("```toml\n").unwrap();
    let example = after.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.toml");
    std::fs::write(&path, example).unwrap();
    let read = crate::named::file::load(&path).unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/short-hold.toml");
    assert_eq!(read.named.policy, crate::named::file::load(&bundled).unwrap().named.policy);
}
