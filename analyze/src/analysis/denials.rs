//! Episodes of denial: runs of launches that the hook refused, with none let through between them; how long they lasted and
//! how soon a launch was let through again.
//!
//! Folded call by call: the longest runs are kept, all are counted.

use hook_event::Outcome;
use serde::Serialize;

use super::fold::{Fold, STREAKS};
use super::packed::packed;
use super::timeline::{Moment, TimeBase};
use crate::events::Process;

/// Episodes that are listed.
const LISTED: usize = 20;

/// A launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    /// Number of the call in its process, from 1.
    pub(super) call: u64,
    pub(super) line: u64,
    pub(super) moment: Moment,
}

packed!(At { call, line, moment });

/// A run of denied launches.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: At,
    last: At,
    length: u64,
    recovered: Option<At>,
}

packed!(Run { first, last, length, recovered });

impl Run {
    /// From the first of them to the launch that was let through, or to the last one where none was.
    fn starved(&self, base: TimeBase) -> Option<(f64, bool)> {
        self.first.moment.until(&self.recovered.unwrap_or(self.last).moment, base)
    }
}

/// What becomes of a process's launches.
#[derive(Clone, Debug, Default)]
pub(super) struct Denials {
    /// Launches that asked for a token, and those let through among them.
    pub(super) asked: u64,
    pub(super) admitted: u64,
    /// The first and the last of them.
    ends: Option<(Moment, Moment)>,
    /// Where one was denied: many processes are never, and this is large.
    pub(super) runs: Option<Box<Runs>>,
}

packed!(Denials { asked, admitted, ends, runs });

/// A process's runs of denied launches.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// The first runs: number of the first call, length.
    pub(super) list: Vec<(u64, u64)>,
    /// All runs.
    pub(super) count: u64,
    /// The longest, the first of equals.
    pub(super) longest: Option<(u64, u64)>,
    /// The longest ones, longest first.
    top: Vec<Run>,
    /// The one that lasted longest, on each clock.
    worst: [Option<(f64, Box<Run>)>; CLOCKS.len()],
    now: Option<Run>,
}

packed!(Runs { list, count, longest, top, worst, now });

const CLOCKS: [TimeBase; 3] = [TimeBase::Monotonic, TimeBase::Wall, TimeBase::Inferred];

impl Denials {
    /// Takes a launch in; `free`: it needed no token.
    #[inline]
    pub(super) fn launch(&mut self, at: At, outcome: Outcome, free: bool) {
        if !free {
            self.asked += 1;
            self.admitted += u64::from(outcome != Outcome::Denied);
            self.ends.get_or_insert((at.moment, at.moment)).1 = at.moment;
        }
        if outcome == Outcome::Denied {
            let runs = self.runs.get_or_insert_default();
            let run = runs.now.get_or_insert(Run { first: at, last: at, length: 0, recovered: None });
            (run.last, run.length) = (at, run.length + 1);
        } else if let Some(runs) = self.runs.as_mut().filter(|runs| runs.now.is_some()) {
            runs.end(Some(at));
        }
    }

    /// Takes launches in that all asked for a token: each with whether it was denied, and what [`At`] is made of where it
    /// is needed.
    #[inline(always)]
    pub(super) fn launches<L: Copy>(&mut self, all: impl Iterator<Item = (L, bool)>, at: impl Fn(L) -> At) {
        let mut runs = self.runs.take();
        let mut now = runs.as_mut().and_then(|runs| runs.now.take());
        let (mut first, mut before, mut asked, mut denied) = (None, None, 0, 0);
        for (launch, is_denied) in all {
            asked += 1;
            if asked == 1 {
                first = Some(launch);
            }
            if is_denied {
                denied += 1;
                let begin = || Run { first: at(launch), last: at(launch), length: 0, recovered: None };
                now.get_or_insert_with(begin).length += 1;
            } else if let Some(run) = now.take() {
                let run = Run { last: before.map_or(run.last, &at), recovered: Some(at(launch)), ..run };
                runs.get_or_insert_default().ended(run);
            }
            before = Some(launch);
        }
        if let Some(run) = now {
            let last = before.map_or(run.last, &at);
            runs.get_or_insert_default().now = Some(Run { last, ..run });
        }
        self.runs = runs;
        self.asked += asked;
        self.admitted += asked - denied;
        if let (Some(first), Some(last)) = (first, before) {
            let first = at(first).moment;
            self.ends.get_or_insert((first, first)).1 = at(last).moment;
        }
    }

    /// No launch will come.
    pub(super) fn end(&mut self) {
        if let Some(runs) = &mut self.runs {
            runs.end(None);
        }
    }

    /// Time from the first launch that asked to the last, s, and whether it may have been more.
    pub(super) fn span(&self, base: TimeBase) -> Option<(f64, bool)> {
        self.ends.and_then(|(first, last)| first.until(&last, base))
    }
}

impl Runs {
    /// The run under way, if one is, has ended, by a launch that was let through or with the log.
    fn end(&mut self, recovered: Option<At>) {
        if let Some(run) = self.now.take() {
            self.ended(Run { recovered, ..run });
        }
    }

