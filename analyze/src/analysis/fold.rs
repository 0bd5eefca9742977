//! The figures of a process, call by call: the one implementation behind every output, whether rows are kept or not.
//!
//! A fold's size does not grow with the calls: it grows with the live allocations, and [`Totals`] with the launch
//! shapes.

use hook_event::{Kind, Outcome};

use super::conformance::Rules;
use super::denials::{At, Denials};
use super::jobs::{Held, Room};
use super::lines::Launch;
use super::memory::Replay;
use super::overhead::Tally;
use super::packed::{Packed, packed};
use super::retries::Retries;
use super::timeline::Clock;
use super::trend::Trend;
use super::workload;
use crate::events::{LATE_RATE, Limit, NameId, Process};
use crate::step::{self, AsPlain, Shape, ShapeId, Shapes, Step, Timed};

/// Denial streaks listed of a process; all are counted.
pub(super) const STREAKS: usize = 1000;

/// Processes whose trends are kept: more than anybody looks at.
const TRENDS: u32 = 64;

/// A process so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fold {
    pub(super) rank: Rank,
    /// Which of all folds it is, from 1.
    pub(super) number: u32,
    /// Calls.
    pub(super) calls: u64,
    /// Refused by the hook among them.
    pub(super) denied: u64,
    pub(super) replay: Replay,
    pub(super) clock: Clock,
    pub(super) levels: Levels,
    pub(super) denials: Denials,
    pub(super) rules: Rules,
    pub(super) numbers: Numbers,
    pub(super) retries: Retries,
    /// Launches before the process's rate was known.
    pub(super) early: Vec<Early>,
    /// How far the process's calls are those of the course's test program.
    pub(super) program: Program,
    /// What it holds of a quota that it shares.
    pub(super) held: Held,
    /// How levels after launches and live bytes after calls went, of the first processes.
    pub(super) trends: Option<Box<Trends>>,
}

packed!(Fold {
    rank,
    number,
    calls,
    denied,
    replay,
    clock,
    levels,
    denials,
    rules,
    numbers,
    retries,
    early,
    program,
    held,
    trends
});

/// How a process's figures went.
#[derive(Clone, Debug, PartialEq)]
pub struct Trends {
    /// Level after each launch.
    pub tokens: Trend,
    /// Live bytes after each call.
    pub live: Trend,
}

packed!(Trends { tokens, live });

impl Default for Trends {
    fn default() -> Self {
        Trends { tokens: Trend::lowest(), live: Trend::highest() }
    }
}

/// Those of all processes.
pub(crate) type Folds = Vec<Packed>;

/// Levels after launches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) first: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) last: Option<f64>,
}

packed!(Levels { first, min, max, last });

/// A launch before the process's rate was known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    at: At,
    /// What it tells of the bucket.
    launch: Option<Launch>,
    outcome: Outcome,
    /// It needed no token.
    free: bool,
}

packed!(Early { at, launch, outcome, free });

/// Records' numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    /// Some are missing between, or come twice.
    pub(super) gaps: bool,
    /// Records that came behind one with a larger number.
    pub(super) late: u64,
}

packed!(Numbers { first, last, gaps, late });

impl Fold {
    /// The fold of a process that has this place among all.
    pub(crate) fn new(rank: Rank, totals: &mut Totals) -> Self {
        totals.folds += 1;
        let trends = (totals.folds <= TRENDS).then(Box::default);
        Fold { rank, number: totals.folds, trends, ..Fold::default() }
    }

    /// Takes a call of `process` in; gives the live bytes after it.
    #[inline]
    pub(crate) fn step(&mut self, process: &Process, step: &Step, totals: &mut Totals) -> u64 {
        self.calls += 1;
        self.denied += u64::from(step.outcome == Outcome::Denied);
        let maybe_free = totals.step(step, self);
        if let (Kind::Launch, Some(level)) = (step.kind, step.tokens) {
            self.levels.launch(level);
            if let Some(trends) = &mut self.trends {
                trends.tokens.add(level);
            }
        }
        let live = if step.tells_memory() { self.replay.step(process, step) } else { self.replay.memory.live_bytes };
        if let Some(trends) = &mut self.trends {
            trends.live.add(live as f64);
        }
        if step.tells_memory() {
            self.retries.step(step, self.replay.memory.freed_bytes);
        }
        let rested = self.program.step(step);
        let launch = step.tokens.filter(|_| step.kind == Kind::Launch).map(|level| Launch {
            line: step.line,
            level,
            outcome: step.outcome,
            cost: step.cost(),
            exact: step.seq.is_some(),
            wall_ns: step.wall_ns.filter(|_| step.seq.is_none()),
            maybe_free,
            rested,
        });
        if let Some(seq) = step.seq {
            self.numbers.add(seq);
        }
        if !matches!(process.bucket, Limit::Unknown) && !self.early.is_empty() {
            self.rate_came(process);
        }
        self.clock.step(process, step);
        if step.kind == Kind::Launch {
            self.launch(process, step, launch.as_ref());
        }
        if process.job.is_some() {
            self.held.step(step, &mut totals.room);
        }
        self.rules.step(process, step, launch.as_ref(), live, &self.replay);
        live
    }

