//! Where a page was last seen, packed into one word: there is one for every page.

/// Where a page is, as far as the events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No event named it yet.
    Unseen,
    /// In use, taken from a list of this type.
    Allocated { t: u8 },
    /// Given back on this CPU, with the number of its free.
    Freed { cpu: u16, free: u32 },
    /// Taken out of the buddy lists by a refill, at this event.
    Refilled { cpu: u16, t: u8, event: u64 },
    /// In the buddy lists.
    Drained,
}

impl Place {
    pub(super) fn pack(self) -> u64 {
        match self {
            Place::Unseen => 0,
            Place::Allocated { t } => 1 | u64::from(t) << 3,
            Place::Freed { cpu, free } => 2 | u64::from(cpu) << 3 | u64::from(free) << 32,
            Place::Refilled { cpu, t, event } => {
                3 | u64::from(cpu) << 3 | u64::from(t) << 19 | event << 22
            }
            Place::Drained => 4,
        }
    }

    pub(super) fn unpack(word: u64) -> Place {
        match word & 7 {
            0 => Place::Unseen,
            1 => Place::Allocated { t: (word >> 3) as u8 },
            2 => Place::Freed { cpu: (word >> 3) as u16, free: (word >> 32) as u32 },
            3 => Place::Refilled {
                cpu: (word >> 3) as u16,
                t: (word >> 19) as u8 & 7,
                event: word >> 22,
            },
            _ => Place::Drained,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn every_place_survives_its_word() {
        let refilled = Place::Refilled { cpu: u16::MAX, t: 2, event: (1 << 42) - 1 };
        let freed = Place::Freed { cpu: u16::MAX, free: u32::MAX };
        for place in [Place::Unseen, Place::Allocated { t: 2 }, freed, refilled, Place::Drained] {
            assert_eq!(Place::unpack(place.pack()), place);
        }
    }
}
