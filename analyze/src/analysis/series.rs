//! What charts draw: the bucket's level and the live memory over time, launches and refusals as marks.

use hook_event::{Kind, Outcome};

use super::summary::Analysis;
use super::timeline::TimeBase;
use crate::events::{Events, Limit, Process};

/// Curves and marks of an analysis on one time axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the time axis means.
    pub base: TimeBase,
    /// Whether inferred times are lower bounds somewhere.
    pub lower_bound: bool,
    /// End of the axis: seconds, or the last call's number.
    pub end: f64,
    /// Number of the last call.
    pub calls: f64,
    /// One process each; those without calls are left out.
    pub processes: Vec<ProcessSeries>,
}

/// Curves and marks of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessSeries {
    /// Index of the process in [`Events::processes`].
    pub process: usize,
    /// Where its own time begins on the axis.
    pub begin: f64,
    /// Level over time: between launches it rises at the rate up to the capacity, a pass takes one token.
    pub level: Vec<(f64, f64)>,
    /// Launches.
    pub launches: Vec<Launch>,
    /// Tokens that fit in.
    pub capacity: Option<f64>,
    /// Live bytes, corners of a step curve.
    pub live: Vec<Bytes>,
    /// Refused allocations, with the bytes that would have been live.
    pub refused: Vec<Bytes>,
    /// Quota, bytes.
    pub quota: Option<f64>,
}

/// An amount of device memory at a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes {
    /// Time.
    pub at: f64,
    /// Number of the call, over all processes.
    pub call: f64,
    /// Amount.
    pub bytes: f64,
}

/// A launch and the level after its decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Time.
    pub at: f64,
    /// Number of the call, over all processes.
    pub call: f64,
    /// Level.
    pub tokens: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// The series of `events`.
pub fn of(events: &Events, analysis: &Analysis) -> Series {
    let base = analysis.summary.time.base;
    let mut series =
        Series { base, lower_bound: analysis.summary.time.lower_bound, end: 0.0, calls: 0.0, processes: vec![] };
    // Processes on one clock keep their places on it; others are set one after the other.
    let mut with_calls = events.processes.iter().filter(|process| !process.rows.is_empty());
    let host = with_calls.clone().next().map(|process| &process.host);
    let one_clock = base == TimeBase::Monotonic && with_calls.all(|process| Some(&process.host) == host);
    let origin = events.calls.mono_ns.iter().flatten().min().copied().unwrap_or(0);
    for (index, process) in events.processes.iter().enumerate() {
        if process.rows.is_empty() {
            continue;
        }
        let begin = match base {
            TimeBase::Monotonic | TimeBase::Inferred if one_clock => {
                let first = process.rows.clone().filter_map(|i| events.calls.mono_ns[i]).min().unwrap_or(origin);
                (first - origin) as f64 / 1e9
            }
            TimeBase::Monotonic | TimeBase::Inferred => series.end,
            TimeBase::Sequence => series.calls,
        };
        let at: Vec<f64> = match base {
            TimeBase::Monotonic | TimeBase::Inferred => {
                analysis.timelines[index].at.iter().map(|&at| begin + at).collect()
            }
            TimeBase::Sequence => (1..=process.rows.len()).map(|number| begin + number as f64).collect(),
        };
        let live = &analysis.memories[index].live_after;
        let one = process_series(events, process, &at, live, series.calls, |i| analysis.is_chosen(i));
        series.end = at.iter().copied().fold(series.end, f64::max);
        series.calls += process.rows.len() as f64;
        series.processes.push(ProcessSeries { process: index, begin, ..one });
    }
    series
}

/// Curves are of all calls, marks of the chosen ones.
fn process_series(
    events: &Events,
    process: &Process,
    at: &[f64],
    live: &[u64],
    calls: f64,
    is_chosen: impl Fn(usize) -> bool,
) -> ProcessSeries {
    let columns = &events.calls;
    let bucket = process.bucket.value();
    let mut series = ProcessSeries {
        capacity: bucket.map(|(_, capacity)| capacity),
        quota: process.quota.value().map(|quota| quota as f64),
        ..ProcessSeries::default()
    };
    let mut before = 0.0;
    let begin = at.first().copied().unwrap_or(0.0);
    // A bucket that others use as well was full at no known time.
    if let (Some((_, capacity)), None) = (bucket, &process.shared) {
        series.level.push((begin, capacity));
    }
    for (position, i) in process.rows.clone().enumerate() {
        let (at, call) = (at[position], calls + position as f64 + 1.0);
        if let (Kind::Launch, Some(tokens)) = (columns.kind[i], columns.tokens[i]) {
            if let Some((rate, capacity)) = bucket {
                let cost = columns.cost(i);
                match series.level.last() {
                    Some(&last) => rise(&mut series.level, last, at, tokens, cost, rate, capacity),
                    None => series.level.push((at, tokens)),
                }
            }
            // A process that only records prints a level of 0.0, which is none.
            if process.bucket != Limit::Off && is_chosen(i) {
                series.launches.push(Launch { at, call, tokens, outcome: columns.outcome[i] });
            }
        }
        let after = live[position] as f64;
        // Where the log does not tell grants there is no curve, and not one at zero.
        if process.memory_untold {
            continue;
        }
        if after != before || series.live.is_empty() {
            series.live.extend([Bytes { at, call, bytes: before }, Bytes { at, call, bytes: after }]);
            before = after;
        }
        if columns.kind[i] == Kind::Alloc && columns.outcome[i] == Outcome::Denied && is_chosen(i) {
            series.refused.extend(columns.size[i].map(|size| Bytes { at, call, bytes: after + size as f64 }));
        }
    }
    if let Some(&end) = at.last().filter(|_| !process.memory_untold) {
        series.live.push(Bytes { at: end, call: calls + at.len() as f64, bytes: before });
    }
    series
}

/// The level from the last corner to a launch: up at the rate, flat when full, down by the launch's token.
fn rise(
    level: &mut Vec<(f64, f64)>,
    (last_at, last): (f64, f64),
    at: f64,
    tokens: f64,
    cost: f64,
    rate: f64,
    capacity: f64,
) {
    let before = (tokens + cost).min(capacity.max(tokens));
    let full_at = last_at + (capacity - last) / rate;
    if full_at < at && before >= capacity - 0.06 {
        level.push((full_at, capacity));
    }
    level.push((at, before));
    if cost > 0.0 {
        level.push((at, tokens));
    }
}
