//! Presets: what each release of Linux does, from when each switch came, and the proposals
//! of the founding mails.
//!
//! Sources: the commits named at each switch; behaviour read in the trees of 6.1.192 and
//! 6.12.117 and checked on a running 6.18.44.

use crate::policy::*;

/// A release of Linux. `stable` is true for a release with the fixes that were carried back to
/// it later (`linux-6.1.N`): the release `.N` in which each arrived is not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// 6 of 6.18.
    pub major: u16,
    /// 18 of 6.18.
    pub minor: u16,
    /// Whether stable fixes are included.
    pub stable: bool,
}

/// First release with a preset.
pub const RELEASE_MIN: Release = Release { major: 4, minor: 14, stable: false };
/// Last release with a preset.
pub const RELEASE_MAX: Release = Release { major: 6, minor: 19, stable: true };
/// Last minor release of 4.x and 5.x.
const LAST_MINOR: [(u16, u16); 3] = [(4, 20), (5, 19), (6, 19)];

impl Release {
    /// The release `major.minor` without stable fixes.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Release {
        Release { major, minor, stable: false }
    }

    /// True if it is `major.minor` or later.
    #[must_use]
    pub const fn since(self, major: u16, minor: u16) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }

    /// True if a kernel of this number was released and has a preset.
    #[must_use]
    pub fn exists(self) -> bool {
        self.since(4, 14)
            && LAST_MINOR.iter().any(|&(major, minor)| self.major == major && self.minor <= minor)
    }

    /// Every release with a preset, oldest first, without stable fixes.
    pub fn all() -> impl Iterator<Item = Release> {
        LAST_MINOR.iter().flat_map(|&(major, last)| {
            let first = if major == 4 { 14 } else { 0 };
            (first..=last).map(move |minor| Release::new(major, minor))
        })
    }

    /// Reads `6.18`, `6.18.44-fc-v657`, `6.1.0-56-cloud-amd64`. A third number or a distribution
    /// suffix makes it stable; `6.18.0` alone does not.
    #[must_use]
    pub fn parse(text: &str) -> Option<Release> {
        let (numbers, suffix) = match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut parts = numbers.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch: u16 = match parts.next() {
            Some(patch) => patch.parse().ok()?,
            None => 0,
        };
        let distribution = suffix.starts_with('-') && !suffix.starts_with("-rc");
        Some(Release { major, minor, stable: patch > 0 || (distribution && minor > 0) })
    }
}

impl core::fmt::Display for Release {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "linux-{}.{}{}", self.major, self.minor, if self.stable { ".N" } else { "" })
    }
}

impl Policy {
    /// What `release` does, computed from the release in which each switch came.
    #[must_use]
    pub fn linux(release: Release) -> Policy {
        let mut policy = OLDEST;
        policy.size_caches_as(release);
        policy.empty_caches_as(release);
        policy.run_zones_as(release);
        policy
    }

    /// How many pages a CPU keeps, takes and gives back.
    fn size_caches_as(&mut self, release: Release) {
        let since = |major, minor| release.since(major, minor);
        if since(4, 19) {
            self.batch_cap_pages = 256; // d8a759b57035
        }
        if since(5, 14) {
            self.pcp_high = PcpHigh::LowMark;
            self.pcp_lists = PcpLists::Thirteen; // 44042b449872
            self.free_scale = FreeScale::Factor;
        }
        if since(5, 18) {
            self.free_high = FreeHigh::All; // f26b3fa04611
        }
        if since(6, 7) {
            self.pcp_high = PcpHigh::Auto;
            self.alloc_scale = AllocScale::Factor;
            self.free_scale = FreeScale::Count;
            self.free_high = FreeHigh::Capped;
        }
        if since(6, 10) {
            self.pcp_lists = PcpLists::Fourteen;
        }
        if since(6, 16) {
            self.free_high_run = FreeHighRun::BatchAndHalfMin; // c544a952ba61
        }
        self.factor_bounded = since(6, 7) || release.stable;
    }

