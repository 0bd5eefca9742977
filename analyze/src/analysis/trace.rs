//! Calls as slices of time, a track for each thread: what a trace viewer draws.
//!
//! A record's stamp is the moment of the decision, at the beginning of a launch or a denied call and at the end of a
//! launch's waiting, or of the settlement, at the end of an allocation or a free; what the hook, the real call and the
//! waiting took lies around it. Slices of a thread never overlap: a thread is in one call at a time, so what the clocks'
//! error would make overlap is moved, and says by how much.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Range, RangeInclusive};

use hook_event::{Kind, Outcome};

use super::summary::Analysis;
use super::timeline::TimeBase;
use crate::events::{Events, Limit};

/// Length of a call where calls are only numbered, ns.
pub const SLOT_NS: u64 = 1_000_000;

/// Ids that a trace may use: a viewer takes them for a process's or a thread's.
const IDS: RangeInclusive<u64> = 1..=i32::MAX as u64;

/// A process's tracks.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Index in [`Events::processes`].
    pub process: usize,
    /// Its id, or where the log has none, or one that was there before, another one.
    pub pid: u64,
    /// Threads as the log names them (`None`: it does not), and their ids in the trace.
    pub threads: BTreeMap<Option<u64>, u64>,
    /// Whether there are levels of a bucket.
    pub has_tokens: bool,
    /// Whether the log tells what memory was granted.
    pub has_memory: bool,
    /// The stamp that is the axis's beginning, where its processes share a clock.
    origin_ns: Option<u64>,
    /// Where on the axis it begins, else.
    from_ns: u64,
    /// Calls of processes before it.
    calls: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Row of it.
    pub row: usize,
    /// Thread, in the trace.
    pub tid: u64,
    /// Beginning, ns.
    pub begin_ns: u64,
    /// End, ns; the beginning where the log does not tell how long it took.
    pub end_ns: u64,
    /// Moment of the decision or the settlement, ns; within the slice.
    pub at_ns: u64,
    /// Whether its length is measured.
    pub measured: bool,
    /// By how much the beginning was moved, ns.
    pub moved_ns: u64,
    /// Live bytes of the process after it.
    pub live: u64,
}

/// Processes with calls, on a common axis where they share a clock, else one after the other.
pub fn lanes(events: &Events, analysis: &Analysis) -> Vec<Lane> {
    let base = analysis.summary.time.base;
    let with_calls = || events.processes.iter().enumerate().filter(|(_, process)| !process.rows.is_empty());
    let host = with_calls().next().map(|(_, process)| &process.host);
    let one_clock = base == TimeBase::Monotonic && with_calls().all(|(_, process)| Some(&process.host) == host);
    let origin = if one_clock { earliest(events, 0..events.calls.len()) } else { 0 };
    let mut used: BTreeSet<u64> = BTreeSet::new();
    let known: BTreeSet<u64> = events.processes.iter().filter_map(|process| process.pid).map(u64::from).collect();
    // Ids for processes without one, each tried once: there may be many.
    let mut others = IDS.clone().filter(|pid| !known.contains(pid));
    let (mut lanes, mut end, mut calls) = (Vec::new(), 0u64, 0u64);
    for (index, process) in with_calls() {
        let own = process.pid.map(u64::from).filter(|pid| IDS.contains(pid) && !used.contains(pid));
        let pid = own.or_else(|| others.next()).unwrap_or(1);
        used.insert(pid);
        let threads: BTreeSet<Option<u64>> = process.rows.clone().map(|i| events.calls.tid[i]).collect();
        let named: BTreeSet<u64> = threads.iter().flatten().copied().filter(|tid| IDS.contains(tid)).collect();
        let mut spare = IDS.clone().rev().filter(|id| !named.contains(id));
        let id = |tid: &Option<u64>| match tid {
            Some(tid) if IDS.contains(tid) => *tid,
            None if !named.contains(&pid) => pid,
            _ => spare.next().unwrap_or(1),
        };
        let ids: Vec<u64> = threads.iter().map(id).collect();
        let lane = Lane {
            process: index,
            pid,
            threads: threads.into_iter().zip(ids).collect(),
            has_tokens: process.bucket != Limit::Off && process.rows.clone().any(|i| events.calls.tokens[i].is_some()),
            has_memory: !process.memory_untold && analysis.summary.processes[index].out_of_order == 0,
            origin_ns: one_clock.then_some(origin),
            from_ns: end,
            calls,
        };
        calls += process.rows.len() as u64;
        if !one_clock {
            end = slices(events, analysis, &lane).map(|slice| slice.end_ns).fold(end, u64::max);
        }
        lanes.push(lane);
    }
    lanes
}

/// The calls of a process, in order: of each thread they begin one after the other and don't overlap.
pub fn slices<'a>(events: &'a Events, analysis: &'a Analysis, lane: &'a Lane) -> impl Iterator<Item = Slice> + 'a {
    let base = analysis.summary.time.base;
    let process = &events.processes[lane.process];
    let (at, live) = (&analysis.timelines[lane.process].at, &analysis.memories[lane.process].live_after);
    let origin = lane.origin_ns.unwrap_or_else(|| earliest(events, process.rows.clone()));
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let mut now = 0u64;
    process.rows.clone().enumerate().map(move |(position, row)| {
        let (before, after) = around(events, row);
        let measured = base != TimeBase::Sequence && before + after > 0;
        let moment = match base {
            TimeBase::Sequence => (lane.calls + position as u64).saturating_mul(SLOT_NS),
            // A call without a stamp is taken for as late as the one before it.
            TimeBase::Monotonic => {
                events.calls.mono_ns[row].map_or(now, |stamp| stamp.saturating_sub(origin).saturating_add(lane.from_ns))
            }
            TimeBase::Wall | TimeBase::Inferred => lane.from_ns.saturating_add((at[position] * 1e9).round() as u64),
        };
        now = now.max(moment);
        let (begin, end) = match base {
            TimeBase::Sequence => (moment, moment.saturating_add(SLOT_NS)),
            _ => (moment.saturating_sub(before), moment.saturating_add(after)),
        };
        let tid = lane.threads.get(&events.calls.tid[row]).copied().unwrap_or(lane.pid);
        let free = ends.entry(tid).or_default();
        let begin_ns = begin.max(*free);
        let end_ns = end.max(begin_ns);
        *free = end_ns;
        let at_ns = moment.clamp(begin_ns, end_ns);
        Slice { row, tid, begin_ns, end_ns, at_ns, measured, moved_ns: begin_ns - begin, live: live[position] }
    })
}

/// When the first of these calls began, by the clock of its records.
fn earliest(events: &Events, rows: Range<usize>) -> u64 {
    let begin = |i: usize| Some(events.calls.mono_ns[i]?.saturating_sub(around(events, i).0));
    rows.filter_map(begin).min().unwrap_or(0)
}

/// What a call took before the moment of its stamp, and behind it, ns; 0 where the log does not tell.
fn around(events: &Events, row: usize) -> (u64, u64) {
    let calls = &events.calls;
    let [hook, real, wait] = [&calls.hook_ns, &calls.real_ns, &calls.wait_ns].map(|column| column[row].unwrap_or(0));
    match (calls.kind[row], calls.outcome[row]) {
        // Of a launch that waited the stamp is from its end.
        (Kind::Launch, _) | (_, Outcome::Denied) => (wait, hook.saturating_add(real)),
        _ => (hook.saturating_add(real), 0),
    }
}
