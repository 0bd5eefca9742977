//! The figures of an analysis, as `--json` prints them and every other output shows them.

use std::collections::{BTreeMap, BTreeSet};

use hook_event::Dim3;
use serde::Serialize;

use super::conformance::{self, Check, Status};
use super::coverage::Coverage;
use super::denials::{self, EpisodeFigures, Starvation};
use super::fairness::{self, Fairness};
pub use super::fold::Trends;
use super::fold::{Fold, Launches, Levels, STREAKS, Totals};
use super::lab::Lab;
use super::memory::Memory;
use super::narrow::FilterFigures;
use super::notes;
use super::overhead::Overhead;
use super::timeline::{self, Clock, TimeBase, Timeline};
use super::whatif::{Size, WhatIf};
use crate::classes::Classes;
use crate::events::{Events, Limit, Note, Process};
use crate::step::{Shape, Step};

/// Version of the keys.
pub const SCHEMA: u32 = 1;

/// All figures.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The files and the account of their lines.
    pub inputs: Vec<InputFigures>,
    /// Which calls the figures are of, where they are not of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterFigures>,
    /// The limits, where all processes have the same.
    pub config: ConfigFigures,
    /// Names under which processes share their limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    /// Calls by API, most calls first, then by name.
    pub apis: Vec<ApiFigures>,
    /// Device memory: sums over the processes; the peak is the highest of any one process.
    pub memory: MemoryFigures,
    /// Token levels after each launch's decision.
    pub tokens: TokenFigures,
    /// Launch shapes, most launches first, then in the order of their first launch.
    pub dims: Vec<ShapeFigures>,
    /// Time covered.
    pub time: TimeFigures,
    /// Runs of denied launches with their times; `None` where the order of calls is not known, or only some were chosen.
    pub episodes: Option<EpisodeFigures>,
    /// The longest time without a launch let through while launches were asked for; `None` as above, where none was denied,
    /// and where the log has no time.
    pub starvation: Option<Starvation>,
    /// How evenly processes' launches were let through; `None` where only some calls were chosen.
    pub fairness: Option<Fairness>,
    /// What the hook added to calls, by API.
    pub overhead: Overhead,
    /// Rules kept or broken.
    pub checks: Vec<Check>,
    /// What other buckets would have done, where that was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
    /// The slowest buckets that refuse no more than was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Size>,
    /// The evidence for the lab's rubric, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<Lab>,
    /// What went past the hook.
    pub coverage: Coverage,
    /// Each process by itself.
    pub processes: Vec<ProcessFigures>,
    /// What a reader of the figures should know.
    pub notes: Vec<Note>,
}

impl Summary {
    /// The quota that one process's peak may be held against: none where others draw on it too.
    pub fn own_quota(&self) -> Option<u64> {
        self.config.quota_bytes.filter(|_| self.shared.is_empty())
    }

    /// Whether the memory figures are those of the processes, as far as the log can tell: no total that a line or record
    /// states contradicts the replay.
    pub fn memory_is_sure(&self) -> bool {
        self.checks
            .iter()
            .all(|check| check.id != "total-matches" || (check.status != Status::Fail && check.line.is_none()))
    }
}

/// An input's lines: `lines` = lines with `events` and `left_out` + `other_lines` + `bad_lines` + `oversized_lines` +
/// `cut_lines`.
#[derive(Clone, Debug, Serialize)]
pub struct InputFigures {
    /// Its path.
    pub path: String,
    /// Lines.
    pub lines: u64,
    /// Records taken in, banner lines included.
    pub events: u64,
    /// Records of other runs in an event file.
    pub left_out: u64,
    /// Lines of other programs.
    pub other_lines: u64,
    /// Damaged or unknown lines of the hook.
    pub bad_lines: u64,
    /// Lines too long to be looked into.
    pub oversized_lines: u64,
    /// The last line, where the input ends in the middle of a record.
    pub cut_lines: u64,
    /// Each line counted once, by what it is.
    pub classes: Classes,
}