    #[inline]
    fn launch(&mut self, process: &Process, step: &Step, launch: Option<&Launch>) {
        let at = At { call: self.calls, line: step.line, moment: self.clock.moment() };
        self.denials.launch(at, step.outcome, step.bypass);
        if matches!(process.bucket, Limit::Unknown) {
            if self.calls > LATE_RATE {
                self.early = Vec::new();
            } else {
                self.early.push(Early { at, launch: launch.copied(), outcome: step.outcome, free: step.bypass });
            }
        }
    }

    /// Whether every call has a number, from 1 and without gaps.
    pub(crate) fn in_order(&self) -> bool {
        let counted = self.numbers.first == Some(1) && self.numbers.last == Some(self.calls);
        self.calls == 0 || counted && !self.numbers.gaps
    }

    /// Calls that came when one with a larger number had been taken in.
    pub(crate) fn late(&self) -> u64 {
        self.numbers.late
    }

    /// What is done when no more calls will come.
    pub(crate) fn finish(&mut self, process: &Process) {
        if process.bucket != Limit::Unknown && !self.early.is_empty() {
            self.rate_came(process);
        }
        self.denials.end();
        self.rest();
    }

    /// Gives back the memory that only further calls would need.
    pub(crate) fn rest(&mut self) {
        self.replay.rest();
        self.rules.tokens.rest();
    }

    /// Launches that came before their process's rate line are looked at again.
    #[cold]
    fn rate_came(&mut self, process: &Process) {
        self.clock.forget_launches();
        self.denials = Denials::default();
        for Early { at, launch, outcome, free } in std::mem::take(&mut self.early) {
            if let Some(launch) = launch {
                self.clock.launch(process, launch.level, launch.cost);
                self.rules.launch(process, &launch);
            }
            let at = At { moment: self.clock.inferred_moment(at.moment), ..at };
            self.denials.launch(at, outcome, free);
        }
    }
}

/// Whether a launch of this shape may have been one of few blocks of many threads, which hooks may pass without a token.
/// What is few and many the course leaves open; these bounds are wide.
fn is_small(&(grid, block): &Shape) -> bool {
    step::count(grid) <= 8 && step::count(block) >= 128
}

/// How far a process's calls are those of the course's test program, which asks for 64 MB, 2048 MB and 4 MB, launches ten
/// times in a row, sleeps, and launches again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Program {
    allocations: u8,
    launches: u8,
    /// They are not.
    pub(super) other: bool,
}

packed!(Program { allocations, launches, other });

impl Program {
    /// Takes a call in; whether the program has just slept.
    #[inline]
    fn step(&mut self, step: &Step) -> bool {
        const SIZES: [u64; 3] = [64 << 20, 2048 << 20, 4 << 20];
        const ROW: u8 = 10;
        if self.other {
            return false;
        }
        match step.kind {
            Kind::Alloc => {
                let next = SIZES.get(usize::from(self.allocations));
                self.other = self.launches > 0 || next.is_none() || next != step.size.as_ref();
                self.allocations += 1;
            }
            Kind::Launch => {
                self.other = usize::from(self.allocations) != SIZES.len();
                self.launches += 1;
            }
            Kind::Free => self.other = self.launches > 0,
            Kind::Reset | Kind::Host => {}
        }
        if self.launches <= ROW {
            return false;
        }
        let rested = !self.other;
        self.other = true;
        rested
    }
}

impl Levels {
    #[inline]
    pub(super) fn launch(&mut self, level: f64) {
        self.first = self.first.or(Some(level));
        self.last = Some(level);
        self.min = Some(self.min.map_or(level, |min| min.min(level)));
        self.max = Some(self.max.map_or(level, |max| max.max(level)));
    }
}

impl Numbers {
    #[inline]
    fn add(&mut self, seq: u64) {
        self.gaps |= self.last.is_some_and(|last| last.checked_add(1) != Some(seq));
        self.late += u64::from(self.last.is_some_and(|last| last > seq));
        self.first = self.first.or(Some(seq));
        self.last = self.last.max(Some(seq));
    }

    /// So many follow each other here.
    #[inline]
    pub(super) fn pass(&mut self, records: u64) {
        self.last = self.last.map(|last| last + records);
    }
}

/// Where a process stands among all: its file, its first line, and what tells those apart that share both.
pub(crate) type Rank = (u32, u64, u32);

