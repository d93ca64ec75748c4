//! Ring-buffer pages: time stamps and records, as the kernel lays them out.

use crate::format::{self, Field};

/// Where a page has its header, from the recording's copy of `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    time: (usize, usize),
    commit: (usize, usize),
    data: usize,
    pub(crate) big_endian: bool,
}

impl PageHeader {
    /// Parses `header_page`; the 64-bit layout when a field is missing is not guessed at.
    pub(crate) fn parse(text: &str, big_endian: bool) -> Result<PageHeader, String> {
        let fields: Vec<Field> = text.lines().filter_map(format::field).collect();
        let find = |name: &str| {
            let field = fields.iter().find(|field| field.name == name);
            field.ok_or_else(|| format!("header_page has no field `{name}`"))
        };
        let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let sizes = [time.size, commit.size];
        if sizes.iter().any(|size| ![4, 8].contains(size)) || data.offset < 8 {
            return Err("header_page has fields of a size that no kernel uses".to_string());
        }
        Ok(PageHeader {
            time: (time.offset, time.size),
            commit: (commit.offset, commit.size),
            data: data.offset,
            big_endian,
        })
    }
}

/// Bits of `commit` that count bytes; above them are marks.
const COMMIT_BYTES: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSED: u64 = 1 << 31;
/// Their number stands behind the page's data.
const MISSED_STORED: u64 = 1 << 30;
/// Bits of the time difference in an event's first word.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time stamp event; higher ones come from the time before.
const ABSOLUTE_BITS: u32 = 59;

/// What a page's header says about events lost before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    No,
    Some,
    Count(u64),
}

/// Walks over one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// Next event's offset in the page.
    at: usize,
    end: usize,
    time: u64,
    big_endian: bool,
}

/// What stands next in a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Record {
        time: u64,
        record: &'a [u8],
    },
    End,
    /// Offset in the page, and what is wrong; the rest of the page is lost.
    Damaged(usize, &'static str),
}

impl Cursor {
    /// Starts on a page. Damage: offset and reason.
    pub(crate) fn new(
        header: &PageHeader,
        page: &[u8],
    ) -> Result<(Cursor, Missed), (usize, &'static str)> {
        let number = |(offset, size): (usize, usize)| {
            let bytes = page.get(offset..offset + size).ok_or((offset, "page cut short"))?;
            Ok(integer(bytes, header.big_endian))
        };
        let (time, commit) = (number(header.time)?, number(header.commit)?);
        let used = (commit & COMMIT_BYTES) as usize;
        let end = header.data + used;
        if end > page.len() {
            return Err((header.commit.0, "page says it holds more than its size"));
        }
        let missed = if commit & MISSED == 0 {
            Missed::No
        } else if commit & MISSED_STORED == 0 || end + header.commit.1 > page.len() {
            Missed::Some
        } else {
            Missed::Count(integer(&page[end..end + header.commit.1], header.big_endian))
        };
        Ok((Cursor { at: header.data, end, time, big_endian: header.big_endian }, missed))
    }

    /// The next record; end marks, time extensions and discarded events are stepped over.
    pub(crate) fn step<'a>(&mut self, page: &'a [u8]) -> Step<'a> {
        loop {
            if self.at + 4 > self.end {
                return Step::End;
            }
            let word = self.word(page, self.at);
            let (kind, delta) = if self.big_endian {
                (word >> DELTA_BITS, u64::from(word & ((1 << DELTA_BITS) - 1)))
            } else {
                (word & 31, u64::from(word >> 5))
            };
            let start = self.at;
            let second =
                |cursor: &Cursor| (start + 8 <= cursor.end).then(|| cursor.word(page, start + 4));
            match kind {
                29 if delta == 0 => return Step::End,
                29 => {
                    let Some(length) = second(self) else {
                        return Step::Damaged(start, "padding cut short");
                    };
                    self.time = self.time.wrapping_add(delta);
                    self.at = start + 4 + (length as usize).max(4).next_multiple_of(4);
                }
                30 | 31 => {
                    let Some(high) = second(self) else {
                        return Step::Damaged(start, "time stamp cut short");
                    };
                    let value = (u64::from(high) << DELTA_BITS).wrapping_add(delta);
                    self.time = match kind {
                        30 => self.time.wrapping_add(value),
                        _ => absolute(value, self.time),
                    };
                    self.at = start + 8;
                }
                _ => {
                    let (data, length) = match (kind, second(self)) {
                        (0, None) => return Step::Damaged(start, "record cut short"),
                        (0, Some(length)) if length < 4 => {
                            return Step::Damaged(start, "record of an impossible length");
                        }
                        (0, Some(length)) => (start + 8, length as usize - 4),
                        (words, _) => (start + 4, words as usize * 4),
                    };
                    let next = data + length.next_multiple_of(4);
                    if next > self.end {
                        return Step::Damaged(start, "record reaches beyond its page's data");
                    }
                    self.time = self.time.wrapping_add(delta);
                    self.at = next;
                    return Step::Record { time: self.time, record: &page[data..data + length] };
                }
            }
        }
    }

    fn word(&self, page: &[u8], at: usize) -> u32 {
        integer(&page[at..at + 4], self.big_endian) as u32
    }
}

