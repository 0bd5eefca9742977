//! Rules that a limiter's log must keep, stated here on their own: the hook's code is not asked.

use std::collections::VecDeque;

use hook_event::units::MB;
use hook_event::{Kind, Outcome};
use serde::Serialize;

use super::agreement;
use super::blocks::{self, Blocks};
use super::fold::Fold;
use super::lines::{Launch, ROUNDING};
use super::memory::Replay;
use super::packed::packed;
use super::quota::{self, Denials};
use super::tokens::{self, Asked, Tokens};
use crate::events::{Events, Limit, Process, Source};
use crate::plural::plural;
use crate::step::Step;

/// Whether a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is.
    Pass,
    /// It is not.
    Fail,
    /// The log can't tell.
    NotApplicable,
}

/// A rule and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Name of the rule.
    pub id: &'static str,
    /// Verdict.
    pub status: Status,
    /// What was expected and seen, or why it can't be told.
    pub detail: String,
    /// The same in Chinese.
    #[serde(skip)]
    pub detail_zh: String,
    /// Line of the log where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What was to be expected there. Its unit, and those of `seen` and `tolerance`, are the rule's: bytes for rules about
    /// memory, live blocks for `live-blocks`, for `log-agrees` the unit of the field (what the record tells is to be expected
    /// of the line), tokens for all others. Absent where the rule has no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// What was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<f64>,
    /// By how much the two may differ without a fault, for lines round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

impl Check {
    pub(super) fn new(
        id: &'static str,
        status: Status,
        line: Option<u64>,
        detail: impl Into<String>,
        detail_zh: impl Into<String>,
    ) -> Check {
        let (detail, detail_zh) = (detail.into(), detail_zh.into());
        Check { id, status, detail, detail_zh, line, expected: None, seen: None, tolerance: None }
    }

    pub(super) fn not_applicable(id: &'static str, detail: impl Into<String>, detail_zh: impl Into<String>) -> Check {
        Check::new(id, Status::NotApplicable, None, detail, detail_zh)
    }

    /// With the numbers that it compared.
    pub(super) fn measured(self, expected: f64, seen: f64, tolerance: Option<f64>) -> Check {
        Check { expected: Some(expected), seen: Some(seen), tolerance, ..self }
    }
}

/// Half of the last printed decimal of a total in MB, in bytes.
pub(super) const ROUNDING_BYTES: u64 = MB / 20 + 1;

/// How exact a record's level is.
const EXACT: f64 = 1e-6;

/// Between what the levels of several launches lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The highest of denials.
    pub(super) denied: f64,
}

/// The rules over the calls of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// The first call behind which more is live than the quota: line, live bytes.
    pub(super) over: Option<(u64, u64)>,
    /// The first call behind which more is live on a device than its own quota.
    pub(super) over_on_device: Option<OverOnDevice>,
    /// The first total above the quota that a line states: line, MB.
    pub(super) stated_over: Option<(u64, f64)>,
    /// What its calls state if it is limited by itself, and if it shares its limits: the line that tells which may stand
    /// behind calls.
    by: [Stated; 2],
    /// Launches whose level and capacity are known.
    pub(super) launches: u64,
    /// The first denial with a token left: line, level.
    needless: Option<(u64, f64)>,
    /// Launches against the bucket's model.
    pub(super) tokens: Tokens,
    /// Refused allocations, from the first on.
    pub(super) denials: Option<Box<Denials>>,
    /// Live blocks and what is freed.
    pub(super) blocks: Blocks,
    tail: Tail,
}

packed!(Rules { over, over_on_device, stated_over, by, launches, needless, tokens, denials, blocks, tail });

/// The last totals that lines state. Whichever call was truly the last states what is live at the end, wherever its line
/// stands; but not before that of another call with its address.
#[derive(Clone, Debug, Default)]
struct Tail {
    /// Address, MB if the line states them, and whether that is the sum where it stands; once full, the oldest at `next`.
    last: Vec<(u64, Option<f64>, bool)>,
    next: usize,
}

packed!(Tail { last, next });

impl Tail {
    /// Lines kept.
    const LINES: usize = 32;

    /// How many of them, each with an address of its own, may stand behind the truly last one.
    const AHEAD: usize = 16;

