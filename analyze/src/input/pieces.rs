//! A stream of text → pieces of whole lines, so that whatever its size little of it is in memory at a time.
//!
//! A line ends at a line feed. Where the first 64 KiB (or the whole input) hold none, but carriage returns, those end
//! the lines. A line longer than [`LIMIT`] is cut to its beginning and marked.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memchr2, memrchr};

use super::decode;
use crate::events::Note;

/// Bytes asked for at a time: small enough for a core's cache with what is made of it, large enough that a system call
/// and two locks don't count.
const PIECE: usize = 256 << 10;

/// The longest line that is looked into, bytes.
pub const LIMIT: usize = 1 << 20;

/// What is kept of a longer one.
const KEPT: usize = 4096;

/// How much must lack a line feed before carriage returns are taken for line ends.
const NO_LINE_FEED: usize = 64 << 10;

/// Whole lines.
#[derive(Default)]
pub struct Piece {
    buffer: Vec<u8>,
    len: usize,
    /// Where the lines begin that were cut for their length.
    pub oversized: Vec<usize>,
    /// The last line has no line feed: it is the input's end, perhaps in the middle of a line.
    pub unended: bool,
}

impl Piece {
    /// The lines.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&[])
    }

    fn clear(&mut self) {
        self.len = 0;
        self.oversized.clear();
        self.unended = false;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn make_room(&mut self, room: usize) {
        if self.buffer.is_empty() {
            // Zeros of the system's own, which cost nothing where they are not touched.
            self.buffer = vec![0; room];
        } else if self.buffer.len() < self.len + room {
            self.buffer.resize(self.len + room, 0);
        }
    }

    /// Keeps the beginning of the first `line` bytes, which are an overlong line's, and what lies behind them.
    fn shorten(&mut self, line: usize) {
        let kept = KEPT.min(line);
        self.buffer.copy_within(line..self.len, kept);
        self.len -= line - kept;
        self.oversized.push(0);
    }
}

/// The pieces of an input.
pub struct Pieces {
    reader: Box<dyn Read + Send>,
    packing: Option<&'static str>,
    /// The beginning of a line whose end was not read yet.
    carry: Vec<u8>,
    read: u64,
    /// How much may be read.
    most: u64,
    ended: bool,
    /// Why unpacking stopped early.
    damage: Option<io::Error>,
    /// Carriage returns end the lines; not known before enough was seen.
    returns: Option<bool>,
}

impl Pieces {
    pub(super) fn new(reader: Box<dyn Read + Send>, packing: Option<&'static str>) -> Pieces {
        Pieces {
            reader,
            packing,
            carry: Vec::new(),
            read: 0,
            most: u64::MAX,
            ended: false,
            damage: None,
            returns: None,
        }
    }

    /// Whether the input is packed, so that its size says little.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    /// Makes more than so many bytes of text an error.
    pub(crate) fn at_most(&mut self, bytes: u64) {
        self.most = bytes;
    }

