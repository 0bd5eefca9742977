//! The launches of a bucket held against the bucket's model, one by one: what each took, and what the bucket gained before it.
//!
//! That takes the moment of every decision, the order of decisions, and levels that are not rounded. Records have all
//! three; lines have none of them, and are not judged here.

use hook_event::{Kind, Outcome};

use super::conformance::{Check, Status};
use super::fold::Fold;
use crate::events::{Limit, Process};
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
        kept: "between launches the bucket gained rate x time, up to the capacity",
        kept_zh: "两次启动之间增加的令牌等于 速率 x 时间, 不超过容量",
    },
    Rule {
        id: "admitted-within-rate",
        kept: "in no period more than capacity + rate x time passed",
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
struct Fault {
    line: u64,
    /// What was to be expected, and what was seen: levels after the launch, tokens gained, or tokens admitted too many.
    expected: f64,
    seen: f64,
}

/// The launches of one process so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    last_seq: Option<u64>,
    /// A record is missing somewhere.
    missing: bool,
    /// Level and moment after the launch before, ns; `None` where a record between may be missing.
    before: Option<(f64, u64)>,
    /// What a bucket would hold that admits what was admitted; `None` as above.
    admitting: Option<(f64, u64)>,
    /// Launches judged under each rule.
    judged: [u64; RULES.len()],
    /// The first fault of each rule that was broken: mostly none, and there may be many processes.
    faults: Vec<(usize, Fault)>,
}

impl Tokens {
    /// Takes a call of `process` in.
    #[inline]
    pub(super) fn step(&mut self, process: &Process, step: &Step) {
        let Some(seq) = step.seq else { return };
        if self.last_seq.map_or(1, |last| last.wrapping_add(1)) != seq {
            (self.before, self.admitting, self.missing) = (None, None, true);
        }
        self.last_seq = Some(seq);
        if let (Kind::Launch, Some(level), Some(now)) = (step.kind, step.tokens, step.mono_ns)
            && let Limit::At((rate, capacity)) = process.bucket
            && process.shared.is_none()
        {
            self.launch(process, step, (level, now), (rate, capacity));
        }
    }

    fn launch(&mut self, process: &Process, step: &Step, (level, now): (f64, u64), (rate, capacity): (f64, f64)) {
        let cost = step.cost();
        // A nanosecond more or less, and the digits of a float.
        let slack = 1e-6 + rate * 2e-9 + capacity * 1e-12;
        if !self.missing && self.judged[STARTS_FULL] == 0 {
            let expected = capacity - cost;
            self.judge(STARTS_FULL, (level - expected).abs() <= slack, step.line, expected, level);
        }
        let gain = |since: u64| rate * now.saturating_sub(since) as f64 / 1e9;
        // Launches that wait take tokens ahead of time, while the level stands at zero.
        let waits = process.policy.as_deref() == Some("wait");
        if let (Some((before, at)), false) = (self.before, waits) {
            let due = gain(at).min((capacity - before).max(0.0));
            let gained = level + cost - before;
            let missing = due - gained;
            let right = missing.abs() <= slack;
            // A level outside the bucket has a rule of its own.
            let inside = (-slack..=capacity + slack).contains(&level);
            let one = (missing - 1.0).abs() <= slack;
            let expected = before + due - cost;
            if step.outcome == Outcome::Denied {
                // A level can't fall below zero where it is held there.
                let taken = missing > slack && (one || level.abs() <= slack);
                self.judge(DENIAL_TAKES_NONE, !taken || !inside, step.line, expected, level);
                self.judge(REFILL, right || taken || !inside, step.line, due, gained);
            } else {
                let without = cost > 0.0 && before + due < 1.0 - slack;
                let two = cost > 0.0 && missing > slack && (one || level.abs() <= slack);
                self.judge(PASSED_WITHOUT, !without, step.line, 1.0, before + due);
                self.judge(PASS_TAKES_ONE, !two || !inside, step.line, expected, level);
                self.judge(REFILL, right || two || without || !inside, step.line, due, gained);
            }
        }
        self.before = Some((level, now));
        let (left, at) = self.admitting.unwrap_or((capacity, now));
        let left = (left + gain(at)).min(capacity) - cost;
        self.judge(ADMITTED, left >= -slack, step.line, 0.0, -left);
        self.admitting = Some((left.max(0.0), now));
    }

    #[inline]
    fn judge(&mut self, rule: usize, kept: bool, line: u64, expected: f64, seen: f64) {
        self.judged[rule] += 1;
        if !kept && self.fault(rule).is_none() {
            self.faults.push((rule, Fault { line, expected, seen }));
        }
    }

    fn fault(&self, rule: usize) -> Option<Fault> {
        self.faults.iter().find(|(broken, _)| *broken == rule).map(|(_, fault)| *fault)
    }
}

/// The rules over all processes.
pub(super) fn checks(all: &[(&Process, &Fold)]) -> Vec<Check> {
    RULES.iter().enumerate().map(|(number, rule)| check(all, number, rule)).collect()
}

fn check(all: &[(&Process, &Fold)], number: usize, rule: &Rule) -> Check {
    let fault = all.iter().find_map(|(_, fold)| fold.rules.tokens.fault(number));
    if let Some(Fault { line, expected, seen }) = fault {
        let (what, what_zh) = wording(number, expected, seen);
        let (detail, detail_zh) = (format!("line {line}: {what}"), format!("第 {line} 行: {what_zh}"));
        return Check::new(rule.id, Status::Fail, Some(line), detail, detail_zh);
    }
    let launches: u64 = all.iter().map(|(_, fold)| fold.rules.tokens.judged[number]).sum();
    if launches == 0 {
        let (why, why_zh) = why_not(all);
        return Check::new(rule.id, Status::NotApplicable, None, why.to_owned(), why_zh.to_owned());
    }
    let detail = format!("{} ({launches} judged)", rule.kept);
    Check::new(rule.id, Status::Pass, None, detail, format!("{} (判断了 {launches} 次)", rule.kept_zh))
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

fn why_not(all: &[(&Process, &Fold)]) -> (&'static str, &'static str) {
    let limited = || all.iter().filter(|(_, fold)| fold.rules.launches > 0);
    if limited().next().is_none() {
        return ("no launch under a known rate and capacity", "日志中没有已知速率和容量下的启动");
    }
    if limited().all(|(process, _)| process.shared.is_some()) {
        return ("other processes share the bucket", "令牌桶与其他进程共享");
    }
    if limited().any(|(process, _)| process.policy.as_deref() == Some("wait")) {
        return ("launches that wait take tokens ahead of time", "等待的启动会预先取走令牌");
    }
    // The event file does.
    ("lines tell no exact moments, order and levels", "日志行没有精确的时刻、先后与令牌数")
}