    /// In which order and under which locks caches are emptied.
    fn empty_caches_as(&mut self, release: Release) {
        let since = |major, minor| release.since(major, minor);
        if since(4, 17) && !since(5, 18) {
            self.collect = Collect::OutsideLock;
            self.prefetch = Prefetch::Nta;
        }
        if since(5, 14) {
            self.pcp_lock = PcpLock::LocalLock;
        }
        if since(5, 18) {
            self.bulk_order = BulkOrder::SinglePass; // 8b10b465d0e1
        }
        if since(6, 0) {
            self.pcp_lock = PcpLock::Spin;
        }
        if since(6, 19) {
            self.free_chunk = LockChunk::Batch;
        }
        self.drain_chunk = drain_chunk(release);
    }

    /// Fallback between types, reserves, marks and counters.
    fn run_zones_as(&mut self, release: Release) {
        if release.since(5, 0) {
            self.nofragment = NoFragment::On;
            self.boost_factor = 15000;
        }
        if release.since(5, 14) {
            self.numa_stat = NumaStat::Event; // f19298b9516c
        }
        if release.since(6, 12) {
            self.highatomic_discount = HighAtomicDiscount::Free;
        }
        self.fallback = fallback(release);
    }
}

/// 4.14: what later releases changed is told by [`Policy::linux`].
const OLDEST: Policy = Policy {
    batch_cap_pages: 128,
    batch_pages: 0,
    pcp_high: PcpHigh::SixBatches,
    pcp_high_pages: 0,
    high_fraction: 0,
    pcp_lists: PcpLists::Three,
    alloc_scale: AllocScale::None,
    free_scale: FreeScale::None,
    scale_max: 5,
    factor_bounded: false,
    free_high: FreeHigh::Never,
    free_high_limit: FreeHighLimit::Zero,
    free_high_run: FreeHighRun::Batch,
    bulk_order: BulkOrder::RoundRobin,
    collect: Collect::UnderLock,
    prefetch: Prefetch::None,
    free_chunk: LockChunk::Whole,
    drain_chunk: LockChunk::Whole,
    pcp_lock: PcpLock::IrqOff,
    zone_lock_line: LockLine::Own,
    spinlock: SpinLock::Queued,
    merge: Merge::Eager,
    storage: Storage::Lists,
    fallback: Fallback::A,
    nofragment: NoFragment::Off,
    boost_factor: 0,
    highatomic: true,
    highatomic_discount: HighAtomicDiscount::Reserved,
    numa_stat: NumaStat::Threshold,
    numa_threshold: NUMA_THRESHOLD_MAX,
};

/// Drains let go of the lock after `batch << 5` pages from 6.7 (and stable) on, after one batch
/// from 6.19 (and stable 6.12) on.
fn drain_chunk(release: Release) -> LockChunk {
    let batched_stable = release.stable && release.since(6, 12);
    match () {
        () if release.since(6, 19) || batched_stable => LockChunk::Batch,
        () if release.since(6, 7) || (release.stable && release.since(6, 1)) => LockChunk::Scaled,
        () => LockChunk::Whole,
    }
}

fn fallback(release: Release) -> Fallback {
    let carried = release.stable && (release.minor == 12 || release.minor == 14);
    match () {
        () if release.since(6, 15) || (release.major == 6 && carried) => Fallback::D,
        () if release.since(6, 14) => Fallback::C,
        () if release.since(6, 10) => Fallback::B,
        () => Fallback::A,
    }
}

/// A preset that is not a release: a parent commit or a proposal of the founding mails.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// Name on the command line.
    pub name: &'static str,
    /// The release it is built on.
    pub base: Release,
    /// What differs, as keys and values for [`Policy::set`].
    pub changes: &'static [(&'static str, &'static str)],
    /// Where it comes from.
    pub source: &'static str,
}