    /// Whether unpacking stopped before the end.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Looks for a byte-order mark.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let mut head = [0; 3];
        let mut len = 0;
        while len < head.len() && !self.ended {
            len += self.fill(&mut head[len..])?;
        }
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = decode::text(&head[..len], rest);
        (self.ended, self.read) = (false, 0);
        Ok(())
    }

    /// Reads something; 0 is the end. A packed input that is damaged ends there.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Ok(n) => {
                    self.read += n as u64;
                    self.ended = n == 0;
                    if self.read > self.most {
                        let why = format!("it holds more than {} MB of text", self.most >> 20);
                        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
                    }
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The system's own errors have a number, an unpacker's have none.
                Err(error) if self.packing.is_some() && error.raw_os_error().is_none() => {
                    self.damage = Some(error);
                    self.reader = Box::new(io::empty());
                    self.ended = true;
                    return Ok(0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts the next lines into `piece`. `false`: there are none.
    ///
    /// # Errors
    /// The input can't be read.
    pub fn next(&mut self, piece: &mut Piece) -> io::Result<bool> {
        piece.clear();
        piece.push(&std::mem::take(&mut self.carry));
        let mut looked = 0;
        loop {
            if !self.ended {
                piece.make_room(PIECE);
                let from = piece.len;
                piece.len += self.fill(&mut piece.buffer[from..from + PIECE])?;
            }
            if self.translate(piece) {
                // What was looked through without these line ends has them now.
                looked = 0;
            }
            if let Some(last) = memrchr(b'\n', &piece.bytes()[looked..]).map(|at| looked + at) {
                self.carry.extend_from_slice(&piece.bytes()[last + 1..]);
                piece.len = last + 1;
                // Only the first line can be older than this read, and so that long.
                let first = |piece: &Piece| memchr(b'\n', piece.bytes()).unwrap_or(0);
                if first(piece) > LIMIT {
                    drop_zeros(piece);
                }
                if first(piece) > LIMIT {
                    piece.shorten(first(piece));
                }
                return Ok(true);
            }
            if self.ended {
                piece.unended = piece.len > 0;
                if piece.len > LIMIT {
                    piece.shorten(piece.len);
                }
                return Ok(piece.len > 0);
            }
            looked = piece.len;
            if piece.len > LIMIT {
                drop_zeros(piece);
                looked = piece.len;
                if piece.len > LIMIT {
                    piece.shorten(piece.len);
                    self.skip_line(piece)?;
                    return Ok(true);
                }
            }
        }
    }

    /// Reads on to the end of an overlong line.
    fn skip_line(&mut self, piece: &mut Piece) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        loop {
            let n = self.fill(&mut buffer)?;
            if n == 0 {
                piece.unended = true;
                return Ok(());
            }
            let other = if self.returns == Some(true) { b'\r' } else { b'\n' };
            if let Some(at) = memchr2(b'\n', other, &buffer[..n]) {
                piece.push(b"\n");
                self.carry.extend_from_slice(&buffer[at + 1..n]);
                return Ok(());
            }
        }
    }

    /// Carriage returns → line feeds, where there are no line feeds. Whether that has begun with this.
    fn translate(&mut self, piece: &mut Piece) -> bool {
        let known = self.returns;
        let returns = match known {
            Some(known) => known,
            None => {
                let head = &piece.bytes()[..piece.len.min(NO_LINE_FEED)];
                let feeds = memchr(b'\n', head).is_some();
                if !feeds && !self.ended && head.len() < NO_LINE_FEED {
                    return false;
                }
                *self.returns.insert(!feeds && memchr(b'\r', head).is_some())
            }
        };
        if returns {
            let len = piece.len;
            piece.buffer[..len].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        returns && known.is_none()
    }

    /// What is to be said of the input once it is read: that it was damaged, and where.
    pub fn remark(&self, name: &str) -> Option<Note> {
        let (packing, damage) = self.packing.zip(self.damage.as_ref())?;
        let read = self.read;
        let cut = damage.kind() == ErrorKind::UnexpectedEof;
        let (en, zh) = if cut { ("is cut off", "不完整") } else { ("is damaged", "已损坏") };
        Some(Note::new(
            format!("{name}: the {packing} data {en} after {read} unpacked bytes; what could be read is analysed"),
            format!("{name}: {packing} 数据在解出 {read} 字节后{zh}; 只分析能读出的部分"),
        ))
    }
}

/// A sparse file, or one that was emptied while its writer went on, has many of them before a line.
fn drop_zeros(piece: &mut Piece) {
    let mut kept = 0;
    for at in 0..piece.len {
        if piece.buffer[at] != 0 {
            piece.buffer[kept] = piece.buffer[at];
            kept += 1;
        }
    }
    piece.len = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its parts one by one, as a pipe does.
    struct Parts(Vec<Vec<u8>>);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(part) = self.0.first_mut() else { return Ok(0) };
            let n = part.len().min(buffer.len());
            buffer[..n].copy_from_slice(&part[..n]);
            part.drain(..n);
            if part.is_empty() {
                self.0.remove(0);
            }
            Ok(n)
        }
    }

    /// The lines of an input that comes in these parts, each with whether it was cut for its length.
    fn lines(parts: &[Vec<u8>]) -> (Vec<(usize, bool)>, bool) {
        let mut pieces = Pieces::new(Box::new(Parts(parts.to_vec())), None);
        let (mut piece, mut lines, mut unended) = (Piece::default(), Vec::new(), false);
        while pieces.next(&mut piece).unwrap() {
            let mut from = 0;
            for line in piece.bytes().split_inclusive(|&byte| byte == b'\n') {
                lines.push((line.len(), piece.oversized.contains(&from)));
                from += line.len();
            }
            unended = piece.unended;
        }
        (lines, unended)
    }

    #[test]
    fn lines_that_carriage_returns_end_are_whole_in_whatever_parts_they_come() {
        // Before it is known that they end lines, there may have been many of them.
        let begin = b"one\rtwo\r".to_vec();
        assert_eq!(lines(std::slice::from_ref(&begin)), (vec![(4, false); 2], false));
        assert_eq!(lines(&[begin.clone(), b"three".to_vec()]), (vec![(4, false), (4, false), (5, false)], true));
        let long = vec![b'x'; LIMIT + 1];
        assert_eq!(lines(&[begin, long]), (vec![(4, false), (4, false), (KEPT, true)], true));
    }
}
