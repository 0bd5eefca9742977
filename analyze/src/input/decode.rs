//! Bytes as they lie there → bytes of text: gzip and zstd are unpacked, UTF-16 becomes UTF-8. The first bytes decide.

use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use encoding_rs::{Decoder, Encoding, UTF_16BE, UTF_16LE};
use flate2::bufread::MultiGzDecoder;

use super::pieces::Pieces;
use crate::error::Error;

/// Bytes that tell one kind from another.
const HEAD: usize = 4;

/// Buffer between a packed file and its unpacker.
const PACKED: usize = 128 << 10;

/// The lines of `raw`.
///
/// # Errors
/// It can't be read, or is packed in a way that is not known here.
pub(super) fn open(path: &Path, mut raw: Box<dyn Read + Send>) -> Result<Pieces, Error> {
    let fail = |source| Error::Read { path: path.to_owned(), source };
    let foreign = |what, advice| Error::NotALog { path: path.to_owned(), what, advice };
    let head = head(&mut *raw).map_err(fail)?;
    let whole = Box::new(Cursor::new(head.clone()).chain(raw));
    let (unpacked, packing): (Box<dyn Read + Send>, _) = match head.as_slice() {
        [0x1f, 0x8b, 8, ..] => (Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED, whole))), Some("gzip")),
        // The second is a frame to be skipped, with which some packers begin.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            (Box::new(zstd::stream::read::Decoder::new(whole).map_err(fail)?), Some("zstd"))
        }
        [0xfd, b'7', b'z', b'X'] => return Err(foreign("xz data", "unpack it: `xz -dc FILE | hook-analyze -`")),
        [b'B', b'Z', b'h', _] => return Err(foreign("bzip2 data", "unpack it: `bzip2 -dc FILE | hook-analyze -`")),
        [b'P', b'K', 3, 4] => return Err(foreign("a zip archive", "unpack it: `unzip -p FILE | hook-analyze -`")),
        _ => (whole, None),
    };
    let mut text = Pieces::new(unpacked, packing);
    text.start().map_err(fail)?;
    Ok(text)
}

fn head(raw: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    raw.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The reader of a text whose first bytes are these: its byte-order mark is taken off, UTF-16 is decoded.
pub(super) fn text(head: &[u8], rest: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
    match Encoding::for_bom(head) {
        Some((encoding, mark)) => {
            let rest = Cursor::new(head.get(mark..).unwrap_or(&[]).to_vec()).chain(rest);
            if encoding == UTF_16LE || encoding == UTF_16BE {
                Box::new(Transcoded {
                    from: rest,
                    decoder: encoding.new_decoder_without_bom_handling(),
                    raw: vec![0; PACKED],
                    text: Vec::new(),
                    len: 0,
                    given: 0,
                    ended: false,
                })
            } else {
                Box::new(rest)
            }
        }
        None if head.is_empty() => rest,
        None => Box::new(Cursor::new(head.to_vec()).chain(rest)),
    }
}

/// UTF-16 → UTF-8; what is no text becomes U+FFFD.
struct Transcoded<R> {
    from: R,
    decoder: Decoder,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// How much of it is text.
    len: usize,
    given: usize,
    ended: bool,
}

impl<R: Read> Read for Transcoded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.given == self.len && !self.ended {
            let n = match self.from.read(&mut self.raw) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            self.ended = n == 0;
            let room = self.decoder.max_utf8_buffer_length(n).unwrap_or(4 * n + 16);
            if self.text.len() < room {
                self.text = vec![0; room];
            }
            // The room is what the decoder asked for: one call takes everything.
            let (_, _, written, _) =
                self.decoder.decode_to_utf8(self.raw.get(..n).unwrap_or(&[]), &mut self.text, self.ended);
            (self.given, self.len) = (0, written);
        }
        let text = self.text.get(self.given..self.len).unwrap_or(&[]);
        let n = text.len().min(buf.len());
        buf[..n].copy_from_slice(&text[..n]);
        self.given += n;
        Ok(n)
    }
}
