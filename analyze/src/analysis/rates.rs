//! How many launches asked for a token and got one: in a second, and at most in any window.

use std::collections::VecDeque;

use super::packed::packed;

use serde::Serialize;

/// Launches against their rate. Launches that need no token are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Asked for a second, from the first launch to the last.
    pub offered_per_s: f64,
    /// Let through a second, those that CUDA refused included.
    pub admitted_per_s: f64,
    /// Tokens a second.
    pub configured_per_s: f64,
    /// In what time the bucket fills: capacity / rate, s.
    pub window_s: f64,
    /// Most let through in any window of that length. `None` where times are stamps before lines, which are not exact
    /// enough, and where more than 4096 passed in one window.
    pub window_admitted: Option<u64>,
    /// What capacity and rate allow in it: twice the capacity.
    pub window_allowed: f64,
}

/// Passes of one window that are kept.
const RECENT: usize = 4096;

/// The launches so far of a process whose records tell every moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The first and the last, ns.
    span: Option<(u64, u64)>,
    offered: u64,
    admitted: u64,
    /// Those let through in the window that ends with the last.
    recent: VecDeque<u64>,
    most: usize,
    crowded: bool,
}

packed!(Tally { span, offered, admitted, recent, most, crowded });

impl Tally {
    /// Takes a launch in that needs a token from a bucket that fills in so many ns.
    #[inline]
    pub(super) fn step(&mut self, now: u64, passed: bool, window_ns: f64) {
        self.span = Some(self.span.map_or((now, now), |(first, _)| (first, now)));
        self.offered += 1;
        if !passed {
            return;
        }
        self.admitted += 1;
        // Both ends belong to it: that many may a full bucket and its refill give.
        let begin = now as f64 - window_ns;
        while self.recent.front().is_some_and(|&at| (at as f64) < begin) {
            self.recent.pop_front();
        }
        if self.recent.len() == RECENT {
            self.crowded = true;
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.most = self.most.max(self.recent.len());
    }

    /// Gives back memory that is not in use.
    pub(super) fn rest(&mut self) {
        self.recent.shrink_to_fit();
    }

    /// The figures; `None` where no time has passed.
    pub(super) fn rates(&self, bucket: (f64, f64)) -> Option<Rates> {
        let (first, last) = self.span?;
        let seconds = last.saturating_sub(first) as f64 / 1e9;
        let most = (!self.crowded).then_some(self.most as u64);
        Rates::new(self.offered, self.admitted, seconds, bucket, most)
    }
}

impl Rates {
    /// Of so many launches in this time; `None` where no time has passed.
    pub(super) fn new(
        offered: u64,
        admitted: u64,
        seconds: f64,
        (rate, capacity): (f64, f64),
        window_admitted: Option<u64>,
    ) -> Option<Rates> {
        (seconds > 0.0).then(|| Rates {
            offered_per_s: offered as f64 / seconds,
            admitted_per_s: admitted as f64 / seconds,
            configured_per_s: rate,
            window_s: capacity / rate,
            window_admitted,
            window_allowed: 2.0 * capacity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_is_found_wherever_it_begins() {
        const MS: u64 = 1_000_000;
        let mut tally = Tally::default();
        assert_eq!(tally.rates((5.0, 3.0)), None);
        // A window of 600 ms; fixed ones would part the four.
        for (at, passed) in [(0, true), (500, true), (550, true), (620, false), (700, true), (1100, true), (2000, true)]
        {
            tally.step(at * MS, passed, 600.0 * MS as f64);
        }
        let rates = tally.rates((5.0, 3.0)).unwrap();
        assert_eq!((rates.offered_per_s, rates.admitted_per_s), (3.5, 3.0));
        assert_eq!((rates.window_s, rates.window_admitted, rates.window_allowed), (0.6, Some(4), 6.0));
    }

    #[test]
    fn a_window_with_more_than_can_be_kept_is_not_counted() {
        let mut tally = Tally::default();
        (0..=RECENT as u64).for_each(|at| tally.step(at, true, 1e9));
        assert_eq!(tally.rates((1.0, 1.0)).unwrap().window_admitted, None);
    }
}
