//! The trace clock, and the same clock read from user space.

use rustix::time::ClockId;

/// A trace clock that user space can read too, so that the time of a snapshot is the time of the
/// events around it. All three run at one pace on all CPUs and never step back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Mono,
    /// `CLOCK_MONOTONIC_RAW`: not slewed by NTP.
    MonoRaw,
    /// `CLOCK_BOOTTIME`: counts suspended time too.
    Boot,
}

impl Clock {
    /// All clocks.
    pub const ALL: &[Clock] = &[Clock::Mono, Clock::MonoRaw, Clock::Boot];

    /// Its name in the tracefs file `trace_clock`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clock::Mono => "mono",
            Clock::MonoRaw => "mono_raw",
            Clock::Boot => "boot",
        }
    }

    /// Nanoseconds now.
    #[must_use]
    pub fn now_ns(self) -> u64 {
        let id = match self {
            Clock::Mono => ClockId::Monotonic,
            Clock::MonoRaw => ClockId::MonotonicRaw,
            Clock::Boot => ClockId::Boottime,
        };
        let time = rustix::time::clock_gettime(id);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
