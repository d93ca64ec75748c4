//! The bundled machine files, within the program, so that it needs no folder beside it.

/// Name and text of each bundled file, in the order of `pageyard machines list`.
pub const BUILTIN: [(&str, &str); 1] = [("skl-2s", include_str!("../../../machines/skl-2s.toml"))];
