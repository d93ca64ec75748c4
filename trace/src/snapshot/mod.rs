//! The kernel's own account of its free memory, as `/proc` and `/sys` print it.
//!
//! Each parser keeps the text it read (`raw`), so that a writer can copy the fields that nobody
//! models. `read` is tolerant (damage is noted, the rest is kept); `parse` is strict.

mod buddyinfo;
mod kpageflags;
mod numastat;
mod pagetypeinfo;
mod scan;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::{BuddyInfo, BuddyRow};
pub use kpageflags::{FreeBlock, KPF_BUDDY, KPageFlags};
pub use numastat::{NodeStat, NumaStat};
pub use pagetypeinfo::{BlockRow, Count, FreeRow, PageTypeInfo};
pub use vmstat::VmStat;
pub use zoneinfo::{PageSet, Zone, ZoneInfo};

use crate::error::Fault;

/// Orders in a row of buddyinfo or pagetypeinfo (0 to 10) on an ordinary kernel. Configurations
/// with other largest orders parse too: rows have the length that they have.
pub const ORDERS: usize = 11;

/// Everything read from `/proc` and `/sys` at about one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// `/proc/zoneinfo`.
    pub zoneinfo: Option<ZoneInfo>,
    /// `/proc/buddyinfo`.
    pub buddyinfo: Option<BuddyInfo>,
    /// `/proc/pagetypeinfo`.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// `/proc/vmstat`.
    pub vmstat: Option<VmStat>,
    /// `/sys/devices/system/node/node*/numastat`, each below its node's name.
    pub numastat: Option<NumaStat>,
    /// `/proc/kpageflags`.
    pub kpageflags: Option<KPageFlags>,
    /// What could not be read: file name and fault.
    pub damage: Vec<(String, Fault)>,
}

impl Snapshot {
    /// True when no file of the snapshot was there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zoneinfo.is_none()
            && self.buddyinfo.is_none()
            && self.pagetypeinfo.is_none()
            && self.vmstat.is_none()
            && self.numastat.is_none()
            && self.kpageflags.is_none()
    }
}