    /// A run has ended.
    #[inline(always)]
    fn ended(&mut self, run: Run) {
        self.count += 1;
        let mut stands_out = self.list.len() < STREAKS || self.top.last().is_none_or(|last| run.length > last.length);
        for (worst, base) in self.worst.iter().zip(CLOCKS) {
            let longer = |lasted: f64| worst.as_ref().is_none_or(|(most, _)| lasted > *most);
            stands_out |= run.starved(base).is_some_and(|(lasted, _)| longer(lasted));
        }
        if stands_out {
            self.list(run);
        }
    }

    /// Keeps a run that is among the first, the longest or those that lasted longest.
    #[cold]
    fn list(&mut self, run: Run) {
        let brief = (run.first.call, run.length);
        if self.list.len() < STREAKS {
            self.list.push(brief);
        }
        if self.longest.is_none_or(|longest| run.length > longest.1) {
            self.longest = Some(brief);
        }
        if self.top.len() < LISTED || self.top.last().is_some_and(|last| run.length > last.length) {
            let place = self.top.partition_point(|other| other.length >= run.length);
            // There may be many processes, and a run is large.
            self.top.reserve_exact(1);
            self.top.insert(place, run);
            self.top.truncate(LISTED);
        }
        for (worst, base) in self.worst.iter_mut().zip(CLOCKS) {
            if let Some((lasted, _)) = run.starved(base)
                && worst.as_ref().is_none_or(|(most, _)| lasted > *most)
            {
                *worst = Some((lasted, Box::new(run)));
            }
        }
    }
}

/// Runs of denied launches with no launch let through between them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpisodeFigures {
    /// All of them.
    pub count: u64,
    /// Those of most launches, at most 20: the longest first, of equals the first.
    pub longest: Vec<Episode>,
}

/// One of them. Times are `None` where the log has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Episode {
    /// Index in `processes`.
    pub process: usize,
    /// Where its times come from.
    pub base: TimeBase,
    /// Denied launches in it.
    pub length: u64,
    /// Number of the first of them among the calls of the process, from 1.
    pub first_call: u64,
    /// Its line.
    pub first_line: u64,
    /// Number of the last.
    pub last_call: u64,
    /// Its line.
    pub last_line: u64,
    /// From the first to the last, s.
    pub duration_s: Option<f64>,
    /// Whether it may have been longer.
    pub duration_is_lower_bound: bool,
    /// Number of the launch that was let through after them; `None` where the log ends before.
    pub recovered_call: Option<u64>,
    /// Its line.
    pub recovered_line: Option<u64>,
    /// From the first denied launch to that one, s.
    pub recovery_s: Option<f64>,
    /// Whether it may have been longer.
    pub recovery_is_lower_bound: bool,
}

/// The longest time in which launches were asked for and none was let through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Starvation {
    /// From the first denied launch to the next one let through, or to the last denied one where none was, s.
    pub seconds: f64,
    /// Whether it may have been longer.
    pub lower_bound: bool,
    /// The episode in which it was.
    #[serde(flatten)]
    pub episode: Episode,
}

fn episode(run: &Run, process: usize, base: TimeBase) -> Episode {
    let duration = run.first.moment.until(&run.last.moment, base);
    let recovery = run.recovered.and_then(|at| run.first.moment.until(&at.moment, base));
    Episode {
        process,
        base,
        length: run.length,
        first_call: run.first.call,
        first_line: run.first.line,
        last_call: run.last.call,
        last_line: run.last.line,
        duration_s: duration.map(|(seconds, _)| base.digits(seconds)),
        duration_is_lower_bound: duration.is_some_and(|(_, bound)| bound),
        recovered_call: run.recovered.map(|at| at.call),
        recovered_line: run.recovered.map(|at| at.line),
        recovery_s: recovery.map(|(seconds, _)| base.digits(seconds)),
        recovery_is_lower_bound: recovery.is_some_and(|(_, bound)| bound),
    }
}

/// The episodes of all processes whose calls are in order.
#[derive(Default)]
pub(super) struct Episodes {
    count: u64,
    longest: Vec<Episode>,
    starvation: Option<Starvation>,
}

impl Episodes {
    /// Takes those of the process with this index in.
    pub(super) fn take(&mut self, index: usize, process: &Process, fold: &Fold) {
        let Some(runs) = fold.denials.runs.as_deref().filter(|_| fold.late() == 0) else { return };
        let base = fold.clock.base(process);
        self.count += runs.count;
        for run in &runs.top {
            // Equals stay in the order of the processes, and of their calls.
            let place = self.longest.partition_point(|other| other.length >= run.length);
            if place < LISTED {
                self.longest.insert(place, episode(run, index, base));
                self.longest.truncate(LISTED);
            }
        }
        let worst = CLOCKS.iter().position(|clock| *clock == base).and_then(|clock| runs.worst[clock].as_ref());
        let Some((_, run)) = worst else { return };
        if let Some((seconds, lower_bound)) = run.starved(base) {
            let seconds = base.digits(seconds);
            // The first of equals.
            if self.starvation.as_ref().is_none_or(|most| seconds > most.seconds) {
                self.starvation = Some(Starvation { seconds, lower_bound, episode: episode(run, index, base) });
            }
        }
    }

    /// All of them, and the one that lasted longest: `None` where nothing was denied, or no clock tells.
    pub(super) fn figures(self) -> (EpisodeFigures, Option<Starvation>) {
        (EpisodeFigures { count: self.count, longest: self.longest }, self.starvation)
    }
}
