//! Reading and printing a policy by key: `pcp_high=auto`, one table for the command line,
//! for TOML files and for `policies show`.

use core::fmt;

use crate::policy::*;

/// A setting by name.
pub struct Key {
    /// Name on the command line and in TOML files.
    pub name: &'static str,
    /// One line of meaning, with its unit.
    pub about: &'static str,
    /// Reads the value out of a policy.
    pub get: fn(&Policy) -> Value,
    set: fn(&mut Policy, &str) -> bool,
    /// Values that the key accepts.
    pub accepts: Accepts,
}

/// What a key accepts.
#[derive(Clone, Copy)]
pub enum Accepts {
    /// A whole number.
    Number,
    /// `on` or `off`.
    Switch,
    /// One of these names.
    Names(fn(usize) -> Option<&'static str>),
}

/// A value as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u32),
    /// A name.
    Name(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}

/// Why [`Policy::set`] refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No such key.
    UnknownKey,
    /// The key does not take this value.
    BadValue,
}

fn parse_choice<C: Choice>(text: &str, into: &mut C) -> bool {
    match C::NAMED.iter().find(|(_, name)| *name == text) {
        Some((value, _)) => {
            *into = *value;
            true
        }
        None => false,
    }
}

fn parse_number(text: &str, into: &mut u32) -> bool {
    text.parse().map(|number| *into = number).is_ok()
}

fn parse_switch(text: &str, into: &mut bool) -> bool {
    match text {
        "on" | "true" | "1" => *into = true,
        "off" | "false" | "0" => *into = false,
        _ => return false,
    }
    true
}

macro_rules! keys {
    ($(($field:ident, $kind:ident $(<$choice:ident>)?, $about:literal),)+) => {
        /// Every key, in the order in which a policy is printed.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($field),
            about: $about,
            get: keys!(@get $kind $field),
            set: keys!(@set $kind $field),
            accepts: keys!(@accepts $kind $($choice)?),
        }),+];
    };
    (@get number $field:ident) => { |p| Value::Number(p.$field) };
    (@get switch $field:ident) => { |p| Value::Name(if p.$field { "on" } else { "off" }) };
    (@get choice $field:ident) => { |p| Value::Name(p.$field.name()) };
    (@set number $field:ident) => { |p, text| parse_number(text, &mut p.$field) };
    (@set switch $field:ident) => { |p, text| parse_switch(text, &mut p.$field) };
    (@set choice $field:ident) => { |p, text| parse_choice(text, &mut p.$field) };
    (@accepts number) => { Accepts::Number };
    (@accepts switch) => { Accepts::Switch };
    (@accepts choice $choice:ident) => {
        Accepts::Names(|i| $choice::NAMED.get(i).map(|(_, name)| *name))
    };
}

keys! {
    (batch_cap_pages, number, "upper bound of a batch before rounding, pages"),
    (batch_pages, number, "batch, pages; 0 computes it from the zone"),
    (pcp_high, choice<PcpHigh>, "how many pages a CPU may keep of a zone"),
    (pcp_high_pages, number, "the same as a number of pages; 0 computes it"),
    (high_fraction, number, "vm.percpu_pagelist_high_fraction; 0 is off"),
    (pcp_lists, choice<PcpLists>, "per-CPU lists"),
    (alloc_scale, choice<AllocScale>, "how refills grow"),
    (free_scale, choice<FreeScale>, "how bulk frees grow"),
    (scale_max, number, "doublings at the most"),
    (factor_bounded, switch, "whether scale_max bounds the free factor"),
    (free_high, choice<FreeHigh>, "what a run of high-order frees does"),
    (free_high_limit, choice<FreeHighLimit>, "what it leaves, with free_high=all"),
    (free_high_run, choice<FreeHighRun>, "length of a run, with free_high=capped"),
    (bulk_order, choice<BulkOrder>, "in which order a bulk free empties the lists"),
    (collect, choice<Collect>, "where the pages of a bulk free are chosen"),
    (prefetch, choice<Prefetch>, "prefetch of buddies in a bulk free"),
    (free_chunk, choice<LockChunk>, "zone-lock hold of a bulk free"),
    (drain_chunk, choice<LockChunk>, "zone-lock hold of drains and decay"),
    (pcp_lock, choice<PcpLock>, "guard of a per-CPU cache"),
    (zone_lock_line, choice<LockLine>, "zone lock beside the free areas or apart"),
    (spinlock, choice<SpinLock>, "how CPUs wait for a spin lock"),
    (merge, choice<Merge>, "when freed blocks join their buddies"),
    (storage, choice<Storage>, "how free blocks are kept"),
    (fallback, choice<Fallback>, "who may take whose memory"),
    (nofragment, choice<NoFragment>, "whether a lower zone is used before types mix"),
    (boost_factor, number, "vm.watermark_boost_factor, 1/10000 of the high mark"),
    (highatomic, switch, "high-atomic reserves"),
    (highatomic_discount, choice<HighAtomicDiscount>, "what watermark tests leave out"),
    (numa_stat, choice<NumaStat>, "how NUMA counters are kept"),
    (numa_threshold, number, "threshold, with numa_stat=threshold"),
}

impl Policy {
    /// Sets one key from text.
    ///
    /// # Errors
    /// The key is unknown or does not take the value. Pairs are not checked: see
    /// [`Policy::check`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SetError> {
        let key = KEYS.iter().find(|known| known.name == key).ok_or(SetError::UnknownKey)?;
        match (key.set)(self, value) {
            true => Ok(()),
            false => Err(SetError::BadValue),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Release;

    #[test]
    fn every_key_reads_back_what_it_prints() {
        struct Buffer([u8; 32], usize);
        impl fmt::Write for Buffer {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0[self.1..self.1 + text.len()].copy_from_slice(text.as_bytes());
                self.1 += text.len();
                Ok(())
            }
        }
        let policy = Policy::linux(Release::new(6, 18));
        let mut copy = Policy::linux(Release::new(4, 14));
        for key in KEYS {
            let mut text = Buffer([0; 32], 0);
            fmt::write(&mut text, format_args!("{}", (key.get)(&policy))).expect("32 bytes");
            let text = core::str::from_utf8(&text.0[..text.1]).expect("text");
            assert_eq!(copy.set(key.name, text), Ok(()), "{}={text}", key.name);
        }
        assert_eq!(copy, policy);
    }

    #[test]
    fn wrong_keys_and_values_are_refused() {
        let mut policy = Policy::linux(Release::new(6, 18));
        assert_eq!(policy.set("pcp_hihg", "auto"), Err(SetError::UnknownKey));
        assert_eq!(policy.set("pcp_high", "automatic"), Err(SetError::BadValue));
        assert_eq!(policy.set("batch_pages", "-3"), Err(SetError::BadValue));
    }

    #[test]
    fn impossible_pairs_name_both_keys() {
        let mut policy = Policy::linux(Release::new(6, 18));
        policy.set("prefetch", "t0").expect("a known value");
        let conflict = policy.check().expect_err("prefetch without choosing outside the lock");
        assert_eq!((conflict.key, conflict.other), ("prefetch", "collect"));
    }
}
