//! Conversions, each once: megabytes as the course prints them, time stamps as RFC 3339.

use crate::buf::Buf;

/// Bytes of one MB as the course counts: 1024 × 1024.
pub const MB: u64 = 1 << 20;

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Tenths of a MB, rounded to the nearest and half to even, as C's `printf("%.1f", bytes / 1048576.0)` prints them.
pub const fn mb_tenths(bytes: u64) -> u64 {
    let tenths = bytes as u128 * 10;
    let (whole, rest) = (tenths / MB as u128, tenths % MB as u128);
    let half = MB as u128 / 2;
    let up = rest > half || (rest == half && whole % 2 == 1);
    (whole + up as u128) as u64
}

/// Appends `bytes` in MB with one decimal (`64.0`).
pub fn push_mb<const N: usize>(out: &mut Buf<N>, bytes: u64) {
    let tenths = mb_tenths(bytes);
    out.push_u64(tenths / 10);
    out.push_byte(b'.');
    out.push_u64(tenths % 10);
}

/// Appends `wall_ns` (since 1970 UTC) as `2026-11-30T07:42:11.123456789Z`. Years 0 to 9999; others are clamped.
///
/// The calendar is Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
pub fn push_rfc3339<const N: usize>(out: &mut Buf<N>, wall_ns: i64) {
    let secs = wall_ns.div_euclid(SECOND_NS as i64);
    let nanos = wall_ns.rem_euclid(SECOND_NS as i64) as u64;
    let days = secs.div_euclid(86_400) + 719_468;
    let of_day = secs.rem_euclid(86_400) as u64;
    let era = days.div_euclid(146_097);
    let doe = days.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u64;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u64;
    let year = yoe + era * 400 + i64::from(month <= 2);
    out.push_padded(year.clamp(0, 9999) as u64, 4);
    out.push_byte(b'-');
    out.push_padded(month, 2);
    out.push_byte(b'-');
    out.push_padded(day, 2);
    out.push_byte(b'T');
    out.push_padded(of_day / 3_600, 2);
    out.push_byte(b':');
    out.push_padded(of_day / 60 % 60, 2);
    out.push_byte(b':');
    out.push_padded(of_day % 60, 2);
    out.push_byte(b'.');
    out.push_padded(nanos, 9);
    out.push_byte(b'Z');
}

/// The second that was last written, as text: the next records of a batch mostly lie in the same.
#[derive(Clone, Debug, Default)]
pub struct SecondCache {
    text: Option<(i64, [u8; 20])>,
}

impl SecondCache {
    /// As [`push_rfc3339`].
    pub fn push_rfc3339<const N: usize>(&mut self, out: &mut Buf<N>, wall_ns: i64) {
        let second = wall_ns.div_euclid(SECOND_NS as i64);
        match &self.text {
            Some((of, text)) if *of == second => {
                out.push(text);
                out.push_padded(wall_ns.rem_euclid(SECOND_NS as i64) as u64, 9);
                out.push_byte(b'Z');
            }
            _ => {
                let from = out.len();
                push_rfc3339(out, wall_ns);
                let text = out.as_bytes().get(from..).and_then(|text| text.first_chunk());
                self.text = text.map(|text| (second, *text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(f: impl FnOnce(&mut Buf<64>)) -> String {
        let mut out = Buf::new();
        f(&mut out);
        String::from_utf8(out.as_bytes().to_vec()).expect("ASCII")
    }

    #[test]
    fn rounds_megabytes_as_printf_does() {
        assert_eq!(text(|o| push_mb(o, 0)), "0.0");
        assert_eq!(text(|o| push_mb(o, 67_108_864)), "64.0");
        assert_eq!(text(|o| push_mb(o, 52_428)), "0.0");
        assert_eq!(text(|o| push_mb(o, 52_429)), "0.1");
        // 0.25 and 0.75 MB are exact in binary, so printf rounds half to even.
        assert_eq!(text(|o| push_mb(o, 262_144)), "0.2");
        assert_eq!(text(|o| push_mb(o, 786_432)), "0.8");
        assert_eq!(text(|o| push_mb(o, u64::MAX)), "17592186044416.0");
    }

    proptest! {
        #[test]
        fn megabytes_equal_rusts_own_rounding(bytes in 0u64..(1 << 50)) {
            prop_assert_eq!(text(|o| push_mb(o, bytes)), format!("{:.1}", bytes as f64 / MB as f64));
        }

        #[test]
        fn time_stamps_equal_chronos(ns in -62_135_596_800_000_000_000i128 / 1000..i128::from(i64::MAX)) {
            let ns = ns as i64;
            let want = chrono::DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
            prop_assert_eq!(text(|o| push_rfc3339(o, ns)), want);
        }

        #[test]
        fn a_cached_second_changes_nothing(start: i64, steps in prop::collection::vec(0i64..700_000_000, 1..20)) {
            let (mut cache, mut ns) = (SecondCache::default(), start);
            for step in steps {
                ns = ns.saturating_add(step);
                prop_assert_eq!(text(|o| cache.push_rfc3339(o, ns)), text(|o| push_rfc3339(o, ns)));
            }
        }
    }
}
