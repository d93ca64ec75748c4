//! What a kernel's flag numbers mean, read from the table in an event's `print fmt`.
//!
//! The table is C: `{( unsigned long)(( gfp_t)((((1UL))) << (3))), "__GFP_MOVABLE"}`. A small
//! evaluator of constant expressions is enough; entries that it cannot read are left out.

use crate::event::Gfp;

/// From a kernel's bit numbers to named flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GfpMap {
    bits: Vec<(u32, Gfp)>,
}

impl GfpMap {
    /// Reads the first `__print_flags` table of a `print fmt`.
    pub(crate) fn from_print_fmt(print_fmt: &str) -> GfpMap {
        let mut map = GfpMap::default();
        let Some(start) = print_fmt.find("__print_flags(") else {
            return map;
        };
        let table = &print_fmt[start..];
        let entries: Vec<(u64, Gfp)> = table
            .split('{')
            .skip(1)
            .take(256)
            .filter_map(|entry| {
                let (value, name) = entry.split_once('"')?;
                let name = name.split_once('"')?.0;
                let value = evaluate(value.trim().strip_suffix(',')?)?;
                Some((value, Gfp::from_name(name.as_bytes())))
            })
            .filter(|(value, flags)| *value != 0 && !flags.has_unknown())
            .collect();
        for (value, flags) in &entries {
            let single = value.is_power_of_two() && flags.0.is_power_of_two();
            if single && !map.knows(value.trailing_zeros()) {
                map.bits.push((value.trailing_zeros(), *flags));
            }
        }
        for (value, flags) in &entries {
            map.infer(*value, *flags);
        }
        map
    }

    /// A compound entry with one bit and one flag left that nothing else names gives their pair.
    fn infer(&mut self, value: u64, flags: Gfp) {
        let known = self.bits.iter().filter(|(bit, _)| value >> bit & 1 == 1);
        let (bits, named) = known.fold((value, flags.0), |(bits, named), (bit, flag)| {
            (bits & !(1 << bit), named & !flag.0)
        });
        if bits.is_power_of_two() && named.is_power_of_two() {
            self.bits.push((bits.trailing_zeros(), Gfp(named)));
        }
    }

    fn knows(&self, bit: u32) -> bool {
        self.bits.iter().any(|(known, _)| *known == bit)
    }

    /// Named flags for a kernel's number; bits without a name end in [`Gfp::unknown`].
    pub(crate) fn decode(&self, number: u64) -> Gfp {
        let mut flags = Gfp::NONE;
        let mut rest = number;
        for (bit, flag) in &self.bits {
            if number >> bit & 1 == 1 {
                flags = flags.union(*flag);
                rest &= !(1 << bit);
            }
        }
        if rest != 0 { flags.union(Gfp::unknown(rest)) } else { flags }
    }
}

/// Evaluates a constant C expression of integers; `None` for anything else.
fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Expression { text: text.as_bytes(), at: 0, depth: 0 };
    let value = parser.or()?;
    parser.blanks();
    (parser.at == parser.text.len()).then_some(value)
}

struct Expression<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

/// Parentheses within parentheses; the kernel's own reach about 15.
const DEPTH_MAX: u32 = 64;

impl Expression<'_> {
    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &[u8]) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.take(b"|") {
            value |= self.and()?;
        }
        Some(value)
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.take(b"&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        loop {
            if self.take(b"<<") {
                value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
            } else if self.take(b">>") {
                value = value.checked_shr(u32::try_from(self.sum()?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.unary()?;
        loop {
            if self.take(b"+") {
                value = value.wrapping_add(self.unary()?);
            } else if self.take(b"-") {
                value = value.wrapping_sub(self.unary()?);
            } else {
                return Some(value);
            }
        }
    }

    fn unary(&mut self) -> Option<u64> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let value = self.operand();
        self.depth -= 1;
        value
    }

    fn operand(&mut self) -> Option<u64> {
        if self.take(b"~") {
            return Some(!self.unary()?);
        }
        if self.take(b"(") {
            self.blanks();
            // A name in parentheses is a cast: its width does not matter for flags.
            if self
                .text
                .get(self.at)
                .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            {
                let length = self.text[self.at..].iter().position(|byte| *byte == b')')?;
                self.at += length + 1;
                return self.unary();
            }
            let value = self.or()?;
            return self.take(b")").then_some(value);
        }
        self.number()
    }

    fn number(&mut self) -> Option<u64> {
        self.blanks();
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        self.at += length;
        let word = std::str::from_utf8(&rest[..length]).ok()?;
        let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_the_kernel_are_evaluated() {
        assert_eq!(evaluate("( unsigned long)(( gfp_t)((((1UL))) << (3)))"), Some(8));
        assert_eq!(evaluate("((gfp_t)(0x400u|0x800u)) | 0x40u & ~0x40"), Some(0xc00));
        assert_eq!(evaluate("(1U << 1)"), Some(2));
        assert_eq!(evaluate("1 << 64"), None);
        assert_eq!(evaluate("(1"), None);
        assert_eq!(evaluate("sizeof(int)"), None);
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
    }

    #[test]
    fn numbers_are_named_by_the_table_of_their_kernel() {
        let fmt = "\"%s\", __print_flags(REC->gfp_flags, \"|\", \
            {(unsigned long)((0x10u|0x20u)), \"__GFP_RECLAIM\"}, {0x4u, \"GFP_DMA\"}, \
            {0x4u, \"__GFP_DMA\"}, {0x10u, \"__GFP_DIRECT_RECLAIM\"}, {0x80u, \"__GFP_MOVABLE\"})";
        let map = GfpMap::from_print_fmt(fmt);
        assert_eq!(map.decode(0x84), Gfp::MOVABLE.union(Gfp::DMA));
        // 0x20 has no entry of its own: what is left of __GFP_RECLAIM names it.
        assert_eq!(map.decode(0x30), Gfp::RECLAIM);
        assert!(map.decode(0x180).has_unknown() && map.decode(0x180).contains(Gfp::MOVABLE));
    }
}
