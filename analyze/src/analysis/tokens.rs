//! The launches of a bucket held against the bucket's model, one by one: what each took, and what the bucket gained before it.
//!
//! That takes the moment of every decision, the order of decisions, and levels that are not rounded. Records have all
//! three, and are judged here. Of lines [`lines`](super::lines) tells what their levels show, and
//! [`stamps`](super::stamps) what times before them show; the rest is not told.

use hook_event::{Kind, Outcome};

use super::conformance::{Check, Status};
use super::fold::Fold;
use super::lines::{Launch, Lines, Told};
use super::packed::packed;
use super::rates::{Rates, Tally};
use super::stamps::Stamps;
use crate::events::Process;
use crate::step::Step;

/// What is ruled, in the order in which it is listed.
const RULES: [Rule; 6] = [
    Rule {
        id: "starts-full",
        kept: "the first launch of each process found a full bucket",
        kept_zh: "各进程的首次启动时桶是满的",
    },
    Rule {
        id: "pass-takes-one", kept: "each launch that passed took one token", kept_zh: "每次放行恰好消耗一个令牌"
    },
    Rule {
        id: "denial-takes-none", kept: "no denied launch took a token", kept_zh: "被拒绝的启动都没有消耗令牌"
    },
    Rule {
        id: "passed-only-with-token",
        kept: "no launch passed without a whole token",
        kept_zh: "没有在令牌不足一个时放行",
    },
    Rule {
        id: "refill-at-rate",
        kept: "the bucket gained rate x time, up to the capacity",
        kept_zh: "令牌按 速率 x 时间 增加, 不超过容量",
    },
    Rule {
        id: "admitted-within-rate",
        kept: "never more than capacity + rate x time passed",
        kept_zh: "任何时段内放行的都不超过 容量 + 速率 x 时间",
    },
];

const STARTS_FULL: usize = 0;
const PASS_TAKES_ONE: usize = 1;
const DENIAL_TAKES_NONE: usize = 2;
const PASSED_WITHOUT: usize = 3;
const REFILL: usize = 4;
const ADMITTED: usize = 5;

struct Rule {
    id: &'static str,
    kept: &'static str,
    kept_zh: &'static str,
}

/// Where a rule was broken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) line: u64,
    /// What was to be expected, and what was seen: levels after the launch, tokens gained, or tokens admitted too many.
    pub(super) expected: f64,
    pub(super) seen: f64,
    /// How much the two may differ for want of exactness.
    pub(super) tolerance: f64,
}

packed!(Fault { line, expected, seen, tolerance });

/// The launches of one process so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    last_seq: Option<u64>,
    /// A record is missing somewhere.
    pub(super) missing: bool,
    after: After,
    /// Launches judged under each rule.
    judged: [u64; RULES.len()],
    /// The first fault of each rule that was broken: mostly none, and there may be many processes.
    faults: Vec<(usize, Fault)>,
    /// Of records: how many asked and passed.
    tally: Tally,
    /// The same of lines.
    by_lines: Option<Box<ByLines>>,
}

packed!(Tokens { last_seq, missing, after, judged, faults, tally, by_lines });

/// What is known of a bucket after a launch; `None` where a record between may be missing.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// Level and moment, ns.
    before: Option<(f64, u64)>,
    /// The same of a bucket that admits what was admitted.
    admitting: Option<(f64, u64)>,
}

packed!(After { before, admitting });

/// A launch whose record tells its level and its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) line: u64,
    pub(super) level: f64,
    /// Monotonic clock, ns.
    pub(super) now: u64,
    /// Tokens taken.
    pub(super) cost: f64,
    pub(super) denied: bool,
    /// It needed no token.
    pub(super) free: bool,
}

/// A bucket that a process has to itself.
struct Bucket {
    rate: f64,
    capacity: f64,
    /// By how much levels may be off: a nanosecond more or less, and the digits of a float.
    slack: f64,
    /// In what time it fills, ns.
    window_ns: f64,
    /// Launches wait: they take tokens ahead of time, while the level stands at zero.
    waits: bool,
}

impl Bucket {
    #[inline]
    fn of(process: &Process) -> Option<Bucket> {
        let (rate, capacity) = process.bucket.value().filter(|_| process.shared.is_none())?;
        let slack = 1e-6 + rate * 2e-9 + capacity * 1e-12;
        let waits = process.policy.as_deref() == Some("wait");
        Some(Bucket { rate, capacity, slack, window_ns: capacity / rate * 1e9, waits })
    }
}

/// What lines tell of a bucket, and the times before them where there are any.
#[derive(Clone, Debug)]
struct ByLines {
    lines: Lines,
    stamps: Option<Box<Stamps>>,
}

