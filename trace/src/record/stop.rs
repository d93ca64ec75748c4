//! Waits for what ends a recording: the command, the time, a signal, or a reader that failed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::error::RecordError;

/// Signals that end a recording.
const ENDING: &[i32] = &[SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// How long a command that was told to end may take before it is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// How often the progress line is renewed.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The time was over.
    Duration,
    /// The command ended.
    Command,
    /// This signal came.
    Signal(i32),
    /// A reader failed; its own error says more.
    ReaderFailed,
}

impl Stopped {
    /// For people and for the file `meta`.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Stopped::Duration => "the time was over".to_string(),
            Stopped::Command => "the command ended".to_string(),
            Stopped::Signal(signal) => {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                format!("stopped by {name}")
            }
            Stopped::ReaderFailed => "a reader failed".to_string(),
        }
    }
}

/// Caught signals. Dropping it leaves them to their default action again.
pub struct Signals {
    pipe: UnixStream,
    /// The number of the last ending signal that nobody has asked for yet, or 0.
    last: Arc<AtomicUsize>,
    ids: Vec<SigId>,
}

impl Signals {
    /// Catches the ending signals, but for those that this process was told to ignore (nohup).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn catch() -> Result<Signals, RecordError> {
        let (pipe, write) = UnixStream::pair().map_err(RecordError::Signals)?;
        pipe.set_nonblocking(true).map_err(RecordError::Signals)?;
        let mut signals = Signals { pipe, last: Arc::default(), ids: Vec::new() };
        let ignored = ignored_signals();
        for signal in ENDING.iter().copied().chain([SIGCHLD]) {
            if ignored >> (signal - 1) & 1 == 1 && signal != SIGCHLD {
                continue;
            }
            if signal != SIGCHLD {
                let last = Arc::clone(&signals.last);
                let id = signal_hook::flag::register_usize(signal, last, signal as usize);
                signals.ids.push(id.map_err(RecordError::Signals)?);
            }
            let write = write.try_clone().map_err(RecordError::Signals)?;
            let id = signal_hook::low_level::pipe::register(signal, write);
            signals.ids.push(id.map_err(RecordError::Signals)?);
        }
        Ok(signals)
    }

    /// The ending signal that came since the last call.
    pub fn pending(&self) -> Option<i32> {
        match self.last.swap(0, SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.pipe, &mut bytes), Ok(read) if read > 0) {}
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// The set of ignored signals of this process, bit 0 for signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// What may end the recording.
pub struct Wait<'a> {
    /// Caught signals.
    pub signals: &'a Signals,
    /// Readable when a reader failed.
    pub alarm: &'a OwnedFd,
    /// When the time is over.
    pub until: Option<Instant>,
    /// Called every half second, if anyone is looking.
    pub progress: Option<&'a mut dyn FnMut()>,
}

impl Wait<'_> {
    /// Waits for the first of all. A command still running is told to end and waited for.
    ///
    /// # Errors
    /// When waiting fails or a second signal comes.
    pub fn wait(
        &mut self,
        mut child: Option<&mut Child>,
    ) -> Result<(Stopped, Option<ExitStatus>), RecordError> {
        let why = loop {
            if let Some(child) = child.as_mut()
                && let Some(status) = child.try_wait().map_err(RecordError::Signals)?
            {
                return Ok((Stopped::Command, Some(status)));
            }
            if let Some(signal) = self.signals.pending() {
                break Stopped::Signal(signal);
            }
            if self.until.is_some_and(|until| until <= Instant::now()) {
                break Stopped::Duration;
            }
            if self.sleep()? {
                break Stopped::ReaderFailed;
            }
        };
        let status = match child {
            Some(child) => Some(self.end(child, why)?),
            None => None,
        };
        Ok((why, status))
    }

    /// Sleeps until something happens; true when a reader failed.
    fn sleep(&mut self) -> Result<bool, RecordError> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let tick = self.progress.as_ref().map(|_| PROGRESS_EVERY);
        let timeout = match (left, tick) {
            (Some(left), Some(tick)) => Some(left.min(tick)),
            (left, tick) => left.or(tick),
        };
        let failed = self.sleep_for(timeout)?;
        if let Some(progress) = self.progress.as_mut() {
            progress();
        }
        Ok(failed)
    }

    fn sleep_for(&self, timeout: Option<Duration>) -> Result<bool, RecordError> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut fds = [
            PollFd::new(&self.signals.pipe, PollFlags::IN),
            PollFd::new(self.alarm, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(RecordError::Signals(errno.into())),
        }
        self.signals.drain();
        Ok(!fds[1].revents().is_empty())
    }

    /// Ends the command: the signal that came, then, after a while, SIGKILL.
    fn end(&self, child: &mut Child, why: Stopped) -> Result<ExitStatus, RecordError> {
        let signal = match why {
            // The terminal has sent it to the command as well: twice might mean something else.
            Stopped::Signal(SIGINT | SIGQUIT) => None,
            Stopped::Signal(SIGHUP) => Some(Signal::HUP),
            _ => Some(Signal::TERM),
        };
        let pid = Pid::from_raw(child.id() as i32);
        if let (Some(signal), Some(pid)) = (signal, pid) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, signal);
        }
        let deadline = Instant::now() + COMMAND_GRACE;
        loop {
            if let Some(status) = child.try_wait().map_err(RecordError::Signals)? {
                return Ok(status);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.signals.pending().is_some() {
                child.kill().map_err(RecordError::Signals)?;
                return child.wait().map_err(RecordError::Signals);
            }
            // The alarm may be ringing all the time: do not spin on it.
            self.sleep_signals(left.min(Duration::from_millis(100)))?;
        }
    }

    fn sleep_signals(&self, time: Duration) -> Result<(), RecordError> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.signals.pipe, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(RecordError::Signals(errno.into())),
        }
        self.signals.drain();
        Ok(())
    }
}

/// `exit status 3` or `killed by SIGTERM`.
#[must_use]
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal);
            format!("killed by {}", name.unwrap_or("a signal"))
        }
        (None, None) => "unknown end".to_string(),
    }
}
