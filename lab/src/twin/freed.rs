//! One note on each free: what later events tell about where the page went.

/// What became of a free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeNote(u16);

impl FreeNote {
    pub(super) const BATCHED: u16 = 1;
    pub(super) const TO_PCP: u16 = 2;
    pub(super) const TO_ZONE: u16 = 4;
    const TYPE_SHIFT: u8 = 3; // two bits, type + 1; 0 is unknown
    const TYPE_MASK: u16 = 3 << Self::TYPE_SHIFT;
    pub(super) const UNSEEN_ALLOC: u16 = 32;
    pub(super) const IN_REFILL: u16 = 64;
    pub(super) const LEAVES_UNSEEN: u16 = 128;
    pub(super) const FROM_ZONE: u16 = 256;

    /// A `mm_page_free_batched` event follows: the page reaches the per-CPU list there.
    #[must_use]
    pub fn is_batched(self) -> bool {
        self.0 & Self::BATCHED != 0
    }

    /// The page went past the per-CPU lists: seen to, or freed by an interrupt inside a refill.
    #[must_use]
    pub fn went_to_zone(self) -> bool {
        self.0 & Self::TO_ZONE != 0 || (self.0 & Self::IN_REFILL != 0 && self.0 & Self::TO_PCP == 0)
    }

    /// Type of the list it was put on, if known: 0 to 2.
    #[must_use]
    pub fn list_type(self) -> Option<u8> {
        (((self.0 & Self::TYPE_MASK) >> Self::TYPE_SHIFT) as u8).checked_sub(1)
    }

    /// An allocation that left no event came before.
    #[must_use]
    pub fn has_unseen_alloc(self) -> bool {
        self.0 & Self::UNSEEN_ALLOC != 0
    }

    /// Nothing that was seen later tells where the page went.
    #[must_use]
    pub fn is_never_seen_again(self) -> bool {
        self.0 & (Self::TO_PCP | Self::TO_ZONE) == 0
    }

    /// The page freed here is the one that such an allocation takes later.
    #[must_use]
    pub fn leaves_unseen(self) -> bool {
        self.0 & Self::LEAVES_UNSEEN != 0
    }

    /// The page lay in the buddy lists, and who frees it took it from there without an event, as
    /// compaction does.
    #[must_use]
    pub fn was_taken_from_zone(self) -> bool {
        self.0 & Self::FROM_ZONE != 0
    }

    pub(super) fn set(&mut self, bit: u16) {
        self.0 |= bit;
    }

    pub(super) fn set_type(&mut self, t: u8) {
        self.0 = self.0 & !Self::TYPE_MASK | u16::from(t.min(2) + 1) << Self::TYPE_SHIFT;
    }
}
