//! Counts what the spool files hold, once tracing is over: events by number, tasks, losses.
//!
//! It reads the frame of each event (length and time) and the first two fields, which all events
//! share. What the events mean is the readers' business.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::spool::PageLayout;

/// Codes of `type_len` in an event's first word (`events/header_event`).
const TYPE_DATA_MAX: u32 = 28;
const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Bytes of the fields that all events share: number, flags, preempt count, pid.
const COMMON_BYTES: usize = 8;
/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Events by the number in their format file.
    pub by_id: BTreeMap<u16, u64>,
    /// Tasks that were running at an event.
    pub pids: BTreeSet<i32>,
    /// Events of the recorder's own threads.
    pub own_events: u64,
    /// Pages that say that events before them were lost.
    pub pages_after_loss: u64,
    /// Pages whose events do not add up to their byte count.
    pub pages_odd: u64,
    /// Bytes used in pages, headers apart.
    pub event_bytes: u64,
}

impl Census {
    /// Adds the pages of the file at `path`; `own` are the recorder's thread ids.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn add(&mut self, path: &Path, layout: PageLayout, own: &BTreeSet<i32>) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut pages = vec![0; (READ_BYTES / layout.page_bytes).max(1) * layout.page_bytes];
        loop {
            let mut filled = 0;
            while filled < pages.len() {
                match file.read(&mut pages[filled..]) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            for page in pages[..filled].chunks_exact(layout.page_bytes) {
                self.add_page(page, layout, own);
            }
            if filled < pages.len() {
                return Ok(());
            }
        }
    }

    fn add_page(&mut self, page: &[u8], layout: PageLayout, own: &BTreeSet<i32>) {
        let (used, lost) = layout.used(page);
        self.pages_after_loss += u64::from(lost);
        self.event_bytes += used as u64;
        let mut rest = &page[layout.data_at..layout.data_at + used];
        while let Some(word) = first_word(rest) {
            let type_len = if cfg!(target_endian = "big") { word >> 27 } else { word & 31 };
            let length = match type_len {
                0 | TYPE_PADDING => first_word(&rest[4..]).map_or(0, |length| length as usize),
                TYPE_TIME_EXTEND | TYPE_TIME_STAMP => 4,
                words => words as usize * 4,
            };
            if type_len == TYPE_PADDING && word >> 5 == 0 {
                // Padding without a time fills the rest of the page.
                return;
            }
            let Some(body) = rest.get(4..4 + length).filter(|_| length > 0) else {
                self.pages_odd += 1;
                return;
            };
            if type_len <= TYPE_DATA_MAX {
                self.add_event(if type_len == 0 { &body[4.min(length)..] } else { body }, own);
            }
            rest = &rest[4 + length..];
        }
        self.pages_odd += u64::from(!rest.is_empty());
    }

    fn add_event(&mut self, payload: &[u8], own: &BTreeSet<i32>) {
        let Some(common) = payload.get(..COMMON_BYTES) else {
            return;
        };
        let id = u16::from_ne_bytes([common[0], common[1]]);
        let pid = i32::from_ne_bytes([common[4], common[5], common[6], common[7]]);
        *self.by_id.entry(id).or_default() += 1;
        self.pids.insert(pid);
        self.own_events += u64::from(own.contains(&pid));
    }
}

fn first_word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dat::pages::PageWriter;

    const LAYOUT: PageLayout =
        PageLayout { page_bytes: 256, commit_at: 8, commit_bytes: 8, data_at: 16 };

    fn event(id: u16, pid: i32, bytes: usize) -> Vec<u8> {
        let mut payload = vec![0; bytes];
        payload[..2].copy_from_slice(&id.to_ne_bytes());
        payload[4..8].copy_from_slice(&pid.to_ne_bytes());
        payload
    }

    fn census(pages: &[Vec<u8>]) -> Census {
        let mut census = Census::default();
        for page in pages {
            census.add_page(page, LAYOUT, &BTreeSet::from([7]));
        }
        census
    }

    #[test]
    fn events_are_counted_by_number_and_the_recorders_own_apart() {
        let mut writer = PageWriter::new(256);
        let mut pages = Vec::new();
        for (time, id, pid, bytes) in
            [(1, 5, 7, 8), (2, 5, 9, 24), (1 << 40, 6, 9, 120), (1 << 41, 6, 9, 160)]
        {
            pages.extend(writer.push(time, &event(id, pid, bytes)).unwrap());
        }
        pages.extend(writer.finish());
        let census = census(&pages);
        assert_eq!(census.by_id, BTreeMap::from([(5, 2), (6, 2)]));
        assert_eq!(census.pids, BTreeSet::from([7, 9]));
        assert_eq!((census.own_events, census.pages_odd), (1, 0));
    }

    #[test]
    fn a_page_cut_short_counts_as_odd_and_ends_there() {
        let mut writer = PageWriter::new(256);
        writer.push(1, &event(5, 9, 24)).unwrap();
        writer.push(2, &event(5, 9, 24)).unwrap();
        let mut page = writer.finish().unwrap();
        page[8..16].copy_from_slice(&40_u64.to_ne_bytes());
        let census = census(&[page]);
        assert_eq!((census.by_id[&5], census.pages_odd), (1, 1));
    }

    #[test]
    fn noise_never_panics() {
        let mut state = 1_u64;
        for _ in 0..2000 {
            let mut page = vec![0; 256];
            for byte in &mut page {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            let census = census(&[page]);
            let events: u64 = census.by_id.values().sum();
            assert!(events <= 20, "an event takes 12 bytes of 240 or more");
        }
    }
}
