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
        if self.buffer.len() < self.len + room {
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
    ended: bool,
    /// Why unpacking stopped early.
    damage: Option<io::Error>,
    /// Carriage returns end the lines; not known before enough was seen.
    returns: Option<bool>,
}

impl Pieces {
    pub(super) fn new(reader: Box<dyn Read + Send>, packing: Option<&'static str>) -> Pieces {
        Pieces { reader, packing, carry: Vec::new(), read: 0, ended: false, damage: None, returns: None }
    }

    /// Whether the input is packed, so that its size says little.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
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
            self.translate(piece);
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

    /// Carriage returns → line feeds, where there are no line feeds.
    fn translate(&mut self, piece: &mut Piece) {
        let returns = match self.returns {
            Some(known) => known,
            None => {
                let head = &piece.bytes()[..piece.len.min(NO_LINE_FEED)];
                let feeds = memchr(b'\n', head).is_some();
                if !feeds && !self.ended && head.len() < NO_LINE_FEED {
                    return;
                }
                *self.returns.insert(!feeds && memchr(b'\r', head).is_some())
            }
        };
        if returns {
            let len = piece.len;
            piece.buffer[..len].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
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