/// What is counted over all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Calls by API: ok, denied, failed.
    apis: Vec<[u64; 3]>,
    /// Launches by shape.
    launches: Vec<Launches>,
    /// What measured calls took.
    pub(crate) tally: Tally,
    /// The shapes that steps speak of.
    pub(crate) shapes: Shapes,
    /// Folds so far.
    folds: u32,
    /// For what is held of shared quotas.
    pub(super) room: Room,
    /// Kernels and times, where they were asked for.
    pub(super) workload: Option<workload::Tally>,
}

/// Launches of one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launches {
    /// ok, denied, failed.
    pub(super) counts: [u64; 3],
    /// Where the first of them stands, so that equal counts come in that order.
    pub(super) first: (Rank, u64),
    /// The fold of the last of them.
    last_fold: u32,
    /// Whether hooks may pass them without a token.
    maybe_free: bool,
}

impl Launches {
    fn none(shape: Option<&Shape>) -> Launches {
        let first = ((u32::MAX, u64::MAX, u32::MAX), u64::MAX);
        Launches { counts: [0; 3], first, last_fold: 0, maybe_free: shape.is_some_and(is_small) }
    }

    #[inline(always)]
    fn add(&mut self, outcome: Outcome, fold: u32, at: impl Fn() -> (Rank, u64)) {
        self.counts[outcome as usize] += 1;
        if self.last_fold != fold {
            // Within a process calls come in order: only its first launch of a shape can be the first of all.
            self.first = self.first.min(at());
            self.last_fold = fold;
        }
    }
}

impl Totals {
    /// Of nothing yet; whether kernels and times are counted too.
    pub(crate) fn with(workload: bool) -> Totals {
        Totals { workload: workload.then(workload::Tally::default), ..Totals::default() }
    }

    /// Counts a call for what takes no order.
    #[inline]
    pub(crate) fn count(&mut self, step: &Step) {
        self.tally.step(step);
        if let Some(workload) = &mut self.workload {
            workload.step(step);
        }
    }

    /// Counts a call of a process; whether it is a launch that hooks may pass without a token.
    #[inline]
    fn step(&mut self, step: &Step, fold: &Fold) -> bool {
        self.api(step.api)[step.outcome as usize] += 1;
        let Some(shape) = step.shape else { return false };
        let launches = self.shape(shape);
        launches.add(step.outcome, fold.number, || (fold.rank, fold.calls));
        launches.maybe_free
    }

    /// Counts launches of one process, whose calls have these numbers; gives how many were denied.
    pub(super) fn count_launches<L: AsPlain>(
        &mut self,
        launches: &[L],
        (rank, fold): (Rank, u32),
        number: impl Fn(&L) -> u64,
    ) -> u64 {
        let mut denied = 0;
        for launch in launches {
            let plain = launch.plain();
            denied += u64::from(plain.denied());
            self.api(plain.api())[plain.outcome() as usize] += 1;
            let Some(shape) = plain.shape() else { continue };
            self.shape(shape).add(plain.outcome(), fold, || (rank, number(launch)));
        }
        denied
    }

    /// Counts what takes no order of launches' records.
    pub(crate) fn count_records(&mut self, launches: &[Timed]) {
        launches.iter().filter_map(Timed::took).for_each(|(api, took)| self.tally.add(api, took));
    }

    /// Whether hooks may pass launches of a shape, counted already, without a token.
    #[inline]
    pub(super) fn maybe_free(&self, shape: Option<ShapeId>) -> bool {
        shape.and_then(|shape| self.launches.get(shape as usize)).is_some_and(|launches| launches.maybe_free)
    }

    #[inline(always)]
    fn api(&mut self, api: NameId) -> &mut [u64; 3] {
        let api = api as usize;
        if self.apis.len() <= api {
            self.apis.resize(api + 1, [0; 3]);
        }
        &mut self.apis[api]
    }

    #[inline(always)]
    fn shape(&mut self, shape: ShapeId) -> &mut Launches {
        let shape = shape as usize;
        while self.launches.len() <= shape {
            self.launches.push(Launches::none(self.shapes.all().get(self.launches.len())));
        }
        &mut self.launches[shape]
    }

    /// APIs that were called.
    pub(super) fn apis(&self) -> impl Iterator<Item = (NameId, [u64; 3])> {
        self.apis
            .iter()
            .enumerate()
            .filter(|(_, counts)| **counts != [0; 3])
            .map(|(id, counts)| (id as NameId, *counts))
    }

    /// Shapes that were launched.
    pub(super) fn launches(&self) -> impl Iterator<Item = (Shape, Launches)> {
        self.shapes.all().iter().copied().zip(self.launches.iter().copied()).filter(|(_, l)| l.counts != [0; 3])
    }
}
