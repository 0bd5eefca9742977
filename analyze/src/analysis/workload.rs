//! What ran, in more detail than a summary tells: kernels by name, and how long calls took.
//!
//! Counted call by call in memory that grows with the names and not with the calls. Times are kept with ten binary
//! digits: a percentile is exact below 1024 ns, and right to 0.1 % above.

use std::collections::{BTreeMap, HashMap};

use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::fold::Totals;
use crate::events::{NameId, Names};
use crate::hash;
use crate::step::Step;

/// Binary digits kept of a time.
const DIGITS: u32 = 10;

/// What ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Launches.
    pub launches: u64,
    /// Those of which the log tells the kernel.
    pub named: u64,
    /// Those of which it tells the shape.
    pub shaped: u64,
    /// Launches by kernel.
    pub kernels: BTreeMap<String, u64>,
    /// Times of all calls.
    pub times: Times,
    /// The same by API.
    pub by_api: BTreeMap<String, Times>,
}

/// How long calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// What the hook added.
    pub hook: Percentiles,
    /// In the real call, of calls that the hook let through.
    pub real: Percentiles,
}

/// Percentiles of times, ns; absent where there are too few times for them to mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Times.
    pub n: u64,
    /// Median; of 5 or more.
    pub p50: Option<u64>,
    /// Of 10 or more.
    pub p90: Option<u64>,
    /// Of 100 or more.
    pub p99: Option<u64>,
}

impl Percentiles {
    /// Times that a percentile takes at least.
    pub fn least(percent: u64) -> u64 {
        match percent {
            ..=50 => 5,
            _ => 100 / (100 - percent.min(99)),
        }
    }
}

/// A workload so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    launches: u64,
    named: u64,
    shaped: u64,
    kernels: HashMap<NameId, u64, hash::Build>,
    /// By API: added by the hook, in the real call.
    times: HashMap<NameId, [Spread; 2], hash::Build>,
}

/// How often each time came.
#[derive(Clone, Debug, Default)]
struct Spread {
    n: u64,
    counts: BTreeMap<u64, u64>,
}

impl Tally {
    /// Takes a call in.
    pub(super) fn step(&mut self, step: &Step) {
        let launch = step.kind == Kind::Launch;
        self.launches += u64::from(launch);
        self.shaped += u64::from(launch && step.shape.is_some());
        let Some(detail) = step.detail else { return };
        if let (true, Some(kernel)) = (launch, detail.kernel) {
            self.named += 1;
            *self.kernels.entry(kernel).or_default() += 1;
        }
        // A call that was denied never got to the real one: its zero is no time.
        let real_ns = detail.real_ns.filter(|_| step.outcome != Outcome::Denied);
        if detail.hook_ns.is_some() || real_ns.is_some() {
            let [hook, real] = self.times.entry(step.api).or_default();
            detail.hook_ns.into_iter().for_each(|ns| hook.add(ns));
            real_ns.into_iter().for_each(|ns| real.add(ns));
        }
    }
}

impl Spread {
    fn add(&mut self, ns: u64) {
        self.n += 1;
        *self.counts.entry(rounded(ns)).or_default() += 1;
    }

    fn append(&mut self, other: &Spread) {
        self.n += other.n;
        for (&ns, &count) in &other.counts {
            *self.counts.entry(ns).or_default() += count;
        }
    }

    /// The smallest time that so many percent of the times don't exceed.
    fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = (u128::from(self.n) * u128::from(percent)).div_ceil(100).max(1);
        let mut passed = 0u128;
        let mut reached = self.counts.iter().filter_map(|(&ns, &count)| {
            passed += u128::from(count);
            (passed >= rank).then_some(ns)
        });
        reached.next().filter(|_| self.n >= Percentiles::least(percent))
    }

    fn percentiles(&self) -> Percentiles {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| self.percentile(percent));
        Percentiles { n: self.n, p50, p90, p99 }
    }
}

/// To the nearest time of [`DIGITS`] binary digits.
fn rounded(ns: u64) -> u64 {
    let unit = 1u64 << (u64::BITS - ns.leading_zeros()).saturating_sub(DIGITS);
    ns.saturating_add(unit / 2) / unit * unit
}

impl Workload {
    /// Of everything that was counted; empty where it was not asked for.
    pub(crate) fn of(totals: &Totals, names: &Names) -> Workload {
        let Some(tally) = &totals.workload else { return Workload::default() };
        let name = |id: NameId| names.text(id).to_owned();
        let mut all = <[Spread; 2]>::default();
        for spreads in tally.times.values() {
            all.iter_mut().zip(spreads).for_each(|(all, one)| all.append(one));
        }
        let times = |[hook, real]: &[Spread; 2]| Times { hook: hook.percentiles(), real: real.percentiles() };
        Workload {
            launches: tally.launches,
            named: tally.named,
            shaped: tally.shaped,
            kernels: tally.kernels.iter().map(|(&id, &count)| (name(id), count)).collect(),
            times: times(&all),
            by_api: tally.times.iter().map(|(&id, spreads)| (name(id), times(spreads))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_thousandth_and_absent_of_a_few() {
        let mut spread = Spread::default();
        (1..=99).for_each(|i| spread.add(i * 10_007));
        assert_eq!(spread.percentiles().p99, None, "99 times have no 99th percentile");
        spread.add(100 * 10_007);
        let near =
            |got: Option<u64>, want: u64| got.is_some_and(|got| got.abs_diff(want) as f64 <= want as f64 / 1000.0);
        let Percentiles { n, p50, p90, p99 } = spread.percentiles();
        assert_eq!(n, 100);
        assert!(near(p50, 50 * 10_007) && near(p90, 90 * 10_007) && near(p99, 99 * 10_007), "{p50:?} {p90:?} {p99:?}");
        let mut few = Spread::default();
        (1..=4).for_each(|ns| few.add(ns));
        assert_eq!(few.percentiles(), Percentiles { n: 4, ..Percentiles::default() });
        few.add(900);
        assert_eq!(few.percentiles().p50, Some(3), "small times are exact");
    }

    #[test]
    fn times_are_rounded_and_never_overflow() {
        for ns in [0, 1, 1023, 1024, 1025, 123_456_789, u64::MAX / 3, u64::MAX] {
            let error = rounded(ns).abs_diff(ns) as f64;
            assert!(error <= ns as f64 / 1000.0, "{ns} {}", rounded(ns));
        }
        assert_eq!((rounded(0), rounded(1023)), (0, 1023));
    }
}