/// Limits; `null` where unknown, off, or not the same in all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ConfigFigures {
    /// Quota, bytes.
    pub quota_bytes: Option<u64>,
    /// Rate, tokens/s.
    pub rate: Option<f64>,
    /// Capacity, tokens.
    pub capacity: Option<f64>,
    /// Whether the log says that there is no quota, rather than nothing.
    #[serde(skip)]
    pub quota_off: bool,
    /// The same of the rate.
    #[serde(skip)]
    pub rate_off: bool,
}

/// Calls of one API: `calls = ok + denied + failed + unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiFigures {
    /// Name.
    pub api: String,
    /// All.
    pub calls: u64,
    /// Let through and accepted.
    pub ok: u64,
    /// Refused by the hook.
    pub denied: u64,
    /// Let through and refused by CUDA.
    pub failed: u64,
    /// Of which the log does not tell how they ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Memory by replay of the log. All `null` where the log does not tell what was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "MaybeMemory")]
pub struct MemoryFigures {
    /// Highest live bytes.
    pub peak_bytes: u64,
    /// Live bytes at the end.
    pub live_bytes: u64,
    /// Bytes granted.
    pub allocated_bytes: u64,
    /// Bytes given back.
    pub freed_bytes: u64,
    /// Frees of addresses not seen allocated.
    pub unknown_frees: u64,
    /// Whether none of these is known.
    pub untold: bool,
}

/// As `--json` prints them.
#[derive(Serialize)]
struct MaybeMemory {
    peak_bytes: Option<u64>,
    live_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    freed_bytes: Option<u64>,
    unknown_frees: Option<u64>,
}

impl From<MemoryFigures> for MaybeMemory {
    fn from(memory: MemoryFigures) -> Self {
        let told = |value| (!memory.untold).then_some(value);
        MaybeMemory {
            peak_bytes: told(memory.peak_bytes),
            live_bytes: told(memory.live_bytes),
            allocated_bytes: told(memory.allocated_bytes),
            freed_bytes: told(memory.freed_bytes),
            unknown_frees: told(memory.unknown_frees),
        }
    }
}

/// Levels; `first` and `last` only where there is one process. All `null` where only some calls were chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "MaybeTokens")]
pub struct TokenFigures {
    /// After the first launch.
    pub first: Option<f64>,
    /// Lowest.
    pub min: Option<f64>,
    /// Highest.
    pub max: Option<f64>,
    /// After the last launch.
    pub last: Option<f64>,
    /// Runs of denied launches with no launch let through between them: the first 1000 of them.
    pub denial_streaks: Vec<Streak>,
    /// All of them.
    pub denial_streak_count: u64,
    /// The longest; of several the first.
    pub longest_denial_streak: Option<Streak>,
    /// Whether none of these is known.
    pub untold: bool,
}

/// As `--json` prints them.
#[derive(Serialize)]
struct MaybeTokens {
    first: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    last: Option<f64>,
    denial_streaks: Option<Vec<Streak>>,
    denial_streak_count: Option<u64>,
    longest_denial_streak: Option<Streak>,
}

impl From<TokenFigures> for MaybeTokens {
    fn from(tokens: TokenFigures) -> Self {
        let TokenFigures { first, min, max, last, denial_streaks, denial_streak_count, longest_denial_streak, untold } =
            tokens;
        MaybeTokens {
            first,
            min,
            max,
            last,
            denial_streaks: (!untold).then_some(denial_streaks),
            denial_streak_count: (!untold).then_some(denial_streak_count),
            longest_denial_streak,
        }
    }
}

/// A run of denied launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Streak {
    /// Number of its first call among the calls of the process, from 1.
    pub first_call: u64,
    /// Denied launches in it.
    pub length: u64,
    /// Index in `processes`.
    pub process: usize,
}

/// Launches of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShapeFigures {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Launches.
    pub calls: u64,
    /// Refused by the hook among them.
    pub denied: u64,
    /// Refused by CUDA among them.
    pub failed: u64,
}

