//! The figures of a process, call by call: the one implementation behind every output, whether rows are kept or not.
//!
//! A fold's size does not grow with the calls: it grows with the live allocations, and [`Totals`] with the launch
//! shapes.

use std::collections::HashMap;

use hook_event::{Dim3, Kind, Outcome};

use super::conformance::Rules;
use super::memory::Replay;
use super::timeline::Clock;
use crate::events::{LATE_RATE, Limit, NameId, Process};
use crate::hash;
use crate::step::Step;

/// Denial streaks listed of a process; all are counted.
pub(super) const STREAKS: usize = 1000;

/// A process so far.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// Calls.
    pub(super) calls: u64,
    /// Refused by the hook among them.
    pub(super) denied: u64,
    pub(super) replay: Replay,
    pub(super) clock: Clock,
    pub(super) levels: Levels,
    pub(super) streaks: Streaks,
    pub(super) rules: Rules,
    pub(super) numbers: Numbers,
    /// Launches before the process's rate was known: number of the line, level, outcome, whether the level is exact.
    early: Vec<(u64, f64, Outcome, bool)>,
    /// What a process that shares its quota held, whenever that changed.
    pub(super) held: Vec<Held>,
}

/// An amount of memory at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Monotonic clock, ns.
    pub(super) at: u64,
    /// Live bytes as the record states them.
    pub(super) total: u64,
    /// Its line.
    pub(super) line: u64,
}

/// Levels after launches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) first: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) last: Option<f64>,
}

/// Runs of denied launches with no launch let through between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Streaks {
    /// The first of them: number of the first call, length.
    pub(super) list: Vec<(u64, u64)>,
    /// All.
    pub(super) count: u64,
    /// The longest, the first of equals.
    pub(super) longest: Option<(u64, u64)>,
    /// The one under way.
    now: Option<(u64, u64)>,
}

/// Records' numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    /// Some are missing between, or come twice.
    pub(super) gaps: bool,
}

impl Fold {
    /// Takes a call of `process` in, whose place among the processes is `rank`; gives the live bytes after it.
    #[inline]
    pub(crate) fn step(&mut self, process: &Process, rank: Rank, step: &Step, totals: &mut Totals) -> u64 {
        self.calls += 1;
        self.denied += u64::from(step.outcome == Outcome::Denied);
        totals.step(step, (rank, self.calls));
        if step.kind == Kind::Launch {
            self.streaks.launch(self.calls, step.outcome);
            if let Some(level) = step.tokens {
                self.levels.launch(level);
            }
        }
        let live = self.replay.step(step);
        if let Some(seq) = step.seq {
            self.numbers.add(seq);
        }
        if process.bucket == Limit::Unknown {
            if self.calls > LATE_RATE {
                self.early = Vec::new();
            } else if let Some(level) = step.tokens {
                self.early.push((step.line, level, step.outcome, step.seq.is_some()));
            }
        } else if !self.early.is_empty() {
            self.rate_came(process);
        }
        self.clock.step(process, step);
        if process.job.is_some() {
            self.hold(step);
        }
        self.rules.step(process, step, live);
        live
    }

    /// Whether every call has a number, from 1 and without gaps.
    pub(super) fn in_order(&self) -> bool {
        let counted = self.numbers.first == Some(1) && self.numbers.last == Some(self.calls);
        self.calls == 0 || counted && !self.numbers.gaps
    }

    fn hold(&mut self, step: &Step) {
        let (Some(at), Some(total)) = (step.mono_ns, step.total) else { return };
        if total != self.held.last().map_or(0, |before| before.total) {
            self.held.push(Held { at, total, line: step.line });
        }
    }

    /// What is done when no more calls will come.
    pub(crate) fn finish(&mut self, process: &Process) {
        if process.bucket != Limit::Unknown && !self.early.is_empty() {
            self.rate_came(process);
        }
        self.streaks.end();
    }

    /// Launches that came before their process's rate line are looked at again.
    #[cold]
    fn rate_came(&mut self, process: &Process) {
        self.clock.forget_launches();
        for (line, level, outcome, exact) in std::mem::take(&mut self.early) {
            let cost = if outcome == Outcome::Denied { 0.0 } else { 1.0 };
            self.clock.launch(process, level, cost);
            self.rules.level(process, line, level, outcome, exact);
        }
    }
}

impl Levels {
    #[inline]
    fn launch(&mut self, level: f64) {
        self.first = self.first.or(Some(level));
        self.last = Some(level);
        self.min = Some(self.min.map_or(level, |min| min.min(level)));
        self.max = Some(self.max.map_or(level, |max| max.max(level)));
    }
}

impl Streaks {
    #[inline]
    fn launch(&mut self, number: u64, outcome: Outcome) {
        if outcome == Outcome::Denied {
            self.now.get_or_insert((number, 0)).1 += 1;
        } else if self.now.is_some() {
            self.end();
        }
    }

    fn end(&mut self) {
        let Some(streak) = self.now.take() else { return };
        self.count += 1;
        if self.list.len() < STREAKS {
            self.list.push(streak);
        }
        if self.longest.is_none_or(|longest| streak.1 > longest.1) {
            self.longest = Some(streak);
        }
    }
}

impl Numbers {
    #[inline]
    fn add(&mut self, seq: u64) {
        self.gaps |= self.last.is_some_and(|last| last.checked_add(1) != Some(seq));
        self.first = self.first.or(Some(seq));
        self.last = Some(seq);
    }
}

/// Where a process stands among all: its file, its first line, and what tells those apart that share both.
pub(crate) type Rank = (u32, u64, u32);

/// What is counted over all processes.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Calls by API: ok, denied, failed.
    pub(super) apis: Vec<[u64; 3]>,
    /// Launches by shape.
    pub(super) shapes: Vec<Shape>,
    places: HashMap<(Dim3, Dim3), usize, hash::Build>,
    /// The place of the last shape: the next launch often has it too.
    last: usize,
}

/// Launches of one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) shape: (Dim3, Dim3),
    /// ok, denied, failed.
    pub(super) counts: [u64; 3],
    /// Where the first of them stands, so that equal counts come in that order.
    pub(super) first: (Rank, u64),
}

impl Totals {
    #[inline]
    fn step(&mut self, step: &Step, at: (Rank, u64)) {
        let api = step.api as usize;
        if self.apis.len() <= api {
            self.apis.resize(api + 1, [0; 3]);
        }
        self.apis[api][step.outcome as usize] += 1;
        let Some(shape) = step.shape else { return };
        if self.shapes.get(self.last).is_none_or(|last| last.shape != shape) {
            self.last = self.place(shape, at);
        }
        let launches = &mut self.shapes[self.last];
        launches.counts[step.outcome as usize] += 1;
        if at < launches.first {
            launches.first = at;
        }
    }

    fn place(&mut self, shape: (Dim3, Dim3), first: (Rank, u64)) -> usize {
        *self.places.entry(shape).or_insert_with(|| {
            self.shapes.push(Shape { shape, counts: [0; 3], first });
            self.shapes.len() - 1
        })
    }

    /// APIs that were called.
    pub(super) fn apis(&self) -> impl Iterator<Item = (NameId, [u64; 3])> {
        self.apis
            .iter()
            .enumerate()
            .filter(|(_, counts)| **counts != [0; 3])
            .map(|(id, counts)| (id as NameId, *counts))
    }
}
