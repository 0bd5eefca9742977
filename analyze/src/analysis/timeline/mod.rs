//! When each call happened, and how it is known.
//!
//! Records carry the monotonic clock. Lines may stand behind a time that a container runtime or a launcher put there:
//! the moment when it read the line. Lines without one carry no time, but a bucket is a clock: tokens that grew by k at
//! a known rate took k / rate seconds. Within a stretch in which the bucket was never full this is right to one printed
//! decimal (0.1 / rate) however many launches it holds, because the growth is taken from the stretch's beginning and
//! not summed up launch by launch. Where the bucket was full again, what overflowed is not in the log, and the time
//! is a lower bound.
//!
//! A wall clock may be set back. By less than a second it is taken for lines of several writers that stand out of
//! order, and time stands still until the latest stamp is passed; by more, time goes on from there, and what passed
//! meanwhile is not known: a lower bound, too. No duration is ever negative, and equal stamps keep the file's order.

use hook_event::Kind;
use serde::Serialize;

use crate::analysis::packed::packed;
use crate::events::{Columns, Process};
use crate::step::Step;

#[cfg(test)]
mod tests;

/// Half of the last printed decimal of a token level.
pub(super) const ROUNDING: f64 = 0.05;

/// Wall-clock stamps further back than this, ns, are of a clock that was set.
const SET_BACK: i64 = 1_000_000_000;

/// Where times come from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeBase {
    /// The monotonic clock of the records.
    Monotonic,
    /// The wall clock of what stands before the lines.
    Wall,
    /// Growth of tokens at the known rate.
    Inferred,
    /// None of these: calls are only numbered.
    Sequence,
}

impl TimeBase {
    /// A time without digits that are no information: an inferred one comes as 0.6000000000000001.
    pub(super) fn digits(self, seconds: f64) -> f64 {
        if self == TimeBase::Inferred { (seconds * 1e6).round() / 1e6 } else { seconds }
    }
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
    /// By how much a time may be wrong either way, s, against others between the same two breaks: 0.1 / rate for
    /// inferred ones (launches'; another call's is that of the launch before), the stamps' resolution for the wall
    /// clock; `None` for the others.
    pub error_s: Option<f64>,
    /// Whether more time may have passed somewhere than is known.
    pub lower_bound: bool,
    /// How often: the number of breaks.
    pub gaps: u64,
    /// The calls, as positions in the process, before which more time may have passed than [`Self::at`] tells: the bucket
    /// was full again, or the clock was set back. Empty where only figures were asked for.
    pub breaks: Vec<usize>,
}

/// The timeline of `process`.
pub fn of(calls: &Columns, process: &Process) -> Timeline {
    let mut clock = Clock::default();
    let mut moments = Vec::with_capacity(process.rows.len());
    for i in process.rows.clone() {
        clock.step(process, &Step::with_shape(&calls.row(i), None));
        moments.push(clock.moment());
    }
    let timeline = clock.timeline(process);
    let base = timeline.base;
    if base == TimeBase::Sequence {
        return Timeline { at: (1..=process.rows.len()).map(|number| number as f64).collect(), ..timeline };
    }
    let start = Moment { mono_ns: clock.stamps.map(|(first, _)| first), ..Moment::default() };
    // A call without a stamp (a last line whose record was cut off) is taken for as late as the one before it.
    let at = moments.iter().map(|moment| start.until(moment, base).map_or(0.0, |(passed, _)| passed)).collect();
    let mut gaps = 0;
    let broken = |(position, moment): (usize, &Moment)| {
        let more = moment.gaps(base) > gaps;
        gaps = moment.gaps(base);
        more.then_some(position)
    };
    let breaks = moments.iter().enumerate().filter_map(broken).collect();
    Timeline { at, breaks, ..timeline }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A moment on every clock: which of them is the process's is known when all its calls are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moment {
    /// `None` before the first stamp.
    mono_ns: Option<u64>,
    /// Since the first stamp, and how often the clock was set back until then.
    wall_ns: u64,
    set_back: u64,
    /// Since the first launch, and how often the bucket was full again until then.
    inferred_s: f64,
    full: u64,
}

packed!(Moment { mono_ns, wall_ns, set_back, inferred_s, full });

impl Moment {
    /// Seconds from here to `later`, and whether it may have been more. `None` where no clock tells.
    pub(super) fn until(&self, later: &Moment, base: TimeBase) -> Option<(f64, bool)> {
        let passed = match base {
            TimeBase::Monotonic => seconds(later.mono_ns?.saturating_sub(self.mono_ns?)),
            TimeBase::Wall => seconds(later.wall_ns.saturating_sub(self.wall_ns)),
            TimeBase::Inferred => later.inferred_s - self.inferred_s,
            TimeBase::Sequence => return None,
        };
        Some((passed, later.gaps(base) > self.gaps(base)))
    }

    fn gaps(&self, base: TimeBase) -> u64 {
        match base {
            TimeBase::Wall => self.set_back,
            TimeBase::Inferred => self.full,
            TimeBase::Monotonic | TimeBase::Sequence => 0,
        }
    }
}

