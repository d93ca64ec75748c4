//! Allocation flags by name: one numbering of our own for every kernel release.
//!
//! Linux renumbers its `__GFP_*` bits from release to release, so a number means nothing without
//! the table that the recording carries. Text recordings print names; binary ones carry the table
//! in the event's `print fmt`. Both end here.

use crate::event::Gfp;

/// Bits from here up hold what no name was known for (a kernel's own numbering, shifted).
const UNKNOWN_SHIFT: u32 = 40;

macro_rules! elementary {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal $(| $alias:literal)*;)*) => {
        impl Gfp {
            $($(#[$doc])* pub const $name: Gfp = Gfp(1 << $bit);)*
        }
        /// Elementary flags: name, our bit.
        const ELEMENTARY: &[(&str, Gfp)] = &[$(($text, Gfp::$name)),*];
        /// Names that other releases give to the same flags.
        const ALIASES: &[(&str, Gfp)] = &[$($(($alias, Gfp::$name),)*)*];
        const _: () = { $(assert!($bit < UNKNOWN_SHIFT);)* };
    };
}

elementary! {
    /// Memory below 16 MiB (x86).
    DMA = 0, "__GFP_DMA" | "GFP_DMA";
    /// High memory is fine.
    HIGHMEM = 1, "__GFP_HIGHMEM";
    /// Memory below 4 GiB.
    DMA32 = 2, "__GFP_DMA32" | "GFP_DMA32";
    /// The page can be migrated.
    MOVABLE = 3, "__GFP_MOVABLE";
    /// The page belongs to a cache that a shrinker empties.
    RECLAIMABLE = 4, "__GFP_RECLAIMABLE";
    /// May use reserves down to part of the min mark.
    HIGH = 5, "__GFP_HIGH";
    /// May start I/O.
    IO = 6, "__GFP_IO";
    /// May call into a file system.
    FS = 7, "__GFP_FS";
    /// Zero the page.
    ZERO = 8, "__GFP_ZERO";
    /// Cannot sleep, and matters (up to 6.2).
    ATOMIC = 9, "__GFP_ATOMIC";
    /// May reclaim directly.
    DIRECT_RECLAIM = 10, "__GFP_DIRECT_RECLAIM";
    /// Wakes kswapd.
    KSWAPD_RECLAIM = 11, "__GFP_KSWAPD_RECLAIM";
    /// The page will be dirtied.
    WRITE = 12, "__GFP_WRITE";
    /// No message on failure.
    NOWARN = 13, "__GFP_NOWARN";
    /// Try hard, then fail.
    RETRY_MAYFAIL = 14, "__GFP_RETRY_MAYFAIL" | "__GFP_REPEAT";
    /// Never fail.
    NOFAIL = 15, "__GFP_NOFAIL";
    /// One light try.
    NORETRY = 16, "__GFP_NORETRY";
    /// May use all memory.
    MEMALLOC = 17, "__GFP_MEMALLOC";
    /// Compound page.
    COMP = 18, "__GFP_COMP";
    /// Must not use the emergency reserve.
    NOMEMALLOC = 19, "__GFP_NOMEMALLOC";
    /// Stay within the cpuset.
    HARDWALL = 20, "__GFP_HARDWALL";
    /// Stay on this node.
    THISNODE = 21, "__GFP_THISNODE";
    /// Charge the memory cgroup.
    ACCOUNT = 22, "__GFP_ACCOUNT";
    /// Zero memory tags too.
    ZEROTAGS = 23, "__GFP_ZEROTAGS";
    /// Skip zeroing for tagging.
    SKIP_ZERO = 24, "__GFP_SKIP_ZERO";
    /// Skip KASAN work on the page.
    SKIP_KASAN = 25, "__GFP_SKIP_KASAN" | "__GFP_SKIP_KASAN_POISON" | "__GFP_SKIP_KASAN_UNPOISON";
    /// Not tracked by lockdep.
    NOLOCKDEP = 26, "__GFP_NOLOCKDEP";
    /// No object extension.
    NO_OBJ_EXT = 27, "__GFP_NO_OBJ_EXT";
    /// Not tracked by kmemcheck (up to 4.14).
    NOTRACK = 28, "__GFP_NOTRACK";
    /// Cache-cold page (up to 4.14).
    COLD = 29, "__GFP_COLD";
    /// Account to another node (up to 4.14).
    OTHER_NODE = 30, "__GFP_OTHER_NODE";
    /// May come from CMA (Android and vendor kernels).
    CMA = 31, "__GFP_CMA";
}

impl Gfp {
    /// No flags (printed `none`).
    pub const NONE: Gfp = Gfp(0);
    /// Both kinds of reclaim.
    pub const RECLAIM: Gfp = Gfp(Gfp::DIRECT_RECLAIM.0 | Gfp::KSWAPD_RECLAIM.0);
    /// `GFP_KERNEL`.
    pub const KERNEL: Gfp = Gfp(Gfp::RECLAIM.0 | Gfp::IO.0 | Gfp::FS.0);
    /// `GFP_USER`.
    pub const USER: Gfp = Gfp(Gfp::KERNEL.0 | Gfp::HARDWALL.0);
    /// `GFP_HIGHUSER`.
    pub const HIGHUSER: Gfp = Gfp(Gfp::USER.0 | Gfp::HIGHMEM.0);
    /// `GFP_HIGHUSER_MOVABLE` (its KASAN bit, which some releases include, left out).
    pub const HIGHUSER_MOVABLE: Gfp = Gfp(Gfp::HIGHUSER.0 | Gfp::MOVABLE.0);
    /// `GFP_TRANSHUGE_LIGHT`.
    pub const TRANSHUGE_LIGHT: Gfp =
        Gfp((Gfp::HIGHUSER_MOVABLE.0 | Gfp::COMP.0 | Gfp::NOMEMALLOC.0 | Gfp::NOWARN.0)
            & !Gfp::RECLAIM.0);

    /// True when every flag of `flags` is set.
    #[must_use]
    pub const fn contains(self, flags: Gfp) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// True when any flag of `flags` is set.
    #[must_use]
    pub const fn intersects(self, flags: Gfp) -> bool {
        self.0 & flags.0 != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, flags: Gfp) -> Gfp {
        Gfp(self.0 | flags.0)
    }

    /// True when the recording held a flag that has no name here.
    #[must_use]
    pub const fn has_unknown(self) -> bool {
        self.0 >> UNKNOWN_SHIFT != 0
    }

    /// A number of which no name is known, kept apart from the named bits. Bits above 23 of it
    /// fold onto lower ones: it only says that something was there.
    #[must_use]
    pub const fn unknown(kernel_bits: u64) -> Gfp {
        let low = kernel_bits & 0xff_ffff;
        let rest = kernel_bits >> 24;
        let folded = (low ^ (rest & 0xff_ffff) ^ (rest >> 24)) & 0xff_ffff;
        let bits = if folded == 0 && kernel_bits != 0 { 1 } else { folded };
        Gfp(bits << UNKNOWN_SHIFT)
    }

    /// Parses names as the kernel prints them: `GFP_KERNEL|__GFP_ZERO|0x8000`, `none`.
    ///
    /// `GFP_NOWAIT` implies `__GFP_NOWARN` from 6.7 on; it is taken without, since no decision of
    /// the allocator depends on it.
    #[must_use]
    pub fn parse(text: &[u8]) -> Gfp {
        let mut flags = Gfp::NONE;
        for name in text.split(|byte| *byte == b'|') {
            flags = flags.union(Gfp::from_name(name));
        }
        flags
    }

    /// One name, compound or elementary, or a hexadecimal remainder; [`Gfp::unknown`] otherwise.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Gfp {
        let name = name.trim_ascii();
        let tables = [COMPOUND, ELEMENTARY, ALIASES];
        if let Some(found) = tables.iter().copied().flatten().find(|row| row.0.as_bytes() == name) {
            return found.1;
        }
        if name.is_empty() || name == b"none" {
            return Gfp::NONE;
        }
        let hex = name.strip_prefix(b"0x").unwrap_or(name);
        let digits = std::str::from_utf8(hex).ok();
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(number) => Gfp::unknown(number),
            None => Gfp::unknown(1),
        }
    }

    /// Appends the names, compound ones first, as a current kernel prints them.
    pub fn write_names(self, out: &mut Vec<u8>) {
        let mut rest = self;
        let start = out.len();
        let mut push = |text: &[u8]| {
            if out.len() > start {
                out.push(b'|');
            }
            out.extend_from_slice(text);
        };
        for (name, flags) in COMPOUND.iter().chain(ELEMENTARY) {
            if flags.0 != 0 && rest.contains(*flags) && !name.starts_with("__GFP_REC") {
                push(name.as_bytes());
                rest = Gfp(rest.0 & !flags.0);
            }
        }
        for (name, flags) in
            [("__GFP_RECLAIM", Gfp::RECLAIM), ("__GFP_RECLAIMABLE", Gfp::RECLAIMABLE)]
        {
            if rest.contains(flags) {
                push(name.as_bytes());
                rest = Gfp(rest.0 & !flags.0);
            }
        }
        if rest.0 != 0 {
            push(format!("{:#x}", rest.0 >> UNKNOWN_SHIFT).as_bytes());
        } else if self == Gfp::NONE {
            push(b"none");
        }
    }

    /// Elementary flags and their names, for whoever writes a kernel-like `print fmt` table.
    #[must_use]
    pub fn names() -> &'static [(&'static str, Gfp)] {
        ELEMENTARY
    }
}

