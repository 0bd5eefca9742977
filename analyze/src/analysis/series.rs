//! What charts draw: the bucket's level and the live memory over time, launches and refusals as marks.

use hook_event::{Kind, Outcome};

use super::census::{self, Census};
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
    /// Whether the processes share the time axis; else each begins where the one before ended.
    pub one_clock: bool,
    /// One process each; those without calls are left out.
    pub processes: Vec<ProcessSeries>,
    /// What is counted rather than drawn call by call.
    pub census: Census,
}

impl Series {
    /// Whether there are times, and any passed.
    pub fn has_time(&self) -> bool {
        self.base != TimeBase::Sequence && self.end > 0.0
    }
}

/// Curves and marks of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessSeries {
    /// Number of the process among all that the logs tell of, from 1.
    pub number: usize,
    /// Process id.
    pub pid: Option<u32>,
    /// Time and number of its first call.
    pub begins: (f64, f64),
    /// Level over time: between launches it rises at the rate up to the capacity, a pass takes one token.
    pub level: Vec<(f64, f64)>,
    /// Launches.
    pub launches: Vec<Launch>,
    /// Its launches in order, taken together where they are a burst or a starvation.
    pub phases: Vec<Phase>,
    /// Tokens that fit in.
    pub capacity: Option<f64>,
    /// Live bytes, corners of a step curve.
    pub live: Vec<Bytes>,
    /// Refused allocations.
    pub refused: Vec<Refused>,
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

/// A refused allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused {
    /// Time.
    pub at: f64,
    /// Number of the call, over all processes.
    pub call: f64,
    /// Bytes asked for.
    pub size: f64,
    /// Bytes that would have been live.
    pub live: f64,
}

/// Launches in a row that the bucket's state explains: a burst or a starvation if they are two or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Whether all were refused. Else all passed, faster than tokens came: the level fell from each to the next.
    pub starvation: bool,
    /// Time of the first and of the last.
    pub at: (f64, f64),
    /// Numbers of these calls, over all processes.
    pub call: (f64, f64),
    /// Launches.
    pub launches: u64,
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
    // Processes on one clock keep their places on it; others are set one after the other.
    let mut with_calls = events.processes.iter().filter(|process| !process.rows.is_empty());
    let host = with_calls.clone().next().map(|process| &process.host);
    let one_clock = base == TimeBase::Monotonic && with_calls.all(|process| Some(&process.host) == host);
    let mut series = Series {
        base,
        lower_bound: analysis.summary.time.lower_bound,
        end: 0.0,
        calls: 0.0,
        one_clock,
        processes: vec![],
        census: Census::default(),
    };
    let origin = events.calls.mono_ns.iter().flatten().min().copied().unwrap_or(0);
    let mut places = Vec::with_capacity(events.calls.len());
    for (index, process) in events.processes.iter().enumerate() {
        if process.rows.is_empty() {
            continue;
        }
        let at: Vec<f64> = match base {
            TimeBase::Monotonic | TimeBase::Inferred => {
                let first = process.rows.clone().filter_map(|i| events.calls.mono_ns[i]).min().unwrap_or(origin);
                let from = if one_clock { (first - origin) as f64 / 1e9 } else { series.end };
                analysis.timelines[index].at.iter().map(|&at| from + at).collect()
            }
            TimeBase::Sequence => (1..=process.rows.len()).map(|number| series.calls + number as f64).collect(),
        };
        let live = &analysis.memories[index].live_after;
        let one = process_series(events, process, &at, live, series.calls, |i| analysis.is_chosen(i));
        series.end = at.iter().copied().fold(series.end, f64::max);
        for (position, i) in process.rows.clone().enumerate() {
            places.push(census::Place { row: i, at: at[position], call: series.calls + position as f64 + 1.0 });
        }
        let begins = (at.first().copied().unwrap_or(0.0), series.calls + 1.0);
        series.calls += process.rows.len() as f64;
        series.processes.push(ProcessSeries { number: index + 1, pid: process.pid, begins, ..one });
    }
    places.retain(|place| analysis.is_chosen(place.row));
    series.census = census::of(events, analysis, &places, series.has_time().then_some(series.end));
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
    let mut before_launch = None;
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
            if process.bucket != Limit::Off {
                let launch = Launch { at, call, tokens, outcome: columns.outcome[i] };
                phase(&mut series.phases, before_launch, launch);
                before_launch = Some(launch);
                if is_chosen(i) {
                    series.launches.push(launch);
                }
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
            let refused = |size| Refused { at, call, size, live: after + size };
            series.refused.extend(columns.size[i].map(|size| refused(size as f64)));
        }
    }
    if let Some(&end) = at.last().filter(|_| !process.memory_untold) {
        series.live.push(Bytes { at: end, call: calls + at.len() as f64, bytes: before });
    }
    series
}

/// Takes a launch into the last phase, or begins another with it.
fn phase(phases: &mut Vec<Phase>, before: Option<Launch>, launch: Launch) {
    let starvation = launch.outcome == Outcome::Denied;
    let goes_on = |phase: &&mut Phase| {
        let falls = before.is_some_and(|before| launch.tokens < before.tokens);
        phase.starvation == starvation && (starvation || falls)
    };
    match phases.last_mut().filter(goes_on) {
        Some(phase) => {
            (phase.at.1, phase.call.1) = (launch.at, launch.call);
            phase.launches += 1;
        }
        None => {
            phases.push(Phase { starvation, at: (launch.at, launch.at), call: (launch.call, launch.call), launches: 1 })
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_drain_the_bucket_are_a_burst_and_denials_in_a_row_a_starvation() {
        use Outcome::{Denied, Ok};
        let launches = [(2.0, Ok), (1.0, Ok), (0.0, Ok), (0.0, Denied), (0.5, Denied), (0.0, Ok), (0.0, Ok), (2.0, Ok)];
        let (mut phases, mut before) = (Vec::new(), None);
        for (number, (tokens, outcome)) in launches.into_iter().enumerate() {
            let launch = Launch { at: number as f64 / 10.0, call: number as f64, tokens, outcome };
            phase(&mut phases, before, launch);
            before = Some(launch);
        }
        let told: Vec<_> = phases.iter().map(|phase| (phase.starvation, phase.call, phase.launches)).collect();
        // The last three passed as tokens came: each alone.
        let alone = [(false, (5.0, 5.0), 1), (false, (6.0, 6.0), 1), (false, (7.0, 7.0), 1)];
        assert_eq!(told[..2], [(false, (0.0, 2.0), 3), (true, (3.0, 4.0), 2)]);
        assert_eq!(told[2..], alone);
    }
}
