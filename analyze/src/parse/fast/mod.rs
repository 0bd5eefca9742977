//! The fast readers: the hook's own lines and records, exactly as it writes them, straight from bytes.
//!
//! Each gives what the obvious reader of the form gives, or nothing: whatever is not exactly of a form known here is the
//! obvious reader's. So speed decides nothing; the tests hold both equal.

#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used)] // a failed comparison is a panic
pub(super) mod alike;
pub(super) mod course;
pub(super) mod json;

/// What launch follows which two: a program goes through the same launches again and again.
struct Order {
    next: Vec<u16>,
    last: usize,
    before: usize,
}

/// Pairs told apart.
const PAIRS: usize = 4096;

impl Default for Order {
    fn default() -> Self {
        Order { next: vec![0; PAIRS], last: 0, before: 0 }
    }
}

impl Order {
    /// The one that followed last time.
    #[inline(always)]
    fn expected(&self) -> usize {
        self.next[self.pair()].into()
    }

    /// This one follows now.
    #[inline(always)]
    fn comes(&mut self, place: usize) {
        let pair = self.pair();
        self.next[pair] = place as u16;
        (self.before, self.last) = (self.last, place);
    }

    #[inline(always)]
    fn pair(&self) -> usize {
        (self.last * 61 + self.before) % PAIRS
    }
}

#[cfg(test)]
mod tests;
