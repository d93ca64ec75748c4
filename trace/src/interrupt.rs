//! Lets long work end tidily at ^C, SIGTERM or SIGHUP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set when the process was asked to end. A second signal ends it at once.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals from now on, but for those that the process was told to ignore (as by
    /// nohup).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn catch() -> io::Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        let signals = [SIGINT, SIGTERM, SIGHUP];
        for signal in signals.into_iter().filter(|signal| (ignored >> (signal - 1)) & 1 == 0) {
            // In this order: the first signal finds the flag unset and sets it.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt(flag))
    }

    /// True when a signal came.
    #[must_use]
    pub fn came(&self) -> bool {
        // Relaxed: nothing else is handed over with the flag.
        self.0.load(Ordering::Relaxed)
    }
}

/// The mask of ignored signals, as Linux tells it; none where it does not.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
