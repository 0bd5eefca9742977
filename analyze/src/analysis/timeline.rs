//! When each call happened, and how it is known.
//!
//! Records carry the monotonic clock. Lines carry no time, but a bucket is a clock: tokens that grew by k at a known
//! rate took k / rate seconds. Within a stretch in which the bucket was never full this is right to one printed
//! decimal (0.1 / rate) however many launches it holds, because the growth is taken from the stretch's beginning and
//! not summed up launch by launch. Where the bucket was full again, what overflowed is not in the log, and the time
//! is a lower bound.

use hook_event::Kind;
use serde::Serialize;

use crate::events::{Columns, Events, Limit, Process};

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
    /// [`TimeBase::Sequence`].
    pub at: Vec<f64>,
    /// From the first to the last call (for inferred times: launch), s; `None` for [`TimeBase::Sequence`].
    pub duration_s: Option<f64>,
    /// Whether the bucket was full again somewhere, so that more time may have passed.
    pub lower_bound: bool,
}

/// The timeline of `process`.
pub fn of(calls: &Columns, process: &Process) -> Timeline {
    monotonic(calls, process).or_else(|| inferred(calls, process)).unwrap_or_else(|| Timeline {
        base: TimeBase::Sequence,
        at: (1..=process.rows.len()).map(|number| number as f64).collect(),
        duration_s: None,
        lower_bound: false,
    })
}

/// A call without a stamp (a last line whose record was cut off) is taken for as late as the one before it.
fn monotonic(calls: &Columns, process: &Process) -> Option<Timeline> {
    let stamps = || process.rows.clone().filter_map(|i| calls.mono_ns[i]);
    let (first, last) = (stamps().min()?, stamps().max()?);
    let seconds = |ns: u64| (ns - first) as f64 / 1e9;
    let mut now = first;
    let mut at = Vec::with_capacity(process.rows.len());
    for i in process.rows.clone() {
        now = calls.mono_ns[i].unwrap_or(now);
        at.push(seconds(now));
    }
    Some(Timeline { base: TimeBase::Monotonic, at, duration_s: Some(seconds(last)), lower_bound: false })
}

fn inferred(calls: &Columns, process: &Process) -> Option<Timeline> {
    let Limit::At((rate, capacity)) = process.bucket else { return None };
    // What other processes take of a bucket that they share is not in this one's lines.
    if process.shared.is_some() {
        return None;
    }
    if rate <= 0.0 || !process.rows.clone().any(|i| calls.kind[i] == Kind::Launch && calls.tokens[i].is_some()) {
        return None;
    }
    let mut stretch: Option<Stretch> = None;
    let (mut now, mut lower_bound) = (0.0f64, false);
    let mut at = Vec::with_capacity(process.rows.len());
    for i in process.rows.clone() {
        if let (Kind::Launch, Some(after)) = (calls.kind[i], calls.tokens[i]) {
            let cost = calls.cost(i);
            let full = after + cost >= capacity - ROUNDING - 1e-9;
            if let Some(stretch) = &mut stretch {
                now = now.max(stretch.from + (after + cost + stretch.passed - stretch.tokens) / rate);
                stretch.passed += cost;
                lower_bound |= full;
            }
            if full || stretch.is_none() {
                stretch = Some(Stretch { from: now, tokens: after, passed: 0.0 });
            }
        }
        at.push(now);
    }
    Some(Timeline { base: TimeBase::Inferred, at, duration_s: Some(now), lower_bound })
}

/// Launches since the bucket was last full.
struct Stretch {
    from: f64,
    /// Level at the beginning.
    tokens: f64,
    /// Tokens taken since.
    passed: f64,
}

/// The analysis's common time: the weakest base of its processes; a duration only for what one clock covers.
pub fn overall(events: &Events, timelines: &[Timeline]) -> Timeline {
    let timed: Vec<(&Process, &Timeline)> =
        events.processes.iter().zip(timelines).filter(|(process, _)| !process.rows.is_empty()).collect();
    let base = timed
        .iter()
        .map(|(_, timeline)| timeline.base)
        .max_by_key(|base| match base {
            TimeBase::Monotonic => 0,
            TimeBase::Inferred => 1,
            TimeBase::Sequence => 2,
        })
        .unwrap_or(TimeBase::Sequence);
    let duration_s = match timed.as_slice() {
        [(_, one)] => one.duration_s,
        many if base == TimeBase::Monotonic => {
            // One host's processes share their clock.
            let one_host = many.iter().all(|(process, _)| process.host == many[0].0.host);
            let times =
                many.iter().flat_map(|(process, _)| process.rows.clone()).filter_map(|i| events.calls.mono_ns[i]);
            let ends = times.fold(None, |ends: Option<(u64, u64)>, ns| {
                Some(ends.map_or((ns, ns), |(first, last)| (first.min(ns), last.max(ns))))
            });
            ends.filter(|_| one_host).map(|(first, last)| (last - first) as f64 / 1e9)
        }
        _ => None,
    };
    let lower_bound = timed.iter().any(|(_, timeline)| timeline.lower_bound);
    Timeline { base, at: Vec::new(), duration_s, lower_bound }
}

#[cfg(test)]
mod tests {
    use hook_event::Outcome;

    use super::*;
    use crate::events::Row;

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
