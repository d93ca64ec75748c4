//! Tables of words over mapped memory.
//!
//! Every word is a relaxed atomic, on x86-64 and arm64 the same instructions as a plain word, so
//! that a rule of the core that is broken (an owned field touched without its lock) is a wrong
//! number and never undefined behaviour. Order comes from the locks and from the orderings that
//! the core states.
//!
//! Layout. A record begins at a multiple of a power of two of words, so that finding it is a
//! shift. Records that belong to a CPU or a zone are a cache line or more, so that two CPUs share
//! none. The two tables of page records are interleaved: links, free head and state of a page
//! are 16 bytes of one line.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pageyard::platform::{Field, Ordering, Owned, Shared, TableId, TableSpec};

use crate::map::Mapping;

/// Bytes of a cache line (x86-64; most arm64).
const LINE_BYTES: usize = 64;

/// Words between the first words of two records of a table.
pub(crate) fn stride_words(spec: TableSpec, word_bytes: usize) -> usize {
    let fields = usize::from(spec.fields).next_power_of_two();
    match spec.id {
        // Links (3 words) and state (1 word) of a page share a record.
        TableId::Pages | TableId::PageStates => fields.max(4),
        TableId::Zones
        | TableId::Pcps
        | TableId::PcpShared
        | TableId::StatDiffs
        | TableId::StatTotals
        | TableId::EventDiffs
        | TableId::EventTotals => fields.max(LINE_BYTES / word_bytes),
        _ => fields,
    }
}

/// A table: records of words of type `A` (an atomic) in mapped memory.
pub struct Words<A> {
    /// Keeps the memory alive.
    _memory: Arc<Mapping>,
    /// The first field of the first record.
    first: NonNull<A>,
    /// Words from `first` to the end of the last record.
    words: usize,
    shift: u32,
    of: PhantomData<A>,
}

// SAFETY: a table is a slice of atomics, which every thread may use; the memory is kept alive by
// the table itself.
unsafe impl<A: Sync> Send for Words<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Words<A> {}

/// Atomics that zeroed memory is valid for.
pub trait Word: Sync {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

impl<A: Word> Words<A> {
    /// Bytes that [`Words::over`] needs for a table.
    pub(crate) fn bytes(spec: TableSpec) -> Option<usize> {
        spec.records.checked_mul(stride_words(spec, size_of::<A>()))?.checked_mul(size_of::<A>())
    }

    /// A table over zeroed memory whose records begin `offset` words inside those of `memory`.
    pub(crate) fn over(memory: Arc<Mapping>, spec: TableSpec, offset: usize) -> Words<A> {
        let stride = stride_words(spec, size_of::<A>());
        let bytes = Self::bytes(spec).expect("the caller mapped that much");
        assert!(bytes <= memory.bytes() && offset + usize::from(spec.fields) <= stride);
        let base = memory.base().cast::<A>();
        assert!(base.is_aligned());
        // SAFETY: `offset` is below the stride, so inside the mapping or, without records, in
        // its first granule.
        let first = unsafe { base.add(offset) };
        Words {
            _memory: memory,
            first,
            words: (spec.records * stride).saturating_sub(offset),
            shift: stride.trailing_zeros(),
            of: PhantomData,
        }
    }

    #[inline(always)]
    fn word(&self, record: usize, field: Field) -> &A {
        // Wrapping: whatever comes out is held against the length below, so that one comparison
        // an access is all that safety costs.
        let at = record.wrapping_shl(self.shift).wrapping_add(usize::from(field.0));
        // SAFETY: `over` checked that so many words lie in the mapping behind `first`; the
        // memory is zeroed, which is a valid `A`, lives as long as `self`, and is only ever
        // used as `A`.
        let words = unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) };
        &words[at]
    }

    /// Where a record begins, for a prefetch.
    #[inline(always)]
    pub(crate) fn address(&self, record: usize) -> *const A {
        self.first.as_ptr().wrapping_add(record.wrapping_shl(self.shift))
    }
}

