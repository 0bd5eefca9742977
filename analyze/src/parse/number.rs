//! Numbers from bytes, without going through text. Each reader takes only what is certainly read as the obvious readers
//! read it; anything else (a number too long, a leading zero in JSON) is `None` and left to them.

/// Reads forward through a line.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// Bytes that there were.
    len: usize,
}

/// The digits of a number before its last eight.
pub(super) struct Near {
    /// They, and which bits of eight bytes they take.
    head: u64,
    mask: u64,
    digits: usize,
    value: u64,
}

impl Default for Near {
    fn default() -> Self {
        // No text: a digit has other bits.
        Near { head: 0, mask: u64::MAX, digits: 0, value: 0 }
    }
}

/// Digits that certainly fit into a `u64`.
const DIGITS: usize = 19;

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes, len: bytes.len() }
    }

    /// Bytes read.
    #[inline(always)]
    pub(super) fn at(&self) -> usize {
        self.len - self.rest.len()
    }

    /// What is not read yet.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0)
    }

    /// Steps over so many bytes.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// The next two bytes.
    #[inline(always)]
    pub(super) fn pair(&self) -> [u8; 2] {
        self.rest.first_chunk().copied().unwrap_or_default()
    }

    /// Steps over `tag` if it is next.
    #[inline(always)]
    pub(super) fn has<const N: usize>(&mut self, tag: &[u8; N]) -> bool {
        match self.rest.split_first_chunk() {
            Some((next, rest)) if same(next, tag) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
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
        let from = self.rest;
        loop {
            let Some(next) = self.rest.first_chunk() else {
                let count = self.rest.iter().position(|&byte| !is_plain(byte))?;
                self.skip(count);
                break;
            };
            let count = plain(*next);
            self.skip(count);
            if count < 8 {
                break;
            }
        }
        let text = from.get(..from.len() - self.rest.len()).filter(|text| !text.is_empty())?;
        self.tag(b"\"")?;
        Some(text)
    }

    /// The bytes up to the first that is none of `wanted`; at least one.
    #[inline(always)]
    pub(super) fn while_in(&mut self, wanted: impl Fn(u8) -> bool) -> Option<&'a [u8]> {
        let count = self.rest.iter().position(|&byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (found, rest) = self.rest.split_at(count);
        self.rest = rest;
        (!found.is_empty()).then_some(found)
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub(super) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(taken)
    }

    /// A decimal number, and how many digits it has.
    #[inline(always)]
    fn digits(&mut self) -> Option<(u64, usize)> {
        // Eight at a time, without a branch on how many there are: lengths are what a processor can't foresee.
        let Some(next) = self.rest.first_chunk() else { return self.more_digits(0, 0) };
        let (value, count) = eight(*next);
        self.skip(count);
        if count < 8 {
            return (count > 0).then_some((value, count));
        }
        let Some(next) = self.rest.first_chunk() else { return self.more_digits(value, 8) };
        let (digits, count) = eight(*next);
        let value = value * POWERS[count] + digits;
        self.skip(count);
        if count < 8 { Some((value, 8 + count)) } else { self.more_digits(value, 16) }
    }

    /// The digits behind `count` others, one by one.
    #[inline(always)]
    fn more_digits(&mut self, mut value: u64, mut count: usize) -> Option<(u64, usize)> {
        while let Some((digit, rest)) = self.rest.split_first().map(|(byte, rest)| (byte.wrapping_sub(b'0'), rest))
            && digit < 10
        {
            value = value.wrapping_mul(10).wrapping_add(digit.into());
            (self.rest, count) = (rest, count + 1);
        }
        (1..=DIGITS).contains(&count).then_some((value, count))
    }

    /// A decimal number.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Option<u64> {
        self.digits().map(|(value, _)| value)
    }

    /// The same as it must be in JSON: no leading zero.
    #[inline(always)]
    pub(super) fn json_number(&mut self) -> Option<u64> {
        let zero = self.peek() == b'0';
        let (value, count) = self.digits()?;
        (!zero || count == 1).then_some(value)
    }

    /// The same of a number that is near to the one before: only its last eight digits are others.
    #[inline(always)]
    pub(super) fn json_near(&mut self, known: &mut Near) -> Option<u64> {
        let mut near = *self;
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        if let Some(head) = near.rest.first_chunk()
            && (word(head) ^ known.head) & known.mask == 0
        {
            near.skip(known.digits);
            if let Some(low) = near.take()
                && let (low, 8) = eight(*low)
                && !near.peek().is_ascii_digit()
            {
                *self = near;
                return Some(known.value + low);
            }
        }
        self.json_learn(known)
    }

    #[cold]
    fn json_learn(&mut self, known: &mut Near) -> Option<u64> {
        let from = *self;
        let value = self.json_number()?;
        let digits = self.at() - from.at();
        if let (9..=16, Some(head)) = (digits, from.rest.first_chunk()) {
            let mask = u64::MAX >> (64 - 8 * (digits - 8));
            let head = u64::from_le_bytes(*head) & mask;
            *known = Near { head, mask, digits: digits - 8, value: value - value % POWERS[8] };
        }
        Some(value)
    }

    /// The same of a number that mostly has one digit.
    #[inline(always)]
    pub(super) fn json_short(&mut self) -> Option<u64> {
        let [first, second] = self.pair().map(|byte| byte.wrapping_sub(b'0'));
        if first < 10 && second >= 10 {
            self.skip(1);
            return Some(first.into());
        }
        self.json_number()
    }

    /// Nine digits.
    #[inline(always)]
    pub(super) fn nine(&mut self) -> Option<u64> {
        let [first @ .., last] = self.take::<9>()?;
        let ((value, count), last) = (eight(*first), last.wrapping_sub(b'0'));
        (count == 8 && last < 10).then_some(value * 10 + u64::from(last))
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
        let negative = self.has(b"-");
        let value = i64::try_from(self.json_short()?).ok()?;
        // JSON's `-0` is no whole number.
        if negative && value == 0 {
            return None;
        }
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// `0x…`.
    #[inline(always)]
    pub(super) fn address(&mut self) -> Option<u64> {
        self.tag(b"0x")?;
        let (mut value, mut count) = (0u64, 0);
        while let (0 | 8, Some(next)) = (count, self.rest.first_chunk()) {
            let (nibbles, more) = eight_nibbles(*next);
            value = value << (4 * more) | nibbles;
            self.skip(more);
            count += more;
            if more == 0 {
                break;
            }
        }
        while let Some((&byte, rest)) = self.rest.split_first()
            && let Some(nibble) = char::from(byte).to_digit(16)
        {
            value = value << 4 | u64::from(nibble);
            (self.rest, count) = (rest, count + 1);
        }
        (1..=16).contains(&count).then_some(value)
    }

    /// A number with one decimal. The nearest `f64`, as every parser gives it: both operands of the division are exact.
    #[inline(always)]
    pub(super) fn tenths(&mut self) -> Option<f64> {
        // Most levels and totals are this short.
        if let Some((&[first, b'.', tenth], rest)) = self.rest.split_first_chunk()
            && let (first @ 0..=9, tenth @ 0..=9) = (first.wrapping_sub(b'0'), tenth.wrapping_sub(b'0'))
        {
            self.rest = rest;
            return Some(f64::from(first * 10 + tenth) / 10.0);
        }
        let (whole, count) = self.digits()?;
        // 14 digits and one decimal stay below 2^53.
        if count > 14 {
            return None;
        }
        self.tag(b".")?;
        let [digit] = self.take()?;
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| (whole * 10 + u64::from(digit)) as i64 as f64 / 10.0)
    }

    /// A number with decimals as JSON writes it, without an exponent; the nearest `f64`.
    #[inline(always)]
    pub(super) fn json_decimal(&mut self) -> Option<f64> {
        let negative = self.has(b"-");
        let whole = self.json_short()?;
        self.tag(b".")?;
        let (fraction, places) = self.digits()?;
        if matches!(self.peek(), b'e' | b'E') {
            return None;
        }
        let power = *POWERS.get(places)?;
        let digits = whole.checked_mul(power)?.checked_add(fraction)?;
        let value = quotient(digits, power);
        Some(if negative { -value } else { value })
    }

    /// The line's end, read over.
    #[inline(always)]
    pub(super) fn line_end(&mut self) -> Option<usize> {
        self.has(b"\r");
        self.tag(b"\n")?;
        Some(self.at())
    }
}

