//! Folds of processes that have ended, as small as they can be: there may be hundreds of thousands of them, and each
//! is large while calls come. Nothing is lost, so that it can be unpacked where another call comes nevertheless.
//!
//! A stream of bits: one for each option and truth, and for each number a count of bytes and these.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use hook_event::Outcome;

use super::fold::Fold;

/// A fold at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed(Box<[u8]>);

impl Packed {
    /// Packs one.
    pub(crate) fn of(fold: &Fold) -> Packed {
        let mut bits = Writer::default();
        fold.pack(&mut bits);
        Packed(bits.finish())
    }

    /// What was packed.
    pub(crate) fn fold(&self) -> Box<Fold> {
        Box::new(Fold::unpack(&mut Reader { bytes: &self.0, bits: 0, count: 0 }))
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What can be packed.
pub(super) trait Pack: Sized {
    fn pack(&self, to: &mut Writer);
    fn unpack(from: &mut Reader<'_>) -> Self;
}

/// Packs a struct field by field; one that is not listed does not compile.
macro_rules! packed {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl crate::analysis::packed::Pack for $type {
            fn pack(&self, to: &mut crate::analysis::packed::Writer) {
                let $type { $($field),* } = self;
                $(crate::analysis::packed::Pack::pack($field, to);)*
            }

            fn unpack(from: &mut crate::analysis::packed::Reader<'_>) -> Self {
                // In the order in which they are written here.
                $type { $($field: crate::analysis::packed::Pack::unpack(from)),* }
            }
        }
    };
}
pub(super) use packed;

/// Bits on their way into bytes.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    bits: u128,
    count: u32,
}

impl Writer {
    fn put(&mut self, bits: u64, count: u32) {
        self.bits |= u128::from(bits) << self.count;
        self.count += count;
        let whole = self.count / 8;
        self.bytes.extend_from_slice(&self.bits.to_le_bytes()[..whole as usize]);
        (self.bits, self.count) = (self.bits >> (whole * 8), self.count % 8);
    }

    fn word(&mut self, word: u64) {
        let bytes = u64::BITS.div_ceil(8) - word.leading_zeros() / 8;
        self.put(bytes.into(), 4);
        self.put(word, bytes * 8);
    }

    fn finish(mut self) -> Box<[u8]> {
        self.put(0, 7);
        self.bytes.into()
    }
}

/// Bytes on their way into bits.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    bits: u128,
    count: u32,
}

impl Reader<'_> {
    fn get(&mut self, count: u32) -> u64 {
        while self.count < count {
            let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
            self.bits |= u128::from(*byte) << self.count;
            (self.bytes, self.count) = (rest, self.count + 8);
        }
        let bits = self.bits as u64 & u64::MAX.checked_shr(64 - count).unwrap_or(0);
        (self.bits, self.count) = (self.bits >> count, self.count - count);
        bits
    }

    fn word(&mut self) -> u64 {
        let bytes = self.get(4) as u32;
        self.get(bytes.min(8) * 8)
    }
}

/// A number, as a word and back.
macro_rules! words {
    ($($type:ty: $to:expr, $back:expr;)*) => {$(
        impl Pack for $type {
            fn pack(&self, to: &mut Writer) {
                let word: fn($type) -> u64 = $to;
                to.word(word(*self));
            }

            fn unpack(from: &mut Reader<'_>) -> Self {
                let back: fn(u64) -> $type = $back;
                back(from.word())
            }
        }
    )*};
}

words! {
    u8: u64::from, |word| word as u8;
    u32: u64::from, |word| word as u32;
    u64: |value| value, |word| word;
    usize: |value| value as u64, |word| word as usize;
    // What is little below zero is little.
    i32: |value| (value << 1 ^ value >> 31) as u32 as u64, |word| (word as u32 >> 1) as i32 ^ -(word as i32 & 1);
    i64: |value| (value << 1 ^ value >> 63) as u64, |word| (word >> 1) as i64 ^ -(word as i64 & 1);
    // Of whole numbers and tenths the last bytes are the same or zero; zeros in front are left out.
    f64: |value| value.to_bits().swap_bytes(), |word| f64::from_bits(word.swap_bytes());
    Outcome: |outcome| outcome as u64, |word| Outcome::ALL[word as usize % Outcome::ALL.len()];
}