/// The time that a process's calls cover, call by call.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    calls: u64,
    /// The first and the last stamp of the monotonic clock.
    pub(super) stamps: Option<(u64, u64)>,
    /// The latest in order.
    mono_ns: Option<u64>,
    wall: Wall,
    /// Launches that tell a level.
    levels: u64,
    inferred: Inferred,
}

packed!(Clock { calls, stamps, mono_ns, wall, levels, inferred });

impl Clock {
    /// Takes a call of `process` in.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step) {
        self.calls += 1;
        if let Some(ns) = step.mono_ns {
            self.stamps = Some(self.stamps.map_or((ns, ns), |(first, last)| (first.min(ns), last.max(ns))));
            self.mono_ns = Some(ns);
        }
        if let Some(ns) = step.wall_ns {
            self.wall.stamp(ns);
        }
        if let (Kind::Launch, Some(tokens)) = (step.kind, step.tokens) {
            self.launch(process, tokens, step.cost());
        }
    }

    /// Whether no call so far tells its time.
    pub(super) fn is_untimed(&self) -> bool {
        self.stamps.is_none() && self.wall.stamped == 0
    }

    /// Begins anew, but for the stamps.
    pub(super) fn forget_launches(&mut self) {
        (self.levels, self.inferred) = (0, Inferred::default());
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

    /// Takes launches' lines in, while it is untimed: so many, and one after the other, by level and cost. Gives of each
    /// the inferred moment's seconds, and how often the bucket was full again until then.
    #[inline(always)]
    pub(super) fn launches(&mut self, process: &Process, launches: u64) -> impl FnMut(f64, f64) -> (f64, u64) {
        self.calls += launches;
        self.levels += launches;
        let bucket = own_bucket(process);
        move |tokens, cost| {
            if let Some((rate, capacity)) = bucket {
                self.inferred.launch(rate, capacity, tokens, cost);
            }
            (self.inferred.now, self.inferred.full)
        }
    }

    /// Takes launches' records in, after the first stamp: their earliest and their latest time, and that of the last one if no
    /// call stands behind it. Gives the moment of one by its time.
    #[inline]
    pub(super) fn records(&mut self, launches: u64, ends: (u64, u64), last: Option<u64>) -> impl Fn(u64) -> Moment {
        self.calls += launches;
        self.stamps = Some(self.stamps.map_or(ends, |(first, last)| (first.min(ends.0), last.max(ends.1))));
        self.mono_ns = last.or(self.mono_ns);
        let moment = self.moment();
        move |ns| Moment { mono_ns: Some(ns), ..moment }
    }

    /// The moment of the last call.
    #[inline]
    pub(super) fn moment(&self) -> Moment {
        Moment {
            mono_ns: self.mono_ns,
            wall_ns: self.wall.passed_ns,
            set_back: self.wall.set_back,
            ..self.inferred_moment(Moment::default())
        }
    }

    /// A moment that is only inferred.
    #[inline]
    pub(super) fn by_growth((inferred_s, full): (f64, u64)) -> Moment {
        Moment { inferred_s, full, ..Moment::default() }
    }

    /// A moment whose part that is inferred is the present one.
    #[inline]
    pub(super) fn inferred_moment(&self, moment: Moment) -> Moment {
        Moment { inferred_s: self.inferred.now, full: self.inferred.full, ..moment }
    }

    /// How the times of `process` are known.
    pub(super) fn base(&self, process: &Process) -> TimeBase {
        match own_bucket(process) {
            _ if self.stamps.is_some() => TimeBase::Monotonic,
            // Not where a stray line has one.
            _ if self.wall.stamped > 0 && self.wall.stamped >= self.calls.div_ceil(2) => TimeBase::Wall,
            Some(_) if self.levels > 0 => TimeBase::Inferred,
            _ => TimeBase::Sequence,
        }
    }

    /// The timeline, without the times of single calls.
    pub(super) fn timeline(&self, process: &Process) -> Timeline {
        let base = self.base(process);
        let (duration_s, error_s, gaps) = match base {
            TimeBase::Monotonic => (self.stamps.map(|(first, last)| seconds(last - first)), None, 0),
            TimeBase::Wall => (Some(seconds(self.wall.passed_ns)), Some(self.wall.resolution_s()), self.wall.set_back),
            TimeBase::Inferred => {
                let error = own_bucket(process).map(|(rate, _)| 2.0 * ROUNDING / rate);
                (Some(self.inferred.now), error, self.inferred.full)
            }
            TimeBase::Sequence => (None, None, 0),
        };
        Timeline { base, at: Vec::new(), duration_s, error_s, lower_bound: gaps > 0, gaps, breaks: Vec::new() }
    }

    /// The first and the last moment on the clock of `base`, ns, where it tells them: what several processes share.
    pub(super) fn ends(&self, base: TimeBase) -> Option<(i128, i128)> {
        match base {
            TimeBase::Monotonic => self.stamps.map(|(first, last)| (first.into(), last.into())),
            TimeBase::Wall => {
                let first = self.wall.first.filter(|_| self.wall.set_back == 0)?;
                Some((first.into(), i128::from(first) + i128::from(self.wall.passed_ns)))
            }
            TimeBase::Inferred | TimeBase::Sequence => None,
        }
    }
}

