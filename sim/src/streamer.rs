//! The prefetcher of the second-level cache: it watches the lines that a core asks for, page by
//! page, and runs ahead of those that go up or down.
//!
//! Intel's optimisation manual (section on data prefetching): it keeps track of one stream a 4-KiB
//! page, up to 32 of them, and fetches up to 20 lines ahead. Here a stream begins with the third
//! line in one direction, and is kept four lines ahead.

/// Pages that are watched at once.
const STREAMS: usize = 32;
/// Lines of a page.
const PAGE_LINES: u64 = 64;
/// Steps in one direction before it begins.
const STEPS: u8 = 2;
/// Lines it is ahead.
pub const AHEAD: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    page: u64,
    last: u64,
    is_up: bool,
    steps: u8,
}

/// The prefetcher of one core.
#[derive(Clone, Debug)]
pub struct Streamer {
    /// Most recently used first.
    streams: [Stream; STREAMS],
}

impl Default for Streamer {
    fn default() -> Streamer {
        Streamer { streams: [Stream { page: u64::MAX, ..Stream::default() }; STREAMS] }
    }
}

impl Streamer {
    /// The core asked its second-level cache for a line: which lines to fetch as well.
    pub fn on_line(&mut self, line: u64) -> impl Iterator<Item = u64> + use<> {
        let page = line / PAGE_LINES;
        let at = self.streams.iter().position(|stream| stream.page == page);
        self.streams[..=at.unwrap_or(STREAMS - 1)].rotate_right(1);
        let stream = &mut self.streams[0];
        if at.is_none() {
            *stream = Stream { page, last: line, is_up: true, steps: 0 };
        } else if line != stream.last {
            let is_up = line > stream.last;
            let is_near = line.abs_diff(stream.last) <= 2;
            stream.steps = match is_near && (is_up == stream.is_up || stream.steps == 0) {
                true => stream.steps.saturating_add(1),
                false => 0,
            };
            (stream.last, stream.is_up) = (line, is_up);
        }
        let (runs, is_up) = (stream.steps >= STEPS, stream.is_up);
        (1..=if runs { AHEAD } else { 0 })
            .map(move |step| if is_up { line + step } else { line.wrapping_sub(step) })
            .filter(move |next| next / PAGE_LINES == page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(lines: &[u64]) -> Vec<u64> {
        let mut streamer = Streamer::default();
        let mut last = Vec::new();
        for &line in lines {
            last = streamer.on_line(line).collect();
        }
        last
    }

    #[test]
    fn three_lines_in_a_row_make_a_stream() {
        assert_eq!(fetched(&[100, 101]), [0; 0]);
        assert_eq!(fetched(&[100, 101, 102]), [103, 104, 105, 106]);
        assert_eq!(fetched(&[102, 101, 100]), [99, 98, 97, 96]);
        assert_eq!(fetched(&[100, 101, 100, 101, 100]), [0; 0], "to and fro is no stream");
        assert_eq!(fetched(&[100, 300, 101, 500, 102]), [103, 104, 105, 106], "a stream a page");
    }

    #[test]
    fn a_stream_ends_with_its_page() {
        assert_eq!(fetched(&[60, 61, 62]), [63]);
    }
}
