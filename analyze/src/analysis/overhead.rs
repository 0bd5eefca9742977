//! What the hook adds to a call, and what the real call takes, by API: percentiles of the calls that were let through and
//! of which both were measured.
//!
//! Records of every call have both times but for launches that the hook writes in batches: there one in sixteen of a
//! thread's launches does. Their number is told beside the number of calls let through.
//!
//! A percentile is a measured value, the one of nearest rank (the median of an even number of calls lies between two); it is
//! given where at least one call lies above it, so p90 takes 10 calls and p99 takes 100, and a median five. Up to 512 calls it is exact; of more, values are counted in
//! 128 steps for each doubling (as in G. Tene's HdrHistogram), and a percentile is right to 0.4 %. The largest value is
//! exact always.

use std::collections::HashMap;

use serde::Serialize;

use super::summary::ApiFigures;
use crate::events::NameId;
use crate::step::{Step, Took};

/// Calls of which every value is kept.
const EXACT: usize = 512;

/// Steps for each doubling, as a power of two.
const STEPS: u32 = 7;

/// By how much a percentile of more than [`EXACT`] calls may be wrong: half a step.
const ERROR: f64 = 1.0 / (2 << STEPS) as f64;

/// Durations, so many that not all are kept.
#[derive(Clone, Debug)]
enum Values {
    Few(Vec<u64>),
    Many { counts: Vec<u64>, n: u64, max: u64 },
}

impl Default for Values {
    fn default() -> Self {
        Values::Few(Vec::new())
    }
}

/// The step in which a value is counted; below `2 << STEPS` each value has one of its own.
fn step_of(value: u64) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(STEPS);
    ((shift as usize) << STEPS) + (value >> shift) as usize
}

/// The middle of a step.
fn middle(step: usize) -> u64 {
    let shift = (step >> STEPS).saturating_sub(1);
    let from = ((step - (shift << STEPS)) as u64) << shift;
    from + ((1 << shift) >> 1)
}

impl Values {
    fn add(&mut self, value: u64) {
        if let Values::Few(few) = self {
            if few.len() < EXACT {
                few.push(value);
                return;
            }
            let mut many = Values::Many { counts: Vec::new(), n: 0, max: 0 };
            few.iter().for_each(|&value| many.add(value));
            *self = many;
        }
        if let Values::Many { counts, n, max } = self {
            let step = step_of(value);
            if counts.len() <= step {
                counts.resize(step + 1, 0);
            }
            counts[step] += 1;
            (*n, *max) = (*n + 1, value.max(*max));
        }
    }

    fn append(&mut self, other: &Values) {
        match other {
            Values::Few(few) => few.iter().for_each(|&value| self.add(value)),
            Values::Many { counts: more, n: others, max: largest } => {
                if let Values::Few(few) = std::mem::take(self) {
                    *self = Values::Many { counts: Vec::new(), n: 0, max: 0 };
                    few.iter().for_each(|&value| self.add(value));
                }
                if let Values::Many { counts, n, max } = self {
                    counts.resize(counts.len().max(more.len()), 0);
                    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
                    (*n, *max) = (*n + others, (*max).max(*largest));
                }
            }
        }
    }

    fn n(&self) -> u64 {
        match self {
            Values::Few(few) => few.len() as u64,
            Values::Many { n, .. } => *n,
        }
    }

    fn figures(&self) -> Option<Percentiles> {
        let (n, max, sorted) = match self {
            Values::Few(few) => {
                let mut sorted = few.clone();
                sorted.sort_unstable();
                (few.len() as u64, *sorted.last()?, sorted)
            }
            Values::Many { n, max, .. } => (*n, *max, Vec::new()),
        };
        let at = |rank: u64| match self {
            Values::Few(_) => sorted.get(rank as usize - 1).copied(),
            Values::Many { counts, .. } => {
                let mut below = 0;
                let step = counts.iter().position(|count| {
                    below += count;
                    below >= rank
                })?;
                Some(middle(step).min(max))
            }
        };
        // Nearest rank, in whole numbers; the middle of an even number lies between two.
        let percentile = |percent: u64| at((n * percent).div_ceil(100));
        let median = percentile(50).zip(at(n / 2 + 1)).map(|(low, high)| low.midpoint(high));
        let enough = |place: usize| move |_: &u64| n >= LEAST[place].1;
        Some(Percentiles {
            median: median.filter(enough(0)),
            p90: percentile(90).filter(enough(1)),
            p99: percentile(99).filter(enough(2)),
            max,
        })
    }
}

/// Percentiles, and the calls that each takes.
const LEAST: [(&str, u64); 3] = [("median", 5), ("p90", 10), ("p99", 100)];

/// Calls that a percentile takes: 50, 90 or 99.
pub(super) fn least(percent: u64) -> u64 {
    LEAST[match percent {
        50 => 0,
        90 => 1,
        _ => 2,
    }]
    .1
}

/// What was measured so far, by API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Vec<Option<Box<(Values, Values)>>>);

impl Tally {
    /// Takes a call in; the order does not matter.
    #[inline]
    pub(crate) fn step(&mut self, step: &Step) {
        if let Some(took) = step.took {
            self.add(step.api, took);
        }
    }

