//! Bytes → lines of text: CRLF, colour codes and bytes that are no UTF-8 don't matter from here on.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// ANSI control sequences: CSI (colours, cursor) and OSC (titles, links).
#[allow(clippy::unwrap_used)] // a constant, compiled by every test
static CONTROL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))").unwrap());

/// The lines of `bytes`, numbered from 1. A last line without a line feed counts; an empty file has none.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let parts = (!bytes.is_empty()).then(|| whole.split(|&b| b == b'\n'));
    parts.into_iter().flatten().zip(1..).map(|(line, number)| (number, clean(line)))
}

fn clean(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    if !text.contains('\x1b') {
        return text;
    }
    Cow::Owned(CONTROL.replace_all(&text, "").into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u64, String)> {
        lines(bytes).map(|(number, line)| (number, line.into_owned())).collect()
    }

    #[test]
    fn line_ends_marks_and_colours_disappear() {
        let bytes = b"\xef\xbb\xbfone\r\n\x1b[31mtwo\x1b[0m\n\nfour \xff";
        let want = [(1, "one"), (2, "two"), (3, ""), (4, "four \u{fffd}")];
        assert_eq!(all(bytes), want.map(|(n, text)| (n, text.to_owned())));
    }

    #[test]
    fn an_empty_file_has_no_line_and_a_line_feed_makes_one() {
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\n"), [(1, String::new())]);
        assert_eq!(all(b"a"), all(b"a\n"));
    }
}
