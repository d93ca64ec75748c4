//! What memory and links carry: a stretch of time has room for so many bytes, who comes when it is
//! full waits for the next one with room.
//!
//! Stretches are kept, not a queue, because CPUs ask a little out of order: who asks for a moment
//! that others have already passed still finds what was left of it.

/// Room is counted by, and load taken over, so many picoseconds.
pub const WINDOW_PS: u64 = 2_000_000;
/// Windows that are remembered; nobody waits longer.
const WINDOWS: usize = 256;

/// A memory's channels, or one direction of a link.
#[derive(Clone, Debug)]
pub struct Pipe {
    /// Bytes that a window has room for.
    room: u64,
    /// Number of the window and bytes booked in it, by number modulo [`WINDOWS`].
    windows: Vec<(u64, u64)>,
}

impl Pipe {
    /// Carries so many bytes a microsecond; 0 is no limit.
    #[must_use]
    pub fn new(bytes_per_us: u64) -> Pipe {
        let room = if bytes_per_us == 0 { u64::MAX } else { bytes_per_us * WINDOW_PS / 1_000_000 };
        Pipe { room, windows: vec![(0, 0); WINDOWS] }
    }

    fn booked(&mut self, window: u64) -> &mut u64 {
        let slot = &mut self.windows[(window % WINDOWS as u64) as usize];
        if slot.0 < window {
            *slot = (window, 0);
        }
        &mut slot.1
    }

    /// Sends bytes at a time: how long the last of them has to wait for room.
    pub fn send(&mut self, now: u64, bytes: u64) -> u64 {
        let (first, room) = (now / WINDOW_PS, self.room);
        let mut left = bytes;
        for window in first..first + WINDOWS as u64 - 1 {
            let booked = self.booked(window);
            let fits = room.saturating_sub(*booked).min(left);
            *booked += fits;
            left -= fits;
            if left == 0 {
                // The place of the last byte within its window, if that is not the one of now.
                let place = u128::from(*booked) * u128::from(WINDOW_PS) / u128::from(room);
                let at = window * WINDOW_PS + place as u64;
                return if window == first { 0 } else { at - now };
            }
        }
        WINDOW_PS * WINDOWS as u64
    }

    /// Bytes a microsecond that were sent in the window before that of a time.
    #[must_use]
    pub fn load(&self, now: u64) -> u64 {
        let Some(before) = (now / WINDOW_PS).checked_sub(1) else {
            return 0;
        };
        let (window, bytes) = self.windows[(before % WINDOWS as u64) as usize];
        if window == before { bytes * 1_000_000 / WINDOW_PS } else { 0 }
    }
}

/// Latency under a load by points of load and latency, the first without load: what the load adds.
#[must_use]
pub fn added(points: &[(u64, u64)], load: u64) -> u64 {
    let Some(&(_, idle)) = points.first() else {
        return 0;
    };
    let after = points.partition_point(|&(bytes, _)| bytes <= load);
    let latency = match (after.checked_sub(1).map(|at| points[at]), points.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (load - x0) / (x1 - x0).max(1),
        (Some((_, y)), None) => y,
        _ => idle,
    };
    latency.saturating_sub(idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_faster_than_the_pipe_carries() {
        let mut pipe = Pipe::new(1000);
        assert_eq!((pipe.send(0, 1500), pipe.send(10, 500)), (0, 0), "2000 bytes in 2 us");
        assert_eq!(pipe.send(1_500_000, 500), 1_000_000, "there at 2.5 us");
        assert_eq!(pipe.send(1_500_000, 3500), 500_000 + 4_000_000, "the last of it at 6 us");
        assert_eq!(pipe.send(100_000_000, 100), 0);
    }

    #[test]
    fn who_asks_late_for_an_early_moment_finds_what_is_left_of_it() {
        let mut pipe = Pipe::new(1000);
        assert_eq!(pipe.send(5_000_000, 100), 0);
        assert_eq!(pipe.send(1_000_000, 2000), 0);
        assert_eq!((pipe.load(3_000_000), pipe.load(9_000_000)), (1000, 0));
    }

    #[test]
    fn load_adds_what_the_points_say() {
        let points = [(0, 80), (20, 90), (40, 130)];
        assert_eq!([0, 10, 20, 30, 99].map(|load| added(&points, load)), [0, 5, 10, 30, 50]);
        assert_eq!(added(&[], 7), 0);
    }
}
