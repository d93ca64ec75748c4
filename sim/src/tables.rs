//! Tables of words, each access charged to its line.

use std::cell::RefCell;
use std::rc::Rc;

use pageyard::platform::{Field, Ordering, Owned, Shared, TableId, TableSpec};

use crate::memory::{Line, Use};
use crate::platform::ahead;
use crate::world::World;

/// The field of a page record that is not 0 if the page begins a free block.
const FREE_HEAD: Field = Field(2);
/// The first two fields of page records and list heads are links: record + 1, or 0.
const LINK_FIELDS: u8 = 2;

/// Words by record and field. They come zeroed from the system: memory that is never touched is
/// never backed.
struct Words<W> {
    words: RefCell<Vec<W>>,
    fields: usize,
}

impl<W: Copy + Default> Words<W> {
    fn new(spec: TableSpec) -> Words<W> {
        let fields = usize::from(spec.fields);
        Words { words: RefCell::new(vec![W::default(); spec.records * fields]), fields }
    }

    #[inline]
    fn at(&self, record: usize, field: Field) -> usize {
        record * self.fields + usize::from(field.0)
    }

    #[inline]
    fn get(&self, record: usize, field: Field) -> W {
        self.words.borrow()[self.at(record, field)]
    }

    #[inline]
    fn set(&self, record: usize, field: Field, value: W) {
        self.words.borrow_mut()[self.at(record, field)] = value;
    }

    /// Brings a record near on the host.
    #[inline]
    fn bring(&self, record: usize) {
        if let Some(word) = self.words.borrow().get(record * self.fields) {
            ahead::bring(word);
        }
    }
}

/// A table of a simulated machine.
pub struct SimTable<W> {
    world: Rc<World>,
    id: TableId,
    words: Words<W>,
    /// CPUs race on its words for more than a hint: they give way before they use one.
    is_switch_point: bool,
}

impl<W: Copy + Default + PartialEq + Into<u64>> SimTable<W> {
    /// A zeroed table.
    #[must_use]
    pub fn new(world: Rc<World>, spec: TableSpec) -> SimTable<W> {
        let is_switch_point = matches!(spec.id, TableId::StatTotals | TableId::EventTotals);
        SimTable { world, id: spec.id, words: Words::new(spec), is_switch_point }
    }

    /// Charges the use of a word; returns when its value is known.
    #[inline]
    fn use_word(&self, record: usize, field: Field, how: Use) -> u64 {
        if !self.world.is_charging() {
            return 0;
        }
        self.use_line(self.world.layout.line(self.id, record, field), record, field, how)
    }

    /// The same where the word's line is known.
    #[inline]
    fn use_line(&self, line: Line, record: usize, field: Field, how: Use) -> u64 {
        match self.id {
            TableId::Pages | TableId::PageStates => {
                let is_link = self.id == TableId::Pages && field.0 < LINK_FIELDS;
                self.world.use_record(line, record, is_link.then_some(field), how)
            }
            _ => self.world.use_head(line, how),
        }
    }

    fn read(&self, record: usize, field: Field) -> W {
        let known = self.use_word(record, field, Use::Read);
        let value = self.words.get(record, field);
        match self.id {
            TableId::Pages if field == FREE_HEAD => {
                self.world.branch(record, value != W::default());
            }
            TableId::Pages | TableId::Areas | TableId::PcpLists if field.0 < LINK_FIELDS => {
                if let Some(page) = value.into().checked_sub(1) {
                    self.world.points(page as usize, known);
                }
            }
            _ => {}
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
        if self.id == TableId::StatDiffs {
            // A CPU's own: interrupts are off, and no instruction is locked (`__this_cpu_add`).
            let before = self.read(record, field);
            self.write(record, field, change(before));
            return before;
        }
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

impl SimTable<u32> {
    /// A link of a page was read: the page it names is mostly the next one to be used.
    #[inline]
    fn bring_next(&self, field: Field, link: u32) {
        if self.id == TableId::Pages
            && field.0 < LINK_FIELDS
            && let Some(page) = link.checked_sub(1)
        {
            self.words.bring(page as usize);
            self.world.bring(self.world.layout.page(page as usize));
        }
    }
}

impl Owned for SimTable<u32> {
    fn get(&self, record: usize, field: Field) -> u32 {
        let value = self.read(record, field);
        self.bring_next(field, value);
        value
    }

    fn set(&self, record: usize, field: Field, value: u32) {
        self.write(record, field, value);
    }

    fn relink(&self, record: usize, field: Field, value: u32) {
        if self.world.is_charging() {
            let line = self.world.layout.line(self.id, record, field);
            self.world.check_neighbour(line, record);
            self.use_line(line, record, field, Use::Write);
        }
        self.words.set(record, field, value);
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
