//! Tells the host's processor which of its own memory will be used next. Nothing simulated depends
//! on it: tables of a large machine do not fit the host's caches, and most of a run is waiting for
//! them.

/// Brings what lies there near, without waiting for it. Does nothing where there is no instruction
/// for that.
#[inline(always)]
pub(crate) fn bring<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing and cannot fault, and the address is that
        // of a reference besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