    /// Takes a line in.
    #[inline]
    fn step(&mut self, step: &Step, right: bool) {
        let line = (step.ptr.unwrap_or(0), step.total_mb, right);
        match self.last.get_mut(self.next) {
            Some(oldest) => *oldest = line,
            None => self.last.push(line),
        }
        self.next = (self.next + 1) % Self::LINES;
    }

    fn states(&self, live: u64) -> bool {
        let mut last: VecDeque<(u64, f64, bool)> = VecDeque::new();
        let (newer, older) = self.last.split_at(self.next.min(self.last.len()));
        for &(ptr, total, right) in older.iter().chain(newer) {
            if ptr != 0 {
                last.retain(|(other, ..)| *other != ptr);
            } else if !right {
                // Behind a sum that was right a refusal with another one is no late line of a block that came and went.
                last.retain(|(_, _, was_right)| !was_right);
            }
            last.extend(total.map(|total| (ptr, total, right)));
            if last.len() > Self::AHEAD {
                last.pop_front();
            }
        }
        last.iter().any(|(_, total, _)| (total - live as f64 / MB as f64).abs() <= ROUNDING)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OverOnDevice {
    pub(super) line: u64,
    pub(super) device: i32,
    pub(super) live: u64,
    pub(super) quota: u64,
}

packed!(OverOnDevice { line, device, live, quota });

/// What calls state of the accounts.
#[derive(Clone, Debug, Default)]
struct Stated {
    /// Totals stated.
    totals: u64,
    /// The first that is not the sum: line, stated MB, replayed MB, whether it is exact.
    wrong: Option<(u64, f64, f64, bool)>,
    last_is_wrong: bool,
    /// The first level outside the bucket: line, level.
    outside: Option<(u64, f64)>,
}

packed!(Stated { totals, wrong, last_is_wrong, outside });

impl Rules {
    /// Takes a call of `process` in, behind which `live` bytes are live; `replay` knows on which devices.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step, launch: Option<&Launch>, live: u64, replay: &Replay) {
        if let Limit::At(quota) = process.quota {
            if live > quota && self.over.is_none() {
                self.over = Some((step.line, live));
            }
            if let Some(total) = step.total_mb
                && self.stated_over.is_none()
                && total > quota as f64 / MB as f64 + ROUNDING
            {
                self.stated_over = Some((step.line, total));
            }
        }
        if let Some(launch) = launch {
            self.launch(process, launch);
        }
        if !process.device_quotas.is_empty() && self.over_on_device.is_none() {
            self.over_on_device = step.dev.and_then(|device| {
                let (live, quota) = (replay.on_device(device), process.device_quota(device)?);
                (live > quota).then_some(OverOnDevice { line: step.line, device, live, quota })
            });
        }
        self.tokens.step(process, step);
        if step.tells_memory() {
            self.memory(process, step, live, replay);
        }
    }

    #[inline(never)] // what most calls need stays small
    fn memory(&mut self, process: &Process, step: &Step, live: u64, replay: &Replay) {
        if step.kind == Kind::Alloc && (step.outcome == Outcome::Denied || self.denials.is_some()) {
            self.denials.get_or_insert_default().step(process, step, live);
        }
        let wrong = self.total(process, step, live);
        self.blocks.step(step, replay, wrong, self.tokens.missing);
    }

    /// Whether it states a total that is not the sum: bytes too many.
    #[inline]
    fn total(&mut self, process: &Process, step: &Step, live: u64) -> Option<f64> {
        let mb = |bytes: u64| bytes as f64 / MB as f64;
        let (right, stated) = match (step.total, step.total_mb) {
            (Some(total), _) => (total == live, mb(total)),
            (None, Some(total)) => ((total - mb(live)).abs() <= ROUNDING, total),
            (None, None) => {
                self.tail.step(step, true);
                return None;
            }
        };
        if step.seq.is_none() {
            self.tail.step(step, right);
        }
        let replayed = mb(live);
        // A refusal's line states the account that refused, which may be another.
        let line = step.total.is_none();
        for (by, shares) in self.by.iter_mut().zip([false, true]) {
            if line && process.refusal_is_anothers(step, shares) {
                continue;
            }
            by.totals += 1;
            by.last_is_wrong = !right;
            if !right && by.wrong.is_none() {
                by.wrong = Some((step.line, stated, replayed, step.seq.is_some()));
            }
        }
        (!right).then_some((stated - replayed) * MB as f64)
    }

    /// Takes a launch in that tells its level.
    #[inline]
    pub(super) fn launch(&mut self, process: &Process, launch: &Launch) {
        let Limit::At((rate, capacity)) = process.bucket else { return };
        self.launches += 1;
        self.level((launch.line, launch.level, launch.denied()), launch.exact, capacity);
        if !launch.exact {
            self.tokens.line(launch, (rate, capacity));
        }
    }

    /// The same of lines.
    #[inline(always)]
    pub(super) fn lines(
        &mut self,
        bucket: (f64, f64),
        extremes: &Extremes,
        launches: impl ExactSizeIterator<Item = Launch> + Clone,
    ) {
        self.levels(
            launches.clone().map(|launch| (launch.line, launch.level, launch.denied())),
            false,
            bucket.1,
            extremes,
        );
        self.tokens.lines(launches, bucket);
    }

    /// The same of records.
    #[inline(always)]
    pub(super) fn records(
        &mut self,
        (process, capacity): (&Process, f64),
        extremes: &Extremes,
        launches: impl ExactSizeIterator<Item = Asked> + Clone,
    ) {
        self.levels(
            launches.clone().map(|launch| (launch.line, launch.level, launch.denied)),
            true,
            capacity,
            extremes,
        );
        self.tokens.records(process, launches);
    }

    /// Levels of launches: line, level, whether it was denied.
    #[inline(always)]
    fn levels(
        &mut self,
        levels: impl ExactSizeIterator<Item = (u64, f64, bool)>,
        exact: bool,
        capacity: f64,
        extremes: &Extremes,
    ) {
        self.launches += levels.len() as u64;
        let &Extremes { low, high, denied } = extremes;
        // Each bound allows at least for what records are exact to.
        if low < -EXACT || high > capacity + EXACT || denied >= 1.0 + EXACT {
            for level in levels {
                self.level(level, exact, capacity);
            }
        }
    }

    /// Whether the level is one that a bucket has.
    #[inline]
    fn level(&mut self, (line, level, denied): (u64, f64, bool), exact: bool, capacity: f64) {
        let slack = if exact { EXACT } else { ROUNDING };
        // Lines tell the process's own setting; the capacity in force may be that of who shares the bucket.
        for (by, capacity) in self.by.iter_mut().zip([capacity, if exact { capacity } else { f64::INFINITY }]) {
            if !(-slack..=capacity + slack).contains(&level) && by.outside.is_none() {
                by.outside = Some((line, level));
            }
        }
        if denied && level >= 1.0 + slack && self.needless.is_none() {
            self.needless = Some((line, level));
        }
    }

    fn stated(&self, process: &Process) -> &Stated {
        let [alone, sharing] = &self.by;
        if process.shared.is_some() { sharing } else { alone }
    }
}

/// Every rule over all processes.
#[derive(Default)]
pub(super) struct Rulings<'a> {
    /// The first process whose calls are not in order, and how many were late.
    disordered: Option<(&'a Process, u64)>,
    holdings: quota::Holdings<'a>,
    totals: Totals,
    refusals: quota::Refusals,
    live: blocks::Live,
    frees: blocks::Frees,
    in_range: Levels,
    when_empty: Levels,
    tokens: tokens::Verdicts,
}

impl<'a> Rulings<'a> {
    /// Takes a process in, whose calls are all in `fold`; of what it held of a shared quota nothing stays there. `whole` as
    /// [`whole`] tells.
    pub(super) fn take(&mut self, process: &'a Process, fold: &mut Fold, whole: bool) {
        self.frees.take(process, fold, whole);
        self.in_range.take(process, fold, |rules, capacity| {
            let (line, tokens) = rules.stated(process).outside?;
            Some((line, tokens, if tokens < 0.0 { 0.0 } else { capacity }))
        });
        self.when_empty.take(process, fold, |rules, _| rules.needless.map(|(line, tokens)| (line, tokens, 1.0)));
        self.tokens.take(process, fold, whole);
        if fold.late() > 0 {
            self.disordered.get_or_insert((process, fold.late()));
            return;
        }
        self.totals.take(process, fold);
        self.refusals.take(process, fold);
        self.live.take(process, fold);
        self.holdings.take(process, fold);
    }

