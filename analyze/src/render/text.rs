//! Numbers as people read them.

use hook_event::units::MB;

use super::Lang;
use crate::analysis::TimeBase;
use crate::classes::Classes;

/// Lines by class, with the first of each: `25 calls (from line 3), 2 banners (from line 1)`.
pub fn classes(classes: &Classes, lang: Lang) -> String {
    let one = |(class, count): (crate::classes::Class, crate::classes::Count)| {
        let (zh, en) = class.texts();
        let (lines, first) = (count.lines, count.first_line().unwrap_or(0));
        match lang {
            Lang::Zh => format!("{zh} {lines} (自第 {first} 行)"),
            Lang::En => format!("{lines} {en} (from line {first})"),
        }
    };
    classes.present().map(one).collect::<Vec<_>>().join(", ")
}

/// Bytes as MB (1024 × 1024) where that is exact to one decimal, else with two: `64 MB`, `0.5 MB`, `123.46 MB`.
pub fn mb(bytes: u64) -> String {
    let value = bytes as f64 / MB as f64;
    if bytes != 0 && value < 0.01 {
        return format!("{bytes} B");
    }
    let text = format!("{value:.2}");
    format!("{} MB", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A share, percent with one decimal; absent for a share of nothing.
pub fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1} %", part as f64 * 100.0 / whole as f64))
}

/// A level or a rate: at most three decimals, none that are zero.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Seconds with a unit that suits them.
pub fn seconds(value: f64) -> String {
    match value {
        0.0 => "0 s".to_owned(),
        v if v < 1e-3 => format!("{} µs", plain(v * 1e6)),
        v if v < 1.0 => format!("{} ms", plain(v * 1e3)),
        v => format!("{} s", plain(v)),
    }
}

/// What stands before a time that may have been longer, or that is inferred.
pub fn bound(lower_bound: bool, base: TimeBase) -> &'static str {
    match (lower_bound, base) {
        (true, _) => "≥",
        (false, TimeBase::Inferred) => "≈",
        _ => "",
    }
}

/// `(x,y,z)`.
pub fn dims([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

/// Control characters made visible, so that a name from a log can't move the cursor or open a tag of a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(mb(0), "0 MB");
        assert_eq!(mb(64 << 20), "64 MB");
        assert_eq!(mb(1 << 19), "0.5 MB");
        assert_eq!(mb(500), "500 B");
        assert_eq!(mb(129_457_193), "123.46 MB");
        assert_eq!(percent(12, 18), Some("66.7 %".to_owned()));
        assert_eq!(percent(0, 0), None);
        assert_eq!(plain(5.0), "5");
        assert_eq!(plain(0.48125), "0.481");
        assert_eq!(plain(-0.0), "0");
        assert_eq!(seconds(0.6), "600 ms");
        assert_eq!(seconds(1.500_12), "1.5 s");
        assert_eq!(seconds(0.000_012), "12 µs");
    }
}
