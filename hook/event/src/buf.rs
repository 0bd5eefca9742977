//! A fixed buffer on the stack that a record is formatted into: no allocation, no failure, no panic.
//!
//! What does not fit is cut and [`Buf::overflowed`] says so; writers size their parts so that it never happens.

use core::fmt::{self, Write};

/// `N` bytes to write into.
pub struct Buf<const N: usize> {
    bytes: [u8; N],
    len: usize,
    overflowed: bool,
}

impl<const N: usize> Buf<N> {
    /// An empty buffer.
    pub const fn new() -> Self {
        Buf { bytes: [0; N], len: 0, overflowed: false }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Bytes written.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something did not fit.
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Forgets everything from byte `len` on; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends bytes.
    // Inline, so that a text of a length that the compiler knows is a few stores.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.overflowed = true,
        }
    }

    /// Appends text.
    #[inline(always)]
    pub fn push_str(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Appends one byte.
    #[inline(always)]
    pub fn push_byte(&mut self, byte: u8) {
        self.push(&[byte]);
    }

    /// Appends a decimal number.
    pub fn push_u64(&mut self, value: u64) {
        self.push_padded(value, 1);
    }

    /// Appends a decimal number with its sign.
    pub fn push_i64(&mut self, value: i64) {
        if value < 0 {
            self.push_byte(b'-');
        }
        self.push_u64(value.unsigned_abs());
    }

    /// Appends a decimal number of at least `width` digits (20 at most), zeros in front.
    pub fn push_padded(&mut self, mut value: u64, width: usize) {
        let digits = value.checked_ilog10().map_or(1, |log| log as usize + 1).max(width);
        let Some(room) = self.room(digits) else { return };
        // Two digits a division.
        let mut pairs = room.rchunks_exact_mut(2);
        for pair in &mut pairs {
            pair.copy_from_slice(&PAIRS[(value % 100) as usize]);
            value /= 100;
        }
        if let [first] = pairs.into_remainder() {
            *first = b'0' + value as u8;
        }
    }

    /// Appends `0x…`, lower case.
    pub fn push_hex(&mut self, mut value: u64) {
        self.push(b"0x");
        let digits = (value.checked_ilog2().unwrap_or(0) / 4) as usize + 1;
        let Some(room) = self.room(digits) else { return };
        for digit in room.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(value & 15) as usize];
            value >>= 4;
        }
    }

    /// The next `len` bytes, to be written.
    #[inline(always)]
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let room = self.bytes.get_mut(self.len..self.len + len);
        match room {
            Some(_) => self.len += len,
            None => self.overflowed = true,
        }
        room
    }

    /// Appends a number with one decimal, as `{:.1}` does: rounded to the nearest, and to the even one of two that are
    /// equally near.
    pub fn push_tenths(&mut self, value: f64) {
        match tenths(value) {
            Some(tenths) => {
                self.push_u64(tenths / 10);
                self.push(&[b'.', b'0' + (tenths % 10) as u8]);
            }
            None => {
                // The result is ignored because writing here can't fail: see the impl below.
                let _ = write!(self, "{value:.1}");
            }
        }
    }

    /// Appends the shortest decimal that reads back as the same `f64` (`2`, `0.5`, `2.968`).
    pub fn push_f64(&mut self, value: f64) {
        // Whole numbers up to where every one of them is an `f64`; not the negative zero, which has its sign printed.
        let whole = value as u64;
        if whole <= 1 << 53 && (whole as f64).to_bits() == value.to_bits() {
            return self.push_u64(whole);
        }
        // The result is ignored because writing here can't fail: see the impl below.
        let _ = write!(self, "{value}");
    }
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + i as u8 / 10, b'0' + i as u8 % 10];
        i += 1;
    }
    pairs
};

/// Tenths of a number that is not negative and not too large for this to be exact.
fn tenths(value: f64) -> Option<u64> {
    const LARGEST: f64 = (1u64 << 40) as f64;
    if value.is_sign_negative() || value.is_nan() || value >= LARGEST {
        return None;
    }
    // A number is `mantissa` times 2 to the power of -`shift`, so ten times it is whole in units of that power.
    let bits = value.to_bits();
    let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let shift = 1075 - exponent.max(1);
    if shift >= 64 {
        // Less than 2^-11.
        return Some(0);
    }
    let ten = mantissa * 10;
    let (whole, rest, half) = (ten >> shift, ten & ((1 << shift) - 1), 1 << (shift - 1));
    Some(whole + u64::from(rest > half || (rest == half && whole % 2 == 1)))
}

impl<const N: usize> Default for Buf<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Write for Buf<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(f: impl Fn(&mut Buf<64>)) -> String {
        let mut out = Buf::new();
        f(&mut out);
        String::from_utf8(out.as_bytes().to_vec()).expect("ASCII")
    }

    proptest! {
        #[test]
        fn numbers_print_as_rust_prints_them(value: u64, signed: i64, float: f64) {
            prop_assert_eq!(text(|o| o.push_u64(value)), value.to_string());
            prop_assert_eq!(text(|o| o.push_i64(signed)), signed.to_string());
            prop_assert_eq!(text(|o| o.push_hex(value)), format!("{value:#x}"));
            let mut out = Buf::<400>::new();
            out.push_f64(float);
            prop_assert_eq!(core::str::from_utf8(out.as_bytes()).map(str::to_owned), Ok(float.to_string()));
        }

        #[test]
        fn padded_numbers_print_as_rust_prints_them(value: u64, width in 1usize..=20, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(text(|o| o.push_padded(value, width)), format!("{value:0width$}"));
        }

        #[test]
        fn tenths_round_as_rusts_own(
            float: f64, small in 0.0f64..1e6, hundredths in 0u64..1_000_000, eighths in 0u64..1_000_000,
        ) {
            let near = hundredths as f64 / 100.0;
            for value in [float, small, near, f64::from_bits(near.to_bits() + 1), eighths as f64 / 8.0, small * 1e-9] {
                let mut out = Buf::<400>::new();
                out.push_tenths(value);
                prop_assert_eq!(core::str::from_utf8(out.as_bytes()).map(str::to_owned), Ok(format!("{value:.1}")));
            }
        }

        #[test]
        fn whole_floats_print_as_rust_prints_them(whole: u64, shift in 0u32..64) {
            let value = (whole >> shift) as f64;
            for value in [value, -value, value + 0.5] {
                let mut out = Buf::<400>::new();
                out.push_f64(value);
                prop_assert_eq!(core::str::from_utf8(out.as_bytes()).map(str::to_owned), Ok(value.to_string()));
            }
        }
    }

    #[test]
    fn pads_with_zeros_and_never_cuts_digits() {
        assert_eq!(text(|o| o.push_padded(7, 2)), "07");
        assert_eq!(text(|o| o.push_padded(1234, 2)), "1234");
        assert_eq!(text(|o| o.push_padded(u64::MAX, 9)), u64::MAX.to_string());
    }

    #[test]
    fn cuts_what_does_not_fit_and_says_so() {
        let mut out = Buf::<4>::new();
        out.push_str("abc");
        assert!(!out.overflowed());
        out.push_str("de");
        assert!(out.overflowed());
        assert_eq!(out.as_bytes(), b"abc");
        out.push_byte(b'd');
        assert_eq!(out.as_bytes(), b"abcd");
    }
}