packed!(ByLines { lines, stamps });

impl Tokens {
    /// Takes a call of `process` in.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step) {
        let Some(seq) = step.seq else { return };
        if self.last_seq.map_or(1, |last| last.wrapping_add(1)) != seq {
            (self.after, self.missing) = (After::default(), true);
        }
        self.last_seq = Some(seq);
        if let (Kind::Launch, Some(level), Some(now)) = (step.kind, step.tokens, step.mono_ns)
            && let Some(bucket) = Bucket::of(process)
        {
            let (line, cost, denied) = (step.line, step.cost(), step.outcome == Outcome::Denied);
            self.after = self.launch(&bucket, self.after, Asked { line, level, now, cost, denied, free: step.bypass });
        }
    }

    /// Number of the last record.
    pub(super) fn last_seq(&self) -> Option<u64> {
        self.last_seq
    }

    /// So many launches stand here whose records have the numbers that follow.
    #[inline]
    pub(super) fn pass(&mut self, launches: u64) {
        self.last_seq = self.last_seq.map(|last| last + launches);
    }

    /// Takes them in.
    #[inline(always)]
    pub(super) fn records(&mut self, process: &Process, launches: impl Iterator<Item = Asked>) {
        if let Some(bucket) = Bucket::of(process) {
            let mut after = self.after;
            for launch in launches {
                after = self.launch(&bucket, after, launch);
            }
            self.after = after;
        }
    }

    /// Takes a launch's line in. Whether the process has the bucket to itself may be told later.
    pub(super) fn line(&mut self, launch: &Launch, bucket: (f64, f64)) {
        // Lines among records are the last ones, whose records were cut off.
        if self.last_seq.is_some() {
            return;
        }
        let ByLines { lines, stamps } = self.by_lines(bucket);
        lines.step(launch);
        if launch.wall_ns.is_some() || stamps.is_some() {
            stamps.get_or_insert_with(|| Box::new(Stamps::new(bucket.0, bucket.1))).step(launch);
        }
    }

    /// Takes launches' lines in, of a process without records and times.
    #[inline(always)]
    pub(super) fn lines(&mut self, launches: impl Iterator<Item = Launch>, bucket: (f64, f64)) {
        let lines = &mut self.by_lines(bucket).lines;
        // A loop is compiled in place, where a closure may not be.
        for launch in launches {
            lines.step(&launch);
        }
    }

    fn by_lines(&mut self, (rate, capacity): (f64, f64)) -> &mut ByLines {
        self.by_lines.get_or_insert_with(|| Box::new(ByLines { lines: Lines::new(rate, capacity), stamps: None }))
    }

    /// Judges a launch; gives what is known behind it.
    #[inline(always)]
    fn launch(&mut self, bucket: &Bucket, after: After, launch: Asked) -> After {
        let &Bucket { rate, capacity, slack, window_ns, waits } = bucket;
        let Asked { line, level, now, cost, denied, free } = launch;
        if !free {
            self.tally.step(now, !denied, window_ns);
        }
        if !self.missing && self.judged[STARTS_FULL] == 0 {
            let expected = capacity - cost;
            self.judge(STARTS_FULL, (level - expected).abs() <= slack, line, (expected, level, slack));
        }
        let gain = |since: u64| rate * now.saturating_sub(since) as f64 / 1e9;
        if let (Some((before, at)), false) = (after.before, waits) {
            let due = gain(at).min((capacity - before).max(0.0));
            let gained = level + cost - before;
            let missing = due - gained;
            let right = missing.abs() <= slack;
            // A level outside the bucket has a rule of its own.
            let inside = (-slack..=capacity + slack).contains(&level);
            // A token more than is due was taken; a level that is held at zero may hide a part of it.
            let one = (missing - 1.0).abs() <= slack || level.abs() <= slack && missing < 1.0;
            let expected = before + due - cost;
            if denied {
                let taken = missing > slack && one;
                self.judge(DENIAL_TAKES_NONE, !taken || !inside, line, (expected, level, slack));
                self.judge(REFILL, right || taken || !inside, line, (due, gained, slack));
            } else {
                let without = cost > 0.0 && before + due < 1.0 - slack;
                let two = cost > 0.0 && missing > slack && one;
                self.judge(PASSED_WITHOUT, !without, line, (1.0, before + due, slack));
                self.judge(PASS_TAKES_ONE, !two || !inside, line, (expected, level, slack));
                self.judge(REFILL, right || two || without || !inside, line, (due, gained, slack));
            }
        }
        let (left, at) = after.admitting.unwrap_or((capacity, now));
        let left = (left + gain(at)).min(capacity) - cost;
        self.judge(ADMITTED, left >= -slack, line, (0.0, -left, slack));
        After { before: Some((level, now)), admitting: Some((left.max(0.0), now)) }
    }

    #[inline(always)]
    fn judge(&mut self, rule: usize, kept: bool, line: u64, (expected, seen, tolerance): (f64, f64, f64)) {
        self.judged[rule] += 1;
        if !kept {
            self.broken(rule, Fault { line, expected, seen, tolerance });
        }
    }

    #[cold]
    fn broken(&mut self, rule: usize, fault: Fault) {
        if self.fault(rule).is_none() {
            self.faults.push((rule, fault));
        }
    }

    fn fault(&self, rule: usize) -> Option<Fault> {
        self.faults.iter().find(|(broken, _)| *broken == rule).map(|(_, fault)| *fault)
    }

    /// What is told of a rule; `whole`: the log shows the process from its beginning, and no line is missing.
    fn told(&self, rule: usize, whole: bool, shared: bool) -> Told {
        if let Some(fault) = self.fault(rule) {
            return Told::Broken(fault);
        }
        if self.judged[rule] > 0 {
            return Told::Kept(self.judged[rule]);
        }
        let Some(ByLines { lines, stamps }) = self.by_lines.as_deref().filter(|_| !shared) else {
            return Told::Nothing;
        };
        match rule {
            STARTS_FULL => return lines.starts_full(whole),
            PASS_TAKES_ONE => return lines.pass_takes_one(whole),
            DENIAL_TAKES_NONE => return lines.denial_takes_none(),
            _ => {}
        }
        let by_levels = if rule == REFILL { lines.refilled() } else { Told::NoTime };
        let by_stamps = stamps.as_deref().map_or(Told::NoTime, |stamps| match rule {
            PASSED_WITHOUT => stamps.passed_only_with_token(),
            REFILL => stamps.refill_at_rate(),
            _ => stamps.admitted_within_rate(),
        });
        match (by_levels, by_stamps, lines.disorder()) {
            (Told::Broken(fault), ..) => Told::Broken(fault),
            // What another rule tells already, or lines out of order, would show as tokens missing or too many.
            (_, Told::Broken(fault), _) if lines.is_faulty(whole) => Told::Disorder(fault.line),
            (_, Told::Broken(_) | Told::Shown(_), Some(line)) => Told::Disorder(line),
            (Told::Shown(n), Told::NoTime, _) => Told::Shown(n),
            (_, by_stamps, _) => by_stamps,
        }
    }

    /// Launches asked for and let through a second. `None` where the process has no bucket to itself, or no time.
    pub(super) fn rates(&self, process: &Process) -> Option<Rates> {
        let bucket = process.bucket.value().filter(|_| process.shared.is_none())?;
        self.tally.rates(bucket).or_else(|| self.by_lines.as_deref()?.stamps.as_deref()?.rates())
    }

    /// Gives back memory that is not in use.
    pub(super) fn rest(&mut self) {
        self.tally.rest();
    }
}

