//! A hash for tables whose keys come from a log: a multiplication a word, its two halves folded together.
//!
//! The standard library's hash resists keys that were chosen against it at three times the cost; here whoever writes
//! the log can make his own analysis slow, and nothing else.

use std::hash::{BuildHasherDefault, Hasher};

/// For `HashMap::default()`.
pub(crate) type Build = BuildHasherDefault<Folded>;

/// Digits of pi, as any odd number without a pattern would do.
const FACTOR: u64 = 0x243f_6a88_85a3_08d3;

/// The hash so far.
#[derive(Default)]
pub(crate) struct Folded(u64);

impl Folded {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ FACTOR) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Folded {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        // The last eight bytes, some of them again, rather than a copy of the rest: that would have to wait for itself.
        let last = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        self.add(last ^ (bytes.len() as u64) << 56);
    }

    #[inline(always)]
    fn write_u8(&mut self, value: u8) {
        self.add(value.into());
    }

    #[inline(always)]
    fn write_u32(&mut self, value: u32) {
        self.add(value.into());
    }

    #[inline(always)]
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}
