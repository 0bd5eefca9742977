//! How a figure went, in a fixed number of cells however many calls there are: each cell covers as many calls as the
//! others and keeps their extreme, so that a minimum (or a maximum) survives.

use super::packed::packed;

/// Cells at most; at least half of them are in use once there were as many calls.
pub const CELLS: usize = 64;

/// The extremes of successive values.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    cells: Vec<f64>,
    /// Values that a cell covers; a power of two.
    span: u64,
    /// Values in the last cell; as many as fit before there is one.
    filled: u64,
    highest: bool,
}

packed!(Trend { cells, span, filled, highest });

impl Trend {
    /// Of the lowest values.
    pub fn lowest() -> Trend {
        Trend { cells: Vec::new(), span: 1, filled: 1, highest: false }
    }

    /// Of the highest values.
    pub fn highest() -> Trend {
        Trend { highest: true, ..Trend::lowest() }
    }

    /// Takes a value in.
    #[inline(always)]
    pub fn add(&mut self, value: f64) {
        if self.filled == self.span {
            self.begin(value);
            return;
        }
        self.filled += 1;
        if let Some(last) = self.cells.last_mut()
            && (value < *last) != self.highest
        {
            *last = value;
        }
    }

    /// Takes the same value in so many times.
    pub(super) fn repeat(&mut self, value: f64, mut times: u64) {
        while times > 0 {
            self.add(value);
            // As often as it then still goes into the same cell, that changes nothing more.
            let more = (times - 1).min(self.span - self.filled);
            self.filled += more;
            times -= more + 1;
        }
    }

    /// Takes the value of each in, in order.
    pub(super) fn extend<T>(&mut self, mut all: &[T], value: impl Fn(&T) -> f64) {
        while let [first, rest @ ..] = all {
            self.add(value(first));
            let more = (rest.len() as u64).min(self.span - self.filled);
            let (same_cell, rest) = rest.split_at(more as usize);
            self.filled += more;
            if let Some(last) = self.cells.last_mut() {
                let extreme = |one: f64, other: f64| if (other < one) != self.highest { other } else { one };
                *last = same_cell.iter().map(&value).fold(*last, extreme);
            }
            all = rest;
        }
    }

    #[cold]
    fn begin(&mut self, value: f64) {
        if self.cells.len() == CELLS {
            let highest = self.highest;
            let extreme = |pair: &[f64]| {
                let pair = pair.iter().copied();
                if highest { pair.reduce(f64::max) } else { pair.reduce(f64::min) }.unwrap_or(0.0)
            };
            self.cells = self.cells.chunks(2).map(extreme).collect();
            self.span *= 2;
        }
        self.cells.push(value);
        self.filled = 1;
    }

    /// The cells, in order.
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// Values that each cell covers; the last one may cover fewer.
    pub fn span(&self) -> u64 {
        self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_keeps_the_extreme_of_as_many_values() {
        for count in [1, 2, 63, 64, 65, 127, 128, 129, 1000, 4097, 100_000] {
            // No order that a wrong place would not show in.
            let values: Vec<f64> = (0..count).map(|i: u64| (i.wrapping_mul(0x9e37_79b9) % 10_007) as f64).collect();
            let (mut low, mut high) = (Trend::lowest(), Trend::highest());
            values.iter().for_each(|&value| {
                low.add(value);
                high.add(value);
            });
            let span = low.span() as usize;
            assert!(low.cells().len() <= CELLS && (count < 64 || low.cells().len() > CELLS / 2), "{count}");
            let lows: Vec<f64> =
                values.chunks(span).map(|part| part.iter().copied().fold(f64::MAX, f64::min)).collect();
            let highs: Vec<f64> =
                values.chunks(span).map(|part| part.iter().copied().fold(f64::MIN, f64::max)).collect();
            assert_eq!((low.cells(), high.cells()), (&lows[..], &highs[..]), "{count}");
        }
    }
}
