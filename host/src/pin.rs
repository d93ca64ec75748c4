//! Which CPUs this process may use, threads that stay on one of them, and how much of it they had.

use std::io;

/// CPUs that this thread may run on, by number, rising.
///
/// # Errors
/// The system does not tell.
pub fn allowed_cpus() -> io::Result<Vec<u16>> {
    // SAFETY: a set of zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes the one set that it is given, of the size that it is told.
    let done = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: reads bits of a whole set at numbers below its size.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).map(|cpu| cpu as u16).collect())
}

/// Keeps this thread on a CPU from now on.
///
/// # Errors
/// The system refuses: there is no such CPU, or the process may not use it.
pub fn pin_thread(cpu: u16) -> io::Result<()> {
    if usize::from(cpu) >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of zeroes is an empty set; the number is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::from(cpu), &mut set);
        set
    };
    // SAFETY: reads the one set that it is given, of the size that it is told.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Time that this thread has been on a CPU, nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one struct that it is given; every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_the_cpu_that_it_was_pinned_to() {
        let allowed = allowed_cpus().expect("the system tells");
        let last = *allowed.last().expect("one at least");
        let pinned = std::thread::spawn(move || {
            pin_thread(last).expect("it was allowed");
            allowed_cpus().expect("the system tells")
        });
        assert_eq!(pinned.join().expect("no panic"), [last]);
        assert_eq!(allowed_cpus().expect("the system tells"), allowed, "only that thread");
        assert!(pin_thread(u16::MAX).is_err());
    }

    #[test]
    fn time_on_a_cpu_grows_with_work() {
        let from = thread_cpu_ns();
        let mut sum = 0u64;
        for n in 0..5_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(n));
        }
        assert!(thread_cpu_ns() > from, "{sum}");
    }
}
