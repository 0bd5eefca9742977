//! A line's bytes → text: carriage returns, colour codes, zeros and encodings don't matter from here on.

use std::borrow::Cow;
use std::sync::LazyLock;

use encoding_rs::GBK;
use memchr::memchr;
use regex::Regex;

/// What terminals are told in escape sequences: CSI (colours, cursor), OSC (titles, links) and the other strings, and
/// those of one letter, before which may stand what they are about: `tput sgr0` chooses a character set beside the colour.
#[allow(clippy::unwrap_used)] // a constant, compiled by every test
static CONTROL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])",
    )
    .unwrap()
});

/// The text of a line without its line feed. Bytes that are no UTF-8 are read as GBK where all of them are, else they
/// become U+FFFD.
pub(super) fn clean(line: &[u8]) -> Cow<'_, str> {
    let text = match without_zeros(line.strip_suffix(b"\r").unwrap_or(line)) {
        Cow::Borrowed(line) => decoded(line),
        Cow::Owned(line) => Cow::Owned(decoded(&line).into_owned()),
    };
    if memchr(b'\x1b', text.as_bytes()).is_none() {
        return text;
    }
    match CONTROL.replace_all(&text, "") {
        Cow::Owned(plain) => Cow::Owned(plain),
        Cow::Borrowed(_) => text,
    }
}

fn decoded(line: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => GBK
            .decode_without_bom_handling_and_without_replacement(line)
            .unwrap_or_else(|| String::from_utf8_lossy(line)),
    }
}

/// Zeros are what a sparse or truncated file shows where nothing was written. They go before the bytes are decoded: no
/// character has one in it, and they may stand in the middle of one.
fn without_zeros(line: &[u8]) -> Cow<'_, [u8]> {
    match memchr(0, line) {
        Some(_) => line.iter().copied().filter(|&byte| byte != 0).collect(),
        None => Cow::Borrowed(line),
    }
}

/// Whether bytes of a line are neither UTF-8 nor GBK.
pub(super) fn is_undecodable(line: &[u8]) -> bool {
    let line = without_zeros(line);
    let gbk = || GBK.decode_without_bom_handling_and_without_replacement(&line).is_some();
    std::str::from_utf8(&line).is_err() && !gbk()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_zeros_and_colours_disappear() {
        assert_eq!(clean(b"one\r"), "one");
        assert_eq!(clean(b"\x1b[31mtwo\x1b[0m"), "two");
        assert_eq!(clean(b"\0\0three\0"), "three");
        // Within a character.
        for (text, bytes) in [("显存", &b"\xe6\0\0\x98\xbe\xe5\xad\0\x98"[..]), ("显存", b"\xcf\0\xd4\xb4\0\xe6")] {
            assert_eq!(clean(bytes), text);
            assert!(!is_undecodable(bytes));
        }
        // `tput sgr0`, a cursor that is kept, a title, a string for the terminal multiplexer.
        for sequence in
            ["\x1b(B\x1b[m", "\x1b7\x1b8", "\x1b]0;title\x07", "\x1b]8;;u\x1b\\", "\x1bPtmux;x\x1b\\", "\x1bM"]
        {
            assert_eq!(clean(format!("{sequence}fo{sequence}ur{sequence}").as_bytes()), "four", "{sequence:?}");
        }
    }

    #[test]
    fn gbk_is_told_from_bytes_that_are_no_text() {
        assert_eq!(clean(b"[HOOK] \xcf\xd4\xb4\xe6\xc5\xe4\xb6\xee: "), "[HOOK] 显存配额: ");
        assert_eq!(clean(b"four \xff"), "four \u{fffd}");
        assert_eq!(clean("显存".as_bytes()), "显存");
    }
}