/// The rules over all processes.
#[derive(Default)]
pub(super) struct Verdicts {
    rules: [Verdict; RULES.len()],
    /// Processes with launches under a known limit.
    limited: u64,
    /// Whether one of them has its bucket to itself, and whether one waits.
    alone: bool,
    waits: bool,
    /// Of the first of them.
    rates: Option<Rates>,
}

/// A rule over all processes.
#[derive(Clone, Copy, Default)]
struct Verdict {
    /// The first fault, and the first process of which it is not told.
    fault: Option<Fault>,
    unsure: Option<Told>,
    launches: u64,
    lines: u64,
}

impl Verdicts {
    /// Takes a process in; `whole` as of [`Tokens::told`].
    pub(super) fn take(&mut self, process: &Process, fold: &Fold, whole: bool) {
        let tokens = &fold.rules.tokens;
        for (number, rule) in self.rules.iter_mut().enumerate() {
            match tokens.told(number, whole, process.shared.is_some()) {
                Told::Kept(launches) => rule.launches += launches,
                Told::Shown(lines) => rule.lines += lines,
                Told::Broken(fault) => rule.fault = rule.fault.or(Some(fault)),
                Told::Nothing => {}
                unsure => rule.unsure = rule.unsure.or(Some(unsure)),
            }
        }
        if fold.rules.launches > 0 {
            if self.limited == 0 {
                self.rates = tokens.rates(process);
            }
            self.limited += 1;
            self.alone |= process.shared.is_none();
            self.waits |= process.policy.as_deref() == Some("wait");
        }
    }
}

/// What is ruled.
pub(super) fn checks(all: &Verdicts) -> Vec<Check> {
    RULES.iter().enumerate().map(|(number, rule)| check(all, number, rule)).collect()
}

