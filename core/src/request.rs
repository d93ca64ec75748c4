//! What an embedder asks for: the flags of Linux' `gfp_t` as plain fields.

use crate::types::{MigrateType, NodeId, ZoneId, ZoneKind};

/// How far from its node a request may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every node, nearest first.
    AllNodes,
    /// This node only.
    ThisNode,
    /// This zone only, for embedders that place pages themselves.
    Only(ZoneId),
}

/// A request for one block of `1 << order` pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// 0 to the largest order of the geometry.
    pub order: u8,
    /// Unmovable, Movable or Reclaimable.
    pub mobility: MigrateType,
    /// Highest zone that will do.
    pub highest: ZoneKind,
    /// Preferred node; `None` is the node of the CPU.
    pub node: Option<NodeId>,
    /// How far from it.
    pub scope: Scope,
    /// May reclaim and compact on the way (`__GFP_DIRECT_RECLAIM`).
    pub may_wait: bool,
    /// May wake background reclaim (`__GFP_KSWAPD_RECLAIM`).
    pub may_wake: bool,
    /// May dip into half of the minimum (`__GFP_HIGH`).
    pub high_priority: bool,
    /// Cannot sleep: may dip further, and into the high-atomic reserve.
    pub non_block: bool,
    /// Comes from a process that is being killed for memory.
    pub oom_victim: bool,
    /// Ignores marks altogether (`ALLOC_NO_WATERMARKS`).
    pub no_marks: bool,
    /// Gives up early (`__GFP_NORETRY`).
    pub no_retry: bool,
    /// Tries hard even for a costly order (`__GFP_RETRY_MAYFAIL`).
    pub retry_may_fail: bool,
    /// Placed by an interleaving policy: counts as a hit of that policy on the node wanted.
    pub interleave: bool,
}

impl Request {
    /// Kernel memory that may wait (`GFP_KERNEL`).
    #[must_use]
    pub const fn kernel(order: u8) -> Request {
        Request {
            order,
            mobility: MigrateType::Unmovable,
            highest: ZoneKind::Normal,
            node: None,
            scope: Scope::AllNodes,
            may_wait: true,
            may_wake: true,
            high_priority: false,
            non_block: false,
            oom_victim: false,
            no_marks: false,
            no_retry: false,
            retry_may_fail: false,
            interleave: false,
        }
    }

    /// User memory that can be moved (`GFP_HIGHUSER_MOVABLE`).
    #[must_use]
    pub const fn user(order: u8) -> Request {
        Request {
            mobility: MigrateType::Movable,
            highest: ZoneKind::Movable,
            ..Request::kernel(order)
        }
    }

    /// Kernel memory that cannot wait (`GFP_ATOMIC`).
    #[must_use]
    pub const fn atomic(order: u8) -> Request {
        Request { may_wait: false, high_priority: true, non_block: true, ..Request::kernel(order) }
    }

    /// May take from, and make, high-atomic reserves.
    pub(crate) fn is_high_atomic(&self) -> bool {
        self.non_block && self.high_priority && self.order > 0
    }

    /// May count reserved pages as its own in a watermark test.
    pub(crate) fn has_reserve_right(&self) -> bool {
        self.high_priority || self.non_block || self.oom_victim
    }

    /// Movable requests may use what CMA lends.
    pub(crate) fn may_use_cma(&self) -> bool {
        self.mobility == MigrateType::Movable
    }
}
