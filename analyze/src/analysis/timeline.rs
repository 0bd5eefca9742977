//! When each call happened, and how it is known.
//!
//! Records carry the monotonic clock. Lines carry no time, but a bucket is a clock: tokens that grew by k at a known
//! rate took k / rate seconds. Within a stretch in which the bucket was never full this is right to one printed
//! decimal (0.1 / rate) however many launches it holds, because the growth is taken from the stretch's beginning and
//! not summed up launch by launch. Where the bucket was full again, what overflowed is not in the log, and the time
//! is a lower bound.

use hook_event::Kind;
use serde::Serialize;

use crate::events::{Columns, Events, Process};
use crate::step::Step;

/// Half of the last printed decimal of a token level.
const ROUNDING: f64 = 0.05;

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeBase {
    /// The monotonic clock of the records.
    Monotonic,
    /// Growth of tokens at the known rate.
    Inferred,
    /// Neither: calls are only numbered.
    Sequence,
}

/// Times of a process's calls.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// How the times are known.
    pub base: TimeBase,
    /// For each call of the process, seconds since its first timed moment; the call's number for
    /// [`TimeBase::Sequence`]. Empty where only figures were asked for.
    pub at: Vec<f64>,
    /// From the first to the last call (for inferred times: launch), s; `None` for [`TimeBase::Sequence`].
    pub duration_s: Option<f64>,
    /// Whether the bucket was full again somewhere, so that more time may have passed.
    pub lower_bound: bool,
}

/// The timeline of `process`.
pub fn of(calls: &Columns, process: &Process) -> Timeline {
    let mut clock = Clock::default();
    let mut inferred = Vec::with_capacity(process.rows.len());
    for i in process.rows.clone() {
        clock.step(process, &Step::with_shape(&calls.row(i), None));
        inferred.push(clock.inferred.now);
    }
    let timeline = clock.timeline(process);
    let at = match (timeline.base, clock.stamps) {
        (TimeBase::Monotonic, Some((first, _))) => {
            // A call without a stamp (a last line whose record was cut off) is taken for as late as the one before it.
            let stamps = process.rows.clone().map(|i| calls.mono_ns[i]);
            let seconds = stamps.scan(first, |now, stamp| {
                *now = stamp.unwrap_or(*now);
                Some(seconds(*now - first))
            });
            seconds.collect()
        }
        (TimeBase::Inferred, _) => inferred,
        _ => (1..=process.rows.len()).map(|number| number as f64).collect(),
    };
    Timeline { at, ..timeline }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The time that a process's calls cover, call by call.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The first and the last stamp.
    pub(super) stamps: Option<(u64, u64)>,
    /// Launches that tell a level.
    levels: u64,
    inferred: Inferred,
}

impl Clock {
    /// Takes a call of `process` in.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step) {
        if let Some(ns) = step.mono_ns {
            self.stamps = Some(self.stamps.map_or((ns, ns), |(first, last)| (first.min(ns), last.max(ns))));
        }
        if let (Kind::Launch, Some(tokens)) = (step.kind, step.tokens) {
            self.launch(process, tokens, step.cost());
        }
    }

    /// Begins anew, but for the stamps.
    pub(super) fn forget_launches(&mut self) {
        *self = Clock { stamps: self.stamps, ..Clock::default() };
    }

    /// Takes a launch's level in.
    #[inline]
    pub(super) fn launch(&mut self, process: &Process, tokens: f64, cost: f64) {
        // Nothing is inferred of what stamps tell.
        if self.stamps.is_some() {
            return;
        }
        self.levels += 1;
        if let Some((rate, capacity)) = own_bucket(process) {
            self.inferred.launch(rate, capacity, tokens, cost);
        }
    }

    /// The timeline, without the times of single calls.
    pub(super) fn timeline(&self, process: &Process) -> Timeline {
        let rated = own_bucket(process).is_some();
        let (base, duration_s) = match self.stamps {
            Some((first, last)) => (TimeBase::Monotonic, Some(seconds(last - first))),
            None if rated && self.levels > 0 => (TimeBase::Inferred, Some(self.inferred.now)),
            None => (TimeBase::Sequence, None),
        };
        let lower_bound = base == TimeBase::Inferred && self.inferred.lower_bound;
        Timeline { base, at: Vec::new(), duration_s, lower_bound }
    }
}

/// The bucket that a process has to itself: what others take of a shared one is not in its lines.
fn own_bucket(process: &Process) -> Option<(f64, f64)> {
    process.bucket.value().filter(|(rate, _)| *rate > 0.0 && process.shared.is_none())
}

/// Time by the growth of tokens.
#[derive(Clone, Debug, Default)]
struct Inferred {
    now: f64,
    lower_bound: bool,
    stretch: Option<Stretch>,
}

