//! What charts draw: the bucket's level and the live memory over time, launches and refusals as marks.

use std::ops::Range;

use hook_event::{Kind, Outcome};

use super::census::{self, Census};
use super::summary::{Analysis, TimeFigures};
use super::timeline::{ROUNDING, TimeBase};
use crate::events::{Events, Limit, Process};

/// Curves and marks of an analysis on one time axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the time axis means.
    pub base: TimeBase,
    /// Whether times are lower bounds somewhere.
    pub lower_bound: bool,
    /// By how much a time may be wrong either way, s, against others between the same two breaks.
    pub error_s: Option<f64>,
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
    /// Index of the process in [`Events::processes`].
    pub process: usize,
    /// Process id.
    pub pid: Option<u32>,
    /// Where its own time begins on the axis.
    pub begin: f64,
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
    /// Times before which more may have passed than the axis shows: those of the calls behind a gap that is a lower bound.
    pub breaks: Vec<f64>,
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
    let TimeFigures { lower_bound, error_s, .. } = analysis.summary.time;
    // Processes on one clock keep their places on it; others are set one after the other.
    let mut with_calls = events.processes.iter().filter(|process| !process.rows.is_empty());
    let host = with_calls.clone().next().map(|process| &process.host);
    let one_clock = match base {
        TimeBase::Monotonic => with_calls.all(|process| Some(&process.host) == host),
        TimeBase::Wall => analysis.timelines.iter().all(|timeline| timeline.base == base && !timeline.lower_bound),
        TimeBase::Inferred | TimeBase::Sequence => false,
    };
    let mut series = Series {
        base,
        lower_bound,
        error_s,
        end: 0.0,
        calls: 0.0,
        one_clock,
        processes: vec![],
        census: Census::default(),
    };
    // The moment of a process's first call on that clock.
    let first = |rows: Range<usize>| {
        let mono = rows.clone().filter_map(|i| events.calls.mono_ns[i]).map(i128::from);
        let mut wall = rows.filter_map(|i| events.calls.wall_ns[i]).map(i128::from);
        if base == TimeBase::Wall { wall.next() } else { mono.min() }
    };
    let origin = events.processes.iter().filter_map(|process| first(process.rows.clone())).min().unwrap_or(0);
    let mut places = Vec::with_capacity(events.calls.len());
    for (index, process) in events.processes.iter().enumerate() {
        if process.rows.is_empty() {
            continue;
        }
        let begin = match base {
            TimeBase::Monotonic | TimeBase::Wall | TimeBase::Inferred if one_clock => {
                (first(process.rows.clone()).unwrap_or(origin) - origin) as f64 / 1e9
            }
            TimeBase::Monotonic | TimeBase::Wall | TimeBase::Inferred => series.end,
            TimeBase::Sequence => series.calls,
        };
        let at: Vec<f64> = match base {
            TimeBase::Monotonic | TimeBase::Wall | TimeBase::Inferred => {
                analysis.timelines[index].at.iter().map(|&at| begin + at).collect()
            }
            TimeBase::Sequence => (1..=process.rows.len()).map(|number| begin + number as f64).collect(),
        };
        let live = &analysis.memories[index].live_after;
        let mut one = process_series(events, process, &at, base, live, series.calls, |i| analysis.is_chosen(i));
        if base != TimeBase::Sequence {
            one.breaks =
                analysis.timelines[index].breaks.iter().filter_map(|&position| at.get(position).copied()).collect();
        }
        series.end = at.iter().copied().fold(series.end, f64::max);
        for (position, i) in process.rows.clone().enumerate() {
            places.push(census::Place { row: i, at: at[position], call: series.calls + position as f64 + 1.0 });
        }
        let begins = (at.first().copied().unwrap_or(0.0), series.calls + 1.0);
        series.calls += process.rows.len() as f64;
        series.processes.push(ProcessSeries { process: index, pid: process.pid, begin, begins, ..one });
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
    base: TimeBase,
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
    // How the level rises where nobody else takes of it and there is a time axis.
    let rising = bucket.filter(|_| process.shared.is_none() && base != TimeBase::Sequence);
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
            if bucket.is_some() {
                let cost = columns.cost(i);
                match series.level.last() {
                    Some(&last) => rise(&mut series.level, last, (at, tokens + cost), rising),
                    None => series.level.push((at, tokens + cost)),
                }
                if cost > 0.0 {
                    series.level.push((at, tokens));
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
    if let (Some(&last), Some((rate, capacity)), Some(&end)) = (series.level.last(), rising, at.last())
        && end > last.0
        && !series.launches.is_empty()
    {
        let level = (last.1 + rate * (end - last.0)).min(capacity);
        rise(&mut series.level, last, (end, level), rising);
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

/// The level from the last corner up to what it is before a launch's decision: up at the rate, and flat when full.
fn rise(level: &mut Vec<(f64, f64)>, last: (f64, f64), to: (f64, f64), rising: Option<(f64, f64)>) {
    if let Some((rate, capacity)) = rising {
        let full_at = last.0 + (capacity - last.1) / rate;
        if full_at < to.0 && to.1 >= capacity - ROUNDING - 1e-9 {
            level.push((full_at, capacity));
        }
    }
    level.push(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::summary::analyse;
    use crate::events::Row;

    const S: u64 = 1_000_000_000;

    /// Five tokens a second, three at most: launches at these moments, with what is left after them.
    fn level(launches: &[(u64, f64)], last_call: u64, limits: Process) -> Vec<(f64, f64)> {
        let mut events = Events::default();
        for &(mono_ns, tokens) in launches {
            let row = Row::bare(0, 1, 0, Kind::Launch, Outcome::Ok);
            events.calls.push(Row { mono_ns: Some(mono_ns), tokens: Some(tokens), ..row });
        }
        let free = Row::bare(0, 1, 1, Kind::Free, Outcome::Ok);
        events.calls.push(Row { mono_ns: Some(last_call), ptr: Some(1), ..free });
        let rows = 0..events.calls.len();
        events.processes.push(Process { rows, bucket: Limit::At((5.0, 3.0)), ..limits });
        let analysis = analyse(&events);
        of(&events, &analysis).processes.remove(0).level
    }

    #[test]
    fn the_level_rises_between_launches_stands_when_full_and_goes_on_to_the_last_call() {
        let corners = level(&[(0, 2.0), (S / 10, 1.5), (S, 2.0)], S + S / 10, Process::default());
        let want = [
            (0.0, 3.0),
            (0.0, 3.0),
            (0.0, 2.0),
            (0.1, 2.5),
            (0.1, 1.5),
            (0.4, 3.0),
            (1.0, 3.0),
            (1.0, 2.0),
            (1.1, 2.5),
        ];
        assert_eq!(corners.len(), want.len(), "{corners:?}");
        for (corner, want) in corners.iter().zip(want) {
            assert!((corner.0 - want.0).abs() < 1e-9 && (corner.1 - want.1).abs() < 1e-9, "{corners:?}");
        }
        let full = level(&[(0, 2.0)], S, Process::default());
        assert_eq!(full[full.len() - 2..], [(0.2, 3.0), (1.0, 3.0)]);
    }

    #[test]
    fn of_a_bucket_that_others_use_only_what_was_recorded_is_drawn() {
        let shared = Process { shared: Some("job".into()), job: Some(1), ..Process::default() };
        assert_eq!(level(&[(0, 1.0), (S, 2.0)], 2 * S, shared), [(0.0, 2.0), (0.0, 1.0), (1.0, 3.0), (1.0, 2.0)]);
    }

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