/// Whether two texts are the same. Of odd lengths the first and the last word are compared, which may overlap, where the
/// compiler would look at the rest by halves.
#[inline(always)]
fn same<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    let differ = |a: Option<&[u8; 8]>, b: Option<&[u8; 8]>| match (a, b) {
        (Some(a), Some(b)) => u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b),
        _ => 1,
    };
    let differ_by_half = |a: Option<&[u8; 4]>, b: Option<&[u8; 4]>| match (a, b) {
        (Some(a), Some(b)) => u32::from_le_bytes(*a) ^ u32::from_le_bytes(*b),
        _ => 1,
    };
    match N {
        5..=7 => differ_by_half(a.first_chunk(), b.first_chunk()) | differ_by_half(a.last_chunk(), b.last_chunk()) == 0,
        9..=15 => differ(a.first_chunk(), b.first_chunk()) | differ(a.last_chunk(), b.last_chunk()) == 0,
        _ => a == b,
    }
}

/// The `f64` that is nearest to `value / power`, of two the even one; `power` is one of ten, up to 10^19.
#[inline(always)]
fn quotient(value: u64, power: u64) -> f64 {
    if value < 1 << 53 {
        // Both are exact, and the division rounds once. (Of 10^19 only the factor 5^19 has to fit into 53 bits.)
        return value as i64 as f64 / power as f64;
    }
    // Both shifted to their full width: a quotient of 63 or 64 bits, of which 53 will be kept. What is left over decides
    // ties, and so does any bit below those.
    let (up, down) = (value.leading_zeros(), power.leading_zeros());
    let (high, divisor) = (u128::from(value << up) << 63, u128::from(power << down));
    let quotient = (high / divisor) as u64;
    let exact = high == u128::from(quotient) * divisor;
    (quotient | u64::from(!exact)) as f64 * f64::from_bits(u64::from(1023 - 63 + down - up) << 52)
}