    /// The rules, in their order. Of `events` the agreement of lines and records is needed.
    pub(super) fn checks(&self, events: &Events) -> Vec<Check> {
        let totals = total_matches(&self.totals);
        let denials = quota::denied_only_over_quota(&self.refusals, &totals);
        let live = blocks::live_blocks(&self.live, &totals);
        let mut by_order = vec![quota::respected(&self.holdings, &totals), totals, denials, live];
        by_order.push(blocks::free_of_unknown(&self.frees));
        for check in by_order.iter_mut().filter(|check| check.status != Status::Fail) {
            if let Some((process, late)) = self.disordered {
                *check = out_of_order(check.id, process, late);
            }
        }
        let rules =
            by_order.into_iter().chain([tokens_in_range(&self.in_range), denied_only_when_empty(&self.when_empty)]);
        rules.chain(tokens::checks(&self.tokens)).chain([agreement::log_agrees(events)]).collect()
    }
}

/// Of each process whether an input shows it from its beginning and without a gap, as far as lines can tell: with its
/// banner, no other's calls before it, which might go on behind the banner of a child, and every line understood.
pub(super) fn whole(events: &Events) -> Vec<bool> {
    // Of each input the line at which the first process with calls begins.
    let mut begun = vec![u64::MAX; events.sources.len()];
    for process in events.processes.iter().filter(|process| !process.rows.is_empty()) {
        if let Some(begun) = begun.get_mut(process.source as usize) {
            *begun = process.first_line.min(*begun);
        }
    }
    let is_whole = |process: &Process| {
        let banner = process.quota != Limit::Unknown || process.bucket != Limit::Unknown;
        let source = process.source as usize;
        let alone = begun.get(source).is_none_or(|begun| *begun >= process.first_line);
        let understood = |source: &Source| source.bad_lines == 0 && source.oversized_lines == 0;
        banner && alone && events.sources.get(source).is_none_or(understood)
    };
    events.processes.iter().map(is_whole).collect()
}

/// What can't be told of a process whose records could not be put in order, and so not of all.
fn out_of_order(id: &'static str, process: &Process, late: u64) -> Check {
    let pid = process.pid.unwrap_or(0);
    let detail = format!("{} of process {pid} stand too far out of order", plural(late, "record"));
    let detail_zh = format!("进程 {pid} 有 {late} 条记录严重乱序, 无法判断");
    Check::not_applicable(id, detail, detail_zh)
}

/// What all processes whose calls are in order state of their totals.
#[derive(Default)]
struct Totals {
    totals: u64,
    /// The first that is wrong: line, stated MB, replayed MB, whether it is exact.
    wrong: Option<(u64, f64, f64, bool)>,
    /// The line of the first that text alone can't tell of.
    doubtful: Option<u64>,
}

impl Totals {
    /// Lines of several threads may stand in another order than their calls; so where one of a process's last totals is
    /// right and one before it is not, text alone can't tell.
    fn take(&mut self, process: &Process, fold: &Fold) {
        let by = fold.rules.stated(process);
        self.totals += by.totals;
        let Some(wrong @ (line, _, _, exact)) = by.wrong else { return };
        let explained = || fold.rules.blocks.mixed || fold.rules.tail.states(fold.replay.memory.live_bytes);
        if exact || by.last_is_wrong && !explained() {
            self.wrong = self.wrong.or(Some(wrong));
        } else {
            self.doubtful = self.doubtful.or(Some(line));
        }
    }
}

/// The total that the hook states after a call is the sum of the live allocations.
fn total_matches(all: &Totals) -> Check {
    let id = "total-matches";
    if let Some((line, stated, replayed, exact)) = all.wrong {
        let why =
            if exact { ("", "") } else { (", or several processes share the log", ", 或日志混有多个进程") };
        let detail = format!(
            "line {line}: the log states {stated:.1} MB, its calls add up to {replayed:.1} MB (a fault of the hook{})",
            why.0
        );
        let detail_zh =
            format!("第 {line} 行: 日志所记为 {stated:.1} MB, 按调用累计应为 {replayed:.1} MB (hook 有误{})", why.1);
        let [expected, seen] = [replayed, stated].map(|mb| (mb * MB as f64).round());
        let tolerance = if exact { 0.0 } else { ROUNDING_BYTES as f64 };
        let check = Check::new(id, Status::Fail, Some(line), detail, detail_zh);
        return check.measured(expected, seen, Some(tolerance));
    }
    match (all.totals, all.doubtful) {
        (0, _) => Check::not_applicable(id, "the log states no total", "日志没有记录总量"),
        (_, Some(line)) => {
            let detail = format!("line {line}: lines of several threads seem to stand out of order");
            let detail_zh = format!("第 {line} 行起: 多个线程的日志行可能乱序, 无法判断");
            Check::new(id, Status::NotApplicable, Some(line), detail, detail_zh)
        }
        (n, None) => {
            let detail = format!("{n} stated totals equal the sum of the live allocations");
            Check::new(id, Status::Pass, None, detail, format!("{n} 处总量都等于当时未释放的分配之和"))
        }
    }
}

/// Token levels lie between 0 and the capacity, give or take the rounding of a printed one.
fn tokens_in_range(all: &Levels) -> Check {
    all.check(
        "tokens-in-range",
        |tokens, capacity| {
            (format!("{tokens} tokens, capacity {capacity}"), format!("令牌数 {tokens}, 容量 {capacity}"))
        },
        |n| {
            let detail = format!("the levels of {n} launches lie between 0 and the capacity");
            (detail, format!("{n} 次启动的令牌数都在 0 与容量之间"))
        },
    )
}

/// A launch is denied only with less than one token in the bucket.
fn denied_only_when_empty(all: &Levels) -> Check {
    all.check(
        "denied-only-when-empty",
        |tokens, _| (format!("denied with {tokens} tokens left"), format!("还有 {tokens} 个令牌却被拒绝")),
        |n| (format!("{n} launches, none denied with a token left"), format!("{n} 次启动, 没有在令牌足够时被拒绝的")),
    )
}

/// A rule over every launch whose level and capacity are known.
#[derive(Default)]
struct Levels {
    launches: u64,
    broken: Option<Broken>,
}

/// The first level that broke it.
#[derive(Clone, Copy)]
struct Broken {
    line: u64,
    tokens: f64,
    bound: f64,
    capacity: f64,
    tolerance: f64,
}

impl Levels {
    /// Takes a process in; `first` gives where it broke the rule, with the level and its bound.
    fn take(&mut self, process: &Process, fold: &Fold, first: impl Fn(&Rules, f64) -> Option<(u64, f64, f64)>) {
        let Limit::At((_, capacity)) = process.bucket else { return };
        self.launches += fold.rules.launches;
        let tolerance = if fold.numbers.first.is_some() { 1e-6 } else { 0.05 };
        let broken = |(line, tokens, bound)| Broken { line, tokens, bound, capacity, tolerance };
        self.broken = self.broken.or_else(|| first(&fold.rules, capacity).map(broken));
    }

    /// `broken` (of level and capacity) and `kept` (of the number of launches) word the verdict.
    fn check(
        &self,
        id: &'static str,
        broken: impl Fn(f64, f64) -> (String, String),
        kept: impl Fn(u64) -> (String, String),
    ) -> Check {
        if let Some(Broken { line, tokens, bound, capacity, tolerance }) = self.broken {
            let (detail, detail_zh) = broken(tokens, capacity);
            let (detail, detail_zh) = (format!("line {line}: {detail}"), format!("第 {line} 行: {detail_zh}"));
            let check = Check::new(id, Status::Fail, Some(line), detail, detail_zh);
            return check.measured(bound, tokens, Some(tolerance));
        }
        if self.launches == 0 {
            let detail = "no launch under a known rate and capacity";
            return Check::not_applicable(id, detail, "日志中没有已知速率和容量下的启动");
        }
        let (detail, detail_zh) = kept(self.launches);
        Check::new(id, Status::Pass, None, detail, detail_zh)
    }
}