/// Time covered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeFigures {
    /// How it is known.
    pub base: TimeBase,
    /// From the first call to the last, s.
    pub duration_s: Option<f64>,
    /// By how much a time may be wrong either way, s: inferred ones by 0.1 / rate as long as the bucket was not full again,
    /// stamps before lines by their resolution; `None` for the others.
    pub error_s: Option<f64>,
    /// Whether more may have passed.
    pub lower_bound: bool,
    /// How often more may have passed between two calls: the bucket was full again, or the clock was set back.
    pub lower_bound_gaps: u64,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessFigures {
    /// Process id.
    pub pid: Option<u32>,
    /// Program.
    pub exe: Option<String>,
    /// Line of its banner or `start` record.
    pub first_line: u64,
    /// Calls.
    pub calls: u64,
    /// Refused by the hook among them.
    pub denied: u64,
    /// Its limits.
    pub config: ConfigFigures,
    /// Its quotas on single devices, bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub device_quotas: BTreeMap<i32, u64>,
    /// The name under which it shares quota and bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// Its memory.
    pub memory: MemoryFigures,
    /// Its levels.
    pub tokens: TokenFigures,
    /// Its time.
    pub time: TimeFigures,
    /// How its levels and its memory went; `None` beyond the first 64 processes.
    #[serde(skip)]
    pub trends: Option<Box<Trends>>,
    /// Records that the hook could not write.
    pub lost: Option<u64>,
    /// Records that stand too far behind later ones to be put in order: what depends on it is then `null`.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_order: u64,
}

/// Figures, and what charts need beside them.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The figures.
    pub summary: Summary,
    /// Times, a process each.
    pub timelines: Vec<Timeline>,
    /// Memory, a process each.
    pub memories: Vec<Memory>,
    /// Of each call whether the outputs are about it; `None`: they are about all.
    pub chosen: Option<Vec<bool>>,
}

impl Analysis {
    /// Whether the outputs are about call `i`.
    pub fn is_chosen(&self, i: usize) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.get(i).copied().unwrap_or(false))
    }
}

/// Works everything out.
pub fn analyse(events: &Events) -> Analysis {
    analyse_into(events, &mut Totals::default())
}

/// The same; what is counted over all processes is left in `totals`.
pub(crate) fn analyse_into(events: &Events, totals: &mut Totals) -> Analysis {
    let (mut memories, mut folds) = (Vec::new(), Vec::new());
    for (index, process) in events.processes.iter().enumerate() {
        let mut fold = Fold::new((0, 0, index as u32), totals);
        let step = |i| {
            let step = Step::of(&events.calls.row(i), &mut totals.shapes);
            totals.count(&step);
            fold.step(process, &step, totals)
        };
        let live_after = process.rows.clone().map(step).collect();
        fold.finish(process);
        memories.push(Memory { live_after, ..fold.replay.memory.clone() });
        folds.push(Box::new(fold));
    }
    let timelines = events.processes.iter().map(|p| timeline::of(&events.calls, p)).collect();
    Analysis { summary: assemble(events, &folds, totals), timelines, memories, chosen: None }
}

