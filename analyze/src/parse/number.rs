//! Numbers from bytes, without going through text. Each reader takes only what is certainly read as the obvious readers
//! read it; anything else (a number too long, a leading zero in JSON) is `None` and left to them.

/// Reads forward through a line.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Digits that certainly fit into a `u64`.
const DIGITS: usize = 19;

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Bytes read.
    #[inline(always)]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Steps over so many bytes.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// The next two bytes.
    #[inline(always)]
    pub(super) fn pair(&self) -> [u8; 2] {
        self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
    }

    /// Steps over `tag` if it is next.
    #[inline(always)]
    pub(super) fn has<const N: usize>(&mut self, tag: &[u8; N]) -> bool {
        let found = self.bytes.get(self.at..self.at + N).is_some_and(|next| next == tag);
        if found {
            self.at += N;
        }
        found
    }

    /// Steps over `tag`, which must be next.
    #[inline(always)]
    pub(super) fn tag<const N: usize>(&mut self, tag: &[u8; N]) -> Option<()> {
        self.has(tag).then_some(())
    }

    /// Plain text up to a quotation mark, which is stepped over: nothing that JSON escapes, nothing beyond ASCII; at
    /// least one byte.
    #[inline(always)]
    pub(super) fn plain_text(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        let at = loop {
            let Some(&next) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) else {
                break self.at + self.bytes.get(self.at..)?.iter().position(|&byte| !is_plain(byte))?;
            };
            let count = plain(next);
            self.at += count;
            if count < 8 {
                break self.at;
            }
        };
        let text = self.bytes.get(from..at).filter(|text| !text.is_empty())?;
        self.at = at;
        self.tag(b"\"")?;
        Some(text)
    }

    /// The bytes up to the first that is none of `wanted`; at least one.
    #[inline(always)]
    pub(super) fn while_in(&mut self, wanted: impl Fn(u8) -> bool) -> Option<&'a [u8]> {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(|&byte| wanted(byte)) {
            self.at += 1;
        }
        self.bytes.get(from..self.at).filter(|found| !found.is_empty())
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub(super) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let taken = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(taken)
    }

    /// A decimal number.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Option<u64> {
        let from = self.at;
        let mut value = 0u64;
        // Eight digits at a time, without a branch on how many there are: lengths are what a processor can't foresee.
        while let Some(&next) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            let (digits, count) = eight(next);
            value = value.wrapping_mul(POWERS[count]).wrapping_add(digits);
            self.at += count;
            if count < 8 {
                return (1..=DIGITS).contains(&(self.at - from)).then_some(value);
            }
        }
        while let Some(digit) = self.bytes.get(self.at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10)
        {
            value = value.wrapping_mul(10).wrapping_add(digit.into());
            self.at += 1;
        }
        (1..=DIGITS).contains(&(self.at - from)).then_some(value)
    }

    /// The same as it must be in JSON: no leading zero.
    #[inline(always)]
    pub(super) fn json_number(&mut self) -> Option<u64> {
        let (zero, from) = (self.peek() == b'0', self.at);
        let value = self.number()?;
        (!zero || self.at == from + 1).then_some(value)
    }

    /// A signed number of 32 bits.
    #[inline(always)]
    pub(super) fn signed(&mut self) -> Option<i32> {
        let negative = self.has(b"-");
        let value = i64::try_from(self.number()?).ok()?;
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// The same as it must be in JSON.
    #[inline(always)]
    pub(super) fn json_signed(&mut self) -> Option<i32> {
        let mut digits = *self;
        let negative = digits.has(b"-");
        // JSON's `-0` is no whole number.
        if digits.json_number()? == 0 && negative {
            return None;
        }
        self.signed()
    }

    /// `0x…`.
    #[inline(always)]
    pub(super) fn address(&mut self) -> Option<u64> {
        self.tag(b"0x")?;
        let from = self.at;
        let mut value = 0u64;
        while let Some(&byte) = self.bytes.get(self.at) {
            let nibble = NIBBLES[usize::from(byte)];
            if nibble > 15 {
                break;
            }
            value = value << 4 | u64::from(nibble);
            self.at += 1;
        }
        (1..=16).contains(&(self.at - from)).then_some(value)
    }

    /// A number with one decimal. The nearest `f64`, as every parser gives it: both operands of the division are exact.
    #[inline(always)]
    pub(super) fn tenths(&mut self) -> Option<f64> {
        let from = self.at;
        // Most levels and totals are this short.
        if let Some(&[first, b'.', tenth]) = self.bytes.get(from..).and_then(|rest| rest.first_chunk())
            && let (first @ 0..=9, tenth @ 0..=9) = (first.wrapping_sub(b'0'), tenth.wrapping_sub(b'0'))
        {
            self.at += 3;
            return Some(f64::from(first * 10 + tenth) / 10.0);
        }
        let whole = self.number()?;
        // 14 digits and one decimal stay below 2^53.
        if self.at - from > 14 {
            return None;
        }
        self.tag(b".")?;
        let digit = self.peek().wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        self.at += 1;
        Some((whole * 10 + u64::from(digit)) as i64 as f64 / 10.0)
    }

    /// A number with decimals as JSON writes it, without an exponent.
    #[inline(always)]
    pub(super) fn json_decimal(&mut self) -> Option<f64> {
        let from = self.at;
        self.has(b"-");
        self.json_number()?;
        self.tag(b".")?;
        let point = self.at;
        self.while_in(|byte| byte.is_ascii_digit())?;
        if matches!(self.peek(), b'e' | b'E') {
            return None;
        }
        let text = self.bytes.get(from..self.at)?;
        let digits = text.strip_prefix(b"-").unwrap_or(text).len() - 1;
        if digits <= 15 {
            // Below 2^53 over a power of ten that is exact: the division rounds once, so it is the nearest.
            let mut value = 0u64;
            for byte in text.iter().filter(|byte| byte.is_ascii_digit()) {
                value = value * 10 + u64::from(byte - b'0');
            }
            let value = value as f64 / TENS.get(self.at - point)?;
            return Some(if text.starts_with(b"-") { -value } else { value });
        }
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// The line's end, read over.
    #[inline(always)]
    pub(super) fn line_end(&mut self) -> Option<usize> {
        self.has(b"\r");
        self.tag(b"\n")?;
        Some(self.at)
    }
}

/// The number that the digits at the beginning of eight bytes make, and how many they are.
#[inline(always)]
fn eight(bytes: [u8; 8]) -> (u64, usize) {
    // Digits become 0 to 9. What is above that gets its highest bit set; a carry out of such a byte spoils only those
    // behind it, and the first is what counts.
    let values = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    // The first digit is the lowest byte: shifted up, zeros lead.
    let digits = if count == 0 { 0 } else { values << (64 - 8 * count) };
    // Pairs, then fours, then all of them.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let low = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (high.wrapping_add(low) >> 32, count as usize)
}

/// Bytes of a JSON text that stand for themselves, within ASCII.
#[inline(always)]
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7f) && byte != b'"' && byte != b'\\'
}

