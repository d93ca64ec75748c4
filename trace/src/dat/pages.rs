//! Packs event records into ring-buffer pages, the way a kernel with 64-bit longs does.
//!
//! For files whose events do not come from a ring buffer (a text converted to `trace.dat`, a piece
//! cut out of a recording) and for tests of the readers. The layout is the one of the tracefs
//! files `events/header_page` and `events/header_event`: a page begins with the time stamp of its
//! first event and the count of bytes used; an event is a word of 5 bits length in words and 27
//! bits of nanoseconds since the event before, then its payload.

/// Bytes of the page header: time stamp and byte count.
pub const PAGE_HEADER_BYTES: usize = 16;
/// A payload longer than this many bytes has its length in a word of its own.
const SHORT_PAYLOAD_BYTES_MAX: usize = 28 * 4;
/// Length code of an event that only moves the time forward.
const TYPE_TIME_EXTEND: u32 = 30;
/// Bits of the time difference in an event's first word.
const DELTA_BITS: u32 = 27;

/// The page being filled, for one CPU.
#[derive(Debug)]
pub struct PageWriter {
    page: Vec<u8>,
    page_bytes: usize,
    last_ns: u64,
}

impl PageWriter {
    /// Begins an empty page of `page_bytes` (4096 on x86), at least 256.
    #[must_use]
    pub fn new(page_bytes: usize) -> PageWriter {
        assert!(page_bytes >= 256, "a page holds its header and an event");
        PageWriter { page: Vec::with_capacity(page_bytes), page_bytes, last_ns: 0 }
    }

    /// Longest payload in bytes that fits a page; a longer one is refused by [`Self::push`].
    #[must_use]
    pub fn payload_bytes_max(&self) -> usize {
        // First word, length word and, for a far time stamp, one time extension.
        (self.page_bytes - PAGE_HEADER_BYTES - 16) & !3
    }

    /// Adds an event and returns the page before it when that one had no room left.
    ///
    /// A time stamp before that of the event before is written as equal to it: the format cannot
    /// go back in time. Returns the payload's length as the error when it is too long for a page.
    ///
    /// # Errors
    /// The length in bytes of a payload that no page can hold.
    pub fn push(&mut self, time_ns: u64, payload: &[u8]) -> Result<Option<Vec<u8>>, usize> {
        if payload.len() > self.payload_bytes_max() {
            return Err(payload.len());
        }
        let padded = payload.len().div_ceil(4) * 4;
        let long = padded == 0 || padded > SHORT_PAYLOAD_BYTES_MAX;
        let delta = time_ns.saturating_sub(self.last_ns);
        let needs_extend = delta >> DELTA_BITS != 0;
        let bytes = 4 + usize::from(long) * 4 + padded + usize::from(needs_extend) * 8;
        let full = if !self.page.is_empty() && self.page.len() + bytes > self.page_bytes {
            Some(self.take())
        } else {
            None
        };
        let mut delta = delta;
        if self.page.is_empty() {
            self.page.extend_from_slice(&time_ns.to_ne_bytes());
            self.page.extend_from_slice(&0_u64.to_ne_bytes());
            delta = 0;
        } else if needs_extend {
            self.word(TYPE_TIME_EXTEND, delta as u32 & ((1 << DELTA_BITS) - 1));
            self.page.extend_from_slice(&((delta >> DELTA_BITS) as u32).to_ne_bytes());
            delta = 0;
        }
        self.event(delta as u32, payload, padded, long);
        self.last_ns = self.last_ns.max(time_ns);
        Ok(full)
    }

    fn event(&mut self, delta: u32, payload: &[u8], padded: usize, long: bool) {
        if long {
            self.word(0, delta);
            self.page.extend_from_slice(&(padded as u32 + 4).to_ne_bytes());
        } else {
            self.word(padded as u32 / 4, delta);
        }
        self.page.extend_from_slice(payload);
        self.page.resize(self.page.len() + padded - payload.len(), 0);
    }

    fn word(&mut self, type_len: u32, delta: u32) {
        let word = if cfg!(target_endian = "big") {
            type_len << DELTA_BITS | delta
        } else {
            delta << 5 | type_len
        };
        self.page.extend_from_slice(&word.to_ne_bytes());
    }

    fn take(&mut self) -> Vec<u8> {
        let used = self.page.len() - PAGE_HEADER_BYTES;
        self.page[8..PAGE_HEADER_BYTES].copy_from_slice(&(used as u64).to_ne_bytes());
        self.page.resize(self.page_bytes, 0);
        std::mem::replace(&mut self.page, Vec::with_capacity(self.page_bytes))
    }

    /// The last page, or nothing when no event was added since the last full one.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u8>> {
        (!self.page.is_empty()).then(|| self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(page: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(page[at..at + 4].try_into().unwrap())
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn an_event_is_length_time_and_payload() {
        let mut pages = PageWriter::new(256);
        assert_eq!(pages.push(1000, &[1; 8]), Ok(None));
        assert_eq!(pages.push(1007, &[2; 6]), Ok(None));
        let page = pages.finish().unwrap();
        assert_eq!(page.len(), 256);
        assert_eq!(page[..8], 1000_u64.to_ne_bytes());
        assert_eq!(page[8..16], 24_u64.to_ne_bytes());
        assert_eq!(word(&page, 16), 2);
        assert_eq!(page[20..28], [1; 8]);
        assert_eq!(word(&page, 28), 7 << 5 | 2);
        assert_eq!(page[32..40], [2, 2, 2, 2, 2, 2, 0, 0]);
        assert_eq!(page[40..], [0; 216]);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_long_silence_is_a_time_extension() {
        let mut pages = PageWriter::new(256);
        let far = 5 + (3 << DELTA_BITS) + 9;
        assert_eq!(pages.push(5, &[1; 4]), Ok(None));
        assert_eq!(pages.push(far, &[2; 4]), Ok(None));
        let page = pages.finish().unwrap();
        assert_eq!(word(&page, 24), 9 << 5 | TYPE_TIME_EXTEND);
        assert_eq!(word(&page, 28), 3);
        assert_eq!(word(&page, 32), 1, "no time after the extension");
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_long_payload_has_its_length_apart() {
        let mut pages = PageWriter::new(256);
        assert_eq!(pages.push(5, &[1; 113]), Ok(None));
        let page = pages.finish().unwrap();
        assert_eq!((word(&page, 16), word(&page, 20)), (0, 120));
    }

    #[test]
    fn a_full_page_comes_back_and_the_next_starts_with_its_own_time() {
        let mut pages = PageWriter::new(256);
        let full: Vec<Vec<u8>> =
            (0..40).filter_map(|time| pages.push(time, &[7; 20]).unwrap()).collect();
        assert_eq!(full.len(), 3, "ten events of 24 bytes a page");
        assert_eq!(full[1][..8], 10_u64.to_ne_bytes());
        assert!(pages.finish().is_some());
        assert!(PageWriter::new(256).finish().is_none());
    }

    #[test]
    fn a_payload_longer_than_a_page_is_refused() {
        let mut pages = PageWriter::new(256);
        let longest = pages.payload_bytes_max();
        assert_eq!(pages.push(1, &vec![0; longest]), Ok(None));
        assert!(matches!(pages.push(u64::MAX, &vec![0; longest]), Ok(Some(_))));
        assert_eq!(pages.push(2, &vec![0; longest + 1]), Err(longest + 1));
    }
}
