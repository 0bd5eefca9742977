//! What a report tells beside the sums: the refused requests, and the launches as a story of phases.

use hook_event::units::MB;
use hook_event::{Kind, Outcome};

use super::summary::Analysis;
use super::timeline::TimeBase;
use crate::events::{Events, Limit};
use crate::step::Step;

/// A refused allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Line of the log.
    pub line: u64,
    /// Bytes asked for, where the log tells.
    pub size: Option<u64>,
    /// Live bytes at that moment, of the account that refused, where the log tells.
    pub live: Option<u64>,
    /// Quota, bytes.
    pub quota: Option<u64>,
}

/// Consecutive launches with the same fate (refused by the hook, or let through).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Index of the process.
    pub process: usize,
    /// Number of the first call in the process, from 1.
    pub first_call: u64,
    /// Whether they were refused.
    pub denied: bool,
    /// Launches.
    pub length: u64,
    /// Level after the first of them.
    pub tokens_first: Option<f64>,
    /// Level after the last of them.
    pub tokens_last: Option<f64>,
    /// Time of the first of them, s, where it is known.
    pub at: Option<f64>,
}

/// Every refused allocation, in order.
pub fn refused(events: &Events, analysis: &Analysis) -> Vec<Refused> {
    let calls = &events.calls;
    let mut refused = Vec::new();
    for (process, memory) in events.processes.iter().zip(&analysis.memories) {
        for (i, &live) in process.rows.clone().zip(&memory.live_after) {
            if calls.kind[i] == Kind::Alloc && calls.outcome[i] == Outcome::Denied && analysis.is_chosen(i) {
                let (live, quota) = match calls.refusal[i] {
                    Some(refusal) => (Some(refusal.total), Some(refusal.quota)),
                    None if process.memory_untold => (None, calls.quota[i]),
                    None if process
                        .refusal_is_anothers(&Step::with_shape(&calls.row(i), None), process.shared.is_some()) =>
                    {
                        (Some(calls.total_mb[i].map_or(live, |mb| (mb * MB as f64) as u64)), calls.quota[i])
                    }
                    None => (Some(live), process.quota.value().or(calls.quota[i])),
                };
                refused.push(Refused { line: calls.line[i], size: calls.size[i], live, quota });
            }
        }
    }
    refused
}

/// The launches of every process as phases.
pub fn phases(events: &Events, analysis: &Analysis) -> Vec<Phase> {
    let calls = &events.calls;
    let mut phases: Vec<Phase> = Vec::new();
    for (index, (process, timeline)) in events.processes.iter().zip(&analysis.timelines).enumerate() {
        for (position, i) in process.rows.clone().enumerate() {
            if calls.kind[i] != Kind::Launch {
                continue;
            }
            let denied = calls.outcome[i] == Outcome::Denied;
            let tokens = calls.tokens[i].filter(|_| process.bucket != Limit::Off);
            match phases.last_mut().filter(|phase| phase.process == index && phase.denied == denied) {
                Some(phase) => {
                    phase.length += 1;
                    phase.tokens_last = tokens;
                }
                None => phases.push(Phase {
                    process: index,
                    first_call: position as u64 + 1,
                    denied,
                    length: 1,
                    tokens_first: tokens,
                    tokens_last: tokens,
                    at: (timeline.base != TimeBase::Sequence).then(|| timeline.at[position]),
                }),
            }
        }
    }
    phases
}

/// The levels after the launches, in order, at most `limit` of them.
pub fn levels(events: &Events, limit: usize) -> Vec<f64> {
    let calls = &events.calls;
    let limited = events.processes.iter().filter(|process| process.bucket != Limit::Off);
    limited.flat_map(|process| process.rows.clone()).filter_map(|i| calls.tokens[i]).take(limit).collect()
}

/// Whether the first launch under a limit found the bucket full, give or take the rounding of a printed level. `None`
/// without such a launch.
pub fn started_full(events: &Events) -> Option<bool> {
    let calls = &events.calls;
    // Others may have taken of a bucket that is shared.
    events.processes.iter().filter(|process| process.shared.is_none()).find_map(|process| {
        let (_, capacity) = process.bucket.value()?;
        let first = process.rows.clone().find(|&i| calls.kind[i] == Kind::Launch && calls.tokens[i].is_some())?;
        Some(calls.tokens[first]? + calls.cost(first) >= capacity - 0.05 - 1e-9)
    })
}
