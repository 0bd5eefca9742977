//! Whole lines put together for one `write`.

/// Lines that wait to be written. Made once; afterwards nothing here allocates.
pub(super) struct Chunk {
    text: Vec<u8>,
    lines: u64,
    /// Bytes of lines that go into one `write`.
    limit: usize,
}

/// What a chunk can hold.
const ROOM: usize = 64 << 10;

impl Chunk {
    /// An empty one; `None` when there is no memory.
    pub(super) fn new() -> Option<Chunk> {
        let mut text = Vec::new();
        text.try_reserve_exact(ROOM).ok()?;
        Some(Chunk { text, lines: 0, limit: ROOM })
    }

    /// Sets how much goes into one `write`.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.limit = bytes.min(ROOM);
    }

    /// Whether a line of so many bytes fits in; one that is too long for any chunk fits into an empty one.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.lines == 0 || self.text.len().saturating_add(bytes) <= self.limit
    }

    /// Appends a line that fits.
    pub(super) fn push(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.lines = self.lines.saturating_add(1);
    }

    /// The lines; `None` when there are none.
    pub(super) fn text(&self) -> Option<&[u8]> {
        (self.lines > 0).then_some(&self.text)
    }

    /// How many lines are not wholly within the first `written` bytes.
    pub(super) fn lines_after(&self, written: usize) -> u64 {
        let whole = self.text.iter().take(written).filter(|&&byte| byte == b'\n').count();
        self.lines.saturating_sub(u64::try_from(whole).unwrap_or(u64::MAX))
    }

    /// Forgets the lines.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_lines_that_a_short_write_left_out() {
        let mut chunk = Chunk::new().unwrap();
        assert_eq!(chunk.text(), None);
        for line in ["one\n", "two\n", "three\n"] {
            chunk.push(line.as_bytes());
        }
        assert_eq!(chunk.text(), Some(&b"one\ntwo\nthree\n"[..]));
        assert_eq!([0, 3, 4, 7, 8, 13, 14].map(|written| chunk.lines_after(written)), [3, 3, 2, 2, 1, 1, 0]);
        chunk.clear();
        assert_eq!(chunk.text(), None);
    }

    #[test]
    fn fills_up_to_its_limit() {
        let mut chunk = Chunk::new().unwrap();
        chunk.limit(8);
        assert!(chunk.fits(4000));
        chunk.push(b"one\n");
        assert!(chunk.fits(4) && !chunk.fits(5));
    }
}