/// Parents and proposals of the founding mails (2017 to 2022).
pub const PROPOSALS: &[Proposal] = &[
    Proposal {
        name: "pcp-high-parent",
        base: Release::new(5, 18),
        changes: &[("free_high", "never")],
        source: "8b10b465d0e1, the parent of f26b3fa046 (mail of 2022-04-29)",
    },
    Proposal {
        name: "pcp-high-zero",
        base: Release::new(5, 18),
        changes: &[("free_high_limit", "0")],
        source: "f26b3fa046 as merged in 5.18",
    },
    Proposal {
        name: "pcp-high-batch",
        base: Release::new(5, 18),
        changes: &[("free_high_limit", "batch")],
        source: "proposed in the mail of 2022-04-29, not merged",
    },
    Proposal {
        name: "pcp-high-4batch",
        base: Release::new(5, 18),
        changes: &[("free_high_limit", "4*batch")],
        source: "proposed in the mail of 2022-04-29, not merged",
    },
    Proposal {
        name: "batch-31",
        base: Release::new(4, 19),
        changes: &[("batch_cap_pages", "128")],
        source: "parent of d8a759b57035 (batch 31)",
    },
    Proposal {
        name: "batch-63",
        base: Release::new(4, 19),
        changes: &[("batch_cap_pages", "256")],
        source: "d8a759b57035 as merged in 4.19 (batch 63)",
    },
    Proposal {
        name: "prefetch-parent",
        base: Release::new(4, 16),
        changes: &[("collect", "outside-lock")],
        source: "v4 2/3 of the 2018 series: pages chosen outside the lock, no prefetch",
    },
    Proposal {
        name: "prefetch-t0",
        base: Release::new(4, 17),
        changes: &[("prefetch", "t0")],
        source: "mail of 2018-03-05",
    },
    Proposal {
        name: "prefetch-t2",
        base: Release::new(4, 17),
        changes: &[("prefetch", "t2")],
        source: "mail of 2018-03-05",
    },
    Proposal {
        name: "prefetch-nta",
        base: Release::new(4, 17),
        changes: &[("prefetch", "nta")],
        source: "mail of 2018-03-05, as merged in 4.17",
    },
    Proposal {
        name: "lazy-merge-v4-2",
        base: Release::new(4, 19),
        changes: &[("prefetch", "none"), ("merge", "deferred")],
        source: "RFC v4 of 2018-10-17, patches 2 and 5: single pages are not merged when freed",
    },
    Proposal {
        name: "numa-stat-parent",
        base: Release::new(4, 14),
        changes: &[("numa_stat", "ordinary")],
        source: "before the 2017 series: ordinary zone counters",
    },
    Proposal {
        name: "numa-stat-v1",
        base: Release::new(4, 14),
        changes: &[("numa_threshold", "32765")],
        source: "v1 of the 2017 series (threshold 32765)",
    },
    Proposal {
        name: "numa-stat-off",
        base: Release::new(4, 14),
        changes: &[("numa_stat", "off")],
        source: "zone statistics disabled, 2017 series",
    },
];