impl Pack for bool {
    fn pack(&self, to: &mut Writer) {
        to.put((*self).into(), 1);
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        from.get(1) != 0
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, to: &mut Writer) {
        self.is_some().pack(to);
        if let Some(value) = self {
            value.pack(to);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        bool::unpack(from).then(|| T::unpack(from))
    }
}

impl<T: Pack> Pack for Box<T> {
    fn pack(&self, to: &mut Writer) {
        (**self).pack(to);
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        Box::new(T::unpack(from))
    }
}

impl<T: Pack, const N: usize> Pack for [T; N] {
    fn pack(&self, to: &mut Writer) {
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        std::array::from_fn(|_| T::unpack(from))
    }
}

macro_rules! tuples {
    ($(($($type:ident $value:ident),*))*) => {$(
        impl<$($type: Pack),*> Pack for ($($type,)*) {
            fn pack(&self, to: &mut Writer) {
                let ($($value,)*) = self;
                $($value.pack(to);)*
            }

            fn unpack(from: &mut Reader<'_>) -> Self {
                ($($type::unpack(from),)*)
            }
        }
    )*};
}

tuples! {
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, to: &mut Writer) {
        self.len().pack(to);
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        (0..usize::unpack(from)).map(|_| T::unpack(from)).collect()
    }
}

impl<T: Pack> Pack for VecDeque<T> {
    fn pack(&self, to: &mut Writer) {
        self.len().pack(to);
        self.iter().for_each(|value| value.pack(to));
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        Vec::unpack(from).into()
    }
}

impl<K: Pack + Ord, V: Pack> Pack for BTreeMap<K, V> {
    fn pack(&self, to: &mut Writer) {
        self.len().pack(to);
        for (key, value) in self {
            key.pack(to);
            value.pack(to);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        Vec::unpack(from).into_iter().collect()
    }
}

impl<K: Pack + Ord + Hash, V: Pack, S: BuildHasher + Default> Pack for HashMap<K, V, S> {
    fn pack(&self, to: &mut Writer) {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        self.len().pack(to);
        for (key, value) in all {
            key.pack(to);
            value.pack(to);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Self {
        Vec::unpack(from).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::hash;

    fn again<T: Pack>(value: &T) -> T {
        let mut bits = Writer::default();
        // Not from a whole byte on.
        true.pack(&mut bits);
        value.pack(&mut bits);
        let bytes = bits.finish();
        let mut bits = Reader { bytes: &bytes, bits: 0, count: 0 };
        assert!(bool::unpack(&mut bits));
        T::unpack(&mut bits)
    }

    fn comes_back<T: Pack + PartialEq + Debug>(value: T) {
        assert_eq!(again(&value), value);
    }

    #[test]
    fn every_number_comes_back() {
        for shift in 0..64 {
            for word in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift, !(u64::MAX >> shift)] {
                comes_back((word, word as u32, word as u8, word as usize));
                comes_back((word as i64, word as i32, -(word as i64 >> 1)));
                assert_eq!(again(&f64::from_bits(word)).to_bits(), word);
            }
        }
        comes_back(vec![0.1, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, f64::MAX]);
        comes_back(Outcome::ALL);
    }

    #[test]
    fn every_container_comes_back() {
        comes_back((None::<u64>, Some(7u64), Some(Box::new([true, false])), Vec::<u8>::new()));
        comes_back(VecDeque::from([3u64, 1, 2]));
        comes_back(BTreeMap::from([(-1i32, 5u64), (2, 0)]));
        comes_back((0..1000u64).map(|key| (key * key, key as i32 - 500)).collect::<HashMap<_, _, hash::Build>>());
    }
}