/// The figures of processes whose calls were folded. Of `events` all but the calls is needed, and how many each process
/// has.
pub(crate) fn assemble(events: &Events, folds: &[Box<Fold>], totals: &Totals) -> Summary {
    let clocks: Vec<&Clock> = folds.iter().map(|fold| &fold.clock).collect();
    let processes: Vec<ProcessFigures> = events
        .processes
        .iter()
        .zip(folds)
        .enumerate()
        .map(|(index, (process, fold))| process_figures(index, process, fold, &fold.clock.timeline(process)))
        .collect();
    let (apis, tokens) = (apis(events, totals), overall_tokens(&processes));
    Summary {
        schema: SCHEMA,
        inputs: inputs(events),
        filter: None,
        config: common_config(&processes),
        shared: events.processes.iter().filter_map(|p| p.shared.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        episodes: (!tokens.untold).then(|| denials::episodes(&events.processes, folds)),
        starvation: denials::starvation(&events.processes, folds),
        fairness: Some(fairness::fairness(&events.processes, folds)),
        overhead: totals.tally.figures(&apis, |id| events.names.text(id)),
        apis,
        memory: total_memory(&processes),
        tokens,
        dims: shapes(totals),
        time: time_figures(&timeline::overall(events, &clocks)),
        checks: conformance::checks(events, folds),
        what_if: Vec::new(),
        sizes: Vec::new(),
        lab: None,
        coverage: Coverage::of(events),
        processes,
        notes: notes::all(events, folds),
    }
}

fn inputs(events: &Events) -> Vec<InputFigures> {
    let figures = |source: &crate::events::Source| InputFigures {
        path: source.path.display().to_string(),
        lines: source.lines,
        events: source.events,
        left_out: source.left_out,
        other_lines: source.other_lines,
        bad_lines: source.bad_lines,
        oversized_lines: source.oversized_lines,
        cut_lines: source.cut_lines,
        classes: source.classes.clone(),
    };
    events.sources.iter().map(figures).collect()
}

fn config_of(process: &Process) -> ConfigFigures {
    let bucket = process.bucket.value();
    ConfigFigures {
        quota_bytes: process.quota.value(),
        rate: bucket.map(|(rate, _)| rate),
        capacity: bucket.map(|(_, capacity)| capacity),
        quota_off: process.quota == Limit::Off,
        rate_off: process.bucket == Limit::Off,
    }
}

fn common_config(processes: &[ProcessFigures]) -> ConfigFigures {
    let mut configs = processes.iter().map(|process| process.config);
    let Some(first) = configs.next() else { return ConfigFigures::default() };
    configs.fold(first, |common, other| ConfigFigures {
        quota_bytes: common.quota_bytes.filter(|_| common.quota_bytes == other.quota_bytes),
        rate: common.rate.filter(|_| common.rate == other.rate),
        capacity: common.capacity.filter(|_| common.capacity == other.capacity),
        quota_off: common.quota_off && other.quota_off,
        rate_off: common.rate_off && other.rate_off,
    })
}

fn apis(events: &Events, totals: &Totals) -> Vec<ApiFigures> {
    let known = totals.apis().map(|(api, [ok, denied, failed])| (events.names.text(api), [ok, denied, failed, 0]));
    let mut counts: BTreeMap<&str, [u64; 4]> = known.collect();
    for (api, calls) in events.processes.iter().flat_map(|process| &process.untold) {
        counts.entry(api).or_default()[3] += calls;
    }
    ApiFigures::sorted(counts)
}

impl ApiFigures {
    /// In their order; counts are ok, denied, failed, unknown.
    pub(super) fn sorted(counts: BTreeMap<&str, [u64; 4]>) -> Vec<ApiFigures> {
        let figures = |(api, [ok, denied, failed, unknown]): (&str, [u64; 4])| {
            let calls = ok + denied + failed + unknown;
            ApiFigures { api: api.to_owned(), calls, ok, denied, failed, unknown }
        };
        let mut apis: Vec<ApiFigures> = counts.into_iter().map(figures).collect();
        apis.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.api.cmp(&b.api)));
        apis
    }
}

fn total_memory(processes: &[ProcessFigures]) -> MemoryFigures {
    let told = processes.iter().map(|process| process.memory).filter(|memory| !memory.untold);
    let untold = processes.iter().any(|process| process.calls > 0)
        && processes.iter().filter(|process| process.calls > 0).all(|process| process.memory.untold);
    told.fold(MemoryFigures { untold, ..MemoryFigures::default() }, |sum, one| MemoryFigures {
        peak_bytes: sum.peak_bytes.max(one.peak_bytes),
        live_bytes: sum.live_bytes.saturating_add(one.live_bytes),
        allocated_bytes: sum.allocated_bytes.saturating_add(one.allocated_bytes),
        freed_bytes: sum.freed_bytes.saturating_add(one.freed_bytes),
        unknown_frees: sum.unknown_frees + one.unknown_frees,
        untold,
    })
}

