//! The token bucket, exact: one number, the moment at which the bucket would have been empty.
//!
//! The level at `now` is `(now - empty_at) / interval`, `interval` being the time of one token. Refilling is thus no
//! act at all, a refused launch changes nothing, and a pass moves `empty_at` by exactly one interval: no rounding
//! error adds up over millions of calls. (The same idea as the Generic Cell Rate Algorithm, ITU-T I.371.) Times are
//! held in 2^-32 ns.

use hook_event::Policy;

/// Fractional bits of a time in here.
const FRACTION: u32 = 32;

/// A bucket of `capacity` tokens that gains `rate` tokens a second. It starts full.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Time of one token, 2^-32 ns; at least 1.
    interval: i128,
    /// Time of a full bucket, 2^-32 ns.
    span: i128,
    /// When the level is, was or will be zero, 2^-32 ns of the monotonic clock. Ahead of now only while launches wait.
    empty_at: i128,
    capacity: f64,
}

/// What becomes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has its token, or needs none.
    Pass,
    /// It gets none.
    Deny,
    /// Its token will be there at this monotonic time, ns.
    Wait(u64),
}

impl Bucket {
    /// Slowest rate accepted, tokens/s: one token in 30 years.
    pub(crate) const MIN_RATE: f64 = 1e-9;
    /// Fastest rate and largest capacity accepted.
    pub(crate) const MAX: f64 = 1e12;

    /// A full bucket at `now_ns`. `rate` within [`Self::MIN_RATE`] and [`Self::MAX`], `capacity` within 0 and
    /// [`Self::MAX`]; the settings' reader sees to that, and a value outside is brought inside.
    pub(crate) fn new(rate: f64, capacity: f64, now_ns: u64) -> Self {
        let rate = rate.clamp(Self::MIN_RATE, Self::MAX);
        let capacity = capacity.clamp(0.0, Self::MAX);
        let scale = (1u64 << FRACTION) as f64;
        // Casts saturate, and the clamps keep the interval far from the ends; the span is bounded as well.
        let interval = ((1e9 / rate * scale).round() as i128).max(1);
        // Of whole intervals, as they are taken out: a full bucket of three gives three at one moment.
        let whole = (capacity as i128).saturating_mul(interval);
        let part = (capacity.fract() * interval as f64).round() as i128;
        let span = whole.saturating_add(part).min(1e37 as i128);
        let mut bucket = Bucket { interval, span, empty_at: 0, capacity };
        bucket.empty_at = fixed(now_ns).saturating_sub(span);
        bucket
    }

    /// Takes a token if a whole one is there.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        self.clamp(now_ns);
        let taken = fixed(now_ns).saturating_sub(self.empty_at) >= self.interval;
        if taken {
            self.empty_at = self.empty_at.saturating_add(self.interval);
        }
        taken
    }

    /// Takes the next token that is or will be there, and tells when: `now_ns` or later, rounded up to a whole ns.
    /// Callers are served in the order in which they asked.
    ///
    /// A bucket of less than one token never holds a whole one, and so never serves: `None`.
    pub(crate) fn reserve(&mut self, now_ns: u64) -> Option<u64> {
        if self.span < self.interval {
            return None;
        }
        self.clamp(now_ns);
        self.empty_at = self.empty_at.saturating_add(self.interval);
        let whole = self.empty_at.saturating_add((1 << FRACTION) - 1) >> FRACTION;
        Some(u64::try_from(whole).unwrap_or(if whole < 0 { 0 } else { u64::MAX }).max(now_ns))
    }

    /// Lets a launch pass, wait, or be refused, as `policy` has it.
    pub(super) fn draw(&mut self, policy: Policy, now_ns: u64) -> Verdict {
        if policy == Policy::Wait
            && let Some(due_ns) = self.reserve(now_ns)
        {
            return if due_ns > now_ns { Verdict::Wait(due_ns) } else { Verdict::Pass };
        }
        if self.take(now_ns) { Verdict::Pass } else { Verdict::Deny }
    }

    /// [`Self::empty_at`] of a bucket that is empty now.
    pub(super) fn empty(now_ns: u64) -> i128 {
        fixed(now_ns)
    }

    /// All that changes in a bucket, for one that several processes share.
    pub(super) const fn empty_at(&self) -> i128 {
        self.empty_at
    }

    /// Takes over what another process has made of the bucket.
    pub(super) const fn set_empty_at(&mut self, empty_at: i128) {
        self.empty_at = empty_at;
    }

    /// Tokens there at `now_ns`, between 0 and the capacity.
    pub(crate) fn level(&self, now_ns: u64) -> f64 {
        let filled = fixed(now_ns).saturating_sub(self.empty_at).min(self.span);
        if filled == self.span {
            return self.capacity;
        }
        // Whole tokens are split off first: what is left then divides without losing the last digits.
        let level = match (u64::try_from(filled), u64::try_from(self.interval)) {
            // Less than one, as at every refusal: nothing to split.
            (Ok(filled), Ok(interval)) if filled < interval => filled as f64 / interval as f64,
            // The usual case: 64 bits divide several times as fast.
            (Ok(filled), Ok(interval)) => {
                let whole = filled.checked_div(interval).unwrap_or(0);
                let rest = filled.checked_rem(interval).unwrap_or(0);
                whole as f64 + rest as f64 / interval as f64
            }
            _ => {
                let whole = filled.checked_div(self.interval).unwrap_or(0);
                let rest = filled.checked_rem(self.interval).unwrap_or(0);
                whole as f64 + rest as f64 / self.interval as f64
            }
        };
        level.clamp(0.0, self.capacity)
    }

    /// What overflows a full bucket is lost.
    fn clamp(&mut self, now_ns: u64) {
        self.empty_at = self.empty_at.max(fixed(now_ns).saturating_sub(self.span));
    }
}

