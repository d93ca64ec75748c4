//! A page allocator in the Linux mould: nodes, zones, buddy lists, per-CPU page lists.
//!
//! Start at `alloc.rs` (the way of a request) and `free.rs` (the way back). Below them, in the
//! order in which a page passes: `zone.rs` (may this zone serve?), `pcp.rs` (per-CPU caches,
//! sized by `sizing.rs`), `buddy.rs` (free lists), `fallback.rs` and `claim.rs` (memory of
//! another type), `merge.rs` (blocks grow together again),
//! `join.rs` (those that were left apart do so late), `highatomic.rs` (the reserve).
//! `policy.rs`, `keys.rs` and `preset.rs` hold what differs between releases, as data;
//! `watermark.rs` and `zonelist.rs` compute what follows from the size of the memory;
//! `stat.rs` counts; `meta.rs` and `list.rs` keep the page records; `admin.rs` is for set-up,
//! background ticks and drains.
//!
//! The machine below is one type parameter, [`Platform`]. The core allocates nothing, spawns
//! nothing, and reads no clock but the platform's.
//!
//! ```
//! # // The sequential platform of the tests stands in for a machine here.
//! use pageyard::{Policy, preset};
//! let policy = preset::find("linux-6.18").expect("a known release");
//! assert!(policy.check().is_ok());
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod admin;
mod alloc;
mod allocator;
mod buddy;
mod claim;
pub mod event;
mod fallback;
mod free;
mod geometry;
mod highatomic;
mod join;
pub mod keys;
mod list;
mod merge;
mod meta;
mod pcp;
pub mod platform;
pub mod policy;
pub mod preset;
mod request;
pub mod sizing;
mod stat;
mod tick;
mod types;
mod view;
pub mod watermark;
mod zone;
mod zonelist;

pub use allocator::Allocator;
pub use event::{Bug, Event, PageKind, PageState};
pub use geometry::{Geometry, GeometryError, NodeDesc, Tuning, ZoneDesc};
pub use platform::Platform;
pub use policy::Policy;
pub use request::{Request, Scope};
pub use stat::{EVENT_ITEMS, EventItem, ZoneItem};
pub use types::{
    AllocError, COSTLY_ORDER, CpuId, Mark, MigrateType, NODES_MAX, NodeId, ORDERS_MAX, PCP_TYPES,
    Pfn, TYPES, ZONES_MAX, ZoneId, ZoneKind,
};
pub use view::PcpView;