/// An absolute time stamp lacks the highest bits: they are those of the time before, or one more
/// when that would go back.
fn absolute(value: u64, before: u64) -> u64 {
    let value = value & ((1 << ABSOLUTE_BITS) - 1);
    let whole = before >> ABSOLUTE_BITS << ABSOLUTE_BITS | value;
    if whole < before && before >> ABSOLUTE_BITS != 0 {
        whole.wrapping_add(1 << ABSOLUTE_BITS)
    } else {
        whole
    }
}

/// An integer of 4 or 8 bytes.
fn integer(bytes: &[u8], big_endian: bool) -> u64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dat::pages::PageWriter;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn records(page: &[u8]) -> (Vec<(u64, usize)>, bool) {
        let header = PageHeader::parse(HEADER, false).unwrap();
        let (mut cursor, _) = Cursor::new(&header, page).unwrap();
        let mut all = Vec::new();
        loop {
            match cursor.step(page) {
                Step::Record { time, record } => all.push((time, record.len())),
                Step::End => return (all, true),
                Step::Damaged(..) => return (all, false),
            }
        }
    }

    #[test]
    fn written_pages_read_back() {
        let mut writer = PageWriter::new(4096);
        // A small step, one beyond 27 bits, and a payload that needs its own length word.
        for (time, length) in [(1000, 24), (1005, 24), (1 << 40, 8), ((1 << 40) + 7, 200)] {
            assert!(writer.push(time, &vec![7; length]).unwrap().is_none());
        }
        let page = writer.finish().unwrap();
        let expected = vec![(1000, 24), (1005, 24), (1 << 40, 8), ((1 << 40) + 7, 200)];
        assert_eq!(records(&page), (expected, true));
    }

    #[test]
    fn missed_events_are_counted_where_the_kernel_stored_their_number() {
        let mut page = vec![0u8; 4096];
        page[8..16].copy_from_slice(&(MISSED | MISSED_STORED).to_le_bytes());
        page[16..24].copy_from_slice(&77u64.to_le_bytes());
        let header = PageHeader::parse(HEADER, false).unwrap();
        assert_eq!(Cursor::new(&header, &page).unwrap().1, Missed::Count(77));
        page[8..16].copy_from_slice(&MISSED.to_le_bytes());
        assert_eq!(Cursor::new(&header, &page).unwrap().1, Missed::Some);
    }

    #[test]
    fn a_record_beyond_its_page_is_damage_not_a_panic() {
        let mut page = vec![0u8; 64];
        page[8] = 8;
        page[16] = 28;
        assert_eq!(records(&page), (vec![], false));
        page[8] = 200;
        let header = PageHeader::parse(HEADER, false).unwrap();
        assert!(Cursor::new(&header, &page).is_err());
        assert!(Cursor::new(&header, &page[..4]).is_err());
    }

    #[test]
    fn absolute_stamps_take_their_high_bits_from_the_time_before() {
        assert_eq!(absolute(5, 3 << ABSOLUTE_BITS), 3 << ABSOLUTE_BITS | 5);
        assert_eq!(absolute(5, 3 << ABSOLUTE_BITS | 9), 4 << ABSOLUTE_BITS | 5);
        assert_eq!(absolute(5, 9), 5);
    }
}
