//! FNV-1a with 128 bits (Fowler, Noll, Vo): the same for the same bytes, everywhere and for good.
//!
//! Names entries of the store and versions of the model. Not for secrets: whoever wants two equal
//! hashes finds them. The store therefore keeps what it hashed beside the result and compares it.

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Hash of the bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