fn fixed(now_ns: u64) -> i128 {
    i128::from(now_ns) << FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_labs_bucket_passes_three_then_refuses_then_recovers() {
        let mut bucket = Bucket::new(5.0, 3.0, 10 * S);
        let burst: Vec<bool> = (0..10).map(|_| bucket.take(10 * S)).collect();
        assert_eq!(burst.iter().filter(|&&ok| ok).count(), 3);
        assert_eq!(bucket.level(10 * S), 0.0);
        assert!(!bucket.take(10 * S + S / 5 - 1));
        assert!(bucket.take(10 * S + S / 5));
        assert_eq!(bucket.level(20 * S), 3.0);
    }

    #[test]
    fn refused_launches_cost_nothing_and_rounding_does_not_add_up() {
        let mut bucket = Bucket::new(3.0, 1.0, 0);
        let mut passed = 0u64;
        // Asking every microsecond for 100 s: 1 token at the start, then 3 a second.
        for us in 0..100_000_000u64 / 10 {
            passed += u64::from(bucket.take(us * 10_000));
        }
        // A third of a second is no whole number of these steps, and what a full bucket would gain is lost.
        assert!((290..=301).contains(&passed), "{passed}");
        let mut bucket = Bucket::new(3.0, 2.0, 0);
        assert!(bucket.take(0));
        for i in 1..=3_000_000u64 {
            assert!(bucket.take(i * S / 3 + 1), "token {i}");
        }
    }

    #[test]
    fn a_full_bucket_gives_all_its_tokens_at_one_moment_whatever_the_rate() {
        for (rate, tokens) in (1..2000u32).flat_map(|rate| [2u32, 3, 7].map(|tokens| (rate, tokens))) {
            for capacity in [f64::from(tokens), f64::from(tokens) + 0.5] {
                let mut bucket = Bucket::new(f64::from(rate) * 1.7, capacity, S);
                let given = (0..10).filter(|_| bucket.take(S)).count();
                assert_eq!(given, tokens as usize, "{rate} {capacity}");
            }
        }
    }

    #[test]
    fn waiting_launches_are_served_in_order_one_interval_apart() {
        let mut bucket = Bucket::new(5.0, 1.0, 0);
        let when: Vec<_> = (0..4).map(|_| bucket.reserve(0)).collect();
        assert_eq!(when, [Some(0), Some(S / 5), Some(2 * S / 5), Some(3 * S / 5)]);
        assert_eq!(bucket.level(0), 0.0);
        assert_eq!(bucket.level(3 * S / 5), 0.0);
        assert_eq!(bucket.level(4 * S / 5), 1.0);
        assert!(!bucket.take(3 * S / 5));
    }

    #[test]
    fn a_bucket_of_less_than_a_token_never_passes_and_never_waits() {
        let mut bucket = Bucket::new(5.0, 0.5, 0);
        assert!(!bucket.take(0));
        assert!(!bucket.take(1000 * S));
        assert_eq!(bucket.reserve(0), None);
        assert_eq!(bucket.level(1000 * S), 0.5);
    }

    #[test]
    fn the_ends_of_the_range_hold() {
        for rate in [Bucket::MIN_RATE, 1.0, Bucket::MAX, 0.0, f64::INFINITY] {
            for capacity in [0.0, 1.0, Bucket::MAX] {
                for now in [0, S, u64::MAX] {
                    let mut bucket = Bucket::new(rate, capacity, now);
                    bucket.take(now);
                    bucket.reserve(now);
                    let level = bucket.level(now);
                    assert!((0.0..=capacity).contains(&level), "{rate} {capacity} {now} {level}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn level_stays_within_capacity_and_admits_no_more_than_the_model(
            rate in 0.01f64..10_000.0, capacity in 1.0f64..100.0,
            gaps in prop::collection::vec(0u64..2 * S, 1..200),
        ) {
            let mut now = 5 * S;
            let mut bucket = Bucket::new(rate, capacity, now);
            let (from, mut admitted) = (now, 0u64);
            for gap in gaps {
                now += gap;
                let before = bucket.level(now);
                let taken = bucket.take(now);
                let after = bucket.level(now);
                prop_assert!((0.0..=capacity).contains(&after));
                let right = if taken { before >= 1.0 - 1e-9 } else { before < 1.0 + 1e-9 };
                prop_assert!(right);
                prop_assert!((before - after - f64::from(u8::from(taken))).abs() < 1e-6);
                admitted += u64::from(taken);
                prop_assert!(admitted as f64 <= capacity + rate * (now - from) as f64 / 1e9 + 1e-6);
            }
        }
    }
}