/// How many of eight bytes are plain before the first that is not.
#[inline(always)]
fn plain(bytes: [u8; 8]) -> usize {
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    let word = u64::from_le_bytes(bytes);
    // A byte below the one subtracted borrows and gets its highest bit; as above, the first is right.
    let below = word.wrapping_sub(each(0x20));
    let quote = (word ^ each(b'"')).wrapping_sub(each(1));
    let escape = (word ^ each(b'\\')).wrapping_sub(each(1));
    ((below | quote | escape | word) & each(0x80)).trailing_zeros() as usize / 8
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

const TENS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Values of hexadecimal digits; 255 for other bytes.
const NIBBLES: [u8; 256] = {
    let mut values = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole<T>(text: &str, read: impl Fn(&mut Cursor<'_>) -> Option<T>) -> Option<T> {
        let mut cursor = Cursor::new(text.as_bytes());
        read(&mut cursor).filter(|_| cursor.at() == text.len())
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(value: u64, signed: i32, float in prop::num::f64::NORMAL) {
            if value < 10u64.pow(19) {
                prop_assert_eq!(whole(&value.to_string(), |c| c.json_number()), Some(value));
            }
            prop_assert_eq!(whole(&signed.to_string(), |c| c.json_signed()), Some(signed));
            prop_assert_eq!(whole(&format!("{value:#x}"), |c| c.address()), Some(value));
            let float = float % 1e6;
            let text = format!("{float:?}");
            if text.contains('.') && !text.contains('e') {
                prop_assert_eq!(whole(&text, |c| c.json_decimal()), Some(float));
            }
        }

        #[test]
        fn decimals_are_those_of_the_standard_library(text in "[0-9]{1,15}\\.[0-9]") {
            if let Some(value) = whole(&text, |c| c.tenths()) {
                prop_assert_eq!(Ok(value), text.parse::<f64>());
            }
        }

        #[test]
        fn what_is_taken_is_what_the_standard_library_takes(text in "-?[0-9]{0,21}(\\.[0-9]{0,21})?") {
            if let Some(value) = whole(&text, |c| c.number()) {
                prop_assert_eq!(text.parse(), Ok(value));
            }
            if let Some(value) = whole(&text, |c| c.signed()) {
                prop_assert_eq!(text.parse(), Ok(value));
            }
            if let Some(value) = whole(&text, |c| c.json_decimal()) {
                prop_assert_eq!(text.parse(), Ok(value));
                prop_assert!(serde_json::from_str::<f64>(&text).is_ok());
            }
        }
    }

    proptest! {
        #[test]
        fn plain_text_ends_at_the_first_byte_that_is_not(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut line = vec![b'x'; 3];
            line.extend(text);
            line.push(b'"');
            let end = line.iter().position(|&byte| !is_plain(byte)).unwrap();
            let mut cursor = Cursor::new(&line);
            let read = cursor.plain_text();
            prop_assert_eq!(read, (line[end] == b'"').then(|| &line[..end]));
        }
    }

    #[test]
    fn what_json_forbids_is_left_alone() {
        for text in ["01", "00", "-01", "-0", "1.", ".5", "01.5"] {
            let read = whole(text, |c| c.json_number()).is_some()
                || whole(text, |c| c.json_signed()).is_some()
                || whole(text, |c| c.json_decimal()).is_some();
            assert!(!read, "{text}");
        }
    }
}
