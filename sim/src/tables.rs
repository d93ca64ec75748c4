//! Tables of words that exist once they are touched, each access charged to its line.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageyard::platform::{Field, Ordering, Owned, Shared, TableId, TableSpec};

use crate::memory::Use;
use crate::world::World;

/// Words of a chunk of records.
const CHUNK_RECORDS: usize = 256;

/// The field of a page record that is not 0 if the page begins a free block.
const FREE_HEAD: Field = Field(2);
/// The first two fields of page records and list heads are links.
const LINK_FIELDS: u8 = 2;

/// Words that were touched, or nothing.
type Chunk<W> = Option<Box<[Cell<W>]>>;

struct Chunks<W> {
    chunks: RefCell<Vec<Chunk<W>>>,
    fields: usize,
}

impl<W: Copy + Default> Chunks<W> {
    fn new(spec: TableSpec) -> Chunks<W> {
        let mut chunks = Vec::new();
        chunks.resize_with(spec.records.div_ceil(CHUNK_RECORDS), || None);
        Chunks { chunks: RefCell::new(chunks), fields: usize::from(spec.fields) }
    }

    fn at(&self, record: usize, field: Field) -> usize {
        record % CHUNK_RECORDS * self.fields + usize::from(field.0)
    }

    fn get(&self, record: usize, field: Field) -> W {
        let chunks = self.chunks.borrow();
        let chunk = chunks[record / CHUNK_RECORDS].as_ref();
        chunk.map_or(W::default(), |words| words[self.at(record, field)].get())
    }

    fn set(&self, record: usize, field: Field, value: W) {
        let mut chunks = self.chunks.borrow_mut();
        let words = chunks[record / CHUNK_RECORDS].get_or_insert_with(|| {
            (0..CHUNK_RECORDS * self.fields).map(|_| Cell::new(W::default())).collect()
        });
        words[self.at(record, field)].set(value);
    }
}

/// A table of a simulated machine.
pub struct SimTable<W> {
    world: Rc<World>,
    id: TableId,
    words: Chunks<W>,
    /// CPUs race on its words for more than a hint: they give way before they use one.
    is_switch_point: bool,
}

impl<W: Copy + Default + PartialEq> SimTable<W> {
    /// A zeroed table.
    #[must_use]
    pub fn new(world: Rc<World>, spec: TableSpec) -> SimTable<W> {
        let is_switch_point = matches!(spec.id, TableId::StatTotals | TableId::EventTotals);
        SimTable { world, id: spec.id, words: Chunks::new(spec), is_switch_point }
    }

    fn use_word(&self, record: usize, field: Field, how: Use) {
        let line = self.world.layout.line(self.id, record, field);
        let is_link = field.0 < LINK_FIELDS;
        match self.id {
            // Page records are reached by pointers, and their links are the next ones.
            TableId::Pages | TableId::PageStates => {
                self.world.follow(line, how, self.id == TableId::Pages && is_link);
            }
            // List heads lie at known places and hold pointers.
            TableId::Areas | TableId::PcpLists => self.world.follow(line, how, is_link),
            _ if how == Use::Read => self.world.read(line),
            _ => self.world.write(line),
        }
    }

    fn read(&self, record: usize, field: Field) -> W {
        self.use_word(record, field, Use::Read);
        let value = self.words.get(record, field);
        if (self.id, field) == (TableId::Pages, FREE_HEAD) {
            self.world.branch(record, value != W::default());
        }
        value
    }

    fn write(&self, record: usize, field: Field, value: W) {
        self.use_word(record, field, Use::Write);
        self.words.set(record, field, value);
    }

    fn give_way(&self) {
        if self.is_switch_point {
            self.world.sync();
        }
    }

    fn change(&self, record: usize, field: Field, change: impl FnOnce(W) -> W) -> W {
        self.give_way();
        self.world.locked(self.world.layout.line(self.id, record, field));
        if let Some(line) = self.world.layout.machine_counter(self.id, field) {
            self.give_way();
            self.world.locked(line);
        }
        let before = self.words.get(record, field);
        self.words.set(record, field, change(before));
        before
    }
}

impl Owned for SimTable<u32> {
    fn get(&self, record: usize, field: Field) -> u32 {
        self.read(record, field)
    }

    fn set(&self, record: usize, field: Field, value: u32) {
        self.write(record, field, value);
    }
}

macro_rules! shared {
    ($word:ty) => {
        impl Shared<$word> for SimTable<$word> {
            fn load(&self, record: usize, field: Field, _: Ordering) -> $word {
                self.give_way();
                self.read(record, field)
            }

            fn store(&self, record: usize, field: Field, value: $word, _: Ordering) {
                self.give_way();
                self.write(record, field, value);
            }

            fn add(&self, record: usize, field: Field, delta: $word, _: Ordering) -> $word {
                self.change(record, field, |before| before.wrapping_add(delta))
            }

            fn swap(&self, record: usize, field: Field, value: $word, _: Ordering) -> $word {
                self.change(record, field, |_| value)
            }

            fn peek(&self, record: usize, field: Field) -> $word {
                self.read(record, field)
            }
        }
    };
}
shared!(u32);
shared!(u64);