    /// The same of what it took.
    pub(super) fn add(&mut self, api: NameId, took: Took) {
        let api = api as usize;
        if self.0.len() <= api {
            self.0.resize(api + 1, None);
        }
        let (hook, real) = &mut **self.0[api].get_or_insert_default();
        hook.add(took.hook_ns);
        real.add(took.real_ns);
    }

    /// The figures of APIs in the order of `apis`; `name` gives the name of an id.
    pub(super) fn figures<'a>(&self, apis: &[ApiFigures], name: impl Fn(NameId) -> &'a str) -> Overhead {
        let all = self.0.iter().zip(0..).filter_map(|(values, id)| Some((name(id), values.as_deref()?)));
        let all: HashMap<&str, &(Values, Values)> = all.collect();
        let measured = |api: &ApiFigures| {
            let values = all.get(api.api.as_str())?;
            Some(ApiOverhead {
                api: api.api.clone(),
                let_through: api.ok + api.failed,
                measured: Measured::of(values)?,
            })
        };
        let apis: Vec<ApiOverhead> = apis.iter().filter_map(measured).collect();
        let why = "no record of a call that was let through tells both hook_ns and real_ns";
        let mut together = (Values::default(), Values::default());
        for (hook, real) in self.0.iter().flatten().map(|values| &**values) {
            together.0.append(hook);
            together.1.append(real);
        }
        Overhead { all: Measured::of(&together), why: apis.is_empty().then_some(why), apis }
    }
}

/// What the hook added to calls that were let through, and what the real calls took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overhead {
    /// Of all APIs together.
    pub all: Option<Measured>,
    /// By API, in the order of `apis`; those without a measured call are left out.
    pub apis: Vec<ApiOverhead>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// Measured calls of one API.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApiOverhead {
    /// Name.
    pub api: String,
    /// Calls let through.
    pub let_through: u64,
    /// Those among them that were measured.
    #[serde(flatten)]
    pub measured: Measured,
}

/// What calls took of which both times are known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// How many they are.
    pub n: u64,
    /// By how much, as a part of it, a percentile may be wrong.
    pub error: f64,
    /// Added by the hook, ns.
    pub hook_ns: Percentiles,
    /// Spent in the real call, ns.
    pub real_ns: Percentiles,
    /// Which percentiles take more calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Measured {
    fn of((hook, real): &(Values, Values)) -> Option<Measured> {
        let n = hook.n();
        let lacking = LEAST.iter().filter(|(_, least)| n < *least);
        let lacking: Vec<String> = lacking.map(|(what, least)| format!("{what} takes {least} calls")).collect();
        Some(Measured {
            n,
            error: if n > EXACT as u64 { ERROR } else { 0.0 },
            hook_ns: hook.figures()?,
            real_ns: real.figures()?,
            why: (!lacking.is_empty()).then(|| lacking.join(", ")),
        })
    }
}

/// Of durations, ns; `None` where there are too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Of at least 5.
    pub median: Option<u64>,
    /// Of at least 10.
    pub p90: Option<u64>,
    /// Of at least 100.
    pub p99: Option<u64>,
    /// The largest.
    pub max: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Percentiles {
        let mut all = Values::default();
        values.iter().for_each(|&value| all.add(value));
        all.figures().unwrap()
    }

    #[test]
    fn a_percentile_takes_enough_calls() {
        assert_eq!(of(&[4, 1]), Percentiles { median: None, p90: None, p99: None, max: 4 });
        assert_eq!(of(&[5, 1, 2, 3, 4]), Percentiles { median: Some(3), p90: None, p99: None, max: 5 });
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(of(&hundred), Percentiles { median: Some(50), p90: Some(90), p99: Some(99), max: 100 });
        assert_eq!(of(&[10, 20, 30, 40, 50, 60]).median, Some(35));
        assert_eq!(of(&hundred[1..]), Percentiles { median: Some(50), p90: Some(90), p99: None, max: 99 });
    }

    #[test]
    fn steps_follow_each_other() {
        let values = (0..2000).chain((11..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        let mut last = 0;
        for value in values.chain([u64::MAX]) {
            let step = step_of(value);
            assert!(step == last || step == last + 1 || value > 2000, "{value}: {step} behind {last}");
            assert!(step >= last && step_of(middle(step)) == step, "{value}: {step}");
            last = step;
        }
    }

    proptest! {
        #[test]
        fn of_many_a_percentile_is_right_to_four_thousandths(
            values in prop::collection::vec(prop_oneof![0u64..300, 0u64..1_000_000, any::<u64>()], 513..2000),
        ) {
            let (figures, mut sorted) = (of(&values), values.clone());
            sorted.sort_unstable();
            let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
            let median = rank(50).midpoint(sorted[sorted.len() / 2]);
            for (percent, right, told) in [(50, median, figures.median), (90, rank(90), figures.p90), (99, rank(99), figures.p99)] {
                let told = told.unwrap();
                prop_assert!(right.abs_diff(told) as f64 <= right as f64 * ERROR, "p{percent}: {told} for {right}");
            }
            prop_assert_eq!(figures.max, *sorted.last().unwrap());
        }
    }
}