/// Time by stamps of the wall clock.
#[derive(Clone, Debug, Default)]
struct Wall {
    first: Option<i64>,
    latest: i64,
    passed_ns: u64,
    set_back: u64,
    /// Calls with a stamp.
    stamped: u64,
    /// Which of [`RESOLUTIONS`] the stamps need.
    digits: usize,
}

packed!(Wall { first, latest, passed_ns, set_back, stamped, digits });

/// What the last digit of a stamp may stand for, ns.
const RESOLUTIONS: [i64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

impl Wall {
    fn stamp(&mut self, ns: i64) {
        self.stamped += 1;
        while ns % RESOLUTIONS[self.digits] != 0 {
            self.digits += 1;
        }
        if self.first.is_none() {
            (self.first, self.latest) = (Some(ns), ns);
        } else if ns >= self.latest {
            self.passed_ns = self.passed_ns.saturating_add(ns.abs_diff(self.latest));
            self.latest = ns;
        } else if ns < self.latest.saturating_sub(SET_BACK) {
            self.latest = ns;
            self.set_back += 1;
        }
    }

    fn resolution_s(&self) -> f64 {
        RESOLUTIONS[self.digits] as f64 / 1e9
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
    /// How often the bucket was full again.
    full: u64,
    stretch: Option<Stretch>,
}

packed!(Inferred { now, full, stretch });

/// Launches since the bucket was last full.
#[derive(Clone, Debug)]
struct Stretch {
    from: f64,
    /// Level at the beginning.
    tokens: f64,
    /// Tokens taken since.
    passed: f64,
}

packed!(Stretch { from, tokens, passed });

impl Inferred {
    #[inline(always)]
    fn launch(&mut self, rate: f64, capacity: f64, after: f64, cost: f64) {
        let full = after + cost >= capacity - ROUNDING - 1e-9;
        if let Some(stretch) = &mut self.stretch {
            self.now = self.now.max(stretch.from + (after + cost + stretch.passed - stretch.tokens) / rate);
            stretch.passed += cost;
            self.full += u64::from(full);
        }
        if full || self.stretch.is_none() {
            self.stretch = Some(Stretch { from: self.now, tokens: after, passed: 0.0 });
        }
    }
}

/// What the analysis's common time is made of, a process after the other.
#[derive(Default)]
pub(super) struct Overall<'a> {
    processes: usize,
    /// The first of them, and its duration.
    first: Option<(&'a Process, Option<f64>)>,
    /// The weakest base.
    base: Option<TimeBase>,
    other_bases: bool,
    other_hosts: bool,
    /// First and last moment, while every process tells them.
    ends: Option<Option<(i128, i128)>>,
    /// The largest error of each base.
    errors: [Option<f64>; TimeBase::Sequence as usize + 1],
    gaps: u64,
}

impl<'a> Overall<'a> {
    /// Takes a process and its time in.
    pub(super) fn take(&mut self, process: &'a Process, clock: &Clock, timeline: &Timeline) {
        if process.rows.is_empty() {
            return;
        }
        self.processes += 1;
        let (first, _) = *self.first.get_or_insert((process, timeline.duration_s));
        self.other_hosts |= first.host != process.host;
        let weakest = self.base.unwrap_or(timeline.base).max(timeline.base);
        self.other_bases |= self.base.is_some_and(|base| base != timeline.base);
        self.base = Some(weakest);
        let both = |all: (i128, i128), one: (i128, i128)| (all.0.min(one.0), all.1.max(one.1));
        let ends = clock.ends(timeline.base);
        self.ends = Some(self.ends.map_or(ends, |all| all.zip(ends).map(|(all, one)| both(all, one))));
        let error = &mut self.errors[timeline.base as usize];
        *error = error.iter().copied().chain(timeline.error_s).reduce(f64::max);
        self.gaps += timeline.gaps;
    }

    /// The common time: the weakest base of its processes; a duration only for what one clock covers.
    pub(super) fn timeline(self) -> Timeline {
        let base = self.base.unwrap_or(TimeBase::Sequence);
        let duration_s = match self.first {
            Some((_, duration_s)) if self.processes == 1 => duration_s,
            _ => {
                // One host's processes share their clock; wall clocks are set alike everywhere.
                let apart = self.other_bases || base == TimeBase::Monotonic && self.other_hosts;
                let ends = self.ends.flatten().filter(|_| !apart);
                ends.map(|(first, last)| (last - first) as f64 / 1e9)
            }
        };
        Timeline {
            base,
            at: Vec::new(),
            duration_s,
            error_s: self.errors[base as usize],
            lower_bound: self.gaps > 0,
            gaps: self.gaps,
            breaks: Vec::new(),
        }
    }
}
