//! Tells a recorder that runs from one that was killed.
//!
//! Names of instances and the file `owner` of an unfinished folder carry the pid and the start
//! time of their recorder, so that a later process with the same pid is not taken for it.

use std::fs;

/// A process by its pid and its start time in clock ticks since boot (`/proc/PID/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn this() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// True when the process still runs.
    #[must_use]
    pub fn alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// `PID-TICKS`.
    #[must_use]
    pub fn text(self) -> String {
        format!("{}-{}", self.pid, self.start_ticks)
    }

    /// Reads [`Self::text`] back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Owner> {
        let (pid, ticks) = text.split_once('-')?;
        Some(Owner { pid: pid.parse().ok()?, start_ticks: ticks.parse().ok()? })
    }
}

fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks_of(&stat)
}

/// The name, second field, may hold blanks and brackets: count from its last bracket.
fn ticks_of(stat: &str) -> Option<u64> {
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let rest: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(ticks_of(&format!("7 (a) b) {}", rest.join(" "))), Some(22));
        assert_eq!(ticks_of("7 (short) 1 2"), None);
    }

    #[test]
    fn this_process_is_alive_and_its_namesake_is_not() {
        let owner = Owner::this();
        assert!(owner.alive());
        assert_eq!(Owner::parse(&owner.text()), Some(owner));
        assert!(!Owner { start_ticks: owner.start_ticks + 1, ..owner }.alive());
        assert_eq!(Owner::parse("x-1"), None);
    }
}