/// Launches since the bucket was last full.
#[derive(Clone, Debug)]
struct Stretch {
    from: f64,
    /// Level at the beginning.
    tokens: f64,
    /// Tokens taken since.
    passed: f64,
}

impl Inferred {
    #[inline]
    fn launch(&mut self, rate: f64, capacity: f64, after: f64, cost: f64) {
        let full = after + cost >= capacity - ROUNDING - 1e-9;
        if let Some(stretch) = &mut self.stretch {
            self.now = self.now.max(stretch.from + (after + cost + stretch.passed - stretch.tokens) / rate);
            stretch.passed += cost;
            self.lower_bound |= full;
        }
        if full || self.stretch.is_none() {
            self.stretch = Some(Stretch { from: self.now, tokens: after, passed: 0.0 });
        }
    }
}

/// A process's timeline, and its first and last stamp.
pub(super) type Times = (Timeline, Option<(u64, u64)>);

/// The analysis's common time: the weakest base of its processes; a duration only for what one clock covers.
pub(super) fn overall(events: &Events, times: &[Times]) -> Timeline {
    let timed: Vec<(&Process, &Times)> =
        events.processes.iter().zip(times).filter(|(process, _)| !process.rows.is_empty()).collect();
    let base = timed
        .iter()
        .map(|(_, (timeline, _))| timeline.base)
        .max_by_key(|base| match base {
            TimeBase::Monotonic => 0,
            TimeBase::Inferred => 1,
            TimeBase::Sequence => 2,
        })
        .unwrap_or(TimeBase::Sequence);
    let duration_s = match timed.as_slice() {
        [(_, (one, _))] => one.duration_s,
        many if base == TimeBase::Monotonic => {
            // One host's processes share their clock.
            let one_host = many.iter().all(|(process, _)| process.host == many[0].0.host);
            let ends = many.iter().filter_map(|(_, (_, stamps))| *stamps);
            let ends = ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
            ends.filter(|_| one_host).map(|(first, last)| seconds(last - first))
        }
        _ => None,
    };
    let lower_bound = timed.iter().any(|(_, (timeline, _))| timeline.lower_bound);
    Timeline { base, at: Vec::new(), duration_s, lower_bound }
}

#[cfg(test)]
mod tests {
    use hook_event::Outcome;

    use super::*;
    use crate::events::{Limit, Row};

    fn launches(levels: &[(f64, Outcome)]) -> (Columns, Process) {
        let mut calls = Columns::default();
        for &(tokens, outcome) in levels {
            calls.push(Row { tokens: Some(tokens), ..Row::bare(0, 1, 0, Kind::Launch, outcome) });
        }
        let process = Process { rows: 0..levels.len(), bucket: Limit::At((5.0, 3.0)), ..Process::default() };
        (calls, process)
    }

    #[test]
    fn growth_of_tokens_is_time_and_a_full_bucket_makes_it_a_bound() {
        use Outcome::{Denied, Ok};
        // The levels of a real run whose first launch took 96 ms: 2.0, 1.5, 0.5, refused, and 1.5 s later full again.
        let (calls, process) = launches(&[(2.0, Ok), (1.5, Ok), (0.5, Ok), (0.5, Denied), (2.0, Ok), (1.0, Ok)]);
        let timeline = of(&calls, &process);
        assert_eq!(timeline.base, TimeBase::Inferred);
        let want = [0.0, 0.1, 0.1, 0.1, 0.6, 0.6];
        for (at, want) in timeline.at.iter().zip(want) {
            assert!((at - want).abs() < 1e-9, "{:?}", timeline.at);
        }
        assert!(timeline.lower_bound);
    }

    #[test]
    fn rounding_does_not_add_up_over_a_stretch() {
        // A refused launch every 7 ms gains 0.035 tokens, which one decimal hides or doubles.
        let levels: Vec<_> = (0..20).map(|i| ((f64::from(i) * 0.035 * 10.0).round() / 10.0, Outcome::Denied)).collect();
        let (calls, process) = launches(&levels);
        let timeline = of(&calls, &process);
        assert!(!timeline.lower_bound);
        for (i, at) in timeline.at.iter().enumerate() {
            assert!((at - i as f64 * 0.007).abs() <= 0.1 / 5.0, "{i}: {at}");
        }
    }

    #[test]
    fn without_a_rate_calls_are_only_numbered() {
        let (calls, process) = launches(&[(0.0, Outcome::Ok), (0.0, Outcome::Ok)]);
        let timeline = of(&calls, &Process { bucket: Limit::Off, ..process });
        assert_eq!((timeline.base, timeline.at, timeline.duration_s), (TimeBase::Sequence, vec![1.0, 2.0], None));
    }
}
