//! Machine files: which load, which are refused and how.

use super::{Machine, names};

#[test]
fn every_bundled_file_loads_under_its_name() {
    for name in names() {
        let machine = Machine::named(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name, name);
    }
}