/// Compound names, in the order in which the kernel tries them when it prints.
const COMPOUND: &[(&str, Gfp)] = &[
    ("GFP_TRANSHUGE", Gfp(Gfp::TRANSHUGE_LIGHT.0 | Gfp::DIRECT_RECLAIM.0)),
    ("GFP_TRANSHUGE_LIGHT", Gfp::TRANSHUGE_LIGHT),
    ("GFP_HIGHUSER_MOVABLE", Gfp::HIGHUSER_MOVABLE),
    ("GFP_HIGHUSER", Gfp::HIGHUSER),
    ("GFP_USER", Gfp::USER),
    ("GFP_KERNEL_ACCOUNT", Gfp(Gfp::KERNEL.0 | Gfp::ACCOUNT.0)),
    ("GFP_KERNEL", Gfp::KERNEL),
    ("GFP_NOFS", Gfp(Gfp::RECLAIM.0 | Gfp::IO.0)),
    ("GFP_ATOMIC", Gfp(Gfp::HIGH.0 | Gfp::KSWAPD_RECLAIM.0)),
    ("GFP_NOIO", Gfp::RECLAIM),
    ("GFP_NOWAIT", Gfp::KSWAPD_RECLAIM),
    ("__GFP_RECLAIM", Gfp::RECLAIM),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compound_names_fall_apart_into_elementary_flags() {
        let flags = Gfp::parse(b"GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP");
        assert!(flags.contains(Gfp::MOVABLE) && flags.contains(Gfp::DIRECT_RECLAIM));
        assert!(flags.contains(Gfp::ZERO) && flags.contains(Gfp::COMP));
        assert!(!flags.contains(Gfp::RECLAIMABLE) && !flags.has_unknown());
    }

    #[test]
    fn a_remainder_never_looks_like_a_named_flag() {
        let flags = Gfp::parse(b"GFP_NOWAIT|0x2000008");
        assert!(flags.has_unknown());
        assert!(!flags.contains(Gfp::MOVABLE));
        assert!(Gfp::unknown(1 << 24 | 1).has_unknown());
    }

    #[test]
    fn printing_and_parsing_give_the_same_set() {
        for text in ["none", "GFP_KERNEL_ACCOUNT|__GFP_ZERO", "__GFP_RECLAIMABLE|__GFP_IO"] {
            let flags = Gfp::parse(text.as_bytes());
            let mut names = Vec::new();
            flags.write_names(&mut names);
            assert_eq!(Gfp::parse(&names), flags, "{text}");
        }
        for (_, flags) in COMPOUND.iter().chain(ELEMENTARY) {
            let mut names = Vec::new();
            flags.write_names(&mut names);
            assert_eq!(Gfp::parse(&names), *flags);
        }
    }
}
