//! Bytes as they lie in a file → pieces of whole lines, of bounded size; the same however a text is packed.
//!
//! The first byte says what the others are: a file as it is, or a text, and how often it is repeated.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hook_analyze::input::Input;
use hook_analyze::input::pieces::{LIMIT, Piece};

use super::scratch;

/// Most that is read of an input: a few bytes may unpack to gigabytes.
const MOST: usize = 8 << 20;

/// What is made of a text where lines too long to be looked into are wanted.
const LONG: usize = LIMIT + BESIDE / 2;

/// Bytes that a piece may hold beside its longest line.
const BESIDE: usize = 1 << 20;

/// What is kept of a line that is too long.
const KEPT: usize = 4096;

pub(crate) fn target(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    if how == 0 {
        let _ = read(rest);
        return;
    }
    // A line too long to be looked into takes a thousand times as long as another.
    let times = if how < 0xff { 1 << (how % 8) } else { LONG / rest.len().max(1) };
    let text = rest.repeat(times);
    let unpacked = read(&gzip(&text)).expect("gzip is unpacked");
    let mut others = vec![("zstd", read(&zstd::encode_all(&*text, 1).unwrap()))];
    // What looks packed itself is not the text.
    if !matches!(rest, [0x1f, 0x8b, ..] | [_, _, 0x2f | 0x4d, ..] | [0xfd | b'B' | b'P', ..]) {
        others.push(("as it is", read(&text)));
    }
    if let Ok(text) = std::str::from_utf8(&text)
        && !text.starts_with('\u{feff}')
    {
        let utf16 = std::iter::once(0xfeff).chain(text.encode_utf16());
        others.push(("UTF-16", read(&utf16.flat_map(u16::to_be_bytes).collect::<Vec<u8>>())));
    }
    // Zeros in a line that is too long with them go as soon as that is seen, in others later.
    let without_zeros = |text: &[u8]| text.iter().copied().filter(|&byte| byte != 0).collect::<Vec<u8>>();
    let unpacked = without_zeros(&unpacked);
    for (what, other) in others {
        let other = without_zeros(&other.expect(what));
        let first = other.iter().zip(&unpacked).position(|(a, b)| a != b);
        assert_eq!((other.len(), first), (unpacked.len(), None), "gzip and {what}");
    }
    let lines = text.split(|&byte| byte == b'\n');
    let plain = !matches!(text[..], [0xef, 0xbb, 0xbf, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
        && (!text.contains(&b'\r') || text[..text.len().min(1000)].contains(&b'\n'));
    if plain && lines.map(<[u8]>::len).max() <= Some(LIMIT) {
        assert!(unpacked == without_zeros(&text), "what needs no change is left as it is");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

/// The lines of a file with these bytes, if it is a text; each piece is whole and bounded.
fn read(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut pieces = Input::open(&scratch::file(0, bytes)).unwrap().pieces().ok()?;
    let (mut piece, mut text, mut ended) = (Piece::default(), Vec::new(), false);
    while text.len() < MOST && pieces.next(&mut piece).unwrap() {
        let bytes = piece.bytes();
        assert!(!ended, "nothing comes behind an end");
        assert!(!bytes.is_empty() && bytes.len() <= LIMIT + BESIDE, "{} bytes", bytes.len());
        assert_eq!(piece.unended, !bytes.ends_with(b"\n"), "whole lines, but at the end");
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let from = line.as_ptr() as usize - bytes.as_ptr() as usize;
            let most = if piece.oversized.contains(&from) { KEPT } else { LIMIT };
            assert!(line.len() <= most + 1, "a line of {} bytes", line.len());
        }
        for &from in &piece.oversized {
            assert!(from == 0 || bytes[from - 1] == b'\n', "a line begins where an overlong one does");
        }
        ended = piece.unended;
        text.extend_from_slice(bytes);
    }
    let _ = pieces.remark("it");
    Some(text)
}