/// The number that the digits at the beginning of eight bytes make, and how many they are.
#[inline(always)]
fn eight(bytes: [u8; 8]) -> (u64, usize) {
    // Digits become 0 to 9. What is above that gets its highest bit set; a carry out of such a byte spoils only those
    // behind it, and the first is what counts.
    let values = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    // The first digit is the lowest byte: shifted up, zeros lead. In two steps, for none may be left.
    let digits = if count == 8 { values } else { values << 8 << (56 - 8 * count) };
    // Pairs, then fours, then all of them.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let low = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (high.wrapping_add(low) >> 32, count as usize)
}

/// The same of hexadecimal digits.
#[inline(always)]
fn eight_nibbles(bytes: [u8; 8]) -> (u64, usize) {
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    let word = u64::from_le_bytes(bytes);
    // As above for 0 to 9; letters of either case become 1 to 6. Each sets its highest bit where it is none.
    let (digits, letters) = (word ^ each(0x30), (word | each(0x20)) ^ each(0x60));
    let no_digit = digits.wrapping_add(each(0x76)) | digits;
    let no_letter = letters.wrapping_add(each(0x79)) | !letters.wrapping_add(each(0x7f)) | letters;
    let count = (no_digit & no_letter & each(0x80)).trailing_zeros() / 8;
    let values = (word & each(0x0f)).wrapping_add((word >> 6 & each(1)).wrapping_mul(9));
    let nibbles = if count == 8 { values } else { values << 8 << (56 - 8 * count) };
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    ((fours << 16 | fours >> 32) & 0xffff_ffff, count as usize)
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

/// 10^0 to 10^19.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
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
            let mut known = Near::default();
            let shorter = value % 10u64.pow(1 + (value % 19) as u32);
            // Far, then near.
            for value in [shorter, shorter, shorter ^ 1, shorter / 10, shorter ^ 7 << 33, shorter] {
                let text = format!("{value},\"pid\":1");
                let mut cursor = Cursor::new(text.as_bytes());
                prop_assert_eq!(cursor.json_near(&mut known), Some(value));
                prop_assert_eq!(cursor.rest(), &b",\"pid\":1"[..]);
                for odd in [format!("0{value},\"pid\":1"), format!("x{value},\"pid\":1")] {
                    prop_assert_eq!(Cursor::new(odd.as_bytes()).json_near(&mut known), None);
                }
            }
            prop_assert_eq!(whole(&signed.to_string(), |c| c.json_signed()), Some(signed));
            prop_assert_eq!(whole(&format!("{value:#x}"), |c| c.address()), Some(value));
            let float = float % 1e6;
            let text = format!("{float:?}");
            if let Some((_, fraction)) = text.split_once('.').filter(|_| !text.contains('e')) {
                // More decimals than certainly fit are left alone.
                let read = (fraction.len() <= DIGITS).then_some(float);
                prop_assert_eq!(whole(&text, |c| c.json_decimal()), read);
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
        fn an_address_ends_at_the_first_byte_that_is_no_digit(digits in "[0-9a-fA-F]{0,18}", behind: [u8; 9], len in 0usize..10) {
            let line = [b"0x", digits.as_bytes(), &behind[..len]].concat();
            let text = String::from_utf8_lossy(&line[2..]);
            let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
            let mut cursor = Cursor::new(&line);
            let read = cursor.address();
            let fits = (1..=16).contains(&end);
            prop_assert_eq!(read, u64::from_str_radix(&text[..end], 16).ok().filter(|_| fits));
            prop_assert!(!fits || cursor.at() == 2 + end);
        }

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
    fn decimals_half_way_between_two_floats_go_to_the_even_one() {
        for text in [
            "9007199254740993.0",
            "9007199254740993.000",
            "9007199254740992.999",
            "9007199254740993.001",
            "9007199254740995.0",
            "4503599627370496.5",
            "4503599627370497.5",
            "4503599627370497.500",
            "1844674407370955161.5",
            "0.9999999999999999999",
            "0.0000000000000000001",
            "0.1000000000000000055",
        ] {
            assert_eq!(whole(text, |c| c.json_decimal()), text.parse().ok(), "{text}");
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