impl Owned for Words<AtomicU32> {
    #[inline(always)]
    fn get(&self, record: usize, field: Field) -> u32 {
        // Relaxed: the lock that owns the field orders it.
        self.word(record, field).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, record: usize, field: Field, value: u32) {
        // Relaxed: the lock that owns the field orders it.
        self.word(record, field).store(value, Ordering::Relaxed);
    }
}

macro_rules! shared {
    ($atomic:ty, $word:ty) => {
        impl Shared<$word> for Words<$atomic> {
            #[inline(always)]
            fn load(&self, record: usize, field: Field, ordering: Ordering) -> $word {
                self.word(record, field).load(ordering)
            }

            #[inline(always)]
            fn store(&self, record: usize, field: Field, value: $word, ordering: Ordering) {
                self.word(record, field).store(value, ordering);
            }

            #[inline(always)]
            fn add(&self, record: usize, field: Field, delta: $word, ordering: Ordering) -> $word {
                self.word(record, field).fetch_add(delta, ordering)
            }

            #[inline(always)]
            fn swap(&self, record: usize, field: Field, value: $word, ordering: Ordering) -> $word {
                self.word(record, field).swap(value, ordering)
            }

            #[inline(always)]
            fn peek(&self, record: usize, field: Field) -> $word {
                // Relaxed: a hint, by the contract of `peek`.
                self.word(record, field).load(Ordering::Relaxed)
            }
        }
    };
}
shared!(AtomicU32, u32);
shared!(AtomicU64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: TableId, records: usize, fields: u8) -> TableSpec {
        TableSpec { id, records, fields }
    }

    fn memory(spec: TableSpec) -> Arc<Mapping> {
        let bytes = Words::<AtomicU32>::bytes(spec).expect("small");
        Arc::new(Mapping::zeroed(bytes, 64).expect("small"))
    }

    #[test]
    fn records_of_cpus_share_no_line_and_page_records_are_16_bytes() {
        assert_eq!(stride_words(spec(TableId::Pcps, 4, 8), 4), 16);
        assert_eq!(stride_words(spec(TableId::StatTotals, 4, 3), 8), 8);
        assert_eq!(stride_words(spec(TableId::Pages, 4, 3), 4), 4);
        assert_eq!(stride_words(spec(TableId::PageStates, 4, 1), 4), 4);
        assert_eq!(stride_words(spec(TableId::AreaCounts, 4, 1), 4), 1);
    }

    #[test]
    fn interleaved_tables_do_not_touch_each_other() {
        let (links, states) = (spec(TableId::Pages, 9, 3), spec(TableId::PageStates, 9, 1));
        let memory = memory(links);
        let pages = Words::<AtomicU32>::over(Arc::clone(&memory), links, 0);
        let kinds = Words::<AtomicU32>::over(memory, states, 3);
        for record in 0..9 {
            for field in 0..3 {
                pages.set(record, Field(field), 10 * record as u32 + u32::from(field));
            }
            kinds.store(record, Field(0), 1000 + record as u32, Ordering::Relaxed);
        }
        for record in 0..9 {
            assert_eq!(pages.get(record, Field(2)), 10 * record as u32 + 2);
            assert_eq!(kinds.peek(record, Field(0)), 1000 + record as u32);
        }
        assert_eq!(pages.address(2).addr() - pages.address(1).addr(), 16);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_record_beyond_the_table_is_refused() {
        let spec = spec(TableId::Blocks, 3, 1);
        let _ = Words::<AtomicU32>::over(memory(spec), spec, 0).get(3, Field(0));
    }

    #[test]
    fn an_empty_table_has_no_words() {
        let spec = spec(TableId::PageStates, 0, 1);
        let table = Words::<AtomicU32>::over(memory(spec), spec, 3);
        assert_eq!(table.words, 0);
    }
}
