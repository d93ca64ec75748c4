//! The bundled machine files, within the program, so that it needs no folder beside it.

/// Name and text of each bundled file, in the order of `pageyard machines list`.
pub const BUILTIN: [(&str, &str); 9] = [
    ("skl-desktop", include_str!("../../../machines/skl-desktop.toml")),
    ("cfl-desktop", include_str!("../../../machines/cfl-desktop.toml")),
    ("bdw-2s", include_str!("../../../machines/bdw-2s.toml")),
    ("bdw-4s", include_str!("../../../machines/bdw-4s.toml")),
    ("skl-2s", include_str!("../../../machines/skl-2s.toml")),
    ("skl-4s", include_str!("../../../machines/skl-4s.toml")),
    ("clx-2s", include_str!("../../../machines/clx-2s.toml")),
    ("icx-2s", include_str!("../../../machines/icx-2s.toml")),
    ("icx-5320", include_str!("../../../machines/icx-5320.toml")),
];