fn check(all: &Verdicts, number: usize, rule: &Rule) -> Check {
    let Verdict { fault, unsure, launches, lines } = all.rules[number];
    if let Some(fault) = fault {
        let Fault { line, expected, seen, tolerance } = fault;
        let (what, what_zh) = wording(number, expected, seen);
        let (detail, detail_zh) = (format!("line {line}: {what}"), format!("第 {line} 行: {what_zh}"));
        let check = Check::new(rule.id, Status::Fail, Some(line), detail, detail_zh);
        return check.measured(digits(expected), digits(seen), Some(digits(tolerance)));
    }
    let unsure = unsure.as_ref().and_then(why_untold);
    if launches + lines == 0 || unsure.is_some() {
        let (why, why_zh) = unsure.unwrap_or_else(|| why_not(all));
        return Check::new(rule.id, Status::NotApplicable, None, why, why_zh);
    }
    let (mut detail, mut detail_zh) = if lines == 0 {
        (format!("{} ({launches} judged)", rule.kept), format!("{} (判断了 {launches} 次)", rule.kept_zh))
    } else {
        let n = launches + lines;
        (format!("{} ({n} judged, rounded)", rule.kept), format!("{} (判断了 {n} 次, 依据取整的行)", rule.kept_zh))
    };
    if let (ADMITTED, 1, Some(rates)) = (number, all.limited, all.rates) {
        let Rates { offered_per_s: offered, admitted_per_s: passed, configured_per_s: rate, .. } = rates;
        detail += &format!("; offered {offered:.1}/s, admitted {passed:.1}/s, rate {rate}/s");
        detail_zh += &format!("; 请求 {offered:.1}/s, 放行 {passed:.1}/s, 速率 {rate}/s");
    }
    Check::new(rule.id, Status::Pass, None, detail, detail_zh)
}

/// Why lines of a process don't tell.
fn why_untold(told: &Told) -> Option<(String, String)> {
    let (why, why_zh) = match told {
        Told::Kept(_) | Told::Shown(_) | Told::Broken(_) | Told::Nothing => return None,
        Told::Disorder(line) => (
            format!("line {line}: the lines may stand in another order than their calls (several threads or processes)"),
            format!("第 {line} 行: 日志行的次序可能不是调用的次序 (多个线程或进程), 无法判断"),
        ),
        Told::NoBeginning => (
            "the log may not begin with the process, or lines are missing".to_owned(),
            "日志可能不是从进程开头记起, 或有缺行, 无法判断".to_owned(),
        ),
        Told::NoTime => (
            "lines tell no times; events or stamps do".to_owned(),
            "日志行没有时间; 需要事件文件或行首时间戳".to_owned(),
        ),
        Told::Batches => (
            "the times before the lines are not those of the calls (written in batches, a busy reader, or a clock set back)"
                .to_owned(),
            "行首的时间不是调用的时刻 (成批写出, 读取延迟, 或时钟回拨), 无法判断".to_owned(),
        ),
    };
    Some((why, why_zh))
}

fn wording(rule: usize, expected: f64, seen: f64) -> (String, String) {
    let (expected, seen) = (digits(expected), digits(seen));
    match rule {
        PASSED_WITHOUT => {
            (format!("passed with {seen} tokens in the bucket"), format!("桶中只有 {seen} 个令牌却被放行"))
        }
        REFILL => (
            format!("the bucket gained {seen} tokens, rate and time give {expected}"),
            format!("令牌增加了 {seen}, 按速率和时间应为 {expected}"),
        ),
        ADMITTED => (
            format!("{seen} tokens more were taken than capacity and rate give in the time up to here"),
            format!("到此为止放行的比容量与速率所允许的多 {seen} 个"),
        ),
        _ => (
            format!("{seen} tokens are left, {expected} are to be expected"),
            format!("剩余令牌 {seen}, 应为 {expected}"),
        ),
    }
}

/// Six digits at most.
fn digits(tokens: f64) -> f64 {
    (tokens * 1e6).round() / 1e6
}

fn why_not(all: &Verdicts) -> (String, String) {
    let (why, why_zh) = reason(all);
    (why.to_owned(), why_zh.to_owned())
}

fn reason(all: &Verdicts) -> (&'static str, &'static str) {
    if all.limited == 0 {
        return ("no launch under a known rate and capacity", "日志中没有已知速率和容量下的启动");
    }
    if !all.alone {
        return ("other processes share the bucket", "令牌桶与其他进程共享");
    }
    if all.waits {
        return ("launches that wait take tokens ahead of time", "等待的启动会预先取走令牌");
    }
    ("no launch that this rule is about", "没有这条规则所涉及的启动")
}
