//! Calls counted for charts: by interval, launch shape and kernel; sizes of requests; what the hook and the calls took.

use std::collections::HashMap;

use hook_event::{Kind, Outcome};

use super::overhead;
use super::summary::{Analysis, ShapeFigures};
use crate::events::{Events, NameId};

/// Intervals that a time is parted into, about.
const INTERVALS: f64 = 60.0;

/// Everything that is counted.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Requests for memory, in order.
    pub requests: Vec<Request>,
    /// Launches and requests by interval.
    pub intervals: Intervals,
    /// Launch shapes, most launches first.
    pub shapes: Vec<ShapeFigures>,
    /// Kernels by name, most launches first, then by name.
    pub kernels: Vec<Kernel>,
    /// What calls took, by API, most calls first, then by name: of the calls that [`overhead`] is of.
    pub costs: Vec<Cost>,
}

/// A request for device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Number of the call, over all processes.
    pub call: f64,
    /// Bytes asked for.
    pub size: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// Calls by outcome: passed, denied, failed in CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Let through and accepted.
    pub passed: u64,
    /// Refused by the hook.
    pub denied: u64,
    /// Let through and refused by CUDA.
    pub failed: u64,
}

impl Outcomes {
    /// One more.
    fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Ok => &mut self.passed,
            Outcome::Denied => &mut self.denied,
            Outcome::Failed => &mut self.failed,
        } += 1;
    }

    /// Calls.
    pub fn all(&self) -> u64 {
        self.passed + self.denied + self.failed
    }
}

/// Intervals of one width, from 0 on.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// Width, s; calls where the series has no time.
    pub width: f64,
    /// Launches in each.
    pub launches: Vec<Outcomes>,
    /// Requests for memory in each.
    pub requests: Vec<Outcomes>,
}

/// Launches of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Mangled name.
    pub name: String,
    /// Its launches.
    pub launches: Outcomes,
}

/// What the calls of an API took.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Name.
    pub api: String,
    /// What the hook added to a call.
    pub hook: Spread,
    /// The real calls themselves.
    pub real: Spread,
}

/// Durations by rank, ns; as few calls as [`overhead`] takes have no median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub calls: u64,
    /// Shortest.
    pub least: u64,
    /// A quarter, half and three quarters are no longer; `None` where the median takes more calls.
    pub middle: Option<[u64; 3]>,
    /// Longest.
    pub most: u64,
}

impl Spread {
    /// Of durations, by nearest rank (the median of an even number lies between two); `None` of none.
    fn of(mut durations: Vec<u64>) -> Option<Spread> {
        durations.sort_unstable();
        let rank = |part: f64| {
            let at = (part * durations.len() as f64).ceil() as usize;
            durations.get(at.max(1) - 1).copied()
        };
        let median = rank(0.5)?.midpoint(*durations.get(durations.len() / 2)?);
        let middle = Some([rank(0.25)?, median, rank(0.75)?]);
        Some(Spread {
            calls: durations.len() as u64,
            least: rank(0.0)?,
            middle: middle.filter(|_| durations.len() as u64 >= overhead::least(50)),
            most: rank(1.0)?,
        })
    }
}

/// A call and where charts draw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Row of the call.
    pub(super) row: usize,
    /// Time, s; its number where the log tells no times.
    pub(super) at: f64,
    /// Number, over all processes.
    pub(super) call: f64,
}

/// The census of calls on a time axis that ends at `end`.
/// Where it has no time, intervals are of call numbers.
pub(super) fn of(events: &Events, analysis: &Analysis, places: &[Place], end: Option<f64>) -> Census {
    let calls = &events.calls;
    let last = calls.len() as f64;
    let mut census = Census {
        intervals: Intervals::up_to(end.unwrap_or(last), end.is_none()),
        shapes: analysis.summary.dims.clone(),
        ..Census::default()
    };
    let mut kernels: HashMap<NameId, Outcomes> = HashMap::new();
    let mut times: HashMap<NameId, (Vec<u64>, Vec<u64>)> = HashMap::new();
    for &Place { row: i, at, call } in places {
        let (kind, outcome) = (calls.kind[i], calls.outcome[i]);
        census.intervals.count(if end.is_some() { at } else { call }, kind, outcome);
        if let (Kind::Alloc, Some(size)) = (kind, calls.size[i]) {
            census.requests.push(Request { call, size: size as f64, outcome });
        }
        if let Some(kernel) = calls.kernel[i] {
            kernels.entry(kernel).or_default().count(outcome);
        }
        if let (Some(hook_ns), Some(real_ns), true) = (calls.hook_ns[i], calls.real_ns[i], outcome != Outcome::Denied) {
            let (hook, real) = times.entry(calls.api[i]).or_default();
            hook.push(hook_ns);
            real.push(real_ns);
        }
    }
    let name = |id: NameId| events.names.text(id).to_owned();
    census.kernels = kernels.into_iter().map(|(id, launches)| Kernel { name: name(id), launches }).collect();
    census.kernels.sort_by(|a, b| b.launches.all().cmp(&a.launches.all()).then_with(|| a.name.cmp(&b.name)));
    let cost = |(api, (hook, real))| Some(Cost { api: name(api), hook: Spread::of(hook)?, real: Spread::of(real)? });
    census.costs = times.into_iter().filter_map(cost).collect();
    census.costs.sort_by(|a, b| b.hook.calls.cmp(&a.hook.calls).then_with(|| a.api.cmp(&b.api)));
    census
}

impl Intervals {
    /// Empty ones up to `end`, of a round width.
    fn up_to(end: f64, whole: bool) -> Intervals {
        let end = if end.is_finite() && end > 0.0 { end } else { 1.0 };
        let about = end / INTERVALS;
        let power = 10f64.powf(about.log10().floor());
        let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= about).unwrap_or(10.0);
        let width = if whole { (times * power).max(1.0) } else { times * power };
        let number = (end / width).floor() as usize + 1;
        Intervals { width, launches: vec![Outcomes::default(); number], requests: vec![Outcomes::default(); number] }
    }

    fn count(&mut self, at: f64, kind: Kind, outcome: Outcome) {
        let intervals = match kind {
            Kind::Launch => &mut self.launches,
            Kind::Alloc => &mut self.requests,
            Kind::Free | Kind::Reset | Kind::Host => return,
        };
        let last = intervals.len().saturating_sub(1);
        if let Some(interval) = intervals.get_mut(((at / self.width) as usize).min(last)) {
            interval.count(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_durations_that_there_were() {
        let spread = Spread::of(vec![50, 10, 40, 20, 30]).unwrap();
        assert_eq!((spread.least, spread.most, spread.middle), (10, 50, Some([20, 30, 40])));
        assert_eq!(Spread::of(vec![7]).unwrap().middle, None);
        assert_eq!(Spread::of((1..=6).collect()).unwrap().middle, Some([2, 3, 5]));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn intervals_hold_every_call_once() {
        for end in [0.0, 1e-9, 0.6, 1.0, 1.531, 99.0, 1e12, f64::NAN] {
            let mut intervals = Intervals::up_to(end, false);
            assert!((1..=101).contains(&intervals.launches.len()), "{end} {}", intervals.launches.len());
            for at in [0.0, end / 3.0, end] {
                intervals.count(at, Kind::Launch, Outcome::Denied);
            }
            assert_eq!(intervals.launches.iter().map(|outcomes| outcomes.denied).sum::<u64>(), 3, "{end}");
        }
        assert_eq!(Intervals::up_to(12.0, true).width, 1.0);
        assert_eq!(Intervals::up_to(1.53, false).width, 0.05);
    }
}
