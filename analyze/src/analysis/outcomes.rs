//! The denied calls, one by one, and the launches' outcomes over time.

use hook_event::{Kind, Outcome};

use super::series::Series;
use super::summary::Analysis;
use super::timeline::TimeBase;
use crate::events::Events;

/// A denied call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Denial {
    /// Row of [`Events::calls`].
    pub row: usize,
    /// Index of its process.
    pub process: usize,
    /// Its number over all processes with calls, from 1, as in [`Series`].
    pub call: u64,
    /// Its time on the axis of the [`Series`], s; `None` where the log tells none.
    pub at: Option<f64>,
}

/// Every denied call, in order. `series` was made of these events.
pub fn of<'a>(events: &'a Events, analysis: &'a Analysis, series: &'a Series) -> impl Iterator<Item = Denial> + 'a {
    let timed = series.base != TimeBase::Sequence;
    placed(events, analysis, series).filter_map(move |(process, row, call, at)| {
        let denied = events.calls.outcome[row] == Outcome::Denied;
        denied.then_some(Denial { row, process, call, at: timed.then_some(at) })
    })
}

/// The chosen calls: process, row, number, time on the axis of `series`.
fn placed<'a>(
    events: &'a Events,
    analysis: &'a Analysis,
    series: &'a Series,
) -> impl Iterator<Item = (usize, usize, u64, f64)> + 'a {
    let with_calls = events.processes.iter().enumerate().filter(|(_, process)| !process.rows.is_empty());
    let mut before = 0;
    with_calls.zip(&series.processes).flat_map(move |((index, process), of)| {
        let first = before;
        before += process.rows.len();
        let rows = process.rows.clone().enumerate().filter(|&(_, row)| analysis.is_chosen(row));
        rows.map(move |(position, row)| {
            (index, row, (first + position) as u64 + 1, of.begin + analysis.timelines[index].at[position])
        })
    })
}

/// Launches passed, denied and failed in equal parts of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervals {
    /// Ends of the axis.
    pub ends: (f64, f64),
    /// Passed, denied, failed, in each part.
    pub counts: Vec<[u64; 3]>,
}

/// The outcomes of the launches in `parts` equal parts of the time, and of the calls' numbers.
pub fn intervals(events: &Events, analysis: &Analysis, series: &Series, parts: usize) -> (Intervals, Intervals) {
    let of = |ends: (f64, f64), parts: usize| Intervals { ends, counts: vec![[0; 3]; parts.max(1)] };
    let mut by_time = of((0.0, series.end), parts);
    let mut by_call = of((0.5, series.calls + 0.5), parts.min(series.calls as usize));
    for (_, row, call, at) in placed(events, analysis, series) {
        if events.calls.kind[row] == Kind::Launch {
            by_time.count(at, events.calls.outcome[row]);
            by_call.count(call as f64, events.calls.outcome[row]);
        }
    }
    (by_time, by_call)
}

impl Intervals {
    fn count(&mut self, place: f64, outcome: Outcome) {
        let ((from, to), parts) = (self.ends, self.counts.len());
        let part = if to > from { (place - from) / (to - from) * parts as f64 } else { 0.0 };
        let outcome = match outcome {
            Outcome::Ok => 0,
            Outcome::Denied => 1,
            Outcome::Failed => 2,
        };
        self.counts[(part as usize).min(parts - 1)][outcome] += 1;
    }
}
