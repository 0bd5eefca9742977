//! The token bucket as the course and the hook's settings define it, for questions about it: exact in time, and written
//! without a look at the hook's own.
//!
//! A bucket of `capacity` tokens gains `rate` tokens a second, up to the capacity, and begins full. A launch takes a whole
//! token or is refused (Turner, "New directions in communications", IEEE Communications Magazine 24(10), 1986). The
//! time of one token is held in 2^-32 ns, so that a million passes are off by less than a nanosecond.

/// Time of one token and of a full bucket at `rate` and `capacity`, and what is left in it.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Time of one token, 2^-32 ns.
    token: i128,
    /// Time of a full bucket, 2^-32 ns.
    full: i128,
    /// Time that the tokens in it took to come, 2^-32 ns; less than zero while launches wait.
    filled: i128,
    /// Moment of that, ns.
    at_ns: u64,
}

const FRACTION: f64 = 4_294_967_296.0;

/// Longest time of a token and of a full bucket: far from where sums end.
const MOST: f64 = 1e37;

impl Bucket {
    /// A full bucket. `rate` (tokens/s) and `capacity` (tokens) are above zero.
    pub fn full(rate: f64, capacity: f64, at_ns: u64) -> Bucket {
        let token = (1e9 / rate * FRACTION).round().clamp(1.0, MOST);
        // Tokens as they are taken out, so that a full bucket of three gives three at one moment.
        let whole = (capacity as i128).saturating_mul(token as i128);
        let full = whole.saturating_add((capacity.fract() * token).round() as i128).min(MOST as i128);
        let token = token as i128;
        Bucket { token, full, filled: full, at_ns }
    }

    /// A bucket with so many tokens in it, between none and the capacity.
    pub fn holding(rate: f64, capacity: f64, tokens: f64, at_ns: u64) -> Bucket {
        let bucket = Bucket::full(rate, capacity, at_ns);
        let filled = (tokens * bucket.token as f64).round() as i128;
        Bucket { filled: filled.clamp(0, bucket.full), ..bucket }
    }

    /// Lets time pass until `at_ns`; a moment before the last one is the last one.
    pub fn refill(&mut self, at_ns: u64) {
        let passed = at_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(at_ns);
        self.filled = self.filled.saturating_add(i128::from(passed) << 32).min(self.full);
    }

    /// Takes a token at `at_ns` if a whole one is there.
    pub fn take(&mut self, at_ns: u64) -> bool {
        self.refill(at_ns);
        let there = self.filled >= self.token;
        if there {
            self.filled -= self.token;
        }
        there
    }

    /// Takes the next token after those that others wait for; tells when it is there, ns. `None` from a bucket that never
    /// holds a whole one.
    pub fn reserve(&mut self, at_ns: u64) -> Option<u64> {
        if self.full < self.token {
            return None;
        }
        self.refill(at_ns);
        self.filled = self.filled.saturating_sub(self.token);
        let wait = u64::try_from((-self.filled).max(0).saturating_add((1 << 32) - 1) >> 32).unwrap_or(u64::MAX);
        Some(self.at_ns.saturating_add(wait))
    }

    /// Tokens in it.
    pub fn level(&self) -> f64 {
        if self.filled >= self.full {
            return self.full as f64 / self.token as f64;
        }
        (self.filled.max(0)) as f64 / self.token as f64
    }

    /// Time until a whole token is there, ns, if nobody takes one before; 0 when there is one, `None` when there never is.
    pub fn due_in_ns(&self) -> Option<u64> {
        if self.full < self.token {
            return None;
        }
        let lacking = (self.token - self.filled).max(0);
        Some(u64::try_from(lacking.saturating_add((1 << 32) - 1) >> 32).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_full_bucket_gives_all_its_tokens_at_one_moment_whatever_the_rate() {
        for (rate, tokens) in (1..2000).flat_map(|rate| [2, 3, 7].map(|tokens| (rate, tokens))) {
            for capacity in [f64::from(tokens), f64::from(tokens) + 0.5] {
                let mut bucket = Bucket::full(f64::from(rate) * 1.7, capacity, S);
                assert_eq!((0..10).filter(|_| bucket.take(S)).count(), tokens as usize, "{rate} {capacity}");
            }
        }
    }

    #[test]
    fn the_labs_bucket() {
        let mut bucket = Bucket::full(5.0, 3.0, S);
        assert_eq!((0..10).filter(|_| bucket.take(S)).count(), 3);
        assert_eq!(bucket.due_in_ns(), Some(S / 5));
        assert!(!bucket.take(S + S / 5 - 1));
        assert!(bucket.take(S + S / 5));
        bucket.refill(9 * S);
        assert_eq!(bucket.level(), 3.0);
        let due = |tokens| Bucket::holding(5.0, 3.0, tokens, S).due_in_ns();
        assert_eq!([0.5, 1.0, 9.0, -1.0].map(due), [Some(S / 10), Some(0), Some(0), Some(S / 5)]);
    }

    #[test]
    fn a_million_passes_are_not_off_by_a_nanosecond() {
        // A third of a second is no whole number of nanoseconds.
        let mut bucket = Bucket::full(3.0, 2.0, 0);
        assert!(bucket.take(0) && bucket.take(0));
        for i in 1..=1_000_000u64 {
            assert!(!bucket.take((i * S).div_ceil(3) - 1), "token {i}");
            assert!(bucket.take((i * S).div_ceil(3)), "token {i}");
        }
    }

    #[test]
    fn who_waits_is_served_in_order() {
        let mut bucket = Bucket::full(5.0, 1.0, 0);
        assert_eq!([0; 3].map(|at| bucket.reserve(at)), [Some(0), Some(S / 5), Some(2 * S / 5)]);
        assert_eq!(bucket.level(), 0.0);
        assert_eq!(Bucket::full(5.0, 0.5, 0).reserve(0), None);
        assert_eq!(Bucket::full(5.0, 0.5, 0).due_in_ns(), None);
    }
}