/// Finds a preset by name: `linux-6.18`, `linux-6.1.N`, `linux-6.1.140`, or a proposal.
#[must_use]
pub fn find(name: &str) -> Option<Policy> {
    if let Some(version) = name.strip_prefix("linux-") {
        let (version, stable) = match version.strip_suffix(".N") {
            Some(version) => (version, true),
            None => (version, false),
        };
        let plain = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let mut release = Release::parse(version).filter(|_| plain)?;
        release.stable |= stable;
        return release.exists().then(|| Policy::linux(release));
    }
    let proposal = PROPOSALS.iter().find(|proposal| proposal.name == name)?;
    let mut policy = Policy::linux(proposal.base);
    for (key, value) in proposal.changes {
        policy.set(key, value).ok()?;
    }
    Some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fallback::*;

    /// The twelve rows of the published preset table: releases, batch cap, high, lists, scales,
    /// free_high, collect, bulk order, fallback, chunk.
    #[test]
    fn presets_match_the_twelve_rows() {
        type Row = (u32, PcpHigh, PcpLists, AllocScale, FreeScale, FreeHigh, Collect, Fallback);
        type Span = ((u16, u16), (u16, u16), Row);
        let row = |release: Release| -> Row {
            let p = Policy::linux(release);
            (
                p.batch_cap_pages,
                p.pcp_high,
                p.pcp_lists,
                p.alloc_scale,
                p.free_scale,
                p.free_high,
                p.collect,
                p.fallback,
            )
        };
        use AllocScale as L;
        use FreeHigh::{All, Capped, Never};
        use FreeScale as S;
        use PcpHigh::{Auto, LowMark, SixBatches};
        use PcpLists::{Fourteen, Thirteen, Three};
        let under = Collect::UnderLock;
        let outside = Collect::OutsideLock;
        #[rustfmt::skip]
        let table: [Span; 12] = [
            ((4, 14), (4, 16), (128, SixBatches, Three, L::None, S::None, Never, under, A)),
            ((4, 17), (4, 18), (128, SixBatches, Three, L::None, S::None, Never, outside, A)),
            ((4, 19), (4, 20), (256, SixBatches, Three, L::None, S::None, Never, outside, A)),
            ((5, 0), (5, 13), (256, SixBatches, Three, L::None, S::None, Never, outside, A)),
            ((5, 14), (5, 17), (256, LowMark, Thirteen, L::None, S::Factor, Never, outside, A)),
            ((5, 18), (6, 6), (256, LowMark, Thirteen, L::None, S::Factor, All, under, A)),
            ((6, 7), (6, 9), (256, Auto, Thirteen, L::Factor, S::Count, Capped, under, A)),
            ((6, 10), (6, 13), (256, Auto, Fourteen, L::Factor, S::Count, Capped, under, B)),
            ((6, 14), (6, 14), (256, Auto, Fourteen, L::Factor, S::Count, Capped, under, C)),
            ((6, 15), (6, 15), (256, Auto, Fourteen, L::Factor, S::Count, Capped, under, D)),
            ((6, 16), (6, 18), (256, Auto, Fourteen, L::Factor, S::Count, Capped, under, D)),
            ((6, 19), (6, 19), (256, Auto, Fourteen, L::Factor, S::Count, Capped, under, D)),
        ];
        let mut seen = 0;
        for release in Release::all() {
            let number = (release.major, release.minor);
            let expected = table.iter().find(|(from, to, _)| (*from..=*to).contains(&number));
            assert_eq!(row(release), expected.expect("a row for every release").2, "{release}");
            seen += 1;
        }
        assert_eq!(seen, 7 + 20 + 20);
    }

    #[test]
    fn switches_outside_the_row_tuple_follow_their_releases() {
        let at = |major, minor| Policy::linux(Release::new(major, minor));
        assert_eq!(at(4, 20).boost_factor, 0);
        assert_eq!(at(5, 0).boost_factor, 15000);
        assert_eq!(at(4, 20).nofragment, NoFragment::Off);
        assert_eq!(at(5, 0).nofragment, NoFragment::On);
        assert_eq!(at(5, 13).numa_stat, NumaStat::Threshold);
        assert_eq!(at(5, 14).numa_stat, NumaStat::Event);
        assert_eq!(at(6, 15).free_high_run, FreeHighRun::Batch);
        assert_eq!(at(6, 16).free_high_run, FreeHighRun::BatchAndHalfMin);
        assert_eq!(at(6, 18).free_chunk, LockChunk::Whole);
        assert_eq!(at(6, 19).free_chunk, LockChunk::Batch);
        assert_eq!(at(4, 17).prefetch, Prefetch::Nta);
        assert_eq!(at(5, 18).prefetch, Prefetch::None);
        assert_eq!(at(5, 17).bulk_order, BulkOrder::RoundRobin);
    }

    #[test]
    fn every_preset_passes_its_own_check() {
        for release in Release::all() {
            for stable in [false, true] {
                assert_eq!(Policy::linux(Release { stable, ..release }).check(), Ok(()));
            }
        }
        for proposal in PROPOSALS {
            let policy = find(proposal.name).expect(proposal.name);
            assert_eq!(policy.check(), Ok(()), "{}", proposal.name);
        }
    }

    #[test]
    fn kernels_name_their_release() {
        let parsed = |text| Release::parse(text).expect(text);
        assert_eq!(parsed("6.18.44-fc-v657"), Release { major: 6, minor: 18, stable: true });
        assert_eq!(parsed("6.1.0-56-cloud-amd64"), Release { major: 6, minor: 1, stable: true });
        assert_eq!(parsed("5.17.0"), Release::new(5, 17));
        assert_eq!(parsed("6.19-rc3"), Release::new(6, 19));
        assert_eq!(Release::parse("six"), None);
        assert!(find("linux-6.1.140").is_some_and(|p| p.factor_bounded));
        assert!(find("linux-6.1").is_some_and(|p| !p.factor_bounded));
        assert!(find("linux-4.13").is_none() && find("linux-6.18x").is_none());
    }
}
