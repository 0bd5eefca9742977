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
    pub fn push_str(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Appends one byte.
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
        let mut digits = [b'0'; 20];
        let mut used = 0;
        for slot in digits.iter_mut().rev() {
            *slot = b'0' + (value % 10) as u8;
            value /= 10;
            used += 1;
            if value == 0 && used >= width {
                break;
            }
        }
        self.push(digits.get(20 - used..).unwrap_or(&[]));
    }

    /// Appends `0x…`, lower case.
    pub fn push_hex(&mut self, mut value: u64) {
        let mut digits = [b'0'; 16];
        let mut used = 0;
        for slot in digits.iter_mut().rev() {
            let nibble = (value & 15) as u8;
            *slot = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
            value >>= 4;
            used += 1;
            if value == 0 {
                break;
            }
        }
        self.push(b"0x");
        self.push(digits.get(16 - used..).unwrap_or(&[]));
    }

    /// Appends the shortest decimal that reads back as the same `f64` (`2`, `0.5`, `2.968`).
    pub fn push_f64(&mut self, value: f64) {
        // The result is ignored because writing here can't fail: see the impl below.
        let _ = write!(self, "{value}");
    }
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