fn overall_tokens(processes: &[ProcessFigures]) -> TokenFigures {
    let with: Vec<&TokenFigures> =
        processes.iter().map(|process| &process.tokens).filter(|tokens| tokens.min.is_some()).collect();
    let only = |pick: fn(&TokenFigures) -> Option<f64>| if let [one] = with[..] { pick(one) } else { None };
    let all = || processes.iter().map(|process| &process.tokens);
    let untold = all().any(|tokens| tokens.untold) && processes.iter().all(|p| p.calls == 0 || p.tokens.untold);
    TokenFigures {
        first: only(|tokens| tokens.first),
        min: with.iter().filter_map(|tokens| tokens.min).min_by(f64::total_cmp),
        max: with.iter().filter_map(|tokens| tokens.max).max_by(f64::total_cmp),
        last: only(|tokens| tokens.last),
        denial_streaks: all().flat_map(|tokens| &tokens.denial_streaks).take(STREAKS).copied().collect(),
        denial_streak_count: all().map(|tokens| tokens.denial_streak_count).sum(),
        // The first of equals.
        longest_denial_streak: all().rev().filter_map(|tokens| tokens.longest_denial_streak).max_by_key(|s| s.length),
        untold,
    }
}

fn shapes(totals: &Totals) -> Vec<ShapeFigures> {
    let mut shapes: Vec<(Shape, Launches)> = totals.launches().collect();
    shapes.sort_by_key(|(_, launches)| (std::cmp::Reverse(launches.counts.iter().sum::<u64>()), launches.first));
    let flat = |dim: Dim3| [dim.x, dim.y, dim.z];
    let figures = |((grid, block), Launches { counts: [ok, denied, failed], .. })| ShapeFigures {
        grid: flat(grid),
        block: flat(block),
        calls: ok + denied + failed,
        denied,
        failed,
    };
    shapes.into_iter().map(figures).collect()
}

fn time_figures(timeline: &Timeline) -> TimeFigures {
    TimeFigures {
        base: timeline.base,
        duration_s: timeline.duration_s.map(|s| timeline.base.digits(s)),
        error_s: timeline.error_s,
        lower_bound: timeline.lower_bound,
        lower_bound_gaps: timeline.gaps,
    }
}

fn process_figures(index: usize, process: &Process, fold: &Fold, timeline: &Timeline) -> ProcessFigures {
    let memory = &fold.replay.memory;
    ProcessFigures {
        pid: process.pid,
        exe: process.exe.clone(),
        first_line: process.first_line,
        calls: fold.calls + process.untold.values().sum::<u64>(),
        denied: fold.denied,
        config: config_of(process),
        device_quotas: process.device_quotas.iter().copied().collect(),
        shared: process.shared.clone(),
        memory: MemoryFigures {
            peak_bytes: memory.peak_bytes,
            live_bytes: memory.live_bytes,
            allocated_bytes: memory.allocated_bytes,
            freed_bytes: memory.freed_bytes,
            unknown_frees: memory.unknown_frees,
            untold: process.memory_untold || fold.late() > 0,
        },
        tokens: tokens(index, process, fold),
        time: time_figures(timeline),
        trends: fold.trends.clone(),
        lost: process.lost,
        out_of_order: fold.late(),
    }
}

/// Levels of launches under a limit: a process that only records prints `tokens=0.0`, which is no level.
fn tokens(index: usize, process: &Process, fold: &Fold) -> TokenFigures {
    if fold.late() > 0 {
        return TokenFigures { untold: true, ..TokenFigures::default() };
    }
    let levels = if process.bucket == Limit::Off { Levels::default() } else { fold.levels };
    let runs = fold.denials.runs.as_deref();
    let streak = |&(first_call, length): &(u64, u64)| Streak { first_call, length, process: index };
    TokenFigures {
        first: levels.first,
        min: levels.min,
        max: levels.max,
        last: levels.last,
        denial_streaks: runs.map(|runs| runs.list.iter().map(streak).collect()).unwrap_or_default(),
        denial_streak_count: runs.map_or(0, |runs| runs.count),
        longest_denial_streak: runs.and_then(|runs| runs.longest.as_ref()).map(streak),
        untold: false,
    }
}
